"""Settle the origin of lines with little information: braces, `return None`, blank lines.

Git aligns such lines with any equal ones, so the commit that it blames may be that of another
brace. They belong to the lines beside them: a claim of an edit stands if a neighbor with text is of
the same edit, or was the neighbor in the commit. If both neighbors are of one edit that added the
same lines between them, the lines are of that edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from harken.attribution.line_origin import LineOrigin
from harken.attribution.records.recorded_edits import RecordedEdit
from harken.attribution.text.line_text import is_informative, line_key
from harken.core import structs
from harken.edits.file_edit import split_added

_MAX_DISTANCE = 30
"""A neighbor is searched in so many lines."""
_NEAR_DISTANCE = 5
_PLACE_DISTANCE = 10
"""The lines of an edit around a line of it are searched in so many lines."""
MAX_DUPLICATE_DISTANCE = 40
"""Equal lines that are farther apart are not taken for each other."""


def widen_ranges(ranges: Sequence[tuple[int, int]], lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return ranges of lines, from 1, with the neighbors of trivial lines at their ends."""
    widened: list[tuple[int, int]] = []
    for first, last in ranges:
        start, end = first, last
        if not all(map(is_informative, lines[first - 1 : last])):
            start, end = max(first - _PLACE_DISTANCE, 1), min(last + _PLACE_DISTANCE, len(lines))
        while start > max(first - _MAX_DISTANCE, 1) and not is_informative(lines[start - 1]):
            start -= 1
        while end < min(last + _MAX_DISTANCE, len(lines)) and not is_informative(lines[end - 1]):
            end += 1
        for index in range(first - 1, last):
            near = range(
                max(index - MAX_DUPLICATE_DISTANCE, 0),
                min(index + MAX_DUPLICATE_DISTANCE + 1, len(lines)),
            )
            equal = [i for i in near if i != index and lines[i].strip() == lines[index].strip()]
            if equal and is_informative(lines[index]):
                start, end = min(start, equal[0] + 1), max(end, equal[-1] + 1)
        widened.append((start, end))
    return widened


def doubt_duplicates(origins: Sequence[LineOrigin]) -> list[LineOrigin]:
    """Return the origins of consecutive lines, uncertain where git may have taken a duplicate.

    If a commit adds lines before or after equal ones, nothing tells which of both are new.
    """
    doubted = list(origins)
    by_key: dict[str, list[int]] = {}
    for index, origin in enumerate(origins):
        if is_informative(origin.line.text):
            by_key.setdefault(line_key(origin.line.text), []).append(index)
    for places in by_key.values():
        for first, second in pairwise(places):
            if second - first > MAX_DUPLICATE_DISTANCE:
                continue
            for index, step in ((first, 1), (second, -1)):
                size = second - first
                block = [origins[index + step * (offset + 1)] for offset in range(size)]
                is_inserted = len({origin.commit.id for origin in block}) == 1
                equal = origins[index + step * size]
                is_other = equal.commit.id != origins[index].commit.id or (
                    equal.confidence == "uncertain" and size <= _NEAR_DISTANCE
                )
                is_near = size <= _NEAR_DISTANCE or is_inserted
                if origins[index].is_agent and is_other and is_near:
                    doubted[index] = structs.replace(origins[index], confidence="uncertain")
    return doubted


def settle_trivial_lines(origins: Sequence[LineOrigin]) -> list[LineOrigin]:
    """Return the origins of consecutive lines, with those of trivial lines settled."""
    settled = list(origins)
    start = 0
    while start < len(origins):
        if is_informative(origins[start].line.text):
            start += 1
            continue
        end = start
        while end < len(origins) and not is_informative(origins[end].line.text):
            end += 1
        above = origins[start - 1] if start else None
        below = origins[end] if end < len(origins) else None
        settled[start:end] = _settle_run(origins[start:end], above, below)
        start = end
    return [_doubt_place(settled, index) for index in range(len(settled))]


