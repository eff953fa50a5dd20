"""Raw bytes of any size: `RawFiles` reads them from a store, `VerifiedFiles` verifies new ones.

The name of a file is the hash of all its bytes. A hash can be continued, so the hash of all chunks
except the last is remembered for the latest files. A file that grew begins with the same chunks:
these were verified, and their content cannot change, since their names are hashes too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from blake3 import blake3

from harken.core import canonical
from harken.core.commits import ArtifactRef
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import ObjectKind
from harken.store.batch import BatchContents, parse_file
from harken.store.chunking import verify_chunks

MAX_FILES = 64


class VerifiedFiles:
    """The latest files that were verified, by their first chunk. Threads may share it."""

    def __init__(self) -> None:
        """Begin without files."""
        self._lock = threading.Lock()
        self._files: dict[ArtifactRef, tuple[tuple[ArtifactRef, ...], blake3]] = {}
        """Chunks without the last one, and their hash, the file that was used last at the end."""

    def verify(
        self,
        store: str,
        name: ArtifactRef,
        pieces: Sequence[ArtifactRef],
        read_piece: Callable[[ArtifactRef], bytes],
    ) -> None:
        """Raise ObjectCorrupted if these chunks together do not have this name.

        The chunks of an earlier version are not read, so the caller checks that they exist.
        """
        hasher, start = self._find_hash(pieces)
        for piece in pieces[start:-1]:
            hasher.update(read_piece(piece))
        if len(pieces) > 1:
            self._remember(tuple(pieces[:-1]), hasher.copy())
        for piece in pieces[-1:]:
            hasher.update(read_piece(piece))
        computed = f"art-{hasher.hexdigest()}"
        if computed != name:
            reason = f"its pieces together have the name {computed}"
            raise ObjectCorrupted(store, name, reason=reason)

    def _find_hash(self, pieces: Sequence[ArtifactRef]) -> tuple[blake3, int]:
        """Return the hash of a known beginning without the last chunk, and its number of chunks."""
        with self._lock:
            for first in pieces[:1]:
                earlier, hasher = self._files.get(first, ((), blake3()))
                if earlier and earlier == tuple(pieces[:-1][: len(earlier)]):
                    return hasher.copy(), len(earlier)
        return blake3(canonical.RAW_DOMAIN), 0

    def _remember(self, pieces: tuple[ArtifactRef, ...], hasher: blake3) -> None:
        with self._lock:
            self._files.pop(pieces[0], None)
            self._files[pieces[0]] = pieces, hasher
            if len(self._files) > MAX_FILES:
                del self._files[next(iter(self._files))]


class BodyReader(Protocol):
    """Reads the existing objects of names and kinds."""

    def __call__(
        self, names: Sequence[str], *kinds: ObjectKind
    ) -> dict[str, tuple[ObjectKind, bytes]]:
        """Return the objects that exist. Raises StoreError."""
        ...


class RawFiles:
    """The raw artifacts of a store at `path`: single chunks, and files of several."""

    def __init__(self, path: str | Path, read_bodies: BodyReader) -> None:
        """Read objects with this function."""
        self._path, self._read_bodies = path, read_bodies
        self._verified_files = VerifiedFiles()

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        """Yield raw bytes in chunks. As `Store.read_chunks`."""
        kind, body = self._get_body(name)
        if kind is ObjectKind.RAW:
            return iter([body])
        file = parse_file(body)  # The file may be a stand-in with another name.
        pieces = (self._read_piece(name, piece) for piece in file.pieces)
        return verify_chunks(str(self._path), file.name, pieces)

    def chunk_names(self, name: ArtifactRef) -> list[ArtifactRef]:
        """Return the chunks of a file. As `Store.chunk_names`."""
        kind, body = self._get_body(name)
        return [name] if kind is ObjectKind.RAW else parse_file(body).pieces

    def check(self, contents: BatchContents) -> None:
        """Raise if a new file does not match its name, or one of its chunks is missing."""
        existing = self._read_bodies([*contents.files], ObjectKind.RAW, ObjectKind.FILE)
        new_raw = {n: o.body for n, o in contents.objects.items() if o.kind is ObjectKind.RAW}

        def read_piece(file: ArtifactRef, piece: ArtifactRef) -> bytes:
            return new_raw[piece] if piece in new_raw else self._read_piece(file, piece)

        for name, pieces in contents.files.items():
            if name not in existing:
                self._verified_files.verify(
                    str(self._path), name, pieces, partial(read_piece, name)
                )

    def _get_body(self, name: ArtifactRef) -> tuple[ObjectKind, bytes]:
        for body in self._read_bodies([name], ObjectKind.RAW, ObjectKind.FILE).values():
            return body
        raise ObjectNotFound(self._path, name)

    def _read_piece(self, file: ArtifactRef, piece: ArtifactRef) -> bytes:
        for _, body in self._read_bodies([piece], ObjectKind.RAW).values():
            return body
        raise ObjectNotFound(self._path, piece, needed_by=file)
