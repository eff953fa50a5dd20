"""Match the added lines of a commit with the lines of a `VirtualFile`.

A line that git does not call added is the line of the parent, so the hunks of git's diff divide the
file into regions. In each region the lines of the virtual file and of the commit are aligned: first
equal lines, then equal tokens. Then lines that were moved are searched, and changes that could not
be replayed are compared by their text. A blank line belongs to the lines beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from harken.attribution.git.history import Hunk, RemovedLine
from harken.attribution.matching.virtual_file import (
    BaseLine,
    EarlierLine,
    EditLine,
    Origin,
    UnplacedChange,
    VirtualFile,
)
from harken.attribution.text.alignment import Run, align
from harken.attribution.text.line_text import information, is_informative, line_key
from harken.attribution.text.moves import MIN_LINES_OF_OTHER_FILE, MIN_MOVED_LINES, find_moves
from harken.attribution.text.token_alignment import match_tokens
from harken.core import structs

MatchKind: TypeAlias = Literal["exact", "reformatted", "similar", "ambiguous"]
_MAX_CHANGE_LINES = 1 << 20
MIN_RUN_INFORMATION = 16
"""Letters and digits of uncommon words in a run of lines that is recognized by its text alone."""


class LineMatch(msgspec.Struct, frozen=True):
    """The origin of an added line."""

    origin: Origin
    kind: MatchKind
    """`similar`: the line was made from the origin, and is not the same. `ambiguous`: an equal
    line, which may be another one."""
    source_key: str
    """The key of the line that the origin wrote."""
    source: int
    """The number of that line. New lines that one line was split into have the same number."""
    ratio: float = 1.0
    was_moved: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether it is the same line."""
        return self.kind in ("exact", "reformatted")

    def as_ambiguous(self) -> LineMatch:
        """Return the match as one that may be wrong."""
        return structs.replace(self, kind="ambiguous")


class _Region(msgspec.Struct):
    """The lines around neighboring hunks that are aligned together."""

    hunks: list[Hunk]
    new_start: int
    new_end: int
    old_start: int
    old_end: int


