"""What comes from a backing store: it is checked, and kept here with all that it needs.

Nothing is kept that is not what its name says. What was purged there arrives as what stands for
it, with its tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from harken.core import commits
from harken.core.commits import ArtifactRef, DeltaEntry, Hash, hash_raw
from harken.errors import ObjectCorrupted, ObjectNotFound, StoreError
from harken.store.base import Name, ObjectKind, Store, Tombstone, WriteBatch
from harken.store.batch import name_of, part_names

T = TypeVar("T")
WHERE = "the backing store"


class ReadThrough:
    """From `there` to `here`."""

    def __init__(self, here: Store, there: Store) -> None:
        self._here, self._there = here, there

    def ask(self, name: Name, question: Callable[[], T]) -> T:
        """Return an answer of the backing store. Raises StoreError, naming what it is about."""
        try:
            return question()
        except (ObjectNotFound, ObjectCorrupted):
            raise
        except StoreError as error:
            text = f"{name} is not here, and the backing store cannot be asked: {error}"
            raise StoreError(WHERE, text) from error

    def objects(self, names: Sequence[Hash]) -> dict[Hash, bytes]:
        """Fetch parts and messages, these with their parts."""
        if not names:
            return {}
        found = self.ask(names[0], lambda: self._there.objects(names))
        inner = [
            Hash(part)
            for name, body in found.items()
            if name_of(ObjectKind.MESSAGE, body) == name
            for part in part_names(name, body)
        ]
        here = self._here.objects(inner)
        missing = [part for part in dict.fromkeys(inner) if part not in here and part not in found]
        parts = self.ask(names[0], lambda: self._there.objects(missing)) if missing else {}
        both = found | parts
        own: dict[Name, Name] = {n: _object_name(n, body) for n, body in both.items()}
        stones = self._stones(own)
        self._keep(
            WriteBatch(
                objects={Hash(own[name]): body for name, body in both.items()}, tombstones=stones
            )
        )
        return found

    def deltas(self, names: Sequence[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        """Fetch deltas with their messages."""
        if not names:
            return {}
        found = self.ask(names[0], lambda: self._there.deltas(names))
        messages = list(dict.fromkeys(e.message for entries in found.values() for e in entries))
        here = self._here.objects(messages)
        self.objects([name for name in messages if name not in here])
        own: dict[Name, Name] = {
            n: commits.encode_delta(entries)[0] for n, entries in found.items()
        }
        stones = self._stones(own)
        deltas = {ArtifactRef(own[name]): entries for name, entries in found.items()}
        self._keep(WriteBatch(deltas=deltas, tombstones=stones))
        return found

    def sequences(self, names: Sequence[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        """Fetch sequences with all that they are made of."""
        batches: list[WriteBatch] = []
        everything: dict[ArtifactRef, list[ArtifactRef]] = {}
        asked = list(names)
        while asked:
            found = self.ask(asked[0], partial(self._there.sequences, asked))
            own: dict[Name, Name] = {
                n: commits.encode_sequence(refs)[0] for n, refs in found.items()
            }
            stones = self._stones(own)
            sequences = {ArtifactRef(own[name]): refs for name, refs in found.items()}
            batches.append(WriteBatch(sequences=sequences, tombstones=stones))
            everything |= found
            asked = self._not_here(found, everything)
        for batch in reversed(batches):  # what is named before what names it
            self._keep(batch)
        return {name: everything[name] for name in names if name in everything}

    def _not_here(
        self,
        found: Mapping[ArtifactRef, Sequence[ArtifactRef]],
        known: Collection[ArtifactRef],
    ) -> list[ArtifactRef]:
        """Fetch the deltas that sequences name; return what is left, and neither here nor known."""
        members = list(dict.fromkeys(ref for refs in found.values() for ref in refs))
        here = {*self._here.deltas(members), *self._here.sequences(members), *known}
        missing = [ref for ref in members if ref not in here]
        brought = self.deltas(missing)
        return [ref for ref in missing if ref not in brought]

    def pieces(self, name: ArtifactRef) -> Iterator[bytes]:
        """Fetch raw bytes piece by piece. Raises ObjectNotFound, at once."""
        return self._kept(name, self.ask(name, lambda: self._there.read_chunks(name)))

    def _kept(self, name: ArtifactRef, pieces: Iterator[bytes]) -> Iterator[bytes]:
        refs: list[ArtifactRef] = []
        for piece in pieces:
            ref = hash_raw(piece)
            self._keep(WriteBatch(raw={ref: piece}))
            refs.append(ref)
            yield piece
        if refs == [name]:
            return
        stone = self._there.tombstones().get(name)
        if stone is None:
            self._here.write(WriteBatch(files={name: refs}))  # which says if it is something else
        elif refs == [stone.stand_in]:
            self._keep(WriteBatch(tombstones={name: stone}))
        else:
            own = ArtifactRef(stone.stand_in)
            self._here.write(WriteBatch(files={own: refs}, tombstones={name: stone}))

    def send(self, names: Sequence[ArtifactRef], source: Store) -> None:
        """Send artifacts of any kind, with all that they need, to the backing store."""
        deltas = source.deltas(names)
        messages = [e.message for entries in deltas.values() for e in entries]
        objects = source.objects(messages)
        parts = [Hash(part) for name, body in objects.items() for part in part_names(name, body)]
        self._there.write(WriteBatch(objects=source.objects(parts) | objects, deltas=deltas))
        sequences = source.sequences(names)
        for refs in sequences.values():
            self.send(refs, source)
        self._there.write(WriteBatch(sequences=sequences))
        for name in names:
            if name not in deltas and name not in sequences:
                self._send_raw(name, source)

    def _send_raw(self, name: ArtifactRef, source: Store) -> None:
        refs: list[ArtifactRef] = []
        for piece in source.read_chunks(name):
            refs.append(hash_raw(piece))
            self._there.write(WriteBatch(raw={refs[-1]: piece}))
        if refs != [name]:
            self._there.write(WriteBatch(files={name: refs}))

    def _stones(self, own: Mapping[Name, Name]) -> dict[Name, Tombstone]:
        """Return the tombstones of what has another name than it was asked for under.

        Raises ObjectCorrupted where there is none: then it is not what its name says.
        """
        others = {name: found for name, found in own.items() if found != name}
        if not others:
            return {}
        stones = self._there.tombstones()
        for name, found in others.items():
            if name not in stones or stones[name].stand_in != found:
                raise ObjectCorrupted(WHERE, name, reason=f"its content has the name {found}")
        return {name: stones[name] for name in others}

    def _keep(self, batch: WriteBatch) -> None:
        """Keep what came; a disk that is full, or a need that is not here, is no reason to fail."""
        with suppress(StoreError):
            self._here.write(batch)


def _object_name(name: Hash, body: bytes) -> Hash:
    """Return the name that a part or a message has."""
    if name_of(ObjectKind.PART, body) == name:
        return name
    try:
        part_names(name, body)
    except ObjectCorrupted:
        return Hash(name_of(ObjectKind.PART, body))
    return Hash(name_of(ObjectKind.MESSAGE, body))
