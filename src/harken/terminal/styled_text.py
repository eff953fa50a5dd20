"""Styled text before it is converted to escape codes, and its wrapping into rows.

A line is a list of spans, a style and a text each. Widths count cells, as terminals do: a wide
character has two. `diff_lines` colors the lines of a unified diff.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from rich.cells import cell_len

from harken.terminal.text import escape_control_characters

Span: TypeAlias = tuple[str, str]
"""A style (words such as `bold red`, see `AnsiStyler`) and a text without newlines."""
Line: TypeAlias = list[Span]

TAB = "    "
PROMPT = "\u203a "
"""The prefix of the user's messages."""
_JOINERS_PATTERN = re.compile("[\u200b-\u200f\u2060\ufe0e\ufe0f\ufeff]")
_WORD_PATTERN = re.compile(r"\s*\S+|\s+")


def clean_text(text: str) -> str:
    r"""Return a text that is safe to print: without control characters, tabs as spaces.

    Invisible joiners are removed: terminals disagree about the width of the joined characters.

    >>> clean_text("a\tb\x1b[2J")
    'a    b\\x1b[2J'
    """
    return _JOINERS_PATTERN.sub("", escape_control_characters(text).replace("\t", TAB))


def cell_width(text: str) -> int:
    """Return the width of a text in cells.

    >>> cell_width("abc"), cell_width("日本")
    (3, 4)
    """
    return len(text) if text.isascii() else cell_len(text)


def wrap(line: Sequence[Span], width: int, indent: str = "") -> list[Line]:
    """Split a line into rows of at most `width` cells, between words if possible.

    Further rows begin with `indent`. An empty line is one empty row.

    >>> wrap([("", "to be "), ("bold", "or not")], 8, "  ")
    [[('', 'to be '), ('bold', 'or')], [('', '  '), ('bold', 'not')]]
    """
    text = "".join(part for _, part in line)
    if cell_width(text) <= width:
        return [list(line)]
    inner = max(width - cell_width(indent), 1)
    rows: list[Line] = []
    for start, stop in _find_row_bounds(text, max(width, 1), inner):
        row = list(_slice_line(line, start, stop))
        rows.append(row if not rows or not indent else [("", indent), *row])
    return rows


def shorten(text: str, width: int) -> str:
    """Return the beginning of a text in at most `width` cells, with `…` if it is truncated.

    >>> shorten("abcdef", 4), shorten("日本語", 4)
    ('abc…', '日…')
    """
    if cell_width(text) <= width:
        return text
    length, width_used = 0, 1
    for char in text:
        width_used += cell_width(char)
        if width_used > width:
            break
        length += 1
    return text[:length] + "…"


def truncate_line(line: Sequence[Span], width: int) -> Line:
    """Return the beginning of a line that fits into a row, with `…` if it is truncated."""
    if cell_width("".join(text for _, text in line)) <= width:
        return list(line)
    row: Line = []
    remaining = width
    for style, text in line:
        if cell_width(text) >= remaining:
            row.append((style, shorten(text + "…", remaining)))
            break
        row.append((style, text))
        remaining -= cell_width(text)
    return row


def _find_row_bounds(text: str, first: int, further: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each row. Spaces at a break are in no row."""
    start = stop = row_width = 0
    width = first
    for match in _WORD_PATTERN.finditer(text):
        word = match[0]
        size = cell_width(word)
        if row_width + size <= width:
            stop, row_width = match.end(), row_width + size
            continue
        position = match.start()
        if position and cell_width(word.lstrip()) <= further:  # the word fits into the next row
            if stop > start:
                yield start, stop
                width = further
            position = start = match.end() - len(word.lstrip())
            row_width = 0
        # The word is longer than a row, or than a row after the indent.
        for index in range(position, match.end()):
            size = cell_width(text[index])
            if row_width + size > width and index > start:
                yield start, index
                width, row_width = further, 0
                start = index + text[index].isspace()
            row_width += size if index >= start else 0
        stop = match.end()
    if stop > start:
        yield start, stop


def _slice_line(line: Sequence[Span], start: int, stop: int) -> Iterator[Span]:
    offset = 0
    for style, text in line:
        if offset < stop and offset + len(text) > start:
            yield style, text[max(start - offset, 0) : stop - offset]
        offset += len(text)


_HUNK_PATTERN = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")


def is_diff(text: str) -> bool:
    """Whether a text contains a unified diff."""
    return _HUNK_PATTERN.search(text) is not None


def diff_lines(lines: Iterable[str], plain: str = "") -> list[Line]:
    """Return the lines of a diff in color, others in the style `plain`.

    >>> diff_lines(["-a", "+b", " c"], "dim")
    [[('red', '-a')], [('green', '+b')], [('dim', ' c')]]
    """
    return [[(_diff_style(line) or plain, clean_text(line))] for line in lines]


def _diff_style(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "dim"
    if _HUNK_PATTERN.match(line):
        return "cyan"
    return {"+": "green", "-": "red"}.get(line[:1], "")
