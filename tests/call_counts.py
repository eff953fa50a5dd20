"""Count the calls of Python functions: a cost that other processes of the machine do not change."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_calls(work: Callable[[], object]) -> int:
    """Return the number of calls of Python functions that some work in this thread makes."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(previous)
    return count


def count_c_calls(work: Callable[[], object], names: frozenset[str]) -> Counter[str]:
    """Return how often some work in this thread calls functions of C with these names."""
    counts: Counter[str] = Counter()

    def profile(_frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and function.__name__ in names:
            counts[function.__name__] += 1

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(previous)
    return counts
