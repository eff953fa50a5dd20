"""A clock that says the same in every run: equal runs write equal logs, byte for byte."""

from __future__ import annotations

from itertools import count

from harken.core.clock import Clock

_2026_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


def ticking(start_us: int = _2026_US, *, step_us: int = 1_000_000) -> Clock:
    """Return a clock that moves on by a step each time that it is asked.

    >>> clock = ticking(100, step_us=5)
    >>> clock(), clock(), clock()
    (100, 105, 110)
    """
    return count(start_us, step_us).__next__
