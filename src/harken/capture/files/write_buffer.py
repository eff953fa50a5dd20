"""`WriteBuffer`: buffer the objects of an import and write them together, with one sync.

The bytes of a file are buffered chunk by chunk next to what was parsed from them. A store that
packs neighboring objects together then needs little more space than for one of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import msgspec

from harken.core.commits import ArtifactRef, HeadName, hash_raw
from harken.store.base import ObjectKind, Store, StoredObject
from harken.store.batch import BatchCommit, BatchContents, build_file_object
from harken.store.capabilities import write_contents
from harken.store.chunking import iter_chunks
from harken.store.imported_files import FileRecord, encode_record, name_head


class BufferedFile:
    """A file in memory, split into the chunks in which it is stored."""

    def __init__(self, data: bytes) -> None:
        """Split the bytes."""
        pieces = list(iter_chunks(data))
        self.name = hash_raw(data)
        self.size = len(data)
        names = [self.name] if len(pieces) == 1 else [hash_raw(piece) for piece in pieces]
        self.pieces = [
            StoredObject(ObjectKind.RAW, *named_piece)
            for named_piece in zip(names, pieces, strict=True)
        ]
        self._data = data
        self._ends = [*accumulate(map(len, pieces))]

    def chunks(self) -> list[bytes]:
        """Return all bytes."""
        return [self._data]

    def piece_at(self, start: int) -> int:
        """Return the index of the chunk that contains a byte offset."""
        return bisect_right(self._ends, start)


class WriteBuffer(msgspec.Struct):
    """Objects that are not written yet."""

    contents: BatchContents = msgspec.field(default_factory=BatchContents)
    heads: dict[HeadName, ArtifactRef | None] = msgspec.field(default_factory=dict)
    """The new heads of imported files."""
    size: int = 0
    """The approximate size in bytes."""

    def add(self, things: Sequence[StoredObject], commit: StoredObject, new: BatchCommit) -> None:
        """Add a commit and the objects that it needs."""
        objects = self.contents.objects
        for stored_object in things:
            if objects.setdefault(stored_object.name, stored_object) is stored_object:
                self.size += len(stored_object.body)
        objects[commit.name] = commit
        self.contents.commits.append(new)

    def add_pieces(self, pieces: Sequence[StoredObject]) -> None:
        """Add chunks of a file."""
        for piece in pieces:
            self.contents.objects.setdefault(piece.name, piece)
            self.size += len(piece.body)

    def add_file(self, name: ArtifactRef, pieces: Sequence[ArtifactRef]) -> None:
        """Add a file whose chunks were added."""
        if pieces != [name]:
            self.contents.objects.setdefault(name, build_file_object(name, pieces))
            self.contents.files[name] = pieces

    def add_record(
        self, record: FileRecord, raw: ArtifactRef, earlier: ArtifactRef | None
    ) -> ArtifactRef:
        """Add the record of a file whose bytes were added, or are in the store. Return its head.

        earlier: the head of an earlier state that this one does not contain.
        """
        objects = encode_record(record, raw, earlier)
        for stored_object in objects:
            self.contents.objects.setdefault(stored_object.name, stored_object)
        head = ArtifactRef(objects[-1].name)
        self.heads[name_head(record.machine, record.path)] = head
        return head

    def write(self, store: Store) -> None:
        """Write all objects, then the heads of files. Raises StoreError."""
        if not self.contents.objects:
            return
        write_contents(store, self.contents)
        if self.heads:
            store.set_heads(self.heads)
