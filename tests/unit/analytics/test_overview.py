"""All figures of a small index, each computed by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from harken.analytics.overview import Overview, overview, session_overview
from harken.analytics.scope import ALL, Scope
from harken.analytics.sessions import compactions
from harken.analytics.tools import tools
from tests.unit.analytics.story import DAY, HOUR, MINUTE, US, Story, at

MONDAY = at("2026-03-02 09:00")


def told() -> Story:
    """Three sessions: two on Monday morning that overlap, a long one on Tuesday night."""
    story = Story()
    first = story.session("claude:1", outcome="success", title="Tea")
    story.say(first, "prompt", MONDAY, 10)
    answer = story.say(first, "response", MONDAY + 10, 30)
    story.call(answer, "Read", 1)
    story.call(answer, "Bash", 9, is_error=True)
    story.say(first, "response", MONDAY + 20 * MINUTE, 50)
    story.request(first, "opus", MONDAY + 10, (10, None, None, 40), 0.5)

    second = story.session("claude:2", outcome="error_max_turns", project="/srv/bar")
    story.say(second, "system", MONDAY + 5, 1000)
    story.say(second, "prompt", MONDAY + 10 * MINUTE, 10)
    reader = story.agent(second, "r", "reviewer")
    looked = story.say(second, "response", MONDAY + 11 * MINUTE, 60, agent=reader)
    story.call(looked, "Read", 2)
    story.call(looked, "Read")
    story.say(second, "response", MONDAY + 11 * MINUTE, 60, is_repeat=True)

    third = story.session("codex:3", outcome="success")
    story.say(third, "prompt", at("2026-03-03 23:00"), 20)
    story.say(third, "response", at("2026-03-04 22:00"), 20)
    story.compaction(third, at("2026-03-04 21:00"))
    story.compaction(third, at("2026-03-04 21:30"))
    return story


@pytest.fixture
def found() -> Overview:
    return overview(told().database, ALL, UTC)


@pytest.mark.req("S2-78")
def test_amplification_is_the_output_per_prompt(found: Overview) -> None:
    sums = found.amplification
    assert (sums.prompts, sums.responses, sums.tool_calls) == (3, 4, 4)
    assert (sums.input_characters, sums.output_characters) == (40, 160)
    assert (sums.responses_per_prompt, sums.tool_calls_per_prompt) == (1.33, 1.33)
    assert sums.output_per_input == 4.0
    first = session_overview(told().database, Scope(session_id=1)).amplification
    assert (first.responses_per_prompt, first.output_per_input) == (2.0, 8.0)


def test_ratio_without_a_prompt_is_none() -> None:
    story = Story()
    story.say(story.session(), "response", MONDAY, 5)
    sums = overview(story.database, ALL, UTC).amplification
    assert (sums.responses, sums.responses_per_prompt, sums.output_per_input) == (1, None, None)


@pytest.mark.req("S2-79")
def test_compactions_are_correlated_with_durations(found: Overview) -> None:
    known = found.compactions
    assert (known.compactions, known.sessions, known.max_per_session) == (2, 1, 2)
    bands = {(one.from_s, one.below_s): one for one in known.bands}
    short, long = bands[10 * MINUTE, HOUR], bands[12 * HOUR, DAY]
    assert (short.sessions, short.compactions, short.per_session) == (2, 0, 0.0)
    assert (long.sessions, long.compactions, long.per_session) == (1, 2, 2.0)
    assert bands[7 * DAY, None].per_session is None
    assert sum(one.sessions for one in known.bands) == 3
    assert known.correlation == 1.0  # three sessions: 20 min, 11 min, 23 h; 0, 0, 2


def test_single_session_has_no_correlation() -> None:
    story = Story()
    story.say(story.session(), "prompt", MONDAY)
    assert overview(story.database, ALL, UTC).compactions.correlation is None
    assert compactions([]).correlation is None


@pytest.mark.req("S2-80")
def test_activity_is_counted_by_weekday_and_hour(found: Overview) -> None:
    """Monday at nine: 5 messages of the first session, 4 of the second; a repeat does not count."""
    messages = found.activity.messages
    hours = {(day, hour): n for day, row in enumerate(messages) for hour, n in enumerate(row) if n}
    assert hours == {(0, 9): 9, (1, 23): 1, (2, 22): 1}
    assert found.activity.prompts[0][9] == 2
    days = [(str(one.day), one.sessions, one.prompts) for one in found.activity.days]
    assert days == [("2026-03-02", 2, 2), ("2026-03-03", 1, 1), ("2026-03-04", 1, 0)]


@pytest.mark.req("S2-80")
def test_maximum_of_concurrent_sessions(found: Overview) -> None:
    """The second lies within the first; both have messages from 9:00 to 9:15."""
    peak = found.concurrency
    assert peak.open == 2
    assert peak.open_at == datetime(2026, 3, 2, 9, 0, 5, tzinfo=UTC)
    assert peak.open_until == datetime(2026, 3, 2, 9, 11, 2, tzinfo=UTC)
    assert (peak.at_work, peak.at_work_at) == (2, datetime(2026, 3, 2, 9, 0, tzinfo=UTC))


def test_adjacent_sessions_overlap() -> None:
    story = Story()
    for began in (MONDAY, MONDAY + 10):
        one = story.session(f"claude:{began}")
        story.say(one, "prompt", began)
        story.say(one, "response", began + 10)
    assert overview(story.database, ALL, UTC).concurrency.open == 2


def test_daylight_saving_time_of_the_day_applies() -> None:
    story = Story()
    one = story.session()
    story.say(one, "prompt", at("2026-01-05 12:00"))  # Monday, 13:00 in Berlin
    story.say(one, "prompt", at("2026-07-06 12:00"))  # Monday, 14:00 in Berlin
    monday = overview(story.database, ALL, ZoneInfo("Europe/Berlin")).activity.messages[0]
    assert (monday[13], monday[14]) == (1, 1)


def test_fractional_hour_zones_are_exact() -> None:
    story = Story()
    story.say(story.session(), "prompt", at("2026-03-02 18:20"))
    found = overview(story.database, ALL, ZoneInfo("Asia/Kathmandu")).activity
    assert found.messages[1][0] == 1  # five past midnight, on Tuesday
    assert str(found.days[0].day) == "2026-03-03"


def test_results_without_status_are_counted_separately() -> None:
    story = Story()
    answer = story.say(story.session("codex:1"), "response", MONDAY)
    story.call(answer, "exec_command", 1, is_error=True)
    story.call(answer, "exec_command", 1, is_error=None)
    story.call(answer, "exec_command")
    (tool,) = tools(story.database, ALL).tools
    assert (tool.calls, tool.errors, tool.unanswered, tool.untold) == (3, 1, 1, 1)


@pytest.mark.req("S2-81")
def test_tools_are_counted_in_total_and_by_template() -> None:
    found = tools(told().database, ALL)
    rows = [(one.name, one.calls, one.errors, one.unanswered) for one in found.tools]
    assert rows == [("Read", 3, 0, 1), ("Bash", 1, 1, 0)]
    assert [one.duration_s for one in found.tools] == [3.0, 9.0]
    by_template = {
        one.template: [(tool.name, tool.calls) for tool in one.tools] for one in found.templates
    }
    assert [one.is_subagent for one in found.templates] == [False, True]
    assert by_template == {"": [("Bash", 1), ("Read", 1)], "reviewer": [("Read", 2)]}


def test_absurd_times_are_accepted() -> None:
    story = Story()
    one = story.session()
    for _ in range(40):
        story.call(story.say(one, "response", 0), "Read", 8000 * 365 * DAY)
    assert (tools(story.database, ALL).tools[0].duration_s or 0) > 40 * 7999 * 365 * DAY
    assert overview(story.database, ALL, UTC).concurrency.open == 1


@pytest.mark.req("S2-82")
def test_lifecycle_has_outcome_duration_and_compactions(found: Overview) -> None:
    rows = [(one.session, one.outcome, one.duration_s, one.compactions) for one in found.sessions]
    assert rows == [
        ("codex:3", "success", 23.0 * HOUR, 2),
        ("claude:1", "success", 20.0 * MINUTE, 0),
        ("claude:2", "error_max_turns", 10 * MINUTE + 57.0, 0),
    ]
    ends = [(one.outcome, one.sessions, one.median_duration_s) for one in found.outcomes]
    assert ends == [("success", 2, (23 * HOUR + 20 * MINUTE) / 2), ("error_max_turns", 1, 657.0)]
    assert [one.compactions for one in found.outcomes] == [2, 0]


def test_period_counts_its_own_messages() -> None:
    tuesday = Scope(
        since_us=int(at("2026-03-03 00:00")) * US, until_us=int(at("2026-03-04 00:00")) * US
    )
    found = overview(told().database, tuesday, UTC)
    assert [one.session for one in found.sessions] == ["codex:3"]
    assert (found.amplification.prompts, found.amplification.responses) == (1, 0)
    assert (found.compactions.compactions, found.concurrency.open) == (0, 1)
    assert found.concurrency.open_until == datetime(2026, 3, 4, tzinfo=UTC)


def test_single_session_is_described() -> None:
    found = session_overview(told().database, Scope(session_id=1))
    assert (found.session.session, found.session.title) == ("claude:1", "Tea")
    assert (found.usage.output_tokens, found.tools.calls) == (40, 2)


def test_empty_index_gives_zeros_and_unknowns() -> None:
    found = overview(Story().database, ALL, UTC)
    assert (found.amplification.prompts, found.concurrency.open, found.sessions) == (0, 0, [])
    assert (found.usage.cost_usd, found.usage.responses) == (None, 0)


def test_row_is_json(found: Overview) -> None:
    row = found.as_json()
    assert row["sessions"][0]["began"] == "2026-03-03T23:00:00Z"
    assert row["activity"]["days"][0]["day"] == "2026-03-02"
