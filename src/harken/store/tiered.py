"""A store in two tiers: a file that is near, and a store that has what the file has not.

One idea: what is asked for is looked for here, then there, and what comes from there is kept here.
So content may go from here (`evict`) where the backing store has it, and commits of other machines
can be read and built on as if they were here. What commits are, and which messages they have,
stays here: a history can be read while the backing store is away.

Lists (children, newest, names, labels) are of both, and of what is here alone while the backing
store is away. What both know of a commit, its summary and labels, is as it is here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TypeVar

from harken.core.arguments import check_arguments
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, DeltaEntry, Hash
from harken.errors import NameNotFound, ObjectCorrupted, ObjectNotFound, StoreError
from harken.store.base import (
    GcResult,
    Name,
    ObjectKind,
    RetentionPolicy,
    Store,
    StoredCommit,
    StoredObject,
    StoreStats,
    Tombstone,
    WriteBatch,
)
from harken.store.batch import contents_of, name_of
from harken.store.copy import CopyResult, Progress, copy_commits
from harken.store.read_through import ReadThrough
from harken.store.sqlite.evict import EvictionResult, evict, needed_elsewhere
from harken.store.sqlite.store import SqliteStore

T = TypeVar("T")
EVERYTHING = 2**62
_AT_ONCE = 500


@check_arguments
class TieredStore:
    """`local` before `backing`; both are closed with it.

    Writes go to `local`; to `backing` with `push`, and at once what is kept as `replicate`. Each
    method raises StoreError, naming what it looked for, where that may be in the backing store
    and the backing store cannot be asked.
    """

    def __init__(self, local: SqliteStore, backing: Store) -> None:
        self.local, self.backing = local, backing
        self._arrival = ReadThrough(local, backing)

    def write(self, batch: WriteBatch) -> None:
        """Write here. What the batch names and only the backing store has is brought first."""
        try:
            self.local.write(batch)
        except ObjectNotFound:
            self._bring_needs(batch)
            self.local.write(batch)

    def _bring_needs(self, batch: WriteBatch) -> None:
        """Bring what things of a batch need and neither it nor the local store has."""
        things = contents_of(batch).things
        needed = {need for thing in things.values() for need in thing.needs if need not in things}
        self.objects(Hash(name) for name in needed if not name.startswith(("art-", "ctx-")))
        artifacts = [ArtifactRef(name) for name in needed if name.startswith("art-")]
        known = {*self.deltas(artifacts), *self.sequences(artifacts)}
        others: list[Name] = [name for name in artifacts if name not in known]
        for name in (*others, *(name for name in needed if name.startswith("ctx-"))):
            self._bring(name)

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        wanted = list(dict.fromkeys(names))
        found = self.local.objects(wanted)
        return found | self._arrival.objects([name for name in wanted if name not in found])

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        wanted = list(dict.fromkeys(names))
        found = self.local.deltas(wanted)
        return found | self._arrival.deltas([name for name in wanted if name not in found])

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        wanted = list(dict.fromkeys(names))
        found = self.local.sequences(wanted)
        return found | self._arrival.sequences([name for name in wanted if name not in found])

    def raw(self, name: ArtifactRef) -> bytes:
        return b"".join(self.read_chunks(name))

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        try:
            refs = self.local.pieces_of(name)
        except ObjectNotFound:
            return self._arrival.pieces(name)
        return (self._piece(ref) for ref in refs)

    def _piece(self, ref: ArtifactRef) -> bytes:
        try:
            return self.local.raw(ref)
        except ObjectNotFound:
            return b"".join(self._arrival.pieces(ref))

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        return self.local.find_derived(keys)

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        wanted = list(dict.fromkeys(names))
        found = self.local.commits(wanted)
        missing = [name for name in wanted if name not in found]
        if missing:
            found |= self._arrival.ask(missing[0], lambda: self.backing.commits(missing))
        return found

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        try:
            return self.local.chain(name, depth)
        except NameNotFound as unknown:
            try:
                return self._arrival.ask(name, lambda: self.backing.chain(name, depth))
            except NameNotFound:
                raise unknown from None

    def children(self, name: CommitId) -> list[CommitId]:
        here = self.local.children(name)
        return self._oldest_first(here, self._there(lambda store: store.children(name)) or [])

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        here = self.local.latest_commit(principal, at)
        there = self._there(lambda store: store.latest_commit(principal, at))
        both = self._oldest_first([there] if there else [], [here] if here else [])
        return both[-1] if both else None

    def newest_commits(self, limit: int = 20) -> list[CommitId]:
        here = self.local.newest_commits(limit)
        there = self._there(lambda store: store.newest_commits(limit)) or []
        if {*there} <= {*here}:
            return here
        return self._oldest_first(there[::-1], here[::-1])[::-1][:limit]

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        there = self._there(lambda store: store.names_with_prefix(beginning, limit)) or []
        both: set[CommitId | ArtifactRef] = {
            *self.local.names_with_prefix(beginning, limit),
            *there,
        }
        return sorted(both)[: max(limit, 0)]

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        """Replace what may change of a commit, here and, if it can be asked, there."""
        try:
            self.local.update_notes(name, notes, was=was)
        except NameNotFound:
            self._arrival.ask(name, lambda: self.backing.update_notes(name, notes, was=was))
            return
        with suppress(StoreError, NameNotFound):  # `push` says it later
            self.backing.update_notes(name, notes)

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        found = self.local.commits_by_label(label)
        there = self._there(lambda store: store.commits_by_label(label)) or {}
        for text, names in there.items():
            known = self.local.commits(names)  # then it is here that counts
            if others := [name for name in names if name not in known]:
                found[text] = self._oldest_first(found.get(text, []), others)
        return dict(sorted(found.items()))

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        """Say how long things are kept. What is to be here is brought; to be there, sent."""
        for name in names:
            if not self.local.names_with_prefix(name, 1):
                self._bring(name)
        self.local.set_retention(names)
        held = {name: one for name, one in names.items() if one and one.policy != "ephemeral"}
        missing = needed_elsewhere(self.local, held) if held else []
        self.objects(Hash(name) for name in missing if not name.startswith("art-"))
        for lost in missing:
            if lost.startswith("art-"):
                self._piece(ArtifactRef(lost))
        self._send([name for name, one in held.items() if one.policy == "replicate"])

    def retention(self) -> dict[CommitId | ArtifactRef, RetentionPolicy]:
        return self.local.retention()

    def collect(
        self,
        roots: Collection[Name],
        *,
        now: str,
        grace_s: float = 3600,
        dry_run: bool = False,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> GcResult:
        """Remove what is not needed here. What the backing store has is its owner's to collect."""
        return self.local.collect(
            roots, now=now, grace_s=grace_s, dry_run=dry_run, on_progress=on_progress
        )

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        """Purge there, then here; what is evicted is brought first, so that it is known here."""
        for name in stand_ins:
            if not self._bring(name):
                raise ObjectNotFound(self.local.path, name)
        stones = self.backing.tombstones()
        there = {
            name: body
            for name, body in stand_ins.items()
            if name not in stones and self._is_there(name)
        }
        self.backing.purge(there, tombstone)
        self.local.purge(stand_ins, tombstone)

    def tombstones(self) -> dict[Name, Tombstone]:
        return (self._there(lambda store: store.tombstones()) or {}) | self.local.tombstones()

    def iter_objects(self) -> Iterator[StoredObject]:
        """Yield what is there, then what is only here."""
        seen: set[Name] = set()
        for store in (self.backing, self.local):
            for thing in store.iter_objects():
                if thing.name not in seen:
                    seen.add(thing.name)
                    yield thing

    def stats(self) -> StoreStats:
        return self.local.stats()

    def close(self) -> None:
        self.local.close()
        self.backing.close()

    def push(self, on_progress: Progress | None = None) -> CopyResult:
        """Send what the backing store has not: commits with all they need, summaries, labels.

        Cut off anywhere, the next one goes on. Raises StoreError.
        """
        names = self.local.newest_commits(EVERYTHING)
        copied = copy_commits(self, self.backing, names[::-1], on_progress=on_progress)
        for at in range(0, len(names), _AT_ONCE):
            some = names[at : at + _AT_ONCE]
            there = self.backing.commits(some)
            for name, stored in self.local.commits(some).items():
                if name in there and there[name].notes != stored.notes:
                    self.backing.update_notes(name, stored.notes)
        return copied

    def evict(self, most_bytes: int) -> EvictionResult:
        """Remove content here, what was used least lately first, until all takes so many bytes.

        Only what the backing store has is removed: each thing is read there before it goes here.
        What is pinned stays, and so do messages, deltas and commits. Raises StoreError.
        """
        return evict(self.local, most_bytes, self._whole_there)

    def _whole_there(self, names: Sequence[Name]) -> Iterator[Name]:
        parts = [Hash(name) for name in names if not name.startswith("art-")]
        for part, body in self.backing.objects(parts).items():
            if name_of(ObjectKind.PART, body) == part:
                yield part
        for name in names:
            if name.startswith("art-"):
                with suppress(ObjectNotFound, ObjectCorrupted):
                    if name_of(ObjectKind.RAW, self.backing.raw(ArtifactRef(name))) == name:
                        yield name

    def _send(self, names: Collection[CommitId | ArtifactRef]) -> None:
        """Copy commits and artifacts to the backing store, with all that they need."""
        if names:
            copy_commits(self, self.backing, [CommitId(n) for n in names if n.startswith("ctx-")])
            self._arrival.send([ArtifactRef(n) for n in names if n.startswith("art-")], self)

    def _bring(self, name: Name) -> bool:
        """Bring something here with all that it needs; return whether it is here."""
        if name.startswith("ctx-"):
            ctx = CommitId(name)
            if not self.local.commits([ctx]):
                with suppress(NameNotFound):
                    copy_commits(self.backing, self.local, [ctx])
            return bool(self.local.commits([ctx]))
        if not name.startswith("art-"):
            return bool(self.objects([Hash(name)]))
        ref = ArtifactRef(name)
        if self.deltas([ref]) or self.sequences([ref]):
            return True
        with suppress(ObjectNotFound):
            for _ in self.read_chunks(ref):
                pass
            return True
        return False

    def _is_there(self, name: Name) -> bool:
        if name.startswith(("ctx-", "art-")):
            return bool(self.backing.names_with_prefix(name, 1))
        return bool(self.backing.objects([Hash(name)]))

    def _there(self, ask: Callable[[Store], T]) -> T | None:
        """Ask the backing store for a list; None, while it is away."""
        with suppress(StoreError):
            return ask(self.backing)
        return None

    def _oldest_first(self, *several: Iterable[CommitId]) -> list[CommitId]:
        """Merge lists that are oldest first, each commit once; of equal times, in this order."""
        names = list(dict.fromkeys(name for names in several for name in names))
        if sum(1 for names in several for _ in islice(names, 1)) < 2:
            return names
        found = self.commits(names)
        return sorted(names, key=lambda name: found[name].commit.created_at)
