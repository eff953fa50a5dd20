"""Lifecycles: how each session went, from its first message to its last, and how it ended.

Compactions: how often sessions ran out of context, against how long they lasted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import StatisticsError, correlation, median

import apsw

from harken.analytics.number_text import ratio
from harken.analytics.quarter_hours import QuarterHour
from harken.analytics.scope import Scope
from harken.analytics.times import seconds, to_datetime
from harken.analytics.usage import UsageSums
from harken.core.record import Record

_SESSIONS = """
    SELECT id, name, title, project, runtime, began, ended, outcome FROM sessions
    WHERE {scope} ORDER BY ended DESC, id DESC
"""
_COMPACTIONS = """
    SELECT session_id, count(*) FROM commits WHERE type = 'compaction' AND {scope} GROUP BY 1
"""
_CALLS = "SELECT session_id, count(*) FROM tool_calls WHERE {scope} GROUP BY 1"


class Lifecycle(Record, frozen=True, kw_only=True):
    """One session. Times, duration and outcome are of all of it, the rest is of the scope."""

    session: str
    """Its name: `claude:0f1e...`, or the id of a session of Harken."""
    title: str
    project: str
    runtime: str
    began: datetime | None
    ended: datetime | None
    duration_s: float | None
    """From its first message to its last."""
    outcome: str | None
    """As the runtime says: `success`, `error_max_turns`, ...; None: it says nothing."""
    compactions: int
    prompts: int
    responses: int
    tool_calls: int
    output_tokens: int | None
    cost_usd: float | None
    unpriced: int


class EndingStats(Record, frozen=True, kw_only=True):
    """The sessions that ended in one way."""

    outcome: str | None
    sessions: int
    median_duration_s: float | None
    compactions: int


@dataclass(frozen=True, slots=True)
class ScopeTotals:
    """What was done in the sessions of a scope, by their ids in the facts."""

    spells: Sequence[QuarterHour]
    usage: Mapping[int, UsageSums]


def lifecycles(database: apsw.Connection, scope: Scope, done: ScopeTotals) -> list[Lifecycle]:
    """Return the sessions, the last written first. With a span of time: those that said something.

    `done`: what was done in the same scope.
    """
    prompts, responses = Counter[int](), Counter[int]()
    for spell in done.spells:
        prompts[spell.session_id] += spell.prompts
        responses[spell.session_id] += spell.responses
    compactions = dict(scope.rows(database, _COMPACTIONS, "commits"))
    calls = dict(scope.rows(database, _CALLS, "tool_calls"))
    found = []
    for id_, *known in scope.rows(database, _SESSIONS, "sessions"):
        if scope.is_span and scope.session_id is None and id_ not in prompts:
            continue
        name, title, project, runtime, began, ended, outcome = known
        used = done.usage.get(id_, UsageSums()).members()
        found.append(
            Lifecycle(
                session=name,
                title=title,
                project=project,
                runtime=runtime,
                began=to_datetime(began),
                ended=to_datetime(ended),
                duration_s=None if began is None or ended is None else seconds(ended - began),
                outcome=outcome,
                compactions=compactions.get(id_, 0),
                prompts=prompts[id_],
                responses=responses[id_],
                tool_calls=calls.get(id_, 0),
                output_tokens=used["output_tokens"],
                cost_usd=used["cost_usd"],
                unpriced=used["unpriced"],
            )
        )
    return found


def outcomes(sessions: Iterable[Lifecycle]) -> list[EndingStats]:
    """Return in which ways sessions ended, the most frequent first."""
    of_outcome: dict[str | None, list[Lifecycle]] = defaultdict(list)
    for session in sessions:
        of_outcome[session.outcome].append(session)
    found = [_outcome(outcome, ended) for outcome, ended in of_outcome.items()]
    return sorted(found, key=lambda one: (-one.sessions, one.outcome or ""))


def _outcome(outcome: str | None, ended: Sequence[Lifecycle]) -> EndingStats:
    durations = [one.duration_s for one in ended if one.duration_s is not None]
    return EndingStats(
        outcome=outcome,
        sessions=len(ended),
        median_duration_s=median(durations) if durations else None,
        compactions=sum(one.compactions for one in ended),
    )


_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0


BOUNDS_S = (10 * _MINUTE, _HOUR, 4 * _HOUR, 12 * _HOUR, _DAY, 7 * _DAY)
"""Where one band of durations ends and the next begins."""


class Band(Record, frozen=True, kw_only=True):
    """Sessions that lasted about as long."""

    from_s: float
    below_s: float | None
    """None: as long as one likes."""
    sessions: int
    compactions: int
    per_session: float | None


class Compactions(Record, frozen=True, kw_only=True):
    """How often, in how many sessions, and whether longer sessions have more of them."""

    compactions: int
    sessions: int
    """In which there was at least one."""
    most: int
    """In one session."""
    correlation: float | None
    """Pearson's, of duration and number, from -1 to 1; None: too little is there to tell."""
    bands: list[Band]


def compactions(sessions: Sequence[Lifecycle]) -> Compactions:
    """Return the compactions of sessions by their durations; without a duration: in no band."""
    timed = [(one.duration_s, one.compactions) for one in sessions if one.duration_s is not None]
    return Compactions(
        compactions=sum(one.compactions for one in sessions),
        sessions=sum(one.compactions > 0 for one in sessions),
        most=max((one.compactions for one in sessions), default=0),
        correlation=_correlation(timed),
        bands=[
            _band(timed, since, below)
            for since, below in zip((0.0, *BOUNDS_S), (*BOUNDS_S, None), strict=True)
        ],
    )


def _band(timed: Sequence[tuple[float, int]], since: float, below: float | None) -> Band:
    inside = [n for duration, n in timed if since <= duration and (not below or duration < below)]
    return Band(
        from_s=since,
        below_s=below,
        sessions=len(inside),
        compactions=sum(inside),
        per_session=ratio(sum(inside), len(inside)),
    )


def _correlation(timed: Sequence[tuple[float, int]]) -> float | None:
    try:
        return round(correlation(*zip(*timed, strict=True)), 3)
    except (StatisticsError, TypeError):  # fewer than two, or all alike
        return None
