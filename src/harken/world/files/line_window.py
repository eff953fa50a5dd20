r"""A window of lines: the numbered part of a text file that a model reads.

The file is read in chunks, no further than the window. A line of any length costs no more memory
than the part that is shown. Lines end at `\n` only, as in grep and editors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

DEFAULT_LINES = 2000
"""The default limit of lines."""
MAX_WINDOW_CHARS = 60_000
"""The maximum size of a window, whatever the limit."""
MAX_LINE_CHARS = 2000
"""The maximum number of characters of a line that are shown."""

_BOM = b"\xef\xbb\xbf"


class LineWindow(msgspec.Struct):
    """Numbered lines, and properties of their text."""

    first: int
    lines: list[str] = msgspec.field(default_factory=list)
    shortened: int = 0
    crlf: bool = False
    not_utf8: bool = False
    """Whether it contains invalid UTF-8, which is shown as U+FFFD."""
    at_end: bool = False
    """Whether it reaches the end of the file."""
    unfinished: bool = False
    """Whether it contains the last line of the file, without a line end."""

    @property
    def last(self) -> int:
        """The number of its last line; one less than `first` where it is empty."""
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        """The lines with their numbers, as `cat -n` writes them."""
        return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(self.lines, self.first))


class _LineReader:
    """A line reader for a stream of chunks, which skips bytes instead of copying them."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self._chunk = b""
        self._offset = 0

    def fill(self) -> bool:
        """Load the next chunk if needed. Return False at the end."""
        while self._offset >= len(self._chunk):
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._chunk, self._offset = chunk, 0
        return True

    def skip(self, count: int) -> None:
        """Skip a number of lines."""
        while count > 0 and self.fill():
            ends = self._chunk.count(b"\n", self._offset)
            if ends < count:
                count -= ends
                self._offset = len(self._chunk)
            else:
                for _ in range(count):
                    self._offset = self._chunk.index(b"\n", self._offset) + 1
                return

    def next(self, keep: int) -> tuple[bytes, bool]:
        """Return the first bytes of the next line, without its end, and whether it has one."""
        pieces: list[bytes] = []
        while self.fill():
            end = self._chunk.find(b"\n", self._offset)
            stop = len(self._chunk) if end < 0 else end
            pieces.append(self._chunk[self._offset : min(stop, self._offset + keep)])
            keep -= len(pieces[-1])
            self._offset = stop + 1
            if end >= 0:
                return b"".join(pieces), True
        return b"".join(pieces), False


def read_window(chunks: Iterable[bytes], first: int = 1, limit: int = DEFAULT_LINES) -> LineWindow:
    """Return at most `limit` lines from line `first` on."""
    line_window = LineWindow(first)
    reader = _LineReader(chunks)
    reader.skip(first - 1)
    remaining_chars = MAX_WINDOW_CHARS
    while reader.fill() and len(line_window.lines) < limit:
        # Four bytes per character, and two more to detect a longer line, also before `\r`.
        raw, has_end = reader.next(4 * MAX_LINE_CHARS + 2)
        text = _decode_line(line_window, raw, is_first=line_window.last == 0)
        remaining_chars -= len(text) + 8
        if remaining_chars < 0 and line_window.lines:
            return line_window
        line_window.lines.append(text)
        line_window.unfinished = not has_end
    line_window.at_end = not reader.fill()
    return line_window


def _decode_line(line_window: LineWindow, raw: bytes, *, is_first: bool) -> str:
    """Decode a line, and record its peculiarities in the window."""
    if is_first:
        raw = raw.removeprefix(_BOM)
    if raw.endswith(b"\r") and len(raw) <= 4 * MAX_LINE_CHARS:
        line_window.crlf, raw = True, raw[:-1]
    text = raw.decode("utf-8", "replace")
    if len(text) > MAX_LINE_CHARS:
        line_window.shortened += 1
        text = text[:MAX_LINE_CHARS] + " ..."
    if "\ufffd" in text and b"\xef\xbf\xbd" not in raw:
        line_window.not_utf8 = True
    return text


def line_count(data: bytes) -> int:
    r"""Return how many lines a content has; the last one may have no end.

    >>> line_count(b""), line_count(b"a"), line_count(b"a\nb\n")
    (0, 1, 2)
    """
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)