class Matcher(msgspec.Struct):
    """Matches the added lines of one file in one commit."""

    file: VirtualFile
    target: Sequence[str]
    hunks: Sequence[Hunk]
    removed_elsewhere: Callable[[Sequence[int]], Sequence[RemovedLine]] = lambda _indexes: ()
    """Returns the lines that the commit removed from other files, if one of some added lines is
    asked for."""
    matches: dict[int, LineMatch] = msgspec.field(default_factory=dict)
    """By the index of a line in the commit."""
    _added: set[int] = msgspec.field(default_factory=set)
    _used: set[int] = msgspec.field(default_factory=set)
    """Lines of the virtual file that are lines of the commit."""
    _keys: list[str] = msgspec.field(default_factory=list)
    _informative: list[bool] = msgspec.field(default_factory=list)
    """The keys of the lines of the commit, and which of them are informative."""

    def run(self) -> dict[int, LineMatch]:
        """Return the matches of added lines. A line without a match is new in the commit."""
        self._keys = [*map(line_key, self.target)]
        self._informative = [*map(is_informative, self.target)]
        self._added = {i for hunk in self.hunks for i in range(hunk.new_start, hunk.new_end)}
        positions = {
            origin.index: position
            for position, origin in enumerate(self.file.origins)
            if isinstance(origin, BaseLine)
        }
        regions = _find_regions(self.hunks, self.target)
        for region in regions:
            self._match_region(region, positions)
        changes = [*enumerate(reversed(self.file.unplaced), start=1)]
        for number, change in changes:
            self._match_unplaced(change, -number * _MAX_CHANGE_LINES, is_strong=True)
        self._match_moved()
        self._match_other_files()
        for number, change in changes:
            self._match_unplaced(change, -number * _MAX_CHANGE_LINES, is_strong=False)
        self._fill_blanks()
        return self.matches

    def _match_region(self, region: _Region, positions: dict[int, int]) -> None:
        start = max((p for i, p in positions.items() if i < region.old_start), default=-1) + 1
        end = min(
            (p for i, p in positions.items() if i >= region.old_end), default=len(self.file.lines)
        )
        old = self.file.lines[start:end]
        new = list(self.target[region.new_start : region.new_end])
        runs = align([*map(line_key, old)], [*map(line_key, new)], [*map(is_informative, new)])
        removed_lines = {i for hunk in region.hunks for i in range(hunk.old_start, hunk.old_end)}
        for run in runs:
            for offset in range(run.size):
                self._match_pair(
                    start + run.old + offset, region.new_start + run.new + offset, removed_lines
                )
        self._match_gaps(runs, (start, end), (region.new_start, region.new_end))

    def _match_pair(self, position: int, index: int, removed_lines: set[int]) -> None:
        """Match two lines with equal keys."""
        self._used.add(position)
        if index not in self._added:
            return
        origin = self.file.origins[position]
        kind: MatchKind = "reformatted"
        if self.file.lines[position].rstrip() == self.target[index].rstrip():
            kind = "exact"
        if isinstance(origin, BaseLine) and origin.index not in removed_lines:
            kind = "ambiguous"  # An equal line beside the hunk is the line of the parent.
        self._set_match(index, position, kind)

    def _set_match(
        self,
        index: int,
        position: int,
        kind: MatchKind,
        ratio: float = 1.0,
        *,
        was_moved: bool = False,
    ) -> None:
        key = line_key(self.file.lines[position])
        origin = self.file.origins[position]
        self.matches[index] = LineMatch(origin, kind, key, position, ratio, was_moved)
        self._used.add(position)

    def _match_gaps(
        self, runs: Sequence[Run], old_range: tuple[int, int], new_range: tuple[int, int]
    ) -> None:
        """Match the lines between runs by their tokens."""
        (old_start, old_end), (new_start, new_end) = old_range, new_range
        ends = [(old_start + run.old, new_start + run.new, run.size) for run in runs]
        previous = old_start, new_start
        for old_index, new_index, size in [*ends, (old_end, new_end, 0)]:
            old = self.file.lines[previous[0] : old_index]
            new = self.target[previous[1] : new_index]
            matches = match_tokens(old, new)
            sizes = Counter(match.old for match in matches.values())
            for offset, match in matches.items():
                index = previous[1] + offset
                if index in self._added:
                    kind: MatchKind = "reformatted" if match.is_reformatted else "similar"
                    origin = self.file.origins[previous[0] + match.old]
                    is_partial = isinstance(origin, EditLine) and origin.is_partial
                    if is_partial and sizes[match.old] > 1 and match.is_reformatted:
                        kind = "ambiguous"  # The line may have been split before a part changed.
                    self._set_match(index, previous[0] + match.old, kind, match.ratio)
            previous = old_index + size, new_index + size

    def _match_unplaced(self, change: UnplacedChange, first: int, *, is_strong: bool) -> None:
        """Match lines with those of a change that could not be replayed, numbered from `first`.

        `is_strong`: only runs with several informative lines that the change added.
        """
        keys = [*map(line_key, change.lines)]
        new_keys = {key for key, flag in zip(keys, change.is_added, strict=True) if flag and key}
        if not any(self._keys[index] in new_keys and self._is_open(index) for index in self._added):
            return
        runs = align(keys, self._keys, self._informative)
        for run in runs:
            new_lines = [
                (run.old + offset, run.new + offset)
                for offset in range(run.size)
                if change.is_added[run.old + offset] and self._is_open(run.new + offset)
            ]
            informative_size = sum(is_informative(self.target[index]) for _, index in new_lines)
            if is_strong and informative_size < MIN_MOVED_LINES:
                continue
            evidence = sum(information(self.target[i]) for i in range(run.new, run.new + run.size))
            kind: MatchKind = "exact" if evidence >= MIN_RUN_INFORMATION else "ambiguous"
            for old, index in new_lines:
                origin = EditLine(change.edit)
                self.matches[index] = LineMatch(origin, kind, keys[old], first + old)

    def _is_open(self, index: int) -> bool:
        """Whether an added line has no certain match yet."""
        match = self.matches.get(index)
        is_known = match is not None and match.is_certain and match.origin is not None
        return index in self._added and not is_known

    def _match_moved(self) -> None:
        """Match runs of new lines with equal lines that are missing elsewhere in the file."""
        removed_lines = {i for hunk in self.hunks for i in range(hunk.old_start, hunk.old_end)}
        positions = [
            position
            for position, origin in enumerate(self.file.origins)
            if position not in self._used
            and (not isinstance(origin, BaseLine) or origin.index in removed_lines)
        ]
        lines = [(position, self.file.lines[position]) for position in positions]
        for run in find_moves(self._open_lines(), lines):
            is_certain = run.informative_size >= MIN_MOVED_LINES
            kind: MatchKind = "exact" if is_certain else "ambiguous"
            for offset in range(run.size):
                position = positions[run.source + offset]
                self._set_match(run.target + offset, position, kind, was_moved=True)

    def _match_other_files(self) -> None:
        """Match runs of new lines with lines that the commit removed from other files."""
        added = self._open_lines()
        if not any(map(is_informative, added.values())):
            return
        removed = self.removed_elsewhere([*added])
        for run in find_moves(added, [(line.number, line.text) for line in removed]):
            if run.informative_size >= MIN_LINES_OF_OTHER_FILE:
                for offset in range(run.size):
                    line = removed[run.source + offset]
                    origin = EarlierLine(line.source, line.index)
                    self.matches[run.target + offset] = LineMatch(
                        origin, "exact", line_key(line.text), 0, was_moved=True
                    )

    def _open_lines(self) -> dict[int, str]:
        """Return the added lines without a certain match."""
        return {index: self.target[index] for index in self._added if self._is_open(index)}

    def _fill_blanks(self) -> None:
        """Give blank lines the origin of the added lines beside them, if these agree."""
        for hunk in self.hunks:
            for index in range(hunk.new_start, hunk.new_end):
                if not self.target[index].strip():
                    self._fill_blank(index, hunk)

    def _fill_blank(self, index: int, hunk: Hunk) -> None:
        current = self.matches.pop(index, None)
        neighbors = [
            self._next_text(index, -1, hunk.new_start - 1),
            self._next_text(index, 1, hunk.new_end),
        ]
        matches = [self.matches.get(i) for i in neighbors if i is not None]
        if not matches or any(match is None for match in matches):
            return
        first, *others = [match for match in matches if match is not None]
        if isinstance(first.origin, BaseLine):
            is_base = all(isinstance(match.origin, BaseLine) for match in others)
            if is_base and current is not None and isinstance(current.origin, BaseLine):
                self.matches[index] = current
        elif first.kind != "similar" and all(match.origin == first.origin for match in others):
            self.matches[index] = first

    def _next_text(self, index: int, step: int, end: int) -> int | None:
        """Return the next line of a hunk with text in a direction, or None."""
        while index != end and not self.target[index].strip():
            index += step
        return None if index == end else index


