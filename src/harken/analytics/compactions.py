"""Compactions: how often sessions ran out of context, against how long they lasted."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import StatisticsError, correlation

from harken.analytics.lifecycle import Lifecycle
from harken.analytics.numbers import ratio
from harken.core.record import Record

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
