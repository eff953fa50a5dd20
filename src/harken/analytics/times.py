"""Moments: the whole microseconds of the facts as times of a calendar.

A file may claim any time: what no calendar holds becomes the first or the last that it does.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import overload

US = 1_000_000
"""Microseconds in a second."""
_LAST_US = 253_370_764_800 * US  # the year 9999, of which a zone may still take a day


@overload
def to_datetime(time_us: int, zone: tzinfo = UTC) -> datetime: ...
@overload
def to_datetime(time_us: int | None, zone: tzinfo = UTC) -> datetime | None: ...
def to_datetime(time_us: int | None, zone: tzinfo = UTC) -> datetime | None:
    """Return a time in a zone, to the second; None: it is not known.

    >>> to_datetime(1_000_000, UTC).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    if time_us is None:
        return None
    return datetime.fromtimestamp(min(max(time_us, 0), _LAST_US) // US, zone)


def minute(when: datetime | None, zone: tzinfo) -> str:
    """Return a time as people read it, to the minute; empty: it is not known.

    >>> minute(to_datetime(90_000_000), UTC), minute(None, UTC)
    ('1970-01-01 00:01', '')
    """
    return "" if when is None else f"{when.astimezone(zone):%Y-%m-%d %H:%M}"


def seconds(duration_us: float | None) -> float | None:
    """Return a duration in seconds, to the millisecond; None: it is not known.

    >>> seconds(1_234_567)
    1.235
    """
    return None if duration_us is None else round(duration_us / US, 3)
