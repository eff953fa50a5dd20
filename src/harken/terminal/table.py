"""A sheet of figures in a terminal: headings, lines and tables, as wide as it is.

Nothing that is told is taken for markup, and no letter of it reaches the terminal as a command.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harken.terminal.sparkline import PLAIN, Sparkline, strokes_for
from harken.terminal.text import one_line

NARROW = 60
"""With fewer cells a table leaves out what is not needed most."""
WIDEST = 120
"""What is wider is hard to read."""
LEAST = 8
"""So many cells a text keeps, if it has them, where others want to be whole."""
_PAD = 2
"""So many cells stand after each column."""


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of a table."""

    head: str
    is_text: bool = False
    """On the left, and cut where there is no room; else it is a number, and whole."""
    from_width: int = 0
    """In a narrower terminal it is left out."""
    style: str = ""


class Sheet:
    """Writes to a stream; None: standard output. Colours where it is a terminal that has them."""

    def __init__(self, stream: TextIO | None = None, width: int | None = None) -> None:
        """Use this width in cells; None: that of the terminal."""
        stream = stream or sys.stdout
        self._console = Console(
            file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False
        )
        self._console.width = self.width = min(self._console.width, WIDEST)
        self.strokes: Sparkline = strokes_for(getattr(stream, "encoding", None))

    def heading(self, text: str, note: str = "") -> None:
        """Begin a section."""
        self._console.print()
        after = f"  {note}" if note else ""
        self.line((one_line(text, self.width), "bold cyan"), (after, "dim"), indent=0)

    def line(self, *spans: str | tuple[str, str], indent: int = 2) -> None:
        """Print texts after each other, some with a style; they are broken between words."""
        line = Text(overflow="fold")
        for span in spans:
            text, style = (span, "") if isinstance(span, str) else span
            line.append(self._shown(text), style)
        for one in line.wrap(self._console, self.width - indent):
            self._console.print(Text(" " * indent) + one, no_wrap=True, overflow="ellipsis")

    def table(self, columns: Sequence[TextColumn], rows: Iterable[Sequence[str]]) -> None:
        """Print a table; a row has a text for each column."""
        shown = [at for at, one in enumerate(columns) if self.width >= one.from_width]
        table = Table(box=None, pad_edge=False, padding=(0, _PAD, 0, 0), header_style="dim")
        table.add_column("", width=0)
        cells = [[self._shown(row[at]) for at in shown] for row in rows]
        kept = [columns[at] for at in shown]
        for column, width in zip(kept, _widths(kept, cells, self.width - _PAD), strict=True):
            table.add_column(
                column.head,
                justify="left" if column.is_text else "right",
                no_wrap=not column.is_text,
                style=column.style,
                width=width,
            )
        for row in cells:
            table.add_row("", *(Text(one, no_wrap=True, overflow="ellipsis") for one in row))
        self._console.print(table)

    def _shown(self, text: str) -> str:
        """Return a text as this terminal can show it; spaces stay."""
        safe = text if text.isprintable() else one_line(text, len(text) * 6)
        encoding = self._console.encoding
        if self.strokes is PLAIN:
            safe = safe.replace("≥", ">=").replace("…", "~")
        return safe.encode(encoding, "backslashreplace").decode(encoding)


def _widths(
    columns: Sequence[TextColumn], cells: Sequence[Sequence[str]], room: int
) -> list[int | None]:
    """Return how wide columns are: where there is no room for all, heads and texts are cut.

    Numbers stay whole, texts keep `LEAST`; what is left over, heads of numbers share, then texts.
    None: as wide as it likes to be.
    """
    heads = [cell_len(column.head) for column in columns]
    widest = [max(map(cell_len, own), default=0) for own in zip(*cells, strict=True)]
    widest = widest or [0] * len(columns)
    wanted = [max(pair) for pair in zip(heads, widest, strict=True)]
    least = [
        min(LEAST, wish) if column.is_text else max(1, width)
        for column, wish, width in zip(columns, wanted, widest, strict=True)
    ]
    left = room - sum(least) - _PAD * len(columns)
    if left < 0 or room >= sum(wanted) + _PAD * len(columns):
        return [None] * len(columns)
    for is_text in (False, True):
        own = [at for at, column in enumerate(columns) if column.is_text == is_text]
        while left and (lacking := [at for at in own if least[at] < wanted[at]]):
            for at in lacking[:left]:
                least[at] += 1
            left -= len(lacking[:left])
    return [*least]
