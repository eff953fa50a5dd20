"""The reads of a guarded store: an object that the user may not read is as one that is missing.

Each method asks the index first, so the same happens for both, in the same time. Nothing that the
store says of other objects (examples in errors, counts, sizes) is passed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from harken.core import structs
from harken.core.clock import Clock, parse_rfc3339
from harken.core.commits import ArtifactRef, CommitId, DeltaEntry, Hash, HeadName
from harken.errors import NameNotFound, ObjectNotFound
from harken.store.base import (
    NO_LIMIT,
    Name,
    RetentionPolicy,
    StoredCommit,
    StoredObject,
    StoreStats,
    Tombstone,
    compute_stats,
)
from harken.store.changes import ChangePage
from harken.teams.access_index import UPLOAD_US, AccessIndex, FollowedStore
from harken.teams.caller import Caller
from harken.teams.commit_objects import slices
from harken.teams.scopes import CommitFacts

PLACE = "the store"
_BATCH = 500
N = TypeVar("N", bound=str)


class GuardedReads:
    """The reading methods of `GuardedStore`."""

    def __init__(
        self, store: FollowedStore, index: AccessIndex, caller: Caller, clock: Clock
    ) -> None:
        self._store, self._caller, self._clock = store, caller, clock
        self.__index = index

    @property
    def _index(self) -> AccessIndex:
        """The index, with all changes of the store until now."""
        self.__index.follow(self._store)
        return self.__index

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        return self._store.objects(self._readable(names))

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        return self._store.deltas(self._readable(names))

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        return self._store.sequences(self._readable(names))

    def raws(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, bytes]:
        return self._store.raws(self._readable(names))

    def raw(self, name: ArtifactRef) -> bytes:
        return b"".join(self.read_chunks(name))

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        self._require_object(name)
        yield from self._store.read_chunks(name)

    def chunk_names(self, name: ArtifactRef) -> list[ArtifactRef]:
        self._require_object(name)
        return self._store.chunk_names(name)

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        """Return nothing: derived artifacts may join contents of several commits."""
        return {}

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        return self._store.commits(self._readable(names))

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        self._require_commit(name)
        return self._store.chain(name, depth)

    def children(self, name: CommitId) -> list[CommitId]:
        if not self._readable([name]):
            return []
        return self._readable(self._store.children(name))

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        if self._reads_all:
            return self._store.latest_commit(principal, at)
        return self._index.latest(principal, parse_rfc3339(at), self._covers_reading)

    def newest_commits(self, limit: int = 20, *, before: CommitId | None = None) -> list[CommitId]:
        if self._reads_all:
            return self._store.newest_commits(limit, before=before)
        if before is not None and not self._readable([before]):
            raise NameNotFound("commit", before, self._index.newest(3, self._covers_reading))
        return self._index.newest(_clamp(limit), self._covers_reading, before)

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        if self._reads_all:
            return self._store.names_with_prefix(beginning, limit)
        index, user, limit = self._index, self._caller.user, _clamp(limit)
        names = index.with_prefix(beginning, limit, self._covers_reading)
        names += index.uploaded_with_prefix(beginning, limit, user, self._clock() - UPLOAD_US)
        return [ArtifactRef(name) for name in sorted({*names})[:limit]]

    def branches(self, prefix: str = "") -> dict[str, CommitId]:
        heads = self._store.branches(prefix)
        readable = set(self._readable(heads.values()))
        return {name: head for name, head in heads.items() if head in readable}

    def find_branch(self, name: str) -> CommitId | None:
        head = self._store.find_branch(name)
        return head if head is not None and self._readable([head]) else None

    def heads(self, prefix: str = "") -> dict[HeadName, ArtifactRef]:
        """Return the heads of tickets and imported files, which belong to no project."""
        return self._store.heads(prefix) if self._reads_all else {}

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        by_label = self._store.commits_by_label(label)
        readable = set(self._readable(name for names in by_label.values() for name in names))
        selected = {
            text: [name for name in names if name in readable] for text, names in by_label.items()
        }
        return {text: names for text, names in selected.items() if names}

    def retention(self) -> dict[CommitId | ArtifactRef, RetentionPolicy]:
        policies = self._store.retention()
        return {name: policies[name] for name in self._readable(policies)}

    def tombstones(self) -> dict[Name, Tombstone]:
        tombstones = self._store.tombstones()
        return {name: tombstones[name] for name in self._readable(tombstones)}

    def iter_objects(self) -> Iterator[StoredObject]:
        for batch in slices(self._store.iter_objects(), _BATCH):
            readable = set(self._readable(obj.name for obj in batch))
            yield from (obj for obj in batch if obj.name in readable)

    def stats(self) -> StoreStats:
        return compute_stats(self.iter_objects())

    def changes(self, after: int = 0, limit: int = 1000) -> ChangePage:
        """Return the changes of readable commits, and of branches while their heads are readable.

        Removed commits are shown to those only who may read everything.
        """
        page = self._store.changes(after, limit)
        if self._reads_all:
            return page
        names = {name for c in page.changes for name in (c.name, c.to, c.was) if name}
        readable = set(self._readable(names))
        visible = [
            structs.replace(
                change,
                to=change.to if change.to in readable else "",
                was=change.was if change.was in readable else "",
            )
            for change in page.changes
            if change.kind != "head"  # A ticket or an imported file belongs to no project.
            and not readable.isdisjoint((change.name, change.to, change.was))
        ]
        return ChangePage(visible, page.next)

    def close(self) -> None:
        """Do nothing: the store belongs to the service."""

    @property
    def _reads_all(self) -> bool:
        """Whether the user may read everything, also content that belongs to no commit."""
        return self._caller.rights.is_unlimited("read")

    def _covers_reading(self, facts: CommitFacts) -> bool:
        return self._caller.rights.covers("read", facts)

    def _readable(self, names: Iterable[N]) -> list[N]:
        """Return those of the names that the user may read, in their order."""
        distinct_names = [*dict.fromkeys(names)]
        if self._reads_all:
            return distinct_names
        index = self._index
        readable = index.select_reached(distinct_names, self._covers_reading)
        missing = [name for name in distinct_names if name not in readable]
        since_us = self._clock() - UPLOAD_US
        readable |= index.select_uploaded(missing, self._caller.user, since_us)
        return [name for name in distinct_names if name in readable]

    def _require_object(self, name: ArtifactRef) -> None:
        if not self._readable([name]):
            raise ObjectNotFound(PLACE, name)

    def _require_commit(self, name: CommitId) -> None:
        if not self._readable([name]):
            raise NameNotFound("commit", name, ())

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError: other attributes are not passed to the store."""
        raise AttributeError(f"{type(self).__name__} has no {name}")


def _clamp(limit: int) -> int:
    return max(0, min(limit, NO_LIMIT))
