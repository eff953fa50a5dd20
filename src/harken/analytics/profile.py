"""The profile of a session: its activities over time, like a scheduler trace of threads.

Each bin counts events and sums up the seconds of each activity. Times of concurrent agents are
added, so a bin may contain more seconds than its length; idle is the time without activity of any
agent.

Source: the specification of contexts, "Analytics Derivability"; `harken.analytics.profile`.

An interval is the activity of an agent between two consecutive messages.

A transcript has the time at which each message was complete, not when it was started. So the time
before a message is attributed to it: before a response a model was running, before a result a tool
(or a user who had to approve it), before a summary a compaction, and before a prompt a user was
reading and writing. A longer gap is idle, unless a tool was running.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

import apsw
import msgspec

from harken.analytics.scope import Scope
from harken.analytics.times import US, to_datetime
from harken.core.record import Record

Activity: TypeAlias = Literal["prompt", "response", "tool", "thinking", "compaction"]
ACTIVITIES: tuple[Activity, ...] = ("prompt", "response", "tool", "thinking", "compaction")
MAX_GAP_US = 10 * 60 * US
"""Maximum duration of a response or of a user's reading; a longer gap is idle."""
_INTERVALS_SQL = """
    SELECT kind, began, time, thinking, characters + coalesce(called.arguments, 0)
    FROM (
        SELECT id, kind, time, thinking, characters,
            lag(time) OVER (PARTITION BY agent_id ORDER BY time, id) AS began
        FROM messages WHERE time IS NOT NULL AND NOT is_repeat AND {scope}
    ) AS said
    LEFT JOIN (
        SELECT message_id, sum(arguments) AS arguments FROM tool_calls
        WHERE session_id = :session GROUP BY 1
    ) AS called ON called.message_id = said.id
    ORDER BY time, said.id
"""
_ACTIVITY_OF: dict[str, Activity] = {
    "prompt": "prompt",
    "response": "response",
    "error": "response",
    "tool_result": "tool",
    "summary": "compaction",
}


class ActivityInterval(msgspec.Struct, frozen=True):
    """An activity of an agent, or of the user that it waits for, in an interval of time."""

    activity: Activity
    began_us: int
    end_us: int


def iter_intervals(database: apsw.Connection, scope: Scope) -> Iterator[ActivityInterval]:
    """Yield the activities of the only session of a scope, in the order of its messages.

    A response with thoughts becomes two intervals, in proportion to their characters.
    """
    for kind, began, ended, thinking_chars, text_chars in scope.rows(database, _INTERVALS_SQL):
        activity = _ACTIVITY_OF.get(kind)
        if activity is None or began is None or began == ended:
            continue
        if ended - began > MAX_GAP_US and activity != "tool":
            continue
        if activity == "response" and thinking_chars:
            thought_until = began + (ended - began) * thinking_chars // (
                thinking_chars + text_chars
            )
            yield ActivityInterval("thinking", began, thought_until)
            began = thought_until
        if began < ended:
            yield ActivityInterval(activity, began, ended)


_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
BIN_LENGTHS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE * n for n in (1, 2, 3, 5, 10, 15, 20, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 30, 90, 365)),
)
"""Possible bin lengths, in seconds."""
_RANGE_SQL = "SELECT min(time), max(time) FROM messages WHERE NOT is_repeat AND {scope}"
_EVENTS_SQL = """
    SELECT what, (time - :began) / :width, count(*) FROM (
        SELECT kind AS what, time FROM messages
        WHERE kind IN ('prompt', 'response') AND part_of IS NULL AND NOT is_repeat AND {scope}
        UNION ALL SELECT 'thinking', time FROM messages
        WHERE kind = 'response' AND thinking > 0 AND NOT is_repeat AND {scope}
        UNION ALL SELECT 'tool', time FROM tool_calls WHERE session_id = :session
        UNION ALL SELECT 'compaction', time FROM commits
        WHERE agent_id IN (SELECT id FROM agents WHERE session_id = :session)
            AND type = 'compaction' AND NOT is_repeat
    ) WHERE time BETWEEN :began AND :ended GROUP BY 1, 2
"""


class ActivityCounts(Record, frozen=True, kw_only=True):
    """Number of events by kind."""

    prompt: int = 0
    response: int = 0
    tool: int = 0
    """Number of tool calls."""
    thinking: int = 0
    """Number of responses with thoughts."""
    compaction: int = 0


