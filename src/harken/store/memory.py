"""A store in memory: plain dicts. The reference that every other store is measured by."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from harken.core import commits as values
from harken.core.clock import microseconds
from harken.core.commits import ArtifactRef, CommitId, Entry, Hash, Notes
from harken.errors import ObjectMissing, UnknownName
from harken.store.base import Batch, Kind, Stored, Thing
from harken.store.contents import Contents, contents_of

NAME = "the store in memory"


class MemoryStore:
    """A store that ends with the process; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._things: dict[str, Thing] = {}
        self._names: list[str] = []
        """Of artifacts and commits, sorted."""
        self._notes: dict[str, Notes] = {}
        """Of every commit, in the order of writing."""

    def write(self, batch: Batch) -> None:
        contents = contents_of(batch)
        with self._lock:
            self._complete(contents)
            for name, thing in contents.things.items():
                if name not in self._things:
                    self._things[name] = thing
                    if thing.kind > Kind.MESSAGE:
                        self._names.insert(bisect_left(self._names, name), name)
            for new in contents.commits:
                self._notes.setdefault(new.id, new.notes)

    def _complete(self, contents: Contents) -> None:
        """Raise unless all that is needed is there, and a parent before its children."""
        before: set[str] = set()
        for thing in contents.things.values():
            for needed in thing.needs:
                if needed not in self._things and needed not in before:
                    raise ObjectMissing(NAME, needed, needed_by=thing.name)
            before.add(thing.name)

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        found = self._of(names, Kind.PART, Kind.MESSAGE)
        return {Hash(thing.name): thing.body for thing in found}

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[Entry]]:
        found = self._of(names, Kind.DELTA)
        return {ArtifactRef(thing.name): values.delta_from(thing.body) for thing in found}

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        found = self._of(names, Kind.SEQUENCE)
        return {ArtifactRef(thing.name): values.sequence_from(thing.body) for thing in found}

    def raw(self, name: ArtifactRef) -> bytes:
        for thing in self._of([name], Kind.RAW):
            return thing.body
        raise ObjectMissing(NAME, name)

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, Stored]:
        return {CommitId(thing.name): self._stored(thing) for thing in self._of(names, Kind.COMMIT)}

    def chain(self, name: CommitId, depth: int | None = None) -> list[Stored]:
        found: list[Stored] = []
        at: CommitId | None = self._known(name)
        while at is not None and (depth is None or len(found) < depth):
            found.append(self._stored(self._things[at]))
            at = found[-1].commit.parent
        return found

    def children(self, name: CommitId) -> list[CommitId]:
        return self._oldest_first(stored for stored in self._all() if stored.commit.parent == name)

    def latest(self, principal: str, at: str) -> CommitId | None:
        until_us = microseconds(at)
        theirs = (stored for stored in self._all() if stored.commit.principal == principal)
        until = (s for s in theirs if microseconds(s.commit.created_at) <= until_us)
        return next(reversed(self._oldest_first(until)), None)

    def newest(self, limit: int = 20) -> list[CommitId]:
        with self._lock:
            names = [CommitId(name) for name in self._notes]
        return names[::-1][:limit]

    def named(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        with self._lock:
            start = bisect_left(self._names, beginning)
            near = self._names[start : start + limit]
        return [ArtifactRef(name) for name in near if name.startswith(beginning)]

    def annotate(self, name: CommitId, notes: Notes) -> None:
        values.check_notes(notes)
        with self._lock:
            self._notes[self._known(name)] = notes

    def labelled(self, label: str | None = None) -> dict[str, list[CommitId]]:
        stored = list(self._all())
        labels = {one for s in stored for one in s.notes.labels if label in (None, one)}
        return {
            one: self._oldest_first(s for s in stored if one in s.notes.labels)
            for one in sorted(labels)
        }

    def close(self) -> None:
        """Do nothing: the store lives as long as it is held."""

    def _of(self, names: Iterable[str], *kinds: Kind) -> Iterator[Thing]:
        for name in names:
            thing = self._things.get(name)
            if thing is not None and thing.kind in kinds:
                yield thing

    def _all(self) -> Iterator[Stored]:
        with self._lock:
            names = list(self._notes)
        return (self._stored(self._things[name]) for name in names)

    def _stored(self, thing: Thing) -> Stored:
        name = CommitId(thing.name)
        return Stored(name, values.commit_from(thing.body), self._notes[name])

    def _known(self, name: CommitId) -> CommitId:
        if name not in self._notes:
            raise UnknownName("commit", name, list(self._notes)[:-4:-1])
        return name

    def _oldest_first(self, some: Iterable[Stored]) -> list[CommitId]:
        return [stored.id for stored in sorted(some, key=lambda s: s.commit.created_at)]
