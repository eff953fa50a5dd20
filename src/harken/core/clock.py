"""Time as a value: clocks are passed in, so that a test or a golden log can fix them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]
"""Returns microseconds since 1970 in UTC."""


def system_clock() -> int:
    """Return the time of this machine."""
    return time.time_ns() // 1000


def rfc3339(time_us: int) -> str:
    """Write microseconds since 1970 as RFC 3339 in UTC. Raises ValueError out of its years.

    >>> rfc3339(0)
    '1970-01-01T00:00:00.000000Z'
    """
    if not _FIRST_US <= time_us <= _LAST_US:
        raise ValueError(f"{time_us} microseconds are out of the years 1 to 9999")
    seconds, rest = divmod(time_us, 1_000_000)
    return f"{_second(seconds)}.{rest:06d}Z"


def microseconds(text: str) -> int:
    """Return the microseconds since 1970 that a time of RFC 3339 names, whatever its offset.

    Raises ValueError for what is no such time, one without an offset included.

    >>> microseconds("1970-01-01T01:00:00.000001+01:00")
    1
    """
    if len(text) == _WRITTEN and text[19] == "." and text[26] == "Z":
        digits = text[20:26]
        if (
            digits.isascii()
            and digits.isdecimal()
            and (second := _second_of(text[:19])) is not None
        ):
            return second + int(digits)
    time_ = datetime.fromisoformat(text)
    if time_.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC: write ...Z")
    return (time_ - _1970) // timedelta(microseconds=1)


def normal(text: str) -> str:
    """Return a time of RFC 3339 as everything here writes it: in UTC, with microseconds.

    Raises ValueError for what is no such time, one without an offset included.

    >>> normal("2026-01-31T13:00:00+01:00"), normal("2026-01-31T12:00:00.250Z")
    ('2026-01-31T12:00:00.000000Z', '2026-01-31T12:00:00.250000Z')
    """
    if len(text) in (_WRITTEN, _SHORTER) and text[19] == "." and text[-1] == "Z":  # as almost all
        digits = text[20:-1]
        if digits.isascii() and digits.isdecimal() and _second_of(text[:19]) is not None:
            return str(text) if len(text) == _WRITTEN else f"{text[:-1]}000Z"
    return rfc3339(microseconds(text))


_WRITTEN, _SHORTER = len("2026-01-31T12:00:00.000000Z"), len("2026-01-31T12:00:00.000Z")
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
_last: tuple[int, str] = (-1, "")


@lru_cache(1024)
def _second_of(text: str) -> int | None:
    """Return the microseconds of a second that is written plainly; they come in bursts."""
    if text[4] + text[7] + text[10] + text[13] + text[16] != "--T::":
        return None
    try:
        time_ = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time_.replace(tzinfo=UTC) - _1970) // timedelta(microseconds=1)


def _second(seconds: int) -> str:
    """Format a second; the last one is kept, since events come in bursts."""
    global _last  # noqa: PLW0603 - a cache of one value; a race costs a second formatting
    if _last[0] != seconds:
        _last = (seconds, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).zfill(19))
    return _last[1]
