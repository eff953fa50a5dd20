"""Rows: lines as they are cut for a width, made only as far as somebody looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from harken.terminal.styled_text import Line, Span, cells, wrap


class WrappedRows:
    """The rows of a page at one width."""

    def __init__(self, lines: Iterable[Line], width: int) -> None:
        """Cut `lines` to `width` cells. Nothing is made yet."""
        self._made: list[Line] = []
        self._coming = _rows(lines, max(width, 1))

    def get(self, start: int, stop: int) -> Sequence[Line]:
        """Return these rows, fewer where there are not so many."""
        self._made += islice(self._coming, max(stop - len(self._made), 0))
        return self._made[start:stop]

    def all(self) -> int:
        """Make all rows; return how many there are."""
        self._made += self._coming
        return len(self._made)

    def find(self, term: str, start: int = 0) -> int | None:
        """Return the first row from `start` on that holds a text, whatever its case."""
        wanted, at = term.casefold(), start
        while row := self.get(at, at + 1):
            if wanted in "".join(text for _, text in row[0]).casefold():
                return at
            at += 1
        return None


def _rows(lines: Iterable[Line], width: int) -> Iterator[Line]:
    for line in lines:
        first = line[0][1] if line else ""
        indent = min(len(first) - len(first.lstrip(" ")), width // 2)
        yield from wrap(line, width, " " * indent)


def marked(row: Line, term: str) -> Line:
    """Return a row in which each place of a text is reversed, whatever its case.

    >>> marked([("", "One tea")], "TEA")
    [('', 'One '), ('reverse', 'tea')]
    """
    wanted = term.casefold()
    found: Line = []
    for style, text in row:
        folded = text.casefold()
        if not wanted or len(folded) != len(text):  # letters that fold into two: no place is sure
            found.append((style, text))
        else:
            found += _marked(style, text, folded, wanted)
    return found


def _marked(style: str, text: str, folded: str, wanted: str) -> Iterator[Span]:
    at = 0
    while (place := folded.find(wanted, at)) >= 0:
        if place > at:
            yield style, text[at:place]
        at = place + len(wanted)
        yield f"{style} reverse".strip(), text[place:at]
    if at < len(text):
        yield style, text[at:]


def filled(line: Line, width: int, style: str = "") -> Line:
    """Return a line with spaces up to a width."""
    used = sum(cells(text) for _, text in line)
    return [*line, (style, " " * max(width - used, 0))]