def _find_regions(hunks: Sequence[Hunk], target: Sequence[str]) -> list[_Region]:
    """Return the regions of hunks. Hunks share a region if theirs overlap."""
    regions: list[_Region] = []
    for position, hunk in enumerate(hunks):
        previous_end = hunks[position - 1].new_end if position else 0
        next_start = hunks[position + 1].new_start if position + 1 < len(hunks) else len(target)
        up, down = _slide(hunk, target, previous_end, next_start)
        region = _Region(
            [hunk],
            hunk.new_start - up,
            hunk.new_end + down,
            hunk.old_start - up,
            hunk.old_end + down,
        )
        if regions and regions[-1].new_end > region.new_start:
            last = regions[-1]
            last.hunks.append(hunk)
            last.new_end, last.old_end = region.new_end, region.old_end
        else:
            regions.append(region)
    return regions


def _slide(
    hunk: Hunk, target: Sequence[str], previous_end: int, next_start: int
) -> tuple[int, int]:
    """Return by how many lines a pure insertion can be moved up and down with the same result."""
    up = down = 0
    if hunk.old_start == hunk.old_end:
        while (
            hunk.new_start - up > previous_end
            and target[hunk.new_start - 1 - up] == target[hunk.new_end - 1 - up]
        ):
            up += 1
        while (
            hunk.new_end + down < next_start
            and target[hunk.new_end + down] == target[hunk.new_start + down]
        ):
            down += 1
    return up, down
