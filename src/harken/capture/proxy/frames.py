"""Frames: what a spool file is made of. One for each thing that happened to a call, as it happened.

A frame is a head (little endian: length of its content, CRC-32 of all that follows it, number of
the call, kind) and its content. A file may end within a frame: whoever wrote it was ended.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

import msgspec

Content: TypeAlias = "bytes | CallHead | AnswerHead | CallEnd"
_HEAD = struct.Struct("<IIQB")
_REST = struct.Struct("<QB")
MOST_BYTES = 1 << 26
"""What a longer content says is no frame, but damage."""


class FrameKind(IntEnum):
    """What happened."""

    CALL = 1
    """A request began: `CallHead`."""
    BODY = 2
    """Bytes of its body."""
    ASKED = 3
    """Its body is whole."""
    ANSWER = 4
    """An answer began: `AnswerHead`."""
    DATA = 5
    """Bytes of its body."""
    END = 6
    """No more will come of this call: `CallEnd`."""


class CallHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a request began. Nothing of it is a credential."""

    id: str
    protocol: str
    path: str
    time: str
    headers: dict[str, str] = {}
    """Names in lower case; only those that say whose call it is, and how the body is encoded."""


class AnswerHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an answer began."""

    status: int
    content_type: str = ""
    content_encoding: str = ""


class CallEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a call ended."""

    time: str
    latency_s: float
    first_byte_s: float | None = None
    broken: str = ""
    """Why it is not whole; empty: it is."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One thing that happened to a call."""

    call: int
    """Its number; each is used once in a spool."""
    kind: int
    content: bytes = b""


def encoded(call: int, kind: FrameKind, content: Content = b"") -> bytes:
    """Return the bytes of a frame."""
    data = content if isinstance(content, bytes) else msgspec.json.encode(content)
    crc = zlib.crc32(data, zlib.crc32(_REST.pack(call, kind)))
    return _HEAD.pack(len(data), crc, call, kind) + data


@dataclass(slots=True)
class FrameReader:
    """Takes the bytes of a file as they come, and gives the frames in them."""

    damaged: bool = False
    """Whether bytes came that are no frame. What follows them cannot be read."""
    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that the next bytes complete."""
        self._rest += data
        at, found = 0, []
        while not self.damaged and len(self._rest) - at >= _HEAD.size:
            size, crc, call, kind = _HEAD.unpack_from(self._rest, at)
            end = at + _HEAD.size + size
            if size > MOST_BYTES:
                self.damaged = True
            elif end > len(self._rest):
                break
            else:
                content = bytes(self._rest[at + _HEAD.size : end])
                if zlib.crc32(content, zlib.crc32(_REST.pack(call, kind))) != crc:
                    self.damaged = True
                else:
                    at = end
                    found.append(Frame(call, kind, content))
        del self._rest[:at]
        return found

    @property
    def is_torn(self) -> bool:
        """Whether the bytes so far end within a frame."""
        return bool(self._rest)
