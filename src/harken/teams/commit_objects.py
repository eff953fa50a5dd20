"""The objects that commits contain, without those of their ancestors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from harken.core.commits import ArtifactRef, CommitId, Hash
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import Name, Store, StoredCommit
from harken.store.batch import parse_part_names

_BATCH = 500
T = TypeVar("T")


def list_objects(store: Store, commits: Iterable[StoredCommit]) -> dict[CommitId, set[Name]]:
    """Return the names of the artifacts, messages, parts and chunks of each commit.

    What is not in the store is left out, as is damaged content. Raises StoreError.
    """
    needs = _NeedsReader(store)
    objects: dict[CommitId, set[Name]] = {}
    for batch in slices(commits, _BATCH):
        needs.load([stored.commit.artifact for stored in batch])
        objects |= {stored.id: needs.read_all(stored.commit.artifact) for stored in batch}
    return objects


class _NeedsReader:
    """Reads the needs of many artifacts at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._needs: dict[Name, tuple[Name, ...]] = {}

    def load(self, refs: Sequence[ArtifactRef]) -> None:
        """Read the needs of artifacts and of everything in them."""
        pending = [ref for ref in dict.fromkeys(refs) if ref not in self._needs]
        while pending:
            deltas = self._store.deltas(pending)
            sequences = self._store.sequences([ref for ref in pending if ref not in deltas])
            for ref in pending:
                if ref in deltas:
                    self._needs[ref] = tuple({entry.message for entry in deltas[ref]})
                elif ref in sequences:
                    self._needs[ref] = tuple(dict.fromkeys(sequences[ref]))
                else:
                    self._needs[ref] = self._read_chunk_names(ref)
            self._load_messages(entry.message for entries in deltas.values() for entry in entries)
            members = (ref for refs_ in sequences.values() for ref in refs_)
            pending = [ref for ref in dict.fromkeys(members) if ref not in self._needs]

    def read_all(self, ref: ArtifactRef) -> set[Name]:
        """Return the artifact and all of its transitive needs."""
        names: set[Name] = {ref}
        queue: list[Name] = [ref]
        while queue:
            for name in self._needs.get(queue.pop(), ()):
                if name not in names:
                    names.add(name)
                    queue.append(name)
        return names

    def _load_messages(self, messages: Iterable[Hash]) -> None:
        new = [name for name in dict.fromkeys(messages) if name not in self._needs]
        for batch in slices(new, _BATCH):
            for name, body in self._store.objects(batch).items():
                with suppress(ObjectCorrupted):
                    self._needs[name] = parse_part_names(name, body)

    def _read_chunk_names(self, ref: ArtifactRef) -> tuple[Name, ...]:
        with suppress(ObjectNotFound, ObjectCorrupted):
            return tuple(self._store.chunk_names(ref))
        return ()


def slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of this size."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch
