"""Headings, lines and tables of figures, fitted to the width of the terminal.

Text is never interpreted as markup, and control characters in it are escaped.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harken.terminal.sparkline import ASCII_SPARKLINE, Sparkline, choose_sparkline
from harken.terminal.text import one_line

NARROW_CELLS = 60
"""On a terminal with fewer cells a table leaves out its less important columns."""
MAX_CELLS = 120
"""The maximum width in cells. Wider lines are hard to read."""
MIN_TEXT_CELLS = 8
"""The number of cells that a text column keeps when other columns need space."""
_PAD_CELLS = 2
"""The number of cells after each column."""


class TextColumn(msgspec.Struct, frozen=True):
    """A column of a table."""

    head: str
    is_text: bool = False
    """Whether it is aligned left and truncated if necessary.

    Numbers are aligned right and complete.
    """
    from_width: int = 0
    """The minimum width of the terminal for this column."""
    style: str = ""


class Sheet:
    """Writes to a stream, standard output by default. Uses colors if the terminal has them."""

    def __init__(self, stream: TextIO | None = None, width: int | None = None) -> None:
        """Use this width in cells, by default that of the terminal."""
        stream = stream or sys.stdout
        self._console = Console(
            file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False
        )
        self._console.width = self.width = min(self._console.width, MAX_CELLS)
        self.sparkline: Sparkline = choose_sparkline(getattr(stream, "encoding", None))

    def heading(self, text: str, note: str = "") -> None:
        """Print the heading of a section."""
        self._console.print()
        after = f"  {note}" if note else ""
        self.line((one_line(text, self.width), "bold cyan"), (after, "dim"), indent=0)

    def line(self, *spans: str | tuple[str, str], indent: int = 2) -> None:
        """Print texts after each other, some with a style, wrapped between words."""
        line = Text(overflow="fold")
        for span in spans:
            text, style = (span, "") if isinstance(span, str) else span
            line.append(self._as_printable(text), style)
        for row in line.wrap(self._console, self.width - indent):
            self._console.print(Text(" " * indent) + row, no_wrap=True, overflow="ellipsis")

    def table(self, columns: Sequence[TextColumn], rows: Iterable[Sequence[str]]) -> None:
        """Print a table; a row has a text for each column."""
        visible = [index for index, column in enumerate(columns) if self.width >= column.from_width]
        table = Table(box=None, pad_edge=False, padding=(0, _PAD_CELLS, 0, 0), header_style="dim")
        table.add_column("", width=0)
        cells = [[self._as_printable(row[index]) for index in visible] for row in rows]
        visible_columns = [columns[index] for index in visible]
        for column, width in zip(
            visible_columns, _widths(visible_columns, cells, self.width - _PAD_CELLS), strict=True
        ):
            table.add_column(
                column.head,
                justify="left" if column.is_text else "right",
                no_wrap=not column.is_text,
                style=column.style,
                width=width,
            )
        for row in cells:
            table.add_row("", *(Text(text, no_wrap=True, overflow="ellipsis") for text in row))
        self._console.print(table)

    def _as_printable(self, text: str) -> str:
        """Return a text that this terminal can show, with its spaces."""
        safe = text if text.isprintable() else one_line(text, len(text) * 6)
        encoding = self._console.encoding
        if self.sparkline is ASCII_SPARKLINE:
            safe = safe.replace("≥", ">=").replace("…", "~")
        return safe.encode(encoding, "backslashreplace").decode(encoding)


def _widths(
    columns: Sequence[TextColumn], cells: Sequence[Sequence[str]], room: int
) -> list[int | None]:
    """Return the widths of columns. Heads and texts are truncated if the room is too small.

    Numbers stay complete, texts keep `LEAST`; the remaining cells go to heads of numbers, then to
    texts. A width of None is unlimited.
    """
    heads = [cell_len(column.head) for column in columns]
    widest = [
        max(map(cell_len, column_cells), default=0) for column_cells in zip(*cells, strict=True)
    ]
    widest = widest or [0] * len(columns)
    natural = [max(pair) for pair in zip(heads, widest, strict=True)]
    widths = [
        min(MIN_TEXT_CELLS, wish) if column.is_text else max(1, width)
        for column, wish, width in zip(columns, natural, widest, strict=True)
    ]
    remaining = room - sum(widths) - _PAD_CELLS * len(columns)
    if remaining < 0 or room >= sum(natural) + _PAD_CELLS * len(columns):
        return [None] * len(columns)
    for is_text in (False, True):
        indexes = [index for index, column in enumerate(columns) if column.is_text == is_text]
        while remaining and (
            lacking := [index for index in indexes if widths[index] < natural[index]]
        ):
            for index in lacking[:remaining]:
                widths[index] += 1
            remaining -= len(lacking[:remaining])
    return [*widths]
