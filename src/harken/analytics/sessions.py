"""Statistics of sessions: duration, outcome, and compactions by duration.

Compactions show how often sessions exceed the context window, by duration.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import StatisticsError, correlation, median

import apsw
import msgspec

from harken.analytics.number_text import compute_ratio
from harken.analytics.quarter_hours import QuarterHour
from harken.analytics.scope import Scope
from harken.analytics.times import to_datetime, to_seconds
from harken.analytics.usage import UsageSums
from harken.core.record import Record

_SESSIONS_SQL = """
    SELECT id, name, title, project, runtime, began, ended, outcome FROM sessions
    WHERE {scope} ORDER BY ended DESC, name
"""
_COMPACTIONS_SQL = """
    SELECT session_id, count(*) FROM commits WHERE type = 'compaction' AND NOT is_repeat AND {scope}
    GROUP BY 1
"""
_CALLS_SQL = "SELECT session_id, count(*) FROM tool_calls WHERE {scope} GROUP BY 1"


class Lifecycle(Record, frozen=True, kw_only=True):
    """A session. Times, duration and outcome cover the full session, other values the scope."""

    session: str
    """Its name: `claude:0f1e...`, or the id of a Harken session."""
    title: str
    project: str
    runtime: str
    began: datetime | None
    ended: datetime | None
    duration_s: float | None
    """From the first message to the last."""
    outcome: str | None
    """As reported by the runtime: `success`, `error_max_turns`, ...; None if it reports nothing."""
    compactions: int
    prompts: int
    responses: int
    tool_calls: int
    output_tokens: int | None
    cost_usd: float | None
    unpriced: int


class EndingStats(Record, frozen=True, kw_only=True):
    """The sessions with one outcome."""

    outcome: str | None
    sessions: int
    median_duration_s: float | None
    compactions: int


class ScopeTotals(msgspec.Struct, frozen=True):
    """Activity and usage of the sessions of a scope, by row id."""

    quarter_hours: Sequence[QuarterHour]
    usage: Mapping[int, UsageSums]


def lifecycles(database: apsw.Connection, scope: Scope, done: ScopeTotals) -> list[Lifecycle]:
    """Return the sessions, most recent first. With a time range, only those with messages in it.

    `done` has the totals of the same scope.
    """
    prompts, responses = Counter[int](), Counter[int]()
    for quarter_hour in done.quarter_hours:
        prompts[quarter_hour.session_id] += quarter_hour.prompts
        responses[quarter_hour.session_id] += quarter_hour.responses
    compactions = dict(scope.rows(database, _COMPACTIONS_SQL, "commits"))
    calls = dict(scope.rows(database, _CALLS_SQL, "tool_calls"))
    rows = []
    for id_, *columns in scope.rows(database, _SESSIONS_SQL, "sessions"):
        if scope.is_span and scope.session_id is None and id_ not in prompts:
            continue
        name, title, project, runtime, began, ended, outcome = columns
        used = done.usage.get(id_, UsageSums()).members()
        rows.append(
            Lifecycle(
                session=name,
                title=title,
                project=project,
                runtime=runtime,
                began=to_datetime(began),
                ended=to_datetime(ended),
                duration_s=None if began is None or ended is None else to_seconds(ended - began),
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
    return rows


def group_outcomes(sessions: Iterable[Lifecycle]) -> list[EndingStats]:
    """Group sessions by outcome, the most frequent first."""
    by_outcome: dict[str | None, list[Lifecycle]] = defaultdict(list)
    for session in sessions:
        by_outcome[session.outcome].append(session)
    stats = [_build_outcome(outcome, ended) for outcome, ended in by_outcome.items()]
    return sorted(stats, key=lambda item: (-item.sessions, item.outcome or ""))


def _build_outcome(outcome: str | None, ended: Sequence[Lifecycle]) -> EndingStats:
    durations = [session.duration_s for session in ended if session.duration_s is not None]
    return EndingStats(
        outcome=outcome,
        sessions=len(ended),
        median_duration_s=median(durations) if durations else None,
        compactions=sum(session.compactions for session in ended),
    )


_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
BOUNDS_S = (10 * _MINUTE, _HOUR, 4 * _HOUR, 12 * _HOUR, _DAY, 7 * _DAY)
"""Limits between bands of durations, in seconds."""


class Band(Record, frozen=True, kw_only=True):
    """Sessions of similar duration."""

    from_s: float
    below_s: float | None
    """Upper limit, or None if there is none."""
    sessions: int
    compactions: int
    per_session: float | None


class Compactions(Record, frozen=True, kw_only=True):
    """Number and distribution of compactions, and their correlation with duration."""

    compactions: int
    sessions: int
    """Number of sessions with at least one compaction."""
    max_per_session: int
    """Maximum in one session."""
    correlation: float | None
    """Pearson correlation of duration and number, or None if there is too little data."""
    bands: list[Band]


def compactions(sessions: Sequence[Lifecycle]) -> Compactions:
    """Count compactions by session duration. Sessions without a duration are in no band."""
    timed = [
        (session.duration_s, session.compactions)
        for session in sessions
        if session.duration_s is not None
    ]
    return Compactions(
        compactions=sum(session.compactions for session in sessions),
        sessions=sum(session.compactions > 0 for session in sessions),
        max_per_session=max((session.compactions for session in sessions), default=0),
        correlation=_correlation(timed),
        bands=[
            _build_band(timed, since, below)
            for since, below in zip((0.0, *BOUNDS_S), (*BOUNDS_S, None), strict=True)
        ],
    )


def _build_band(timed: Sequence[tuple[float, int]], since: float, below: float | None) -> Band:
    inside = [
        count for duration, count in timed if since <= duration and (not below or duration < below)
    ]
    return Band(
        from_s=since,
        below_s=below,
        sessions=len(inside),
        compactions=sum(inside),
        per_session=compute_ratio(sum(inside), len(inside)),
    )


def _correlation(timed: Sequence[tuple[float, int]]) -> float | None:
    try:
        return round(correlation(*zip(*timed, strict=True)), 3)
    except (StatisticsError, TypeError):  # There are fewer than two values, or all are equal.
        return None
