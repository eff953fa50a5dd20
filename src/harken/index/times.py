"""Times as the facts have them: whole microseconds since 1970."""

from __future__ import annotations

from harken.core.clock import microseconds


def time_us(text: str | None) -> int | None:
    """Return the time that a text says; None: it says none.

    >>> time_us("1970-01-01T00:00:01Z"), time_us("noon"), time_us(None)
    (1000000, None, None)
    """
    try:
        return None if text is None else microseconds(text)
    except (ValueError, OverflowError):
        return None
