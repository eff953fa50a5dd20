"""Measuring: several runs, the median, and the reference interleaved with what is measured."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

RUNS = 5
Timed: TypeAlias = Callable[[], float]
"""Does the work once and returns its seconds."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the results."""

    what: str
    value: str
    aim: str = ""
    note: str = ""


def cpu_s(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process that some work takes."""
    gc.collect()
    start = time.process_time()
    kept = work()
    seconds = time.process_time() - start
    del kept
    return seconds


def wall_s(work: Callable[[], object]) -> float:
    """Return the seconds on the wall that some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median(values: list[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def spread(values: list[float], scale: float, digits: int = 3) -> str:
    """Return "median (min to max)" of values times `scale`."""
    low, high = min(values) * scale, max(values) * scale
    return f"{median(values) * scale:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
