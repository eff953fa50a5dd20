"""Time as a value: clocks are passed in, so that a test or a golden log can fix them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]
"""Returns microseconds since 1970 in UTC."""


def system_clock() -> int:
    """Return the time of this machine."""
    return time.time_ns() // 1000


def format_rfc3339(time_us: int) -> str:
    """Format microseconds since 1970 as RFC 3339 in UTC. Raises ValueError outside of years 1-9999.

    >>> format_rfc3339(0)
    '1970-01-01T00:00:00.000000Z'
    """
    seconds, microseconds = divmod(time_us, 1_000_000)
    return f"{_format_second(seconds)}.{microseconds:06d}Z"


def parse_rfc3339(text: str) -> int:
    """Parse an RFC 3339 time with any offset into microseconds since 1970.

    Raises ValueError for any other text, also for a time without an offset.

    >>> parse_rfc3339("1970-01-01T01:00:00.000001+01:00")
    1
    """
    return (_parse_datetime(text) - _1970) // _MICROSECOND


def find_latest(times: Iterable[str | None]) -> str | None:
    """Return the latest of some times (RFC 3339), or None if there is none. Raises ValueError."""
    return max(filter(None, times), key=parse_rfc3339, default=None)


def normalize_rfc3339(text: str) -> str:
    """Convert an RFC 3339 time to the format that Harken writes: in UTC, with microseconds.

    Raises ValueError or OverflowError for any other text, also for a time without an offset.

    >>> (
    ...     normalize_rfc3339("2026-01-31T13:00:00+01:00"),
    ...     normalize_rfc3339("2026-01-31T12:00:00.250Z"),
    ... )
    ('2026-01-31T12:00:00.000000Z', '2026-01-31T12:00:00.250000Z')
    """
    time_ = _parse_datetime(text)
    if time_.tzinfo is not UTC:
        time_ = time_.astimezone(UTC)
    return f"{time_.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _parse_datetime(text: str) -> datetime:
    time_ = datetime.fromisoformat(text)
    if time_.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC: write ...Z")
    return time_


_1970, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
_last_second: tuple[int, str] = (0, "1970-01-01T00:00:00")


def _format_second(seconds: int) -> str:
    """Format a time in seconds. The last result is cached, since events come in bursts."""
    global _last_second  # noqa: PLW0603 - a cache of one value; a race costs a second formatting
    if _last_second[0] != seconds:
        if not _FIRST_S <= seconds <= _LAST_S:
            raise ValueError(f"{seconds} seconds after 1970 are out of the years 1 to 9999")
        _last_second = (seconds, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).zfill(19))
    return _last_second[1]
