"""Ranges of line numbers."""

from __future__ import annotations

from collections.abc import Sequence


def join_ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return ranges of consecutive numbers.

    >>> join_ranges([1, 2, 3, 7])
    [(1, 3), (7, 7)]
    """
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges
