"""`VirtualFile`: a file as it was after the edits of agents, with the origin of each line.

It begins as the file in the parent of a commit. The edits are replayed in order of time. Between
them a person may have changed the file without a trace, so an edit whose old text is not there is
placed by its most similar lines; an edit that cannot be placed is kept aside, and is compared with
the commit by its text alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from harken.attribution.text.alignment import align, align_all
from harken.attribution.text.line_text import is_informative, line_key
from harken.edits.file_edit import (
    Addition,
    Change,
    Content,
    Fragment,
    Replacement,
    split_added,
    split_lines,
)

_MIN_PLACED_SHARE = 0.6
"""The share of the informative lines of an old text that must be found where it is placed."""


class BaseLine(msgspec.Struct, frozen=True):
    """A line of the parent of a commit."""

    index: int


@dataclass(frozen=True, slots=True)
class EditLine:
    """A line that an edit wrote."""

    edit: int
    """The index of the edit among the replayed ones."""
    is_partial: bool = field(default=False, compare=False)
    """Whether the edit changed a part of the line."""


class EarlierLine(msgspec.Struct, frozen=True):
    """A line of another file or an earlier version, which was moved or restored."""

    source: str
    """`REVISION:PATH`."""
    index: int


Placement: TypeAlias = Literal["replay", "check", "text"]
"""`replay`: an edit is applied to the file. `check`: so it is, unless the parent contains it.
`text`: its lines are only compared with those of the commit."""
Origin: TypeAlias = BaseLine | EditLine | EarlierLine | None
"""None if the line was in the file before an edit, and neither in the parent nor of an edit."""


class UnplacedChange(msgspec.Struct, frozen=True):
    """A change at an unknown position of the file."""

    edit: int
    lines: tuple[str, ...]
    is_added: tuple[bool, ...]
    """Which of the lines the edit added; the others are its context."""


class VirtualFile(msgspec.Struct):
    """The lines of a file and their origins."""

    lines: list[str]
    origins: list[Origin]
    unplaced: list[UnplacedChange] = msgspec.field(default_factory=list)
    was_created: bool = False
    """Whether an edit wrote the complete file, or the file is in the parent of the commit."""

    @classmethod
    def from_base(cls, lines: Sequence[str] | None) -> VirtualFile:
        """Return the file of a parent, or an empty one if the parent has no such file."""
        base = list(lines or ())
        return cls(base, [BaseLine(i) for i in range(len(base))], [], lines is not None)

    def apply(
        self,
        edit: int,
        change: Change,
        placement: Placement = "replay",
        viewed_lines: Sequence[str] = (),
    ) -> None:
        """Replay a change. `viewed_lines`: lines of the file that the agent had read before it."""
        may_be_in_base = placement == "check"
        match change:
            case Replacement(old, new) if placement == "text":
                self._set_aside(edit, split_lines(old), split_lines(new))
            case Replacement():
                self._replace(edit, change, may_be_in_base=may_be_in_base)
            case Content(text) if placement == "replay" or (may_be_in_base and not self.origins):
                self._write(edit, split_lines(text), viewed_lines)
            case Addition(text) if placement != "text":
                self._append(edit, split_lines(text))
            case Content(text):
                self._set_aside(edit, list(viewed_lines), split_lines(text))
            case Addition(text) | Fragment(text):
                self._set_aside(edit, [], split_lines(text))

    def _write(self, edit: int, lines: list[str], viewed_lines: Sequence[str]) -> None:
        """Replace all lines. Those that were in the file keep their origins."""
        origins: list[Origin] = [EditLine(edit)] * len(lines)
        for run in align_all(viewed_lines, lines):
            origins[run.new : run.new + run.size] = [None] * run.size
        for run in align_all(self.lines, lines):
            origins[run.new : run.new + run.size] = self.origins[run.old : run.old + run.size]
        self.lines, self.origins, self.was_created = lines, origins, True

    def _append(self, edit: int, lines: list[str]) -> None:
        if self.lines[-len(lines) :] == lines and self.origins and lines:
            is_in_base = all(isinstance(o, BaseLine) for o in self.origins[-len(lines) :])
            if is_in_base:  # The parent contains the edit.
                return
        self.lines += lines
        self.origins += [EditLine(edit)] * len(lines)

    def _replace(self, edit: int, change: Replacement, *, may_be_in_base: bool) -> None:
        old, new = (text.replace("\r\n", "\n") for text in (change.old, change.new))
        text = "".join(f"{line}\n" for line in self.lines)
        spans = _find_spans(text, old)
        if new.strip() and (applied := _find_spans(text, new)):
            # An insertion repeats its old text: where the new text is, it was inserted already.
            spans = [s for s in spans if not any(a[0] <= s[0] and s[1] <= a[1] for a in applied)]
            if not spans and self._is_base(text, applied):
                return
            if not spans and len(applied) == 1 and self._renew(edit, text, applied[0], change):
                return
        if len(spans) == 1 or change.replaces_all:
            for span in reversed(spans):
                self._splice(edit, text, span, new)
            return
        old_lines, new_lines = split_lines(old), split_lines(new)
        if spans or may_be_in_base or not self._place(edit, old_lines, new_lines):
            self._set_aside(edit, old_lines, new_lines)

    def _renew(self, edit: int, text: str, span: tuple[int, int], change: Replacement) -> bool:
        """Give lines that an earlier edit wrote to one that wrote them again.

        It succeeded, so the lines had been removed meanwhile. Return False if there are none.
        """
        start, _ = _line_range(text, span)
        new, is_added = split_added(change)
        positions = [start + index for index, flag in enumerate(is_added) if flag]
        if self.lines[start : start + len(new)] != new or not all(
            isinstance(self.origins[position], EditLine) for position in positions
        ):
            return False
        for position in positions:
            self.origins[position] = EditLine(edit)
        return bool(positions)

    def _is_base(self, text: str, spans: Sequence[tuple[int, int]]) -> bool:
        """Whether a text that is in the file is a text of the parent."""
        start, end = _line_range(text, spans[0])
        return all(isinstance(origin, BaseLine) for origin in self.origins[start : end + 1])

    def _splice(self, edit: int, text: str, span: tuple[int, int], new: str) -> None:
        """Replace a span of the text by another one, which may begin and end inside of lines."""
        first, last = _line_range(text, span)
        start, end = text.rfind("\n", 0, span[0]) + 1, text.find("\n", span[1] - 1) + 1
        before, after = text[start : span[0]], text[span[1] : end]
        if not after and before + new and not new.endswith("\n"):
            # The old text ends with a line, and the new one inside of the following line.
            after = "".join(f"{line}\n" for line in self.lines[last + 1 : last + 2])
            last += 1
        is_partial = bool(before.strip() or after.strip())
        origin = EditLine(edit, is_partial and "\n" not in new)
        self._set_lines(origin, first, last + 1, split_lines(before + new + after))

    def _set_lines(self, origin: EditLine, start: int, end: int, lines: list[str]) -> None:
        """Replace a range of lines. Equal lines keep their origins."""
        origins: list[Origin] = [origin] * len(lines)
        old = self.lines[start:end]
        for run in align_all(old, lines):
            kept_range = slice(start + run.old, start + run.old + run.size)
            origins[run.new : run.new + run.size] = self.origins[kept_range]
        self.lines[start:end], self.origins[start:end] = lines, origins

    def _place(self, edit: int, old: list[str], new: list[str]) -> bool:
        """Replace the most similar lines. Return whether there are enough of them."""
        keys, old_keys = [line_key(line) for line in self.lines], [line_key(line) for line in old]
        start = _find_window(keys, old_keys, [*map(is_informative, old)])
        if start is None:
            return False
        end = min(start + len(old) + len(old) // 2 + 2, len(keys))
        start = max(start, 0)
        runs = align(old_keys, keys[start:end], [*map(is_informative, self.lines[start:end])])
        kept_lines = sum(
            run.size for run in runs if any(map(is_informative, old[run.old : run.old + run.size]))
        )
        needed = _MIN_PLACED_SHARE * sum(map(is_informative, old))
        if not kept_lines or kept_lines < needed:
            return False
        first, last = runs[0].new, runs[-1].new + runs[-1].size
        old_origins: list[Origin] = [None] * len(old)
        for run in runs:
            for offset in range(run.size):
                old_origins[run.old + offset] = self.origins[start + run.new + offset]
        origins: list[Origin] = [EditLine(edit)] * len(new)
        for run in align_all(old, new):
            origins[run.new : run.new + run.size] = old_origins[run.old : run.old + run.size]
        self.lines[start + first : start + last] = new
        self.origins[start + first : start + last] = origins
        return True

    def _set_aside(self, edit: int, old: list[str], new: list[str]) -> None:
        is_added = [True] * len(new)
        for run in align_all(old, new):
            is_added[run.new : run.new + run.size] = [False] * run.size
        self.unplaced.append(UnplacedChange(edit, tuple(new), tuple(is_added)))


def _find_spans(text: str, part: str) -> list[tuple[int, int]]:
    """Return the start and the end of each occurrence of a part, without overlaps."""
    spans: list[tuple[int, int]] = []
    start = text.find(part) if part else -1
    while start >= 0:
        spans.append((start, start + len(part)))
        start = text.find(part, start + len(part))
    return spans


def _line_range(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """Return the indexes of the first and the last line of a span."""
    first = text.count("\n", 0, span[0])
    return first, first + text.count("\n", span[0], max(span[1] - 1, span[0]))


def _find_window(
    keys: Sequence[str], old: Sequence[str], informative: Sequence[bool]
) -> int | None:
    """Return where a list of keys begins that is most similar, or None if no line is in it.

    Each informative line that both lists have votes for an offset. Votes for neighboring offsets
    are added, because lines may be inserted or missing between them.
    """
    positions: dict[str, list[int]] = {}
    for index, key in enumerate(keys):
        positions.setdefault(key, []).append(index)
    votes: Counter[int] = Counter()
    for index, key in enumerate(old):
        places = positions.get(key, ()) if informative[index] else ()
        for place in places:
            votes[place - index] += 1
    if not votes:
        return None
    return max(votes, key=lambda offset: (sum(votes[offset + i] for i in (-1, 0, 1)), -offset))
