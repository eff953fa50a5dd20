"""A diff of a file change, for a user who decides on its approval."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import unified_diff

from harken.world.files.regular_file import binary_kind
from harken.world.files.root import size_text

_HUNK_PATTERN = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")
_MARK_PATTERN = re.compile("^(.)\0\\d+\0", re.DOTALL)
_CONTEXT = 3
_MAX_COMPARED_LINES = 2000
"""The maximum number of lines on either side; comparing more takes too long."""
_MAX_LINES = 200
_MAX_LINE_CHARS = 300


def diff(name: str, before: bytes | None, after: bytes) -> str:
    """Return a unified diff of two contents, truncated if long; `before` is None for a new file."""
    if any(binary_kind(data) for data in (before or b"", after)):
        return f"{name}: {_format_size(before)} -> {_format_size(after)}, not text"
    old, new = _split_lines(before or b""), _split_lines(after)
    # Equal lines at both ends are not compared, so a small edit of a large file is fast.
    start = _count_common(zip(old, new, strict=False))
    stop = _count_common(zip(reversed(old[start:]), reversed(new[start:]), strict=False))
    first, end = max(0, start - _CONTEXT), max(0, stop - _CONTEXT)
    context = (start - first, stop - end)
    old_part = _mark_context(old[first : len(old) - end], *context)
    new_part = _mark_context(new[first : len(new) - end], *context)
    head = [f"--- {'/dev/null' if before is None else name}", f"+++ {name}"]
    if before is not None and max(len(old_part), len(new_part)) > _MAX_COMPARED_LINES:
        counts = f"lines {start + 1} to {len(old) - stop} are replaced by {len(new) - start - stop}"
        return "\n".join([*head, f"@@ {counts} @@"])
    diff_lines = list(unified_diff(old_part, new_part, n=_CONTEXT, lineterm=""))[2:]
    return "\n".join([*head, *_truncate([_shift_line(line, first) for line in diff_lines])])


def _mark_context(lines: Sequence[str], start: int, stop: int) -> list[str]:
    """Mark the lines around a change as unique, so that the diff keeps them as context."""
    first = [f"\0{n}\0{line}" for n, line in enumerate(lines[:start])]
    last = [f"\0{n + start}\0{line}" for n, line in enumerate(lines[len(lines) - stop :])]
    return [*first, *lines[start : len(lines) - stop], *last]


def _shift_line(line: str, offset: int) -> str:
    """Return a line of a diff without its mark; shift the line numbers of a hunk header."""
    match = _HUNK_PATTERN.fullmatch(line)
    if match is None:
        return _MARK_PATTERN.sub(r"\1", line)
    old, old_count, new, new_count = match.groups()
    return f"@@ -{int(old) + offset}{old_count or ''} +{int(new) + offset}{new_count or ''} @@"


def _split_lines(data: bytes) -> list[str]:
    r"""Return the lines, with `\r` and a missing newline made visible."""
    lines = data.decode("utf-8", "replace").split("\n")
    if not lines[-1]:
        lines.pop()
    else:
        lines[-1] += "\\ no newline at the end"
    return [line.replace("\r", "\\r") for line in lines]


def _count_common(pairs: Iterable[tuple[str, str]]) -> int:
    """Return how many leading pairs are equal."""
    count = 0
    for left, right in pairs:
        if left != right:
            break
        count += 1
    return count


def _truncate(lines: Sequence[str]) -> list[str]:
    """Truncate long lines and long lists for display."""
    visible = [
        line if len(line) <= _MAX_LINE_CHARS else line[:_MAX_LINE_CHARS] + " ..."
        for line in lines[:_MAX_LINES]
    ]
    hidden_count = len(lines) - len(visible)
    return [*visible, f"... and {hidden_count} more lines"] if hidden_count else visible


def _format_size(data: bytes | None) -> str:
    return "no file" if data is None else size_text(len(data))
