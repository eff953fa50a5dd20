"""A session's profile: what was done in it over time, as a scheduler draws threads.

Each bin says what happened in it (events) and for how long each activity went on (seconds). Agents
that work side by side add up, so a bin may hold more seconds than it is long; idle is the time in
which none of them did anything.

Source: the specification of contexts, "Analytics Derivability"; `harken.analytics.profile`.

Spans: what an agent did between one message of its conversation and the next.

One idea: a transcript says when each message was there, not when it was begun. So the time before a
message went into it: before an answer a model was at work, before a result a tool was (or a person
who had to allow it), before a summary the context was compacted. Before a prompt a person read and
wrote. A longer gap is idle, unless a tool ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

import apsw

from harken.analytics.scope import Scope
from harken.analytics.times import US, to_datetime
from harken.core.record import Record

Activity: TypeAlias = Literal["prompt", "response", "tool", "thinking", "compaction"]


ACTIVITIES: tuple[Activity, ...] = ("prompt", "response", "tool", "thinking", "compaction")


IDLE_AFTER_US = 10 * 60 * US
"""No model answers and nobody reads for longer than this."""


_QUERY = """
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


@dataclass(frozen=True, slots=True)
class ActivityInterval:
    """What an agent, or the person whom it waits for, did from one moment to another."""

    activity: Activity
    began_us: int
    ended_us: int


def spans(database: apsw.Connection, scope: Scope) -> Iterator[ActivityInterval]:
    """Yield what was done in the one session of a scope, in the order of its messages.

    An answer with thoughts is two spans, as long as their characters are many.
    """
    for kind, began, ended, thought, said in scope.rows(database, _QUERY):
        activity = _ACTIVITY_OF.get(kind)
        if activity is None or began is None or began == ended:
            continue
        if ended - began > IDLE_AFTER_US and activity != "tool":
            continue
        if activity == "response" and thought:
            thought_until = began + (ended - began) * thought // (thought + said)
            yield ActivityInterval("thinking", began, thought_until)
            began = thought_until
        if began < ended:
            yield ActivityInterval(activity, began, ended)


_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
WIDTHS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE * n for n in (1, 2, 3, 5, 10, 15, 20, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 7, 14, 30, 90, 365)),
)
"""How long a bin may be: what a person can count in."""
_RANGE = "SELECT min(time), max(time) FROM messages WHERE NOT is_repeat AND {scope}"
_EVENTS = """
    SELECT what, (time - :began) / :width, count(*) FROM (
        SELECT kind AS what, time FROM messages
        WHERE kind IN ('prompt', 'response') AND NOT is_repeat AND {scope}
        UNION ALL SELECT 'thinking', time FROM messages
        WHERE kind = 'response' AND thinking > 0 AND NOT is_repeat AND {scope}
        UNION ALL SELECT 'tool', time FROM tool_calls WHERE session_id = :session
        UNION ALL SELECT 'compaction', time FROM commits
        WHERE agent_id IN (SELECT id FROM agents WHERE session_id = :session)
            AND type = 'compaction'
    ) WHERE time BETWEEN :began AND :ended GROUP BY 1, 2
"""


class ActivityCounts(Record, frozen=True, kw_only=True):
    """How often something happened."""

    prompt: int = 0
    response: int = 0
    tool: int = 0
    """Calls."""
    thinking: int = 0
    """Answers with thoughts."""
    compaction: int = 0


class ActivitySeconds(Record, frozen=True, kw_only=True):
    """For how long something went on, of all agents together."""

    prompt: float = 0.0
    """A person read and wrote."""
    response: float = 0.0
    tool: float = 0.0
    """A tool ran, or waited for leave."""
    thinking: float = 0.0
    compaction: float = 0.0
    idle: float = 0.0
    """Nothing of all this."""


class Bin(Record, frozen=True, kw_only=True):
    """A stretch of time."""

    began: datetime
    events: ActivityCounts
    seconds: ActivitySeconds