def _doubt_place(origins: Sequence[LineOrigin], index: int) -> LineOrigin:
    """Return the origin of a line, uncertain if it is trivial and not in its place."""
    origin = origins[index]
    is_trivial = bool(origin.line.text.strip()) and not is_informative(origin.line.text)
    if not is_trivial or not origin.is_agent:
        return origin
    if _is_in_place(origins, index) and not _is_of_neighbor(origins, index):
        return origin
    return structs.replace(origin, confidence="uncertain")


def _is_of_neighbor(origins: Sequence[LineOrigin], index: int) -> bool:
    """Whether the edit of the line above or below wrote such a line beside it as well.

    Git may take the brace at the end of one function for that of another one.
    """
    for first, second in ((index - 1, index), (index, index + 1)):
        neighbor = first if second == index else second
        if not 0 <= neighbor < len(origins):
            continue
        edit = origins[neighbor].edit
        if edit is None or not origins[neighbor].is_agent:
            continue
        if not _is_same_edit(origins[neighbor], origins[index]):
            keys = [line_key(origins[i].line.text) for i in (first, second)]
            if all(keys) and _adds_pair(edit, keys):
                return True
    return False


def _adds_pair(edit: RecordedEdit, keys: Sequence[str]) -> bool:
    """Whether an edit added two lines with these keys, one after the other."""
    for change in edit.edit.changes:
        lines, is_added = split_added(change)
        for position in range(len(lines) - 1):
            pair = [*map(line_key, lines[position : position + 2])]
            if pair == [*keys] and all(is_added[position : position + 2]):
                return True
    return False


def _settle_run(
    run: Sequence[LineOrigin], above: LineOrigin | None, below: LineOrigin | None
) -> list[LineOrigin]:
    """Return the origins of trivial lines between two neighbors with text."""
    is_between = False
    if above is not None and below is not None and _is_same_edit(above, below):
        keys = [line_key(origin.line.text) for origin in (above, *run, below)]
        is_between = above.edit is not None and _adds_between(above.edit, keys)
    settled: list[LineOrigin] = []
    for index, origin in enumerate(run):
        if not origin.line.text.strip():
            neighbors = [neighbor for neighbor in (below, above) if neighbor is not None]
            settled.append(_settle_blank(origin, neighbors))
        elif origin.is_agent:
            is_supported = _is_supported(run, index, above, below) and not _is_doubled(run, index)
            settled.append(
                origin if is_supported else structs.replace(origin, confidence="uncertain")
            )
        elif is_between and above is not None:
            settled.append(_with_origin(origin, above))
        else:
            settled.append(origin)
    return settled


def _is_supported(
    run: Sequence[LineOrigin], index: int, above: LineOrigin | None, below: LineOrigin | None
) -> bool:
    """Whether the lines beside a line confirm its edit."""
    origin = run[index]
    if above is not None and line_key(above.line.text) == origin.above:
        return True
    if below is not None and line_key(below.line.text) == origin.below:
        return True
    for lines in ([*reversed(run[:index]), above], [*run[index + 1 :], below]):
        # The lines up to the neighbor must be of the edit, too.
        texts = [line for line in lines if line is not None and line.line.text.strip()]
        if lines[-1] is not None and all(_is_same_edit(origin, line) for line in texts):
            return True
    return False


