"""The profile of a session, compared with durations computed by hand."""

from __future__ import annotations

import pytest

from harken.analytics.profile import profile
from harken.analytics.scope import Scope
from tests.unit.analytics.row_builder import HOUR, MINUTE, RowBuilder, at

START = at("2026-03-02 09:00")


@pytest.mark.req("S2-77")
def test_bins_have_activities_and_durations() -> None:
    """A bin is a minute. 0:00 prompt; 0:30 an answer, a third of it thoughts, with a call; its
    result after 60 s; 2:00 an answer; 3:00 a prompt; 3:10 a summary; 33:10 a late prompt.
    """
    story = RowBuilder()
    session_id = story.session()
    story.say(session_id, "prompt", START, 40)
    answer = story.say(session_id, "response", START + 30, 150, thinking=100)
    story.call(answer, "Bash", 60, arguments=50)
    story.say(session_id, "response", START + 120, 10)
    story.say(session_id, "prompt", START + 180, 5)
    story.say(session_id, "summary", START + 190, 500)
    story.compaction(session_id, START + 190)
    story.say(session_id, "prompt", START + 190 + 30 * MINUTE)

    result = profile(story.database, Scope(session_id=session_id), 40)

    assert (result.bin_s, len(result.bins)) == (60, 34)
    events = [(bin_.events.prompt, bin_.events.response, bin_.events.tool) for bin_ in result.bins]
    assert events[:4] == [(1, 1, 1), (0, 0, 0), (0, 1, 0), (1, 0, 0)]
    assert events[4:] == [(0, 0, 0)] * 29 + [(1, 0, 0)]
    assert [bin_.events.thinking for bin_ in result.bins] == [1] + [0] * 33
    assert [bin_.events.compaction for bin_ in result.bins] == [0, 0, 0, 1] + [0] * 30
    first, second, third, fourth, fifth = (bin_.seconds for bin_ in result.bins[:5])
    assert (first.thinking, first.response, first.tool, first.idle) == (10, 20, 30, 0)
    assert (second.tool, second.response, second.idle) == (30, 30, 0)
    assert (third.prompt, third.idle) == (60, 0)
    assert (fourth.compaction, fourth.idle) == (10, 50)
    assert fifth.idle == 60
    total_seconds = result.seconds
    assert (total_seconds.thinking, total_seconds.response, total_seconds.tool) == (10, 50, 60)
    assert (total_seconds.prompt, total_seconds.compaction, total_seconds.idle) == (
        60,
        10,
        30 * MINUTE,
    )


def test_tool_may_run_for_hours_and_model_may_not() -> None:
    story = RowBuilder()
    session_id = story.session()
    answer = story.say(session_id, "response", START)
    story.call(answer, "Bash", 2 * HOUR)
    story.say(session_id, "response", START + 4 * HOUR)
    seconds = profile(story.database, Scope(session_id=session_id)).seconds
    assert (seconds.tool, seconds.response, seconds.idle) == (2 * HOUR, 0, 2 * HOUR)


def test_concurrent_agents_add_up_without_idle_time() -> None:
    story = RowBuilder()
    session_id = story.session()
    helper = story.agent(session_id, "explorer", "explore")
    answer = story.say(session_id, "response", START)
    story.call(answer, "Task", 100)
    story.say(session_id, "system", START + 10, agent=helper)
    story.say(session_id, "response", START + 90, agent=helper)
    seconds = profile(story.database, Scope(session_id=session_id)).seconds
    assert (seconds.tool, seconds.response, seconds.idle) == (100, 80, 0)


def test_messages_repeated_by_a_compaction_are_not_counted_again() -> None:
    story = RowBuilder()
    session_id = story.session()
    story.say(session_id, "prompt", START)
    story.say(session_id, "response", START + 5)
    story.say(session_id, "response", START + 9, is_repeat=True)
    result = profile(story.database, Scope(session_id=session_id))
    assert (result.events.response, result.seconds.response) == (1, 5)


def test_session_of_a_year_has_at_most_the_requested_bins() -> None:
    story = RowBuilder()
    session_id = story.session()
    story.say(session_id, "prompt", START)
    story.say(session_id, "prompt", START + 365 * 24 * HOUR)
    result = profile(story.database, Scope(session_id=session_id), 20)
    assert len(result.bins) <= 20
    assert result.seconds.idle == 365 * 24 * HOUR


def test_out_of_range_times_give_bins() -> None:
    story = RowBuilder()
    session_id = story.session()
    story.say(session_id, "prompt", -(10**12))
    story.say(session_id, "prompt", 9 * 10**12)
    result = profile(story.database, Scope(session_id=session_id), 20)
    assert 0 < len(result.bins) <= 20
    assert result.events.prompt == 2


def test_session_without_times_has_no_bin() -> None:
    story = RowBuilder()
    session_id = story.session()
    story.say(session_id, "prompt", None)
    assert profile(story.database, Scope(session_id=session_id)).bins == []
