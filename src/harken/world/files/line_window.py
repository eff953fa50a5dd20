r"""A window of lines: what a model sees of a text file, numbered, and what it does not see.

The file comes in chunks and is read no further than the window; a line of any length costs no
more memory than what is shown of it. Lines end at `\n` and nowhere else, as in grep and editors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

LINES = 2000
"""Shown where no limit is given."""
CHARACTERS = 60_000
"""Shown at most, whatever the limit."""
LONGEST_LINE = 2000
"""Characters of a line; the rest is left out."""

_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class LineWindow:
    """Numbered lines, and what was noticed of them."""

    first: int
    lines: list[str] = field(default_factory=list)
    shortened: int = 0
    crlf: bool = False
    not_utf8: bool = False
    """Bytes that are no UTF-8 are in it; they are shown as U+FFFD."""
    at_end: bool = False
    """Nothing comes after it."""
    unfinished: bool = False
    """The file's last line has no line end, and is in it."""

    @property
    def last(self) -> int:
        """The number of its last line; one less than `first` where it is empty."""
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        """The lines with their numbers, as `cat -n` writes them."""
        return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(self.lines, self.first))


class _Lines:
    """The lines of a stream of chunks; what was read is passed over, not cut off."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self._chunk = b""
        self._at = 0

    def fill(self) -> bool:
        """Have something to read, if there is anything left."""
        while self._at >= len(self._chunk):
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._chunk, self._at = chunk, 0
        return True

    def skip(self, count: int) -> None:
        """Pass over so many lines."""
        while count > 0 and self.fill():
            ends = self._chunk.count(b"\n", self._at)
            if ends < count:
                count -= ends
                self._at = len(self._chunk)
            else:
                for _ in range(count):
                    self._at = self._chunk.index(b"\n", self._at) + 1
                return

    def next(self, keep: int) -> tuple[bytes, bool]:
        """Return the first bytes of the next line, without its end, and whether it has one."""
        pieces: list[bytes] = []
        while self.fill():
            end = self._chunk.find(b"\n", self._at)
            stop = len(self._chunk) if end < 0 else end
            pieces.append(self._chunk[self._at : min(stop, self._at + keep)])
            keep -= len(pieces[-1])
            self._at = stop + 1
            if end >= 0:
                return b"".join(pieces), True
        return b"".join(pieces), False


def window(chunks: Iterable[bytes], first: int = 1, limit: int = LINES) -> LineWindow:
    """Return at most `limit` lines from line `first` on."""
    shown = LineWindow(first)
    lines = _Lines(chunks)
    lines.skip(first - 1)
    room = CHARACTERS
    while lines.fill() and len(shown.lines) < limit:
        # Four bytes a letter, and two so that a line that is longer shows, also before `\r`.
        raw, ended = lines.next(4 * LONGEST_LINE + 2)
        text = _line(shown, raw, is_first=shown.last == 0)
        room -= len(text) + 8
        if room < 0 and shown.lines:
            return shown
        shown.lines.append(text)
        shown.unfinished = not ended
    shown.at_end = not lines.fill()
    return shown


def _line(shown: LineWindow, raw: bytes, *, is_first: bool) -> str:
    """Return a line as text, and note what is odd in it."""
    if is_first:
        raw = raw.removeprefix(_BOM)
    if raw.endswith(b"\r") and len(raw) <= 4 * LONGEST_LINE:
        shown.crlf, raw = True, raw[:-1]
    text = raw.decode("utf-8", "replace")
    if len(text) > LONGEST_LINE:
        shown.shortened += 1
        text = text[:LONGEST_LINE] + " ..."
    if "\ufffd" in text and b"\xef\xbf\xbd" not in raw:
        shown.not_utf8 = True
    return text


def line_count(data: bytes) -> int:
    r"""Return how many lines a content has; the last one may have no end.

    >>> line_count(b""), line_count(b"a"), line_count(b"a\nb\n")
    (0, 1, 2)
    """
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)