def _is_in_place(origins: Sequence[LineOrigin], index: int) -> bool:
    """Whether a line may be where its edit wrote it.

    It is not if a line that the edit wrote before it is now below it only, or with a neighbor that
    has the indentation of the edit, while the line has another one.
    """
    edit, text = origins[index].edit, origins[index].line.text
    assert edit is not None
    above = [o.line.text for o in origins[max(index - _PLACE_DISTANCE, 0) : index]]
    below = [o.line.text for o in origins[index + 1 : index + 1 + _PLACE_DISTANCE]]
    places = [
        (line, [*reversed(lines[:position])], lines[position + 1 :])
        for change in edit.edit.changes
        if (lines := [line for line in split_added(change)[0] if line.strip()])
        for position, line in enumerate(lines)
        if line_key(line) == line_key(text)
    ]
    next_texts = [
        next((x for x in texts if x.strip()), "") for texts in ([*reversed(above)], below)
    ]
    for line, before, after in places:
        pairs = zip((before[:1], after[:1]), next_texts, strict=True)
        if any(_is_same_pair((line, *lines), (text, next_text)) for lines, next_text in pairs):
            return True
    scores = [
        _count_equal(before, above) + _count_equal(after, below) for _, before, after in places
    ]
    best = [place for place, score in zip(places, scores, strict=True) if score == max(scores)]
    return not best or any(
        not _is_displaced(before[:1], above, below)
        and not _is_displaced(after[:1], below, above)
        and (line.rstrip() == text.rstrip() or not {*before[:1], *after[:1]} & {*next_texts})
        for line, before, after in best
    )


def _is_same_pair(written: Sequence[str], current: Sequence[str]) -> bool:
    """Whether neighbors are those of an edit, both or none with another indentation."""
    if [*map(line_key, written)] != [*map(line_key, current)]:
        return False
    is_equal, is_next_equal = (
        a.rstrip() == b.rstrip() for a, b in zip(written, current, strict=True)
    )
    return is_equal or not is_next_equal


def _count_equal(lines: Sequence[str], near: Sequence[str]) -> int:
    """Return how many informative lines of the next ones are in the file as well."""
    keys = {line_key(line) for line in lines[:_NEAR_DISTANCE] if is_informative(line)}
    return len(keys & {*map(line_key, near)})


def _is_displaced(lines: Sequence[str], near: Sequence[str], far: Sequence[str]) -> bool:
    """Whether an informative line of some lines is only on the other side."""
    keys = {line_key(line) for line in lines if is_informative(line)}
    return not keys & {*map(line_key, near)} and bool(keys & {*map(line_key, far)})


def _is_doubled(run: Sequence[LineOrigin], index: int) -> bool:
    """Whether an equal line of another origin is beside a line: then either may be that one."""
    key = line_key(run[index].line.text)
    for step in (-1, 1):
        other = index + step
        while 0 <= other < len(run) and line_key(run[other].line.text) == key:
            if not _is_same_origin(run[index], run[other]):
                return True
            other += step
    return False


def _settle_blank(origin: LineOrigin, neighbors: Sequence[LineOrigin]) -> LineOrigin:
    """Return a blank line with the origin of a neighbor, unless it has one of them already."""
    if not neighbors or any(_is_same_origin(origin, neighbor) for neighbor in neighbors):
        return origin
    return _with_origin(origin, neighbors[0])


def _with_origin(origin: LineOrigin, neighbor: LineOrigin) -> LineOrigin:
    if not neighbor.is_agent:
        return LineOrigin(origin.line, origin.commit)
    return structs.replace(neighbor, line=origin.line)


def _is_same_edit(origin: LineOrigin, other: LineOrigin) -> bool:
    if origin.edit is None or other.edit is None or not (origin.is_agent and other.is_agent):
        return False
    return origin.edit.row.id == other.edit.row.id


def _is_same_origin(origin: LineOrigin, other: LineOrigin) -> bool:
    if origin.is_agent or other.is_agent:
        return _is_same_edit(origin, other)
    return origin.commit.id == other.commit.id


def _adds_between(edit: RecordedEdit, keys: Sequence[str]) -> bool:
    """Whether an edit has lines with these keys in order, and added all between the ends."""
    for change in edit.edit.changes:
        lines, flags = split_added(change)
        line_keys = [*map(line_key, lines)]
        for start in range(len(lines) - len(keys) + 1):
            end = start + len(keys)
            if line_keys[start:end] == keys and all(flags[start + 1 : end - 1]):
                return True
    return False
