"""A store in memory: plain dicts. The reference that every other store is measured by."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping

from harken.core import commits as values
from harken.core.arguments import check_arguments
from harken.core.clock import Clock, parse_rfc3339, system_clock
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, DeltaEntry, Hash
from harken.errors import NameNotFound, NotesConflict, ObjectNotFound
from harken.store.base import (
    GcResult,
    Name,
    ObjectKind,
    RetentionPolicy,
    StoredCommit,
    StoredObject,
    StoreStats,
    Tombstone,
    WriteBatch,
    stats,
)
from harken.store.batch import Contents, contents_of, file_from, fits
from harken.store.chunking import checked
from harken.store.purge import bring, inherit, replaced
from harken.store.retention import check_keeping, held, reached

NAME = "the store in memory"


@check_arguments
class MemoryStore:
    """A store that ends with the process; threads may share it.

    `clock` says when something is written, which `collect` asks for.
    """

    def __init__(self, clock: Clock = system_clock) -> None:
        self._lock = threading.RLock()
        self._clock = clock
        self._things: dict[Name, StoredObject] = {}
        """By the names of their bytes. In the order of writing: what is needed stands before."""
        self._written_us: dict[Name, int] = {}
        """When each thing was written last."""
        self._names: list[Name] = []
        """Of artifacts and commits, as they are asked for, sorted."""
        self._notes: dict[Name, CommitNotes] = {}
        """Of every commit, in the order of writing."""
        self._derived: dict[str, ArtifactRef] = {}
        self._kept: dict[Name, RetentionPolicy] = {}
        self._tombstones: dict[Name, Tombstone] = {}

    def write(self, batch: WriteBatch) -> None:
        contents = contents_of(batch)
        with self._lock:
            inherit(contents, self._tombstones, self._thing)
            bring(NAME, contents, lambda name: self._thing(name) is not None)
            self._check(contents)
            now_us = self._clock()
            for name, thing in contents.things.items():
                self._written_us[name] = now_us
                if name not in self._things and name not in self._tombstones:
                    self._things[name] = thing
            self._tombstones |= contents.tombstones
            for new in contents.commits:
                self._notes.setdefault(new.id, new.notes)
                self._enter(new.id)
            for name in (*contents.things, *contents.tombstones):
                if name.startswith("art-"):
                    self._enter(name)
            self._derived |= contents.derived

    def _check(self, contents: Contents) -> None:
        """Raise unless all that is needed is there, and a parent before its children."""
        before: set[Name] = {*contents.tombstones}
        for thing in contents.things.values():
            for needed in thing.needs:
                found = contents.things.get(needed) if needed in before else self._thing(needed)
                if needed not in contents.tombstones and (
                    found is None or not fits(thing, found.kind)
                ):
                    raise ObjectNotFound(NAME, needed, needed_by=thing.name)
            if thing.name in self._tombstones and self._thing(thing.name) is None:
                raise ObjectNotFound(
                    NAME, thing.name
                )  # purged, then collected: it cannot come back
            before.add(thing.name)
        self._check_files(contents)
        for key, ref in contents.derived.items():
            if ref not in before and self._thing(ref) is None:
                raise ObjectNotFound(NAME, ref, needed_by=f"the derived {key!r}")

    def _check_files(self, contents: Contents) -> None:
        """Raise ObjectCorrupted where the pieces of a new file are not what its name says."""
        for name, pieces in contents.files.items():
            if self._thing(name) is None:
                whole = (contents.things.get(one) or self._thing(one) for one in pieces)
                for _ in checked(NAME, name, (thing.body for thing in whole if thing)):
                    pass

    def _enter(self, name: Name) -> None:
        """Make a name one that is found by its beginning."""
        at = bisect_left(self._names, name)
        if self._names[at : at + 1] != [name]:
            self._names.insert(at, name)

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        found = self._of(names, ObjectKind.PART, ObjectKind.MESSAGE)
        return {Hash(name): thing.body for name, thing in found}

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        found = self._of(names, ObjectKind.DELTA)
        return {ArtifactRef(name): values.decode_delta(thing.body) for name, thing in found}

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        found = self._of(names, ObjectKind.SEQUENCE)
        return {ArtifactRef(name): values.decode_sequence(thing.body) for name, thing in found}

    def raw(self, name: ArtifactRef) -> bytes:
        return b"".join(self.read_chunks(name))

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        with self._lock:
            thing = self._thing(name)
            if thing is None or thing.kind not in (ObjectKind.RAW, ObjectKind.FILE):
                raise ObjectNotFound(NAME, name)
            if thing.kind is ObjectKind.RAW:
                return iter([thing.body])
            found = [(piece, self._thing(piece)) for piece in file_from(thing.body).pieces]
        lost = next((piece for piece, one in found if one is None), None)
        if lost is not None:
            raise ObjectNotFound(NAME, lost, needed_by=name)
        bodies = (one.body for _, one in found if one is not None)
        return checked(NAME, ArtifactRef(thing.name), bodies)

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        with self._lock:
            return {key: self._derived[key] for key in keys if key in self._derived}

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        found = self._of((name for name in names if name in self._notes), ObjectKind.COMMIT)
        return {CommitId(name): self._stored(CommitId(name), thing) for name, thing in found}

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        found: list[StoredCommit] = []
        with self._lock:
            at: CommitId | None = self._known(name)
            while at is not None and (depth is None or len(found) < depth):
                found.append(self._commit(at))
                at = found[-1].commit.parent
        return found

    def children(self, name: CommitId) -> list[CommitId]:
        return self._oldest_first(stored for stored in self._all() if stored.commit.parent == name)

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        until_us = parse_rfc3339(at)
        theirs = (stored for stored in self._all() if stored.commit.principal == principal)
        until = (s for s in theirs if parse_rfc3339(s.commit.created_at) <= until_us)
        return next(reversed(self._oldest_first(until)), None)

    def newest_commits(self, limit: int = 20) -> list[CommitId]:
        with self._lock:
            names = [CommitId(name) for name in self._notes]
        return names[::-1][: max(limit, 0)]

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        with self._lock:
            start = bisect_left(self._names, beginning)
            near = self._names[start : start + max(limit, 0)]
        return [ArtifactRef(name) for name in near if name.startswith(beginning)]

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        values.check_notes(notes)
        with self._lock:
            if was not in (None, self._notes[self._known(name)]):
                raise NotesConflict(NAME, name)
            self._notes[name] = notes

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        stored = list(self._all())
        labels = {one for s in stored for one in s.notes.labels if label in (None, one)}
        return {
            one: self._oldest_first(s for s in stored if one in s.notes.labels)
            for one in sorted(labels)
        }

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        for keeping in names.values():
            if keeping is not None:
                check_keeping(keeping)
        with self._lock:
            for name in names:
                if not self._can_be_kept(name):
                    raise NameNotFound("commit or artifact", name, self._names[:3])
            for name, keeping in names.items():
                self._kept.pop(name, None)
                if keeping is not None:
                    self._kept[name] = keeping

    def _can_be_kept(self, name: Name) -> bool:
        thing = self._thing(name)
        if thing is None or thing.kind <= ObjectKind.MESSAGE:
            return False
        return thing.kind is not ObjectKind.COMMIT or name in self._notes

    def retention(self) -> dict[CommitId | ArtifactRef, RetentionPolicy]:
        with self._lock:
            return {ArtifactRef(name): keeping for name, keeping in self._kept.items()}

    def collect(
        self, roots: Collection[Name], *, now: str, grace_s: float = 3600, dry_run: bool = False
    ) -> GcResult:
        now_us = parse_rfc3339(now)
        with self._lock:
            young_us = now_us - int(grace_s * 1_000_000)
            young = [name for name, time_us in self._written_us.items() if time_us > young_us]
            stay = self._reached([*self._roots(now_us), *roots, *young])
            gone = [name for name in self._things if name not in stay]
            commits = tuple(CommitId(name) for name in self._notes if name not in stay)
            bodies = [self._things[name].body for name in gone]
            things = sum(self._things[name].kind is not ObjectKind.COMMIT for name in gone)
            if not dry_run:
                self._forget(commits)
                self._drop(gone)
        return GcResult(commits, things, sum(map(len, bodies)))

    def _roots(self, now_us: int) -> Iterator[Name]:
        """Yield what stays for its own sake, and what stands for purged content."""
        still = held(self._kept, now_us)
        yield from still
        for name, notes in self._notes.items():
            if notes.labels or name in still or name not in self._kept:
                yield name
        yield from self._stand_ins()

    def _stand_ins(self) -> list[Name]:
        """Return what stands for purged content: the next that writes the old content needs it."""
        stones = self._tombstones.items()
        return [stone.stand_in for name, stone in stones if not name.startswith("ctx-")]

    def _reached(self, roots: Iterable[Name]) -> set[Name]:
        def needs(name: Name) -> Iterable[Name]:
            stone, thing = self._tombstones.get(name), self._things.get(name)
            return (stone.stand_in,) if stone is not None else thing.needs if thing else ()

        return reached(roots, needs)

    def _forget(self, commits: Iterable[CommitId]) -> None:
        for name in commits:
            self._notes.pop(name)
            self._kept.pop(name, None)

    def _drop(self, names: Iterable[Name]) -> None:
        """Remove bytes, and what led to them."""
        for name in names:
            self._things.pop(name, None)
            self._written_us.pop(name, None)
        self._names = [n for n in self._names if n in self._notes or self._is_artifact(n)]
        self._kept = {
            n: k for n, k in self._kept.items() if n in self._notes or self._is_artifact(n)
        }
        self._derived = {key: ref for key, ref in self._derived.items() if self._is_artifact(ref)}

    def _is_artifact(self, name: Name) -> bool:
        return name.startswith("art-") and self._thing(name) is not None

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        with self._lock:
            done = replaced(
                NAME, stand_ins, tombstone, found=self._thing, tombstones=self._tombstones
            )
            for name, thing in done.contents.things.items():
                if name not in self._tombstones and name not in done.tombstones:
                    self._things.setdefault(name, thing)
                    self._written_us[name] = self._clock()
                    if name.startswith("art-"):
                        self._enter(name)
            self._tombstones |= done.tombstones
            self._drop([*done.gone, *self._only_derived()])
            self._derived = {}

    def _only_derived(self) -> set[Name]:
        """Return what can be made again, and all that nothing else needs."""
        made = self._reached(self._derived.values())
        others = (name for name in self._things if name not in made)
        return made - self._reached([*others, *self._notes, *self._kept, *self._stand_ins()])

    def tombstones(self) -> dict[Name, Tombstone]:
        with self._lock:
            return dict(self._tombstones)

    def iter_objects(self) -> Iterator[StoredObject]:
        with self._lock:
            return iter(list(self._things.values()))

    def stats(self) -> StoreStats:
        return stats(self.iter_objects())

    def close(self) -> None:
        """Do nothing: the store lives as long as it is held."""

    def _thing(self, name: Name) -> StoredObject | None:
        """Return what is read under a name."""
        stone = self._tombstones.get(name)
        return self._things.get(name if stone is None else stone.stand_in)

    def _of(self, names: Iterable[Name], *kinds: ObjectKind) -> Iterator[tuple[Name, StoredObject]]:
        for name in names:
            thing = self._thing(name)
            if thing is not None and thing.kind in kinds:
                yield name, thing

    def _all(self) -> Iterator[StoredCommit]:
        with self._lock:
            return iter([self._commit(CommitId(name)) for name in self._notes])

    def _commit(self, name: CommitId) -> StoredCommit:
        thing = self._thing(name)
        if thing is None:
            raise ObjectNotFound(NAME, name)
        return self._stored(name, thing)

    def _stored(self, name: CommitId, thing: StoredObject) -> StoredCommit:
        return StoredCommit(name, values.decode_commit(thing.body), self._notes[name])

    def _known(self, name: CommitId) -> CommitId:
        if name not in self._notes:
            raise NameNotFound("commit", name, list(self._notes)[:-4:-1])
        return name

    def _oldest_first(self, some: Iterable[StoredCommit]) -> list[CommitId]:
        return [stored.id for stored in sorted(some, key=lambda s: s.commit.created_at)]
