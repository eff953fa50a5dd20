"""All figures of a small index, each computed by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from harken.analytics.overview import Overview, overview, session_overview
from harken.analytics.scope import ALL, Scope
from harken.analytics.sessions import compactions
from harken.analytics.tools import tools
from tests.unit.analytics import sample_rows
from tests.unit.analytics.row_builder import DAY, HOUR, MINUTE, US, RowBuilder, at

MONDAY = at("2026-03-02 09:00")


def build_story() -> RowBuilder:
    """Three sessions: two on Monday morning that overlap, a long one on Tuesday night."""
    story = RowBuilder()
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
    read_message = story.say(second, "response", MONDAY + 11 * MINUTE, 60, agent=reader)
    story.call(read_message, "Read", 2)
    story.call(read_message, "Read")
    story.say(second, "response", MONDAY + 11 * MINUTE, 60, is_repeat=True)

    third = story.session("codex:3", outcome="success")
    story.say(third, "prompt", at("2026-03-03 23:00"), 20)
    story.say(third, "response", at("2026-03-04 22:00"), 20)
    story.compaction(third, at("2026-03-04 21:00"))
    story.compaction(third, at("2026-03-04 21:30"))
    return story


@pytest.fixture
def figures() -> Overview:
    return overview(build_story().database, ALL, UTC)


@pytest.mark.req("S2-78")
def test_amplification_is_the_output_per_prompt(figures: Overview) -> None:
    sums = figures.amplification
    assert (sums.prompts, sums.responses, sums.tool_calls) == (3, 4, 4)
    assert (sums.input_characters, sums.output_characters) == (40, 160)
    assert (sums.responses_per_prompt, sums.tool_calls_per_prompt) == (1.33, 1.33)
    assert sums.output_per_input == 4.0
    first = session_overview(build_story().database, Scope(session_id=1)).amplification
    assert (first.responses_per_prompt, first.output_per_input) == (2.0, 8.0)


def test_ratio_without_a_prompt_is_none() -> None:
    story = RowBuilder()
    story.say(story.session(), "response", MONDAY, 5)
    sums = overview(story.database, ALL, UTC).amplification
    assert (sums.responses, sums.responses_per_prompt, sums.output_per_input) == (1, None, None)


@pytest.mark.req("S2-79")
def test_compactions_are_correlated_with_durations(figures: Overview) -> None:
    compactions = figures.compactions
    assert (compactions.compactions, compactions.sessions, compactions.max_per_session) == (2, 1, 2)
    bands = {(band.from_s, band.below_s): band for band in compactions.bands}
    short, long = bands[10 * MINUTE, HOUR], bands[12 * HOUR, DAY]
    assert (short.sessions, short.compactions, short.per_session) == (2, 0, 0.0)
    assert (long.sessions, long.compactions, long.per_session) == (1, 2, 2.0)
    assert bands[7 * DAY, None].per_session is None
    assert sum(band.sessions for band in compactions.bands) == 3
    assert compactions.correlation == 1.0  # three sessions: 20 min, 11 min, 23 h; 0, 0, 2


def test_single_session_has_no_correlation() -> None:
    story = RowBuilder()
    story.say(story.session(), "prompt", MONDAY)
    assert overview(story.database, ALL, UTC).compactions.correlation is None
    assert compactions([]).correlation is None


@pytest.mark.req("S2-80")
def test_activity_is_counted_by_weekday_and_hour(figures: Overview) -> None:
    """Monday at nine: 5 messages of the first session, 4 of the second; a repeat does not count."""
    messages = figures.activity.messages
    hours = {(day, hour): n for day, row in enumerate(messages) for hour, n in enumerate(row) if n}
    assert hours == {(0, 9): 9, (1, 23): 1, (2, 22): 1}
    assert figures.activity.prompts[0][9] == 2
    days = [
        (str(day_row.day), day_row.sessions, day_row.prompts) for day_row in figures.activity.days
    ]
    assert days == [("2026-03-02", 2, 2), ("2026-03-03", 1, 1), ("2026-03-04", 1, 0)]


@pytest.mark.req("S2-80")
def test_maximum_of_concurrent_sessions(figures: Overview) -> None:
    """The second lies within the first; both have messages from 9:00 to 9:15."""
    peak = figures.concurrency
    assert peak.open == 2
    assert peak.open_at == datetime(2026, 3, 2, 9, 0, 5, tzinfo=UTC)
    assert peak.open_until == datetime(2026, 3, 2, 9, 11, 2, tzinfo=UTC)
    assert (peak.at_work, peak.at_work_at) == (2, datetime(2026, 3, 2, 9, 0, tzinfo=UTC))


def test_adjacent_sessions_overlap() -> None:
    story = RowBuilder()
    for began in (MONDAY, MONDAY + 10):
        session_id = story.session(f"claude:{began}")
        story.say(session_id, "prompt", began)
        story.say(session_id, "response", began + 10)
    assert overview(story.database, ALL, UTC).concurrency.open == 2


def test_daylight_saving_time_of_the_day_applies() -> None:
    story = RowBuilder()
    session_id = story.session()
    story.say(session_id, "prompt", at("2026-01-05 12:00"))  # Monday, 13:00 in Berlin
    story.say(session_id, "prompt", at("2026-07-06 12:00"))  # Monday, 14:00 in Berlin
    monday = overview(story.database, ALL, ZoneInfo("Europe/Berlin")).activity.messages[0]
    assert (monday[13], monday[14]) == (1, 1)


def test_fractional_hour_zones_are_exact() -> None:
    story = RowBuilder()
    story.say(story.session(), "prompt", at("2026-03-02 18:20"))
    activity = overview(story.database, ALL, ZoneInfo("Asia/Kathmandu")).activity
    assert activity.messages[1][0] == 1  # 00:05 on Tuesday
    assert str(activity.days[0].day) == "2026-03-03"


def test_results_without_status_are_counted_separately() -> None:
    story = RowBuilder()
    answer = story.say(story.session("codex:1"), "response", MONDAY)
    story.call(answer, "exec_command", 1, is_error=True)
    story.call(answer, "exec_command", 1, is_error=None)
    story.call(answer, "exec_command")
    (tool,) = tools(story.database, ALL).tools
    assert (tool.calls, tool.errors, tool.unanswered, tool.untold) == (3, 1, 1, 1)


@pytest.mark.req("S2-81")
def test_tools_are_counted_in_total_and_by_template() -> None:
    tool_figures = tools(build_story().database, ALL)
    rows = [
        (tool_row.name, tool_row.calls, tool_row.errors, tool_row.unanswered)
        for tool_row in tool_figures.tools
    ]
    assert rows == [("Read", 3, 0, 1), ("Bash", 1, 1, 0)]
    assert [tool_row.duration_s for tool_row in tool_figures.tools] == [3.0, 9.0]
    by_template = {
        template_row.template: [(tool.name, tool.calls) for tool in template_row.tools]
        for template_row in tool_figures.templates
    }
    assert [template_row.is_subagent for template_row in tool_figures.templates] == [False, True]
    assert by_template == {"": [("Bash", 1), ("Read", 1)], "reviewer": [("Read", 2)]}


def test_absurd_times_are_accepted() -> None:
    story = RowBuilder()
    session_id = story.session()
    for _ in range(40):
        story.call(story.say(session_id, "response", 0), "Read", 8000 * 365 * DAY)
    assert (tools(story.database, ALL).tools[0].duration_s or 0) > 40 * 7999 * 365 * DAY
    assert overview(story.database, ALL, UTC).concurrency.open == 1


@pytest.mark.req("S2-82")
def test_lifecycle_has_outcome_duration_and_compactions(figures: Overview) -> None:
    rows = [
        (lifecycle.session, lifecycle.outcome, lifecycle.duration_s, lifecycle.compactions)
        for lifecycle in figures.sessions
    ]
    assert rows == [
        ("codex:3", "success", 23.0 * HOUR, 2),
        ("claude:1", "success", 20.0 * MINUTE, 0),
        ("claude:2", "error_max_turns", 10 * MINUTE + 57.0, 0),
    ]
    ends = [
        (outcome_row.outcome, outcome_row.sessions, outcome_row.median_duration_s)
        for outcome_row in figures.outcomes
    ]
    assert ends == [("success", 2, (23 * HOUR + 20 * MINUTE) / 2), ("error_max_turns", 1, 657.0)]
    assert [outcome_row.compactions for outcome_row in figures.outcomes] == [2, 0]


def test_period_counts_its_own_messages() -> None:
    tuesday = Scope(
        since_us=int(at("2026-03-03 00:00")) * US, until_us=int(at("2026-03-04 00:00")) * US
    )
    figures = overview(build_story().database, tuesday, UTC)
    assert [lifecycle.session for lifecycle in figures.sessions] == ["codex:3"]
    assert (figures.amplification.prompts, figures.amplification.responses) == (1, 0)
    assert (figures.compactions.compactions, figures.concurrency.open) == (0, 1)
    assert figures.concurrency.open_until == datetime(2026, 3, 4, tzinfo=UTC)


def test_single_session_is_described() -> None:
    figures = session_overview(build_story().database, Scope(session_id=1))
    assert (figures.session.session, figures.session.title) == ("claude:1", "Tea")
    assert (figures.usage.output_tokens, figures.tools.calls) == (40, 2)


def test_each_agent_of_a_session_has_its_usage() -> None:
    database = sample_rows.story()
    database.execute(
        "INSERT INTO requests SELECT id + 1, NULL, 1, 2, NULL, model, time, NULL, 1, 0, 0, 2000, "
        "NULL, NULL, 0, 0 FROM requests"
    )
    sub, main = session_overview(database, Scope(session_id=1)).agents
    assert (sub.agent, sub.output_tokens, sub.cost_usd, sub.unpriced) == ("sub", 2000, None, 1)
    assert (main.agent, main.output_tokens, main.cost_usd, main.unpriced) == ("main", 9, 0.25, 0)


def test_empty_index_gives_zeros_and_unknowns() -> None:
    figures = overview(RowBuilder().database, ALL, UTC)
    assert (figures.amplification.prompts, figures.concurrency.open, figures.sessions) == (0, 0, [])
    assert (figures.usage.cost_usd, figures.usage.responses) == (None, 0)


def test_row_is_json(figures: Overview) -> None:
    row = figures.as_json()
    assert row["sessions"][0]["began"] == "2026-03-03T23:00:00Z"
    assert row["activity"]["days"][0]["day"] == "2026-03-02"
