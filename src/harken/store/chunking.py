"""Files: raw bytes that are too large for one piece, however large they are.

One idea: a file's name is that of all its bytes, so it says nothing of how they were cut. Where
they are cut is up to the bytes, not to their position: at ends of lines, of which the line before
decides which. So a file that grew, or that has something inserted, shares all other pieces with
what it was.

That needs a sum of each line and no more, where a rolling hash would need one at every byte. Bytes
that are no text have line ends too, by chance; where there are none, pieces are of equal size, and
what is shared is the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO
from zlib import crc32

from blake3 import blake3

from harken.core import canonical
from harken.core.commits import ArtifactRef, hash_raw
from harken.errors import ObjectCorrupted
from harken.store.base import Store, WriteBatch

LEAST_BYTES = 64 * 1024
MEAN_BYTES = 256 * 1024
MOST_BYTES = 1024 * 1024
AT_ONCE_BYTES = 4 * 1024 * 1024
"""So much is written at once, and so much memory taken, whatever the size of the file."""
_READ_BYTES = 256 * 1024
_PER_BYTE = (1 << 32) // (MEAN_BYTES - LEAST_BYTES)


def put_file(store: Store, source: BinaryIO | Iterable[bytes]) -> ArtifactRef:
    """Write raw bytes, a few megabytes at once; return the name of all of them.

    Cut off in between, it leaves pieces that `collect` takes. Raises as `Store.write`, and what
    reading the source raises.
    """
    hasher = blake3(canonical.RAW)
    names: list[ArtifactRef] = []
    waiting: dict[ArtifactRef, bytes] = {}
    size_bytes = 0
    for piece in split_chunks(_chunks(source)):
        hasher.update(piece)
        names.append(hash_raw(piece))
        waiting[names[-1]] = piece
        size_bytes += len(piece)
        if size_bytes >= AT_ONCE_BYTES:
            store.write(WriteBatch(raw=waiting))
            waiting, size_bytes = {}, 0
    name = ArtifactRef(f"art-{hasher.hexdigest()}")
    store.write(WriteBatch(raw=waiting, files={} if names == [name] else {name: names}))
    return name


def split_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces, which follow from the bytes alone; of none, one empty piece.

    >>> list(split_chunks([b"a", b"b"]))
    [b'ab']
    """
    waiting = bytearray()
    is_first = True
    for chunk in chunks:
        waiting += chunk
        start = 0
        while len(waiting) - start > MOST_BYTES:
            end = _end(waiting, start)
            yield bytes(waiting[start:end])
            start, is_first = end, False
        del waiting[:start]
    yield from cut_of(bytes(waiting), is_first=is_first)


def cut_of(data: bytes, *, is_first: bool = True) -> Iterator[bytes]:
    """Yield bytes that are held in memory in pieces; `is_first`: also where there are none."""
    start = 0
    while start < len(data) or is_first:
        end = _end(data, start)
        yield data[start:end]
        start, is_first = end, False


def _end(data: bytes | bytearray, start: int) -> int:
    """Return where the piece ends that begins here: after a line, or where it gets too large.

    A line's chance to be the last one of its piece grows with its length.
    """
    last = min(len(data), start + MOST_BYTES)
    at = data.find(b"\n", start + LEAST_BYTES, last) + 1
    with memoryview(data) as whole:
        while at:
            end = data.find(b"\n", at, last) + 1
            if end and crc32(whole[at:end]) < (end - at) * _PER_BYTE:
                return end
            at = end
    return last


def checked(store: str, name: ArtifactRef, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces as they come; after the last, raise ObjectCorrupted if all are not that file."""
    hasher = blake3(canonical.RAW)
    for piece in pieces:
        hasher.update(piece)
        yield piece
    if (found := f"art-{hasher.hexdigest()}") != name:
        raise ObjectCorrupted(store, name, reason=f"its pieces together have the name {found}")


def _chunks(source: BinaryIO | Iterable[bytes]) -> Iterator[bytes]:
    if not hasattr(source, "read"):
        yield from source
        return
    while chunk := source.read(_READ_BYTES):
        yield chunk
