"""Decompression of Zstandard-compressed transcripts in bounded memory.

Codex compresses rollouts that were not used for a week. The stored bytes are those of the
compressed file; the reader gets the decompressed ones. Input goes to the decoder in slices so small
that no slice can expand to more than a few megabytes, and a file that expands to far more than a
transcript would is refused before any of it is read.

Source: docs/formats/codex.md, "Files and records".
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
"""The first bytes of a Zstandard frame."""
MAX_EXPANSION_FACTOR, SPARE_BYTES, MAX_CONTENT_BYTES = 100, 64 << 20, 1 << 30
"""Limits of the decompressed size: a multiple of the file's size, a minimum, and a maximum."""
_MAX_READS = 16
"""A block is decompressed only when it is complete, and may be larger than the requested size."""
_SLICE_BYTES = 256
"""Four bytes of a frame expand to 128 KiB at most, so a slice to 8 MiB."""
_WINDOW_BYTES = 128 << 20
"""The maximum memory of a frame: the default of the command `zstd`."""


def is_compressed(beginning: bytes) -> bool:
    """Whether a file is compressed, by its first bytes."""
    return beginning.startswith(MAGIC)


def read_beginning(path: Path, size_bytes: int) -> bytes:
    """Return the first bytes of a file, decompressed if necessary. Raises OSError."""
    with path.open("rb") as file:
        data = file.read(size_bytes)
        if not is_compressed(data):
            return data
        content = bytearray()
        remaining_reads = iter(partial(file.read, size_bytes), b"")
        try:
            for piece in _decompress(chain([data], islice(remaining_reads, _MAX_READS))):
                content += piece
                if len(content) >= size_bytes:
                    break
        except (zstandard.ZstdError, EOFError):
            pass  # The bytes before the damage are returned.
    return bytes(content[:size_bytes])


@dataclass(slots=True)
class DecompressedFile:
    """The decompressed content of a file, which can be read several times."""

    name: str
    """The file's name in errors."""
    chunks: Callable[[], Iterable[bytes]]
    """Opens the compressed bytes anew with each call."""
    size_bytes: int
    """The size of the compressed file."""
    notes: list[str]
    """Receives a line if the file is damaged."""
    _readable_bytes: int | None = field(default=None, init=False)
    """The number of readable bytes. None if not known yet."""

    def pieces(self) -> Iterator[bytes]:
        """Yield the content up to any damage. Raises FormatError if it is too large."""
        if self._readable_bytes is None:
            self._readable_bytes = self._measure()
        remaining = self._readable_bytes
        for piece in _decompress(self.chunks()) if remaining else ():
            yield piece[:remaining]
            remaining -= len(piece)
            if remaining <= 0:
                return

    def _measure(self) -> int:
        """Return the number of bytes before any damage. Raises FormatError if it is too large."""
        limit = min(max(MAX_EXPANSION_FACTOR * self.size_bytes, SPARE_BYTES), MAX_CONTENT_BYTES)
        size = 0
        try:
            for piece in _decompress(self.chunks()):
                size += len(piece)
                if size > limit:
                    reason = f"{self.size_bytes} bytes unpack to more than {limit}: it is not read"
                    raise FormatError(self.name, reason)
        except (zstandard.ZstdError, EOFError) as error:
            reason = str(error) or "its end is missing"
            self.notes.append(f"it is damaged, and read up to byte {size} of its content: {reason}")
        return size


def _decompress(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress one or more frames. Raises ZstdError, and EOFError for an incomplete frame."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    frame = None
    for chunk in chunks:
        for offset in range(0, len(chunk), _SLICE_BYTES):
            data = chunk[offset : offset + _SLICE_BYTES]
            while data:
                frame = frame or unpacker.decompressobj()
                if piece := frame.decompress(data):
                    yield piece
                data = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError
