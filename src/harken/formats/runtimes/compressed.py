"""Transcripts that their client compressed with Zstandard, unpacked in bounded memory.

Codex compresses rollouts that rest for a week. The bytes that are kept are those of the compressed
file; what is read are those in it. Input goes to the decoder in slices so small that no slice can
unpack to more than a few megabytes, and a file that unpacks to far more than a transcript would is
refused before any of it is read.

Source: docs/formats/codex.md, "Where and what".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path

import zstandard

from harken.errors import FormatError

MAGIC = b"\x28\xb5\x2f\xfd"
"""How a frame of Zstandard begins."""
MOST_TIMES, SPARE_BYTES, MOST_BYTES = 100, 64 << 20, 1 << 30
"""A file may unpack to so many times its size, to so much in any case, and never to more."""
_MOST_READS = 16
"""A block of a frame unpacks only when it is whole, and may be larger than what is asked for."""
_SLICE_BYTES = 256
"""Four bytes of a frame unpack to 128 KiB at most, so a slice to 8 MiB."""
_WINDOW_BYTES = 128 << 20
"""How much memory a frame may ask for: as the command `zstd` allows."""


def is_compressed(beginning: bytes) -> bool:
    """Whether a file is compressed, by its first bytes."""
    return beginning.startswith(MAGIC)


def beginning_of(path: Path, size_bytes: int) -> bytes:
    """Return the first bytes of a file, unpacked where it is compressed. Raises OSError."""
    with path.open("rb") as file:
        data = file.read(size_bytes)
        if not is_compressed(data):
            return data
        found = bytearray()
        rest = iter(partial(file.read, size_bytes), b"")
        try:
            for piece in _unpacked(chain([data], islice(rest, _MOST_READS))):
                found += piece
                if len(found) >= size_bytes:
                    break
        except (zstandard.ZstdError, EOFError):
            pass  # what stands before the damage
    return bytes(found[:size_bytes])


@dataclass(slots=True)
class Unpacked:
    """The content of a compressed file, which can be read several times."""

    name: str
    """As errors name the file."""
    chunks: Callable[[], Iterable[bytes]]
    """Opens the compressed bytes anew each time."""
    size_bytes: int
    """Of the compressed file."""
    notes: list[str]
    """Gets a line where the file is damaged."""
    _end: int | None = field(default=None, init=False)
    """How many bytes can be read. None: not known yet."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the content, as far as it is not damaged. Raises FormatError if it is too large."""
        if self._end is None:
            self._end = self._measure()
        left = self._end
        for piece in _unpacked(self.chunks()) if left else ():
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    def _measure(self) -> int:
        """Unpack all once; return how many bytes come before any damage. Raises FormatError."""
        most = min(max(MOST_TIMES * self.size_bytes, SPARE_BYTES), MOST_BYTES)
        size = 0
        try:
            for piece in _unpacked(self.chunks()):
                size += len(piece)
                if size > most:
                    reason = f"{self.size_bytes} bytes unpack to more than {most}: it is not read"
                    raise FormatError(self.name, reason)
        except (zstandard.ZstdError, EOFError) as error:
            reason = str(error) or "its end is missing"
            self.notes.append(f"it is damaged, and read up to byte {size} of its content: {reason}")
        return size


def _unpacked(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what is in one or more frames. Raises ZstdError, and EOFError where the end lacks."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    frame = None
    for chunk in chunks:
        for at in range(0, len(chunk), _SLICE_BYTES):
            data = chunk[at : at + _SLICE_BYTES]
            while data:
                frame = frame or unpacker.decompressobj()
                if piece := frame.decompress(data):
                    yield piece
                data = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError
