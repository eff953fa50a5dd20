"""Encode and decode the frames of a spool file: one frame for each event of a call.

A frame is a header (little endian: length of the content, CRC-32 of all that follows it, number of
the call, kind) and its content. A file may end within a frame if the writing process was killed.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import TypeAlias

import msgspec

Content: TypeAlias = "bytes | CallHead | AnswerHead | CallEnd"
_HEADER = struct.Struct("<IIQB")
_CHECKED_FIELDS = struct.Struct("<QB")
MAX_CONTENT_BYTES = 1 << 26
"""A frame with a longer content is treated as damage."""


class FrameKind(IntEnum):
    """The kind of an event of a call."""

    CALL = 1
    """The start of a request: `CallHead`."""
    BODY = 2
    """Bytes of the request body."""
    ASKED = 3
    """The request body is complete."""
    ANSWER = 4
    """The start of a response: `AnswerHead`."""
    DATA = 5
    """Bytes of the response body."""
    END = 6
    """The end of the call: `CallEnd`."""


class CallHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The start of a request, without credentials."""

    id: str
    protocol: str
    path: str
    time: str
    headers: dict[str, str] = {}
    """The headers that identify the client, and the encoding of the body. Names in lower case."""


class AnswerHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The start of a response."""

    status: int
    content_type: str = ""
    content_encoding: str = ""


class CallEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a call."""

    time: str
    latency_s: float
    first_byte_s: float | None = None
    broken: str = ""
    """Why the call is incomplete. Empty if it is complete."""


class Frame(msgspec.Struct, frozen=True):
    """One event of a call."""

    call: int
    """The number of the call, unique in a spool."""
    kind: int
    content: bytes = b""


def encode_frame(call: int, kind: FrameKind, content: Content = b"") -> bytes:
    """Return the bytes of a frame."""
    data = content if isinstance(content, bytes) else msgspec.json.encode(content)
    crc = zlib.crc32(data, zlib.crc32(_CHECKED_FIELDS.pack(call, kind)))
    return _HEADER.pack(len(data), crc, call, kind) + data


class FrameReader(msgspec.Struct):
    """Decode frames from the bytes of a file as they arrive."""

    damaged: bool = False
    """Whether an invalid frame was found. The bytes after it cannot be read."""
    _buffered: bytearray = msgspec.field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[Frame]:
        """Add bytes. Return the frames that they complete."""
        self._buffered += data
        offset, frames = 0, []
        while not self.damaged and len(self._buffered) - offset >= _HEADER.size:
            size, crc, call, kind = _HEADER.unpack_from(self._buffered, offset)
            end = offset + _HEADER.size + size
            if size > MAX_CONTENT_BYTES:
                self.damaged = True
            elif end > len(self._buffered):
                break
            else:
                content = bytes(self._buffered[offset + _HEADER.size : end])
                if zlib.crc32(content, zlib.crc32(_CHECKED_FIELDS.pack(call, kind))) != crc:
                    self.damaged = True
                else:
                    offset = end
                    frames.append(Frame(call, kind, content))
        del self._buffered[:offset]
        return frames
