"""Split the output of a program into lines, with a limit on their length.

Parsed JSON of many small pieces needs a hundred times its bytes. So a short message may still be
too large, see `is_too_much`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from itertools import islice

import msgspec

MAX_LINE_BYTES = 32 << 20
MAX_PIECES = 200_000
"""The maximum number of strings, brackets and commas in a JSON message."""
_PIECE_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{\[,]', re.DOTALL)
_CHUNK_BYTES = 1 << 18
_END_BYTES = 512


class MessageLine(msgspec.Struct, frozen=True):
    """One line, without its end."""

    data: bytes
    """Its bytes; for a line that is too long, its beginning and end."""
    is_too_long: bool = False


class _PartialLine(msgspec.Struct):
    """The line that is not complete yet."""

    max_bytes: int
    data: bytearray = msgspec.field(default_factory=bytearray)
    end: bytes = b""
    is_too_long: bool = False

    def add(self, piece: bytes) -> None:
        if not self.is_too_long and len(self.data) + len(piece) <= self.max_bytes:
            self.data += piece
            return
        room = max(0, _END_BYTES - len(self.data))
        self.end = ((self.end or bytes(self.data[_END_BYTES:])) + piece[room:])[-_END_BYTES:]
        self.data = self.data[:_END_BYTES] + piece[:room]
        self.is_too_long = True

    def line(self) -> MessageLine:
        return MessageLine(bytes(self.data) + self.end, self.is_too_long)


def is_too_much(data: bytes) -> bool:
    """Whether JSON has more pieces than the limit.

    >>> is_too_much(b"[" + 200_000 * b"1," + b"1]"), is_too_much(b'["' + 200_000 * b"1," + b'"]')
    (True, False)
    """
    if sum(map(data.count, (b'"', b"{", b"[", b","))) <= MAX_PIECES:
        return False
    return next(islice(_PIECE_PATTERN.finditer(data), MAX_PIECES, None), None) is not None


async def lines(
    stream: asyncio.StreamReader, most: int = MAX_LINE_BYTES
) -> AsyncIterator[MessageLine]:
    """Yield the lines of a stream; an incomplete last line is dropped."""
    partial = _PartialLine(most)
    while chunk := await stream.read(_CHUNK_BYTES):
        *complete, remaining = chunk.split(b"\n")
        for piece in complete:
            partial.add(piece)
            yield partial.line()
            partial = _PartialLine(most)
        partial.add(remaining)
        if len(chunk) == _CHUNK_BYTES:
            await asyncio.sleep(0)  # Other tasks get time if it writes without end.
