"""Lines wrapped to a width, on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from harken.terminal.styled_text import Line, Span, cell_width, wrap


class WrappedRows:
    """The rows of a page at one width."""

    def __init__(self, lines: Iterable[Line], width: int) -> None:
        """Wrap `lines` to `width` cells, on demand."""
        self._made: list[Line] = []
        self._coming = _rows(lines, max(width, 1))

    def get(self, start: int, stop: int) -> Sequence[Line]:
        """Return these rows, or fewer at the end."""
        self._made += islice(self._coming, max(stop - len(self._made), 0))
        return self._made[start:stop]

    def all(self) -> int:
        """Wrap all lines; return the number of rows."""
        self._made += self._coming
        return len(self._made)

    def find(self, term: str, start: int = 0) -> int | None:
        """Return the first row from `start` on that contains a text, ignoring case."""
        folded_term, row_index = term.casefold(), start
        while row := self.get(row_index, row_index + 1):
            if folded_term in "".join(text for _, text in row[0]).casefold():
                return row_index
            row_index += 1
        return None


def _rows(lines: Iterable[Line], width: int) -> Iterator[Line]:
    for line in lines:
        first = line[0][1] if line else ""
        indent = min(len(first) - len(first.lstrip(" ")), width // 2)
        yield from wrap(line, width, " " * indent)


def highlight(row: Line, term: str) -> Line:
    """Return a row in which each occurrence of a text is reversed, ignoring case.

    >>> highlight([("", "One tea")], "TEA")
    [('', 'One '), ('reverse', 'tea')]
    """
    folded_term = term.casefold()
    spans: Line = []
    for style, text in row:
        folded_text = text.casefold()
        if not folded_term or len(folded_text) != len(
            text
        ):  # Case folding changed the length, so positions are unknown.
            spans.append((style, text))
        else:
            spans += _highlight_span(style, text, folded_text, folded_term)
    return spans


def _highlight_span(style: str, text: str, folded_text: str, folded_term: str) -> Iterator[Span]:
    position = 0
    while (place := folded_text.find(folded_term, position)) >= 0:
        if place > position:
            yield style, text[position:place]
        position = place + len(folded_term)
        yield f"{style} reverse".strip(), text[place:position]
    if position < len(text):
        yield style, text[position:]


def pad_line(line: Line, width: int, style: str = "") -> Line:
    """Return a line padded with spaces to a width."""
    width_used = sum(cell_width(text) for _, text in line)
    return [*line, (style, " " * max(width - width_used, 0))]
