"""Pieces of output, independent of the terminal's width and codes, and their printer.

The printer formats pieces for the terminal, with the empty lines between them.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec

from harken.terminal.ansi import AnsiStyler
from harken.terminal.styled_text import Line, cell_width, wrap

Kind: TypeAlias = Literal["prompt", "prose", "action", "note", "summary"]
INDENT = "  "


class Prose(msgspec.Struct, frozen=True):
    """A finished block of Markdown from the answer of an agent."""

    text: str
    is_continuation: bool = False
    """Whether no empty line separates it from the block before."""
    kind: Kind = "prose"


class TextRows(msgspec.Struct, frozen=True):
    """Lines of one kind; each is wrapped, further rows below the first text."""

    kind: Kind
    lines: list[Line]
    depth: int = 0
    """The indentation level: the depth of the agent in the tree."""
    hanging: int = 0
    """The indentation, in cells, of wrapped rows of a line."""
    is_wide: bool = False
    """Whether it uses all columns of the terminal: requested data instead of prose."""


Piece: TypeAlias = Prose | TextRows


def note(text: str, style: str = "dim", *, depth: int = 0) -> TextRows:
    """Return a short line about an event."""
    return TextRows("note", [[(style, line)] for line in text.split("\n")], depth, hanging=2)


MAX_TEXT_CELLS = 110
"""The maximum number of columns of texts: longer rows are hard to read."""
_COLUMN_PATTERN = re.compile(r" *\S+(?: \S+){0,3} {2,}(?=\S)")
"""Matches the first column of a row of a list, with the blanks after it."""
_DENSE: frozenset[Kind] = frozenset({"action", "note"})


class Printer(msgspec.Struct):
    """Prints pieces in order. It remembers the kind of the last piece."""

    styler: AnsiStyler
    last: Kind | None = None

    def text(self, piece: Piece, columns: int) -> str:
        """Return a piece as rows for a terminal of this width, each with a newline."""
        is_wide = isinstance(piece, TextRows) and piece.is_wide
        width = max(columns - 1 if is_wide else min(columns - 1, MAX_TEXT_CELLS), 1)
        gap = "" if self._is_adjacent(piece) else "\n"
        self.last = piece.kind
        if isinstance(piece, Prose):
            from harken.terminal.markdown import render_markdown

            return gap + render_markdown(piece.text, width, colour=self.styler.color)
        return gap + self._rows(piece, width)

    def _is_adjacent(self, piece: Piece) -> bool:
        """Whether a piece is printed without an empty line after the one before."""
        if isinstance(piece, Prose) and piece.is_continuation:
            return True
        return self.last is None or (piece.kind in _DENSE and self.last in _DENSE)

    def _rows(self, piece: TextRows, width: int) -> str:
        depth = INDENT * piece.depth if width > 8 * (piece.depth + 1) else ""
        inner = max(width - len(depth), 1)
        rows = [
            row
            for line in piece.lines
            for row in wrap(line, inner, _wrap_prefix(piece, line, inner))
        ]
        return "".join(f"{depth}{self.styler.draw(row)}".rstrip(" ") + "\n" for row in rows)


def _wrap_prefix(piece: TextRows, line: Line, width: int) -> str:
    """Return the prefix of wrapped rows of a line: a table row stays below its head."""
    hang = piece.hanging
    if piece.is_wide and line:
        hang = _offset("".join(part for _, part in line), width)
    return " " * hang if width > 2 * hang + 8 else ""


def _offset(text: str, width: int) -> int:
    """Return where further rows of a row of a list begin: in its second column, where it has one.

    >>> _offset("/view flow   Show all that led to it.", 60), _offset("  - an item", 60)
    (13, 4)
    >>> _offset("plain words", 60), _offset("a  1.5k in", 60), _offset("a name  1.5k in", 10)
    (0, 3, 2)
    """
    indented = len(text) - len(text.lstrip(" "))
    column = _COLUMN_PATTERN.match(text)
    if column is not None and cell_width(column[0]) <= (width - 9) // 2:
        return cell_width(column[0])
    return indented + len(INDENT) if indented or column is not None else 0
