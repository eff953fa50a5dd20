"""The true origin of every line of a project, which its generator tracks line by line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

PERSON = "person"


@dataclass(frozen=True, eq=False)
class Line:
    """A line and its writers: ids of tool calls, or `PERSON`. Each line is an object of its own.

    A line that a formatter made of lines of several writers has all of them.
    """

    text: str
    writers: frozenset[str]


def lines_of(texts: Iterable[str], writer: str) -> list[Line]:
    """Return new lines of one writer."""
    return [Line(text, frozenset({writer})) for text in texts]


Files = dict[str, list[Line]]


@dataclass
class Project:
    """The files of a project, as they are in the working tree."""

    files: Files = field(default_factory=dict)

    def text(self, path: str) -> str:
        """Return the text of a file."""
        return "".join(f"{line.text}\n" for line in self.files[path])

    def snapshot(self) -> Files:
        """Return a copy that later changes do not affect."""
        return {path: list(lines) for path, lines in self.files.items()}

    def functions(self, path: str) -> list[tuple[int, int]]:
        """Return the first line of each function of a file, and the line after it."""
        lines = self.files[path]
        starts = [i for i, line in enumerate(lines) if is_start(line.text)]
        ends = []
        for start, following in zip(starts, [*starts, len(lines)][1:], strict=True):
            end = following
            while end > start + 1 and not lines[end - 1].text.strip():
                end -= 1
            ends.append(end)
        return [*zip(starts, ends, strict=True)]


def is_start(text: str) -> bool:
    """Whether a function begins with a line."""
    return text.startswith(("def ", "export function "))


def merge_files(base: Files, ours: Files, theirs: Files) -> Files:
    """Merge two sets of changes, of which each changes other files."""
    merged: Files = {}
    for path in sorted({*ours, *theirs}):
        if path in ours and path in theirs:
            merged[path] = theirs[path] if ours[path] == base.get(path) else ours[path]
        elif path not in base:
            merged[path] = ours.get(path) or theirs.get(path) or []
    return merged


_CALL = re.compile(r"^( *)((?:[\w.\[\]' ]+ = |return |await )?[\w.]+\()(.*)(\);?)$")
_MAX_COLUMNS = 76


def format_lines(lines: Sequence[Line]) -> list[Line]:
    """Format code as black and prettier do: double quotes, one argument a line, trailing commas.

    Calls that are too long are split; split calls that fit are joined.
    """
    formatted: list[Line] = []
    for line in _join_calls(lines):
        text = _double_quotes(line.text.rstrip())
        match = _CALL.match(text) if len(text) > _MAX_COLUMNS else None
        arguments = None if match is None else _split_arguments(match[3])
        if match is None or arguments is None:
            formatted.append(line if text == line.text else Line(text, line.writers))
            continue
        indent = match[1]
        rows = [f"{indent}{match[2]}"]
        rows += [f"{indent}    {argument}," for argument in arguments]
        formatted += [Line(row, line.writers) for row in [*rows, f"{indent}{match[4]}"]]
    return formatted


def _join_calls(lines: Sequence[Line]) -> list[Line]:
    """Join calls over several lines that fit into one and have no trailing comma."""
    joined: list[Line] = []
    index = 0
    while index < len(lines):
        text = lines[index].text
        end = index + 1
        if text.rstrip().endswith("(") and not text.lstrip().startswith("def "):
            while end < len(lines) and lines[end].text.strip() not in (")", ");"):
                end += 1
            rows = lines[index : end + 1]
            inner = [row.text.strip() for row in rows[1:-1]]
            whole = f"{text.rstrip()}{' '.join(inner)}{rows[-1].text.strip()}"
            is_closed = end < len(lines) and len(rows) > 2
            if is_closed and not inner[-1].endswith(",") and len(whole) <= _MAX_COLUMNS:
                writers = frozenset().union(*(row.writers for row in rows))
                joined.append(Line(whole, writers))
                index = end + 1
                continue
        joined.append(lines[index])
        index += 1
    return joined


def _double_quotes(text: str) -> str:
    return text if '"' in text else text.replace("'", '"')


def _split_arguments(text: str) -> list[str] | None:
    """Return the arguments of a call, or None if they are not simple."""
    if not text or any(char in text for char in "()[]{}") or "#" in text:
        return None
    return [argument.strip() for argument in text.split(",") if argument.strip()]
