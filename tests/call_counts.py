"""Count the calls of Python functions: a cost that other processes of the machine do not change."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import apsw


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


def count_steps(work: Callable[[], object]) -> int:
    """Return the number of steps of SQLite's virtual machine in connections that work opens.

    Only connections of apsw, which are those of indexes and catalogues. In steps of 10.
    """
    count = 0

    def progress() -> bool:
        nonlocal count
        count += 10
        return False

    def observe(connection: apsw.Connection) -> None:
        connection.set_progress_handler(progress, 10)

    apsw.connection_hooks.append(observe)
    try:
        work()
    finally:
        apsw.connection_hooks.remove(observe)
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
