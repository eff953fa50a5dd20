"""The profile of a session, compared with durations computed by hand."""

from __future__ import annotations

import pytest

from harken.analytics.profile import profile
from harken.analytics.scope import Scope
from tests.unit.analytics.story import HOUR, MINUTE, Story, at

START = at("2026-03-02 09:00")


@pytest.mark.req("S2-77")
def test_bins_have_activities_and_durations() -> None:
    """A bin is a minute. 0:00 prompt; 0:30 an answer, a third of it thoughts, with a call; its
    result after 60 s; 2:00 an answer; 3:00 a prompt; 3:10 a summary; 33:10 a late prompt.
    """
    story = Story()
    one = story.session()
    story.say(one, "prompt", START, 40)
    answer = story.say(one, "response", START + 30, 150, thinking=100)
    story.call(answer, "Bash", 60, arguments=50)
    story.say(one, "response", START + 120, 10)
    story.say(one, "prompt", START + 180, 5)
    story.say(one, "summary", START + 190, 500)
    story.compaction(one, START + 190)
    story.say(one, "prompt", START + 190 + 30 * MINUTE)

    found = profile(story.database, Scope(session_id=one), 40)

    assert (found.bin_s, len(found.bins)) == (60, 34)
    events = [(one.events.prompt, one.events.response, one.events.tool) for one in found.bins]
    assert events[:4] == [(1, 1, 1), (0, 0, 0), (0, 1, 0), (1, 0, 0)]
    assert events[4:] == [(0, 0, 0)] * 29 + [(1, 0, 0)]
    assert [one.events.thinking for one in found.bins] == [1] + [0] * 33
    assert [one.events.compaction for one in found.bins] == [0, 0, 0, 1] + [0] * 30
    first, second, third, fourth, fifth = (one.seconds for one in found.bins[:5])
    assert (first.thinking, first.response, first.tool, first.idle) == (10, 20, 30, 0)
    assert (second.tool, second.response, second.idle) == (30, 30, 0)
    assert (third.prompt, third.idle) == (60, 0)
    assert (fourth.compaction, fourth.idle) == (10, 50)
    assert fifth.idle == 60
    whole = found.seconds
    assert (whole.thinking, whole.response, whole.tool) == (10, 50, 60)
    assert (whole.prompt, whole.compaction, whole.idle) == (60, 10, 30 * MINUTE)


def test_tool_may_run_for_hours_and_model_may_not() -> None:
    story = Story()
    one = story.session()
    answer = story.say(one, "response", START)
    story.call(answer, "Bash", 2 * HOUR)
    story.say(one, "response", START + 4 * HOUR)
    found = profile(story.database, Scope(session_id=one)).seconds
    assert (found.tool, found.response, found.idle) == (2 * HOUR, 0, 2 * HOUR)


def test_concurrent_agents_add_up_without_idle_time() -> None:
    story = Story()
    one = story.session()
    helper = story.agent(one, "explorer", "explore")
    answer = story.say(one, "response", START)
    story.call(answer, "Task", 100)
    story.say(one, "system", START + 10, agent=helper)
    story.say(one, "response", START + 90, agent=helper)
    found = profile(story.database, Scope(session_id=one)).seconds
    assert (found.tool, found.response, found.idle) == (100, 80, 0)


def test_messages_repeated_by_a_compaction_are_not_counted_again() -> None:
    story = Story()
    one = story.session()
    story.say(one, "prompt", START)
    story.say(one, "response", START + 5)
    story.say(one, "response", START + 9, is_repeat=True)
    found = profile(story.database, Scope(session_id=one))
    assert (found.events.response, found.seconds.response) == (1, 5)


def test_session_of_a_year_has_at_most_the_requested_bins() -> None:
    story = Story()
    one = story.session()
    story.say(one, "prompt", START)
    story.say(one, "prompt", START + 365 * 24 * HOUR)
    found = profile(story.database, Scope(session_id=one), 20)
    assert len(found.bins) <= 20
    assert found.seconds.idle == 365 * 24 * HOUR


def test_out_of_range_times_give_bins() -> None:
    story = Story()
    one = story.session()
    story.say(one, "prompt", -(10**12))
    story.say(one, "prompt", 9 * 10**12)
    found = profile(story.database, Scope(session_id=one), 20)
    assert 0 < len(found.bins) <= 20
    assert found.events.prompt == 2


def test_session_without_times_has_no_bin() -> None:
    story = Story()
    one = story.session()
    story.say(one, "prompt", None)
    assert profile(story.database, Scope(session_id=one)).bins == []
