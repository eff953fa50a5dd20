"""Alignment of two lists of lines: which line of the new list is which line of the old one.

Lines that occur once in both lists are anchors, as in a patience diff; between anchors the longest
common runs are found. Lines without words never align alone, since any brace equals any other: they
join a run of informative lines beside them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from difflib import SequenceMatcher

import msgspec

_MAX_GAP_PRODUCT = 4_000_000
"""The size of a gap (old lines times new lines) up to which common runs are searched."""


class Run(msgspec.Struct, frozen=True):
    """A run of equal lines in two lists."""

    old: int
    new: int
    size: int


def align(old: Sequence[str], new: Sequence[str], informative: Sequence[bool]) -> list[Run]:
    """Return the runs of equal items, in order.

    `informative` says of each new item whether it has enough information to be an anchor. A run
    without such an item is returned only if it begins or ends beside the end of a gap.
    """
    pairs: list[tuple[int, int]] = []
    stack = [_Gap(0, len(old), 0, len(new))]
    while stack:
        gap = stack.pop()
        anchors = _find_anchors(old, new, gap, informative)
        pairs += anchors
        start = gap.old_start, gap.new_start
        for old_index, new_index in anchors:
            stack.append(_Gap(start[0], old_index, start[1], new_index))
            start = old_index + 1, new_index + 1
        gap.old_start, gap.new_start = start
        if anchors:
            stack.append(gap)
        else:
            # Equal lines at an end are beside an anchor, so they need no information.
            pairs += _trim_gap(old, new, gap)
            pairs += _find_runs(old, new, gap, informative)
    return _merge(sorted(pairs))


def align_all(old: Sequence[str], new: Sequence[str]) -> list[Run]:
    """Return the runs of equal items of two versions of one text, in order."""
    return align(old, new, [True] * len(new))


class _Gap(msgspec.Struct):
    """A range of old items and a range of new items that are not aligned yet."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def _trim_gap(old: Sequence[str], new: Sequence[str], gap: _Gap) -> list[tuple[int, int]]:
    """Return the pairs of equal items at both ends of a gap, and remove them from it."""
    pairs: list[tuple[int, int]] = []
    while (
        gap.old_start < gap.old_end
        and gap.new_start < gap.new_end
        and old[gap.old_start] == new[gap.new_start]
    ):
        pairs.append((gap.old_start, gap.new_start))
        gap.old_start, gap.new_start = gap.old_start + 1, gap.new_start + 1
    while (
        gap.old_start < gap.old_end
        and gap.new_start < gap.new_end
        and old[gap.old_end - 1] == new[gap.new_end - 1]
    ):
        gap.old_end, gap.new_end = gap.old_end - 1, gap.new_end - 1
        pairs.append((gap.old_end, gap.new_end))
    return pairs


def _find_anchors(
    old: Sequence[str], new: Sequence[str], gap: _Gap, informative: Sequence[bool]
) -> list[tuple[int, int]]:
    """Return the longest increasing list of pairs of items that are unique on both sides."""
    old_unique = _unique_items(old, gap.old_start, gap.old_end)
    new_unique = _unique_items(new, gap.new_start, gap.new_end)
    pairs = sorted(
        (index, new_unique[item])
        for item, index in old_unique.items()
        if item in new_unique and informative[new_unique[item]]
    )
    return [pairs[index] for index in _longest_increasing([new_index for _, new_index in pairs])]


def _unique_items(items: Sequence[str], start: int, end: int) -> dict[str, int]:
    """Return the items that occur once, with their indexes."""
    indexes: dict[str, int] = {}
    for index in range(start, end):
        indexes[items[index]] = -1 if items[index] in indexes else index
    return {item: index for item, index in indexes.items() if index >= 0 and item}


def _longest_increasing(values: Sequence[int]) -> list[int]:
    """Return the indexes of a longest increasing subsequence."""
    ends: list[int] = []
    end_indexes: list[int] = []
    previous = [-1] * len(values)
    for index, value in enumerate(values):
        position = bisect_left(ends, value)
        previous[index] = end_indexes[position - 1] if position else -1
        if position == len(ends):
            ends.append(value)
            end_indexes.append(index)
        else:
            ends[position], end_indexes[position] = value, index
    indexes: list[int] = []
    index = end_indexes[-1] if end_indexes else -1
    while index >= 0:
        indexes.append(index)
        index = previous[index]
    return indexes[::-1]


def _find_runs(
    old: Sequence[str], new: Sequence[str], gap: _Gap, informative: Sequence[bool]
) -> list[tuple[int, int]]:
    """Return the pairs of the longest common runs with an informative item."""
    old_size, new_size = gap.old_end - gap.old_start, gap.new_end - gap.new_start
    if old_size * new_size > _MAX_GAP_PRODUCT:
        return []
    matcher = SequenceMatcher(
        None, old[gap.old_start : gap.old_end], new[gap.new_start : gap.new_end], autojunk=False
    )
    pairs: list[tuple[int, int]] = []
    for block in matcher.get_matching_blocks():
        start = gap.new_start + block.b
        if any(informative[start : start + block.size]):
            pairs += [(gap.old_start + block.a + i, start + i) for i in range(block.size)]
    return pairs


def _merge(pairs: Sequence[tuple[int, int]]) -> list[Run]:
    runs: list[Run] = []
    for old_index, new_index in pairs:
        last = runs[-1] if runs else None
        if last and (old_index, new_index) == (last.old + last.size, last.new + last.size):
            runs[-1] = Run(last.old, last.new, last.size + 1)
        else:
            runs.append(Run(old_index, new_index, 1))
    return runs
