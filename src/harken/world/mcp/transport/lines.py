"""Lines: what a program writes, cut into lines of which none is too long to be held.

JSON takes a hundred times its bytes where it is made of small pieces. So a message that is not too
long may yet be too much, see `is_too_much`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import islice

MAX_LINE_BYTES = 32 << 20
MAX_PIECES = 200_000
"""Texts, brackets and commas, of which the JSON of a message is made."""
_PIECE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{\[,]', re.DOTALL)
_CHUNK_BYTES = 1 << 18
_END_BYTES = 512


@dataclass(frozen=True, slots=True)
class MessageLine:
    """One line, without its end."""

    data: bytes
    """All of it; of one that is too long its beginning and its end."""
    is_too_long: bool = False


@dataclass(slots=True)
class _Begun:
    """The line that has not ended yet."""

    most: int
    data: bytearray = field(default_factory=bytearray)
    end: bytes = b""
    is_too_long: bool = False

    def add(self, piece: bytes) -> None:
        if not self.is_too_long and len(self.data) + len(piece) <= self.most:
            self.data += piece
            return
        room = max(0, _END_BYTES - len(self.data))
        self.end = ((self.end or bytes(self.data[_END_BYTES:])) + piece[room:])[-_END_BYTES:]
        self.data = self.data[:_END_BYTES] + piece[:room]
        self.is_too_long = True

    def line(self) -> MessageLine:
        return MessageLine(bytes(self.data) + self.end, self.is_too_long)


def is_too_much(data: bytes) -> bool:
    """Whether JSON is made of more pieces than can be held.

    >>> is_too_much(b"[" + 200_000 * b"1," + b"1]"), is_too_much(b'["' + 200_000 * b"1," + b'"]')
    (True, False)
    """
    if sum(map(data.count, (b'"', b"{", b"[", b","))) <= MAX_PIECES:
        return False
    return next(islice(_PIECE.finditer(data), MAX_PIECES, None), None) is not None


async def lines(
    stream: asyncio.StreamReader, most: int = MAX_LINE_BYTES
) -> AsyncIterator[MessageLine]:
    """Yield the lines of a stream; what stands after the last end of a line is no line."""
    begun = _Begun(most)
    while chunk := await stream.read(_CHUNK_BYTES):
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            begun.add(piece)
            yield begun.line()
            begun = _Begun(most)
        begun.add(rest)
        if len(chunk) == _CHUNK_BYTES:
            await asyncio.sleep(0)  # one that never stops leaves time for others
