"""What an import has made and not written yet: written together, the disk is waited for once.

One idea: the bytes of a file wait with what was read from them, piece by piece: a store that keeps
them side by side needs little more room than for one of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from harken.core.commits import ArtifactRef, CommitId, hash_raw
from harken.store.base import ObjectKind, Store, StoredObject
from harken.store.batch import BatchCommit, Contents, batch_from, file_thing
from harken.store.chunking import cut_of
from harken.store.sqlite.store import SqliteStore


class BufferedFile:
    """A file whose bytes are held in memory, in the pieces in which they are kept."""

    def __init__(self, data: bytes) -> None:
        """Take the bytes."""
        pieces = list(cut_of(data))
        self.name = hash_raw(data)
        self.size = len(data)
        names = [self.name] if len(pieces) == 1 else [hash_raw(piece) for piece in pieces]
        self.pieces = [
            StoredObject(ObjectKind.RAW, *one) for one in zip(names, pieces, strict=True)
        ]
        self._data = data
        self._ends = [*accumulate(map(len, pieces))]

    def chunks(self) -> list[bytes]:
        """Return all bytes."""
        return [self._data]

    def piece_at(self, start: int) -> int:
        """Return the number of the piece that a byte is in."""
        return bisect_right(self._ends, start)


def known_of(store: Store, names: Iterable[CommitId]) -> set[CommitId]:
    """Return those of these commits that are in a store."""
    return store.have(names) if isinstance(store, SqliteStore) else {*store.commits(names)}


@dataclass(slots=True)
class WriteBuffer:
    """What is not written yet."""

    contents: Contents = field(default_factory=Contents)
    pins: list[ArtifactRef] = field(default_factory=list)
    size: int = 0
    """In bytes, about."""

    def add(self, things: Sequence[StoredObject], commit: StoredObject, new: BatchCommit) -> None:
        """Take a commit, and what it needs that may be new."""
        taken = self.contents.things
        for thing in things:
            if taken.setdefault(thing.name, thing) is thing:
                self.size += len(thing.body)
        taken[commit.name] = commit
        self.contents.commits.append(new)

    def keep(self, pieces: Sequence[StoredObject]) -> None:
        """Take the bytes of a file, or some of them."""
        for piece in pieces:
            self.contents.things.setdefault(piece.name, piece)
            self.size += len(piece.body)

    def whole(self, name: ArtifactRef, pieces: Sequence[ArtifactRef]) -> None:
        """Take a file, whose pieces were taken."""
        if pieces != [name]:
            self.contents.things.setdefault(name, file_thing(name, pieces))
            self.contents.files[name] = pieces

    def write(self, store: Store) -> None:
        """Write all. Raises StoreError."""
        if not self.contents.things:
            return
        if isinstance(store, SqliteStore):
            store.write_named(self.contents)
        else:
            store.write(batch_from(self.contents))