class Profile(Record, frozen=True, kw_only=True):
    """A session over time, in bins of the same length, from its first message to its last."""

    began: datetime | None
    ended: datetime | None
    bin_s: int
    bins: list[Bin]
    events: ActivityCounts
    seconds: ActivitySeconds


def profile(database: apsw.Connection, scope: Scope, most_bins: int = 60) -> Profile:
    """Return the profile of the one session of a scope, in at most so many bins."""
    began, ended = next(scope.rows(database, _RANGE))
    if began is None:
        return Profile(
            began=None,
            ended=None,
            bin_s=1,
            bins=[],
            events=ActivityCounts(),
            seconds=ActivitySeconds(),
        )
    grid = _Grid(began, ended, _width(began, ended, most_bins))
    events = _events(database, scope, grid)
    durations = _durations(list(spans(database, scope)), grid)
    return Profile(
        began=to_datetime(began),
        ended=to_datetime(ended),
        bin_s=grid.width_us // US,
        bins=[
            Bin(
                began=to_datetime(began + at * grid.width_us),
                events=ActivityCounts(**{what: counts[at] for what, counts in events.items()}),
                seconds=_seconds({what: times[at] for what, times in durations.items()}),
            )
            for at in range(grid.bins)
        ],
        events=ActivityCounts(**{what: sum(counts) for what, counts in events.items()}),
        seconds=_seconds({what: sum(times) for what, times in durations.items()}),
    )


class _Grid(NamedTuple):
    """Bins of the same length; the last ends with the session."""

    began_us: int
    ended_us: int
    width_us: int

    @property
    def bins(self) -> int:
        return (self.ended_us - self.began_us) // self.width_us + 1

    def parts(self, began_us: int, ended_us: int) -> Iterator[tuple[int, int]]:
        """Yield the bins that a stretch touches, and how long it is in each."""
        at = max(began_us, self.began_us)
        ended_us = min(ended_us, self.ended_us)
        while at < ended_us:
            bin_ = (at - self.began_us) // self.width_us
            until = min(ended_us, self.began_us + (bin_ + 1) * self.width_us)
            yield bin_, until - at
            at = until


def _width(began_us: int, ended_us: int, most_bins: int) -> int:
    """Return how long bins are, in microseconds."""
    least = (ended_us - began_us) // (US * most_bins) + 1
    return US * next((width for width in WIDTHS_S if width >= least), least)


def _events(database: apsw.Connection, scope: Scope, grid: _Grid) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = {what: [0] * grid.bins for what in ACTIVITIES}
    limits = {"began": grid.began_us, "ended": grid.ended_us, "width": grid.width_us}
    for what, at, count in scope.rows(database, _EVENTS, values=limits):
        counts[what][min(int(at), grid.bins - 1)] += count  # a real number where times are absurd
    return counts


def _durations(found: Sequence[ActivityInterval], grid: _Grid) -> dict[str, list[int]]:
    """Return how long each activity went on in each bin, in microseconds."""
    times: dict[str, list[int]] = {what: [0] * grid.bins for what in (*ACTIVITIES, "idle")}
    for span in found:
        for at, duration in grid.parts(span.began_us, span.ended_us):
            times[span.activity][at] += duration
    for began, ended in _gaps(found, grid):
        for at, duration in grid.parts(began, ended):
            times["idle"][at] += duration
    return times


def _gaps(found: Iterable[ActivityInterval], grid: _Grid) -> Iterator[tuple[int, int]]:
    """Yield the stretches in which nobody did anything."""
    until = grid.began_us
    for span in sorted(found, key=lambda one: one.began_us):
        if span.began_us > until:
            yield until, span.began_us
        until = max(until, span.ended_us)
    yield until, grid.ended_us


def _seconds(times_us: Mapping[str, int]) -> ActivitySeconds:
    return ActivitySeconds(**{what: round(time / US, 3) for what, time in times_us.items()})
