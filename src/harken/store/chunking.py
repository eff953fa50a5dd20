"""Content-defined chunking of files: raw bytes of any size, split into chunks.

The name of a file is the hash of all its bytes, so it does not depend on how they were split.
Chunk boundaries depend on the content, not on the position: a boundary is at the end of a line,
and the checksum of that line decides whether it is one. So a file that grew, or that had text
inserted, shares all other chunks with its earlier version.

This needs one checksum per line, where a rolling hash would need one at every byte. Binary data
has line ends too, by chance; without them, chunks have equal size, and only the beginning is
shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO
from zlib import crc32

from blake3 import blake3

from harken.core import canonical
from harken.core.commits import ArtifactRef, hash_raw
from harken.errors import ObjectCorrupted
from harken.store.base import Store, WriteBatch

MIN_CHUNK_BYTES = 64 * 1024
MEAN_CHUNK_BYTES = 256 * 1024
MAX_CHUNK_BYTES = 1024 * 1024
WRITE_BYTES = 4 * 1024 * 1024
"""The size of one write, and the bound on memory, whatever the size of the file."""
_READ_BYTES = 256 * 1024
_PER_BYTE = (1 << 32) // (MEAN_CHUNK_BYTES - MIN_CHUNK_BYTES)


def put_file(
    store: Store,
    source: BinaryIO | Iterable[bytes],
    note_chunk: Callable[[ArtifactRef, int], None] = lambda _name, _size: None,
) -> ArtifactRef:
    """Write raw bytes in batches of a few megabytes and return the name of all of them.

    `note_chunk` is called with the name and the size of each chunk.

    If interrupted, it leaves chunks that `collect` removes. Raises as `Store.write`, and any error
    of reading the source.
    """
    hasher = blake3(canonical.RAW_DOMAIN)
    names: list[ArtifactRef] = []
    waiting: dict[ArtifactRef, bytes] = {}
    size_bytes = 0
    for piece in split_chunks(_iter_source(source)):
        hasher.update(piece)
        names.append(hash_raw(piece))
        waiting[names[-1]] = piece
        note_chunk(names[-1], len(piece))
        size_bytes += len(piece)
        if size_bytes >= WRITE_BYTES:
            store.write(WriteBatch(raw=waiting))
            waiting, size_bytes = {}, 0
    name = ArtifactRef(f"art-{hasher.hexdigest()}")
    store.write(WriteBatch(raw=waiting, files={} if names == [name] else {name: names}))
    return name


def split_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in chunks that depend on the bytes alone.

    Empty input yields one empty chunk.

    >>> list(split_chunks([b"a", b"b"]))
    [b'ab']
    """
    buffer = bytearray()
    is_first = True
    for chunk in chunks:
        buffer += chunk
        start = 0
        while len(buffer) - start > MAX_CHUNK_BYTES:
            end = _find_boundary(buffer, start)
            yield bytes(buffer[start:end])
            start, is_first = end, False
        del buffer[:start]
    yield from iter_chunks(bytes(buffer), is_first=is_first)


def iter_chunks(data: bytes, *, is_first: bool = True) -> Iterator[bytes]:
    """Split bytes in memory into chunks. With `is_first`, empty data yields one empty chunk."""
    start = 0
    while start < len(data) or is_first:
        end = _find_boundary(data, start)
        yield data[start:end]
        start, is_first = end, False


def _find_boundary(data: bytes | bytearray, start: int) -> int:
    """Return the end of the chunk that starts at `start`: after a line, or at the maximum size.

    The chance of a line to be the last one of its chunk is proportional to its length.
    """
    limit = min(len(data), start + MAX_CHUNK_BYTES)
    line_start = data.find(b"\n", start + MIN_CHUNK_BYTES, limit) + 1
    with memoryview(data) as view:
        while line_start:
            end = data.find(b"\n", line_start, limit) + 1
            if end and crc32(view[line_start:end]) < (end - line_start) * _PER_BYTE:
                return end
            line_start = end
    return limit


def verify_chunks(store: str, name: ArtifactRef, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield chunks unchanged.

    After the last, raise ObjectCorrupted if they do not match the file's name.
    """
    hasher = blake3(canonical.RAW_DOMAIN)
    for piece in pieces:
        hasher.update(piece)
        yield piece
    if (computed := f"art-{hasher.hexdigest()}") != name:
        raise ObjectCorrupted(store, name, reason=f"its pieces together have the name {computed}")


def _iter_source(source: BinaryIO | Iterable[bytes]) -> Iterator[bytes]:
    if not hasattr(source, "read"):
        yield from source
        return
    while chunk := source.read(_READ_BYTES):
        yield chunk
