"""A diff: what a change of a file would do, for a person who is asked to allow it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import unified_diff

from harken.world.files.regular_file import binary_kind
from harken.world.files.root import size_text

_HUNK = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")
_MARK = re.compile("^(.)\0\\d+\0", re.DOTALL)
_CONTEXT = 3
_COMPARED = 2000
"""Lines on either side; to compare more of them takes too long."""
_SHOWN = 200
_LINE = 300


def diff(name: str, before: bytes | None, after: bytes) -> str:
    """Return a unified diff of two contents, cut where it gets long; `before` None: a new file."""
    if any(binary_kind(data) for data in (before or b"", after)):
        return f"{name}: {_size(before)} -> {_size(after)}, not text"
    old, new = _lines(before or b""), _lines(after)
    # What is the same at both ends needs no comparing: a small edit of a large file is quick.
    start = _common(zip(old, new, strict=False))
    stop = _common(zip(reversed(old[start:]), reversed(new[start:]), strict=False))
    first, end = max(0, start - _CONTEXT), max(0, stop - _CONTEXT)
    around = (start - first, stop - end)
    old_part = _marked(old[first : len(old) - end], *around)
    new_part = _marked(new[first : len(new) - end], *around)
    head = [f"--- {'/dev/null' if before is None else name}", f"+++ {name}"]
    if before is not None and max(len(old_part), len(new_part)) > _COMPARED:
        counts = f"lines {start + 1} to {len(old) - stop} give way to {len(new) - start - stop}"
        return "\n".join([*head, f"@@ {counts} @@"])
    found = list(unified_diff(old_part, new_part, n=_CONTEXT, lineterm=""))[2:]
    return "\n".join([*head, *_cut([_placed(line, first) for line in found])])


def _marked(lines: Sequence[str], start: int, stop: int) -> list[str]:
    """Mark the lines around a change, so that each is only like itself: they stay around it."""
    marked = [f"\0{n}\0{line}" for n, line in enumerate(lines[:start])]
    last = [f"\0{n + start}\0{line}" for n, line in enumerate(lines[len(lines) - stop :])]
    return [*marked, *lines[start : len(lines) - stop], *last]


def _placed(line: str, by: int) -> str:
    """Return a line of a diff without its mark, the numbers of a hunk moved down."""
    found = _HUNK.fullmatch(line)
    if found is None:
        return _MARK.sub(r"\1", line)
    old, old_count, new, new_count = found.groups()
    return f"@@ -{int(old) + by}{old_count or ''} +{int(new) + by}{new_count or ''} @@"


def _lines(data: bytes) -> list[str]:
    """Return the lines, with what of their ends cannot be seen."""
    lines = data.decode("utf-8", "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    else:
        lines[-1] += "\\ no newline at the end"
    return [line.replace("\r", "\\r") for line in lines]


def _common(pairs: Iterable[tuple[str, str]]) -> int:
    """Return how many pairs are the same before one is not."""
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def _cut(lines: Sequence[str]) -> list[str]:
    """Return lines as long and as many as a person looks at."""
    shown = [line if len(line) <= _LINE else line[:_LINE] + " ..." for line in lines[:_SHOWN]]
    left = len(lines) - len(shown)
    return [*shown, f"... and {left} more lines"] if left else shown


def _size(data: bytes | None) -> str:
    return "no file" if data is None else size_text(len(data))