class ActivitySeconds(Record, frozen=True, kw_only=True):
    """Seconds of each activity, over all agents."""

    prompt: float = 0.0
    """The user was reading and writing."""
    response: float = 0.0
    tool: float = 0.0
    """A tool was running or waiting for approval."""
    thinking: float = 0.0
    compaction: float = 0.0
    idle: float = 0.0
    """No activity."""


class Bin(Record, frozen=True, kw_only=True):
    """A time interval of a profile."""

    began: datetime
    events: ActivityCounts
    seconds: ActivitySeconds


class Profile(Record, frozen=True, kw_only=True):
    """A session over time, in bins of equal length, from its first message to its last."""

    began: datetime | None
    ended: datetime | None
    bin_s: int
    bins: list[Bin]
    events: ActivityCounts
    seconds: ActivitySeconds


def profile(database: apsw.Connection, scope: Scope, most_bins: int = 60) -> Profile:
    """Compute the profile of the only session of a scope, with at most `most_bins` bins."""
    began, ended = next(scope.rows(database, _RANGE_SQL))
    if began is None:
        return Profile(
            began=None,
            ended=None,
            bin_s=1,
            bins=[],
            events=ActivityCounts(),
            seconds=ActivitySeconds(),
        )
    grid = _Grid(began, ended, _choose_width(began, ended, most_bins))
    events = _count_events(database, scope, grid)
    durations = _sum_durations(list(iter_intervals(database, scope)), grid)
    return Profile(
        began=to_datetime(began),
        ended=to_datetime(ended),
        bin_s=grid.width_us // US,
        bins=[
            Bin(
                began=to_datetime(began + index * grid.width_us),
                events=ActivityCounts(**{kind: counts[index] for kind, counts in events.items()}),
                seconds=_to_seconds({kind: times[index] for kind, times in durations.items()}),
            )
            for index in range(grid.bins)
        ],
        events=ActivityCounts(**{kind: sum(counts) for kind, counts in events.items()}),
        seconds=_to_seconds({kind: sum(times) for kind, times in durations.items()}),
    )


class _Grid(NamedTuple):
    """Bins of equal length; the last one contains the end of the session."""

    began_us: int
    end_us: int
    width_us: int

    @property
    def bins(self) -> int:
        return (self.end_us - self.began_us) // self.width_us + 1

    def parts(self, began_us: int, ended_us: int) -> Iterator[tuple[int, int]]:
        """Yield the bins that an interval overlaps, and the length of each overlap."""
        time_us = max(began_us, self.began_us)
        ended_us = min(ended_us, self.end_us)
        while time_us < ended_us:
            bin_ = (time_us - self.began_us) // self.width_us
            until = min(ended_us, self.began_us + (bin_ + 1) * self.width_us)
            yield bin_, until - time_us
            time_us = until


def _choose_width(began_us: int, ended_us: int, most_bins: int) -> int:
    """Return the bin length in microseconds."""
    min_width_s = (ended_us - began_us) // (US * most_bins) + 1
    return US * next((width for width in BIN_LENGTHS_S if width >= min_width_s), min_width_s)


def _count_events(database: apsw.Connection, scope: Scope, grid: _Grid) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = {kind: [0] * grid.bins for kind in ACTIVITIES}
    limits = {"began": grid.began_us, "ended": grid.end_us, "width": grid.width_us}
    for kind, index, count in scope.rows(database, _EVENTS_SQL, values=limits):
        # The index is a float if times are extreme.
        counts[kind][min(int(index), grid.bins - 1)] += count
    return counts


def _sum_durations(intervals: Sequence[ActivityInterval], grid: _Grid) -> dict[str, list[int]]:
    """Return the duration of each activity in each bin, in microseconds."""
    times: dict[str, list[int]] = {kind: [0] * grid.bins for kind in (*ACTIVITIES, "idle")}
    for interval in intervals:
        for index, duration in grid.parts(interval.began_us, interval.end_us):
            times[interval.activity][index] += duration
    for began, ended in _iter_gaps(intervals, grid):
        for index, duration in grid.parts(began, ended):
            times["idle"][index] += duration
    return times


def _iter_gaps(intervals: Iterable[ActivityInterval], grid: _Grid) -> Iterator[tuple[int, int]]:
    """Yield the intervals without any activity."""
    until = grid.began_us
    for interval in sorted(intervals, key=lambda item: item.began_us):
        if interval.began_us > until:
            yield until, interval.began_us
        until = max(until, interval.end_us)
    yield until, grid.end_us


def _to_seconds(times_us: Mapping[str, int]) -> ActivitySeconds:
    return ActivitySeconds(**{kind: round(time / US, 3) for kind, time in times_us.items()})
