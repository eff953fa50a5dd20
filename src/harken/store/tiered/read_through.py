"""Read from a backing store: content is verified, and cached locally with all its needs.

Nothing is cached that does not match its name. Content that is purged in the backing store arrives
as its stand-in, with its tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from blake3 import blake3

from harken.core import canonical, commits
from harken.core.commits import ArtifactRef, DeltaEntry, Hash, hash_raw
from harken.errors import ObjectCorrupted, ObjectNotFound, StoreError
from harken.store.base import Name, ObjectKind, Store, Tombstone, WriteBatch
from harken.store.batch import compute_name, parse_part_names

T = TypeVar("T")
WHERE = "the backing store"
_CHUNKS_PER_QUERY = 4
"""The number of chunks that are fetched together, each of at most a megabyte."""


class ReadThrough:
    """Fetch objects from the store `there` and cache them in the store `here`."""

    def __init__(self, here: Store, there: Store) -> None:
        self._here, self._there = here, there

    def query(self, name: Name, question: Callable[[], T]) -> T:
        """Query the backing store. Raises StoreError with the requested name if it fails."""
        try:
            return question()
        except (ObjectNotFound, ObjectCorrupted):
            raise
        except StoreError as error:
            reason = f"{name} is not in this store, and the backing store failed: {error}"
            raise StoreError(WHERE, reason) from error

    def objects(self, names: Sequence[Hash]) -> dict[Hash, bytes]:
        """Fetch parts and messages, the latter with their parts."""
        if not names:
            return {}
        objects = self.query(names[0], lambda: self._there.objects(names))
        part_refs = [
            Hash(part)
            for name, body in objects.items()
            if compute_name(ObjectKind.MESSAGE, body) == name
            for part in parse_part_names(name, body)
        ]
        cached = self._here.objects(part_refs)
        missing = [
            part for part in dict.fromkeys(part_refs) if part not in cached and part not in objects
        ]
        parts = self.query(names[0], lambda: self._there.objects(missing)) if missing else {}
        bodies = objects | parts
        actual_names: dict[Name, Name] = {n: _object_name(n, body) for n, body in bodies.items()}
        tombstones = self._find_tombstones(actual_names)
        self._cache(
            WriteBatch(
                objects={Hash(actual_names[name]): body for name, body in bodies.items()},
                tombstones=tombstones,
            )
        )
        return objects

    def deltas(self, names: Sequence[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        """Fetch deltas with their messages."""
        if not names:
            return {}
        entries_by_name = self.query(names[0], lambda: self._there.deltas(names))
        messages = list(
            dict.fromkeys(e.message for entries in entries_by_name.values() for e in entries)
        )
        cached = self._here.objects(messages)
        self.objects([name for name in messages if name not in cached])
        actual_names: dict[Name, Name] = {
            n: commits.encode_delta(entries)[0] for n, entries in entries_by_name.items()
        }
        tombstones = self._find_tombstones(actual_names)
        deltas = {
            ArtifactRef(actual_names[name]): entries for name, entries in entries_by_name.items()
        }
        self._cache(WriteBatch(deltas=deltas, tombstones=tombstones))
        return entries_by_name

    def sequences(self, names: Sequence[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        """Fetch sequences with all their members."""
        batches: list[WriteBatch] = []
        fetched: dict[ArtifactRef, list[ArtifactRef]] = {}
        pending = list(names)
        while pending:
            refs_by_name = self.query(pending[0], partial(self._there.sequences, pending))
            if fetched:
                self._fetch_raw([name for name in pending if name not in refs_by_name])
            actual_names: dict[Name, Name] = {
                n: commits.encode_sequence(refs)[0] for n, refs in refs_by_name.items()
            }
            tombstones = self._find_tombstones(actual_names)
            sequences = {
                ArtifactRef(actual_names[name]): refs for name, refs in refs_by_name.items()
            }
            batches.append(WriteBatch(sequences=sequences, tombstones=tombstones))
            fetched |= refs_by_name
            pending = self._find_missing(refs_by_name, fetched)
        # Members are written before the sequences that contain them.
        for batch in reversed(batches):
            self._cache(batch)
        return {name: fetched[name] for name in names if name in fetched}

    def _find_missing(
        self,
        refs_by_name: Mapping[ArtifactRef, Sequence[ArtifactRef]],
        fetched: Collection[ArtifactRef],
    ) -> list[ArtifactRef]:
        """Fetch the deltas in sequences. Return the other members that must be fetched."""
        members = list(dict.fromkeys(ref for refs in refs_by_name.values() for ref in refs))
        cached = {*self._here.deltas(members), *self._here.sequences(members), *fetched}
        cached |= {*self._here.raws(members)}
        missing = [ref for ref in members if ref not in cached]
        deltas = self.deltas(missing)
        return [ref for ref in missing if ref not in deltas]

    def raws(self, names: Sequence[ArtifactRef]) -> dict[ArtifactRef, bytes]:
        """Fetch raw bytes, without files of several chunks."""
        if not names:
            return {}
        bodies = self.query(names[0], lambda: self._there.raws(names))
        actual_names: dict[Name, Name] = {name: hash_raw(body) for name, body in bodies.items()}
        tombstones = self._find_tombstones(actual_names)
        raw = {ArtifactRef(actual_names[name]): body for name, body in bodies.items()}
        self._cache(WriteBatch(raw=raw, tombstones=tombstones))
        return bodies

    def _fetch_raw(self, names: Sequence[ArtifactRef]) -> None:
        """Fetch the members of sequences that are raw bytes of any size."""
        small = self.raws(names)
        for name in names:
            if name not in small and not self._here.names_with_prefix(name, 1):
                for _ in self.read_chunks(name):
                    pass

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        """Fetch raw bytes in chunks, those that are not cached. Raises ObjectNotFound immediately.

        So of a file that grew, only the last chunks are fetched.
        """
        refs = self.query(name, lambda: self._there.chunk_names(name))
        if refs != [name]:
            return self._iter_file(name, refs)
        bodies = self.raws(refs)  # A stream may have split it, and a chunk of a file is one object.
        if not bodies:
            raise ObjectNotFound(WHERE, name)
        return iter(bodies.values())

    def _iter_file(self, name: ArtifactRef, refs: Sequence[ArtifactRef]) -> Iterator[bytes]:
        """Yield the chunks of a file, then verify and cache the file.

        Raises ObjectCorrupted if they are another file.
        """
        actual_refs: list[ArtifactRef] = []
        hasher = blake3(canonical.RAW_DOMAIN)
        for start in range(0, len(refs), _CHUNKS_PER_QUERY):
            batch = refs[start : start + _CHUNKS_PER_QUERY]
            bodies = self._here.raws(batch)
            bodies |= self.raws([ref for ref in batch if ref not in bodies])
            for ref in batch:
                if ref not in bodies:
                    raise ObjectNotFound(WHERE, ref, needed_by=name)
                actual_refs.append(hash_raw(bodies[ref]))
                hasher.update(bodies[ref])
                yield bodies[ref]
        tombstones = self._find_tombstones({name: f"art-{hasher.hexdigest()}"})
        self._cache_file(name, actual_refs, tombstones)

    def _cache_file(
        self, name: ArtifactRef, refs: Sequence[ArtifactRef], tombstones: Mapping[Name, Tombstone]
    ) -> None:
        """Cache a verified file. The local store refuses it if it has not cached the chunks."""
        actual_name = ArtifactRef(tombstones[name].stand_in if name in tombstones else name)
        files = {} if refs == [actual_name] else {actual_name: refs}
        if files or tombstones:
            self._cache(WriteBatch(files=files, tombstones=tombstones))

    def _find_tombstones(self, actual_names: Mapping[Name, Name]) -> dict[Name, Tombstone]:
        """Return the tombstones of objects whose actual name differs from the requested one.

        Raises ObjectCorrupted if there is none: then the content does not match its name.
        """
        renamed = {name: actual for name, actual in actual_names.items() if actual != name}
        if not renamed:
            return {}
        tombstones = self._there.tombstones()
        for name, actual in renamed.items():
            if name not in tombstones or tombstones[name].stand_in != actual:
                raise ObjectCorrupted(WHERE, name, reason=f"its content has the name {actual}")
        return {name: tombstones[name] for name in renamed}

    def _cache(self, batch: WriteBatch) -> None:
        """Cache a batch. A full disk, or a need that is missing locally, is ignored."""
        with suppress(StoreError):
            self._here.write(batch)


def _object_name(name: Hash, body: bytes) -> Hash:
    """Return the hash name of a part or a message."""
    if compute_name(ObjectKind.PART, body) == name:
        return name
    try:
        parse_part_names(name, body)
    except ObjectCorrupted:
        return Hash(compute_name(ObjectKind.PART, body))
    return Hash(compute_name(ObjectKind.MESSAGE, body))
