"""Convert the microseconds of the index to datetimes.

Logs may contain any time; times out of the range of datetime are clamped.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import overload

US = 1_000_000
"""Microseconds in a second."""
_LAST_US = 253_370_764_800 * US  # The year 9999, minus a margin for time zones.


@overload
def to_datetime(time_us: int, zone: tzinfo = UTC) -> datetime: ...
@overload
def to_datetime(time_us: int | None, zone: tzinfo = UTC) -> datetime | None: ...
def to_datetime(time_us: int | None, zone: tzinfo = UTC) -> datetime | None:
    """Convert a time to a datetime in a zone, with a resolution of seconds. Return None for None.

    >>> to_datetime(1_000_000, UTC).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    if time_us is None:
        return None
    return datetime.fromtimestamp(min(max(time_us, 0), _LAST_US) // US, zone)


def format_minute(time: datetime | None, zone: tzinfo) -> str:
    """Format a time to the minute. Returns an empty string for None.

    >>> format_minute(to_datetime(90_000_000), UTC), format_minute(None, UTC)
    ('1970-01-01 00:01', '')
    """
    return "" if time is None else f"{time.astimezone(zone):%Y-%m-%d %H:%M}"


def to_seconds(duration_us: float | None) -> float | None:
    """Convert microseconds to seconds, rounded to milliseconds. Return None for None.

    >>> to_seconds(1_234_567)
    1.235
    """
    return None if duration_us is None else round(duration_us / US, 3)
