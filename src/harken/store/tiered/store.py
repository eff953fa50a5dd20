"""A two-tier store: a local file in front of a backing store.

Reads look in the local file first, then in the backing store, and cache what comes from there. So
content may be evicted locally if the backing store has it, and commits of other machines can be
read and extended like local ones. Commits and the lists of their messages stay local: a history can
be read while the backing store is unavailable.

Lists (children, newest, names, labels) merge both stores, or are local while the backing store is
unavailable. If both have a commit, its local summary and labels are used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TypeVar

from harken.core import structs
from harken.core.arguments import check_arguments
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, DeltaEntry, Hash, HeadName
from harken.errors import BranchConflict, NameNotFound, ObjectCorrupted, ObjectNotFound, StoreError
from harken.store.base import (
    NO_LIMIT,
    BranchMove,
    EvictionResult,
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
from harken.store.batch import BatchContents, compute_name, validate_batch
from harken.store.branches import (
    SOURCE_PREFIX,
    check_branch,
    check_head,
    check_head_name,
    check_moves,
)
from harken.store.copying.commits import Progress, copy_artifacts, copy_commits
from harken.store.sqlite.evict import evict, find_evicted_needs
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.push import PushResult, is_descendant, push
from harken.store.tiered.read_through import ReadThrough

T = TypeVar("T")


@check_arguments
class TieredStore:
    """The store `local` in front of `backing`; both are closed with it.

    Writes go to `local`; to `backing` with `push`, and immediately if the retention is `replicate`.
    Each method raises StoreError with the requested name if that may be in the backing store, and
    the backing store is unavailable.
    """

    def __init__(self, local: SqliteStore, backing: Store) -> None:
        self.local, self.backing = local, backing
        self._reader = ReadThrough(local, backing)

    def write(self, batch: WriteBatch) -> None:
        """Write locally. Needs that only the backing store has are fetched first.

        Branches are moved as by `move_branch`.
        """
        local_batch = (
            structs.replace(batch, moves=self._localize_moves(batch)) if batch.moves else batch
        )
        with self._naming_expected_heads(batch.moves):
            try:
                self.local.write(local_batch)
            except ObjectNotFound:
                self._fetch_needs(validate_batch(batch).objects)
                self.local.write(local_batch)

    def _localize_moves(self, batch: WriteBatch) -> dict[str, BranchMove]:
        """Return the moves of a batch in the local store, which may not have the branches yet."""
        for name in batch.moves:
            check_branch(name)
        heads = self._find_heads(batch.moves)
        new = {commit.id for commit, _ in batch.commits}
        check_moves(
            self.local.path, heads, batch.moves, lambda name: name in new or self._fetch(name)
        )
        return {
            name: move if self.local.find_branch(name) else BranchMove(move.to, None)
            for name, move in batch.moves.items()
        }

    @contextmanager
    def _naming_expected_heads(self, moves: Mapping[str, BranchMove]) -> Iterator[None]:
        """Convert a conflict of the local store to one with the expected head of the caller."""
        try:
            yield
        except BranchConflict as error:  # Another writer moved it after the check.
            move, actual = moves[error.branch], error.actual
            raise BranchConflict(
                self.local.path, error.branch, expected=move.expected, actual=actual
            ) from None

    def write_named(self, contents: BatchContents) -> None:
        """Write contents with names that the caller computed. As `SqliteStore.write_named`."""
        try:
            self.local.write_named(contents)
        except ObjectNotFound:
            self._fetch_needs(contents.objects)
            self.local.write_named(contents)

    def _fetch_needs(self, objects: Mapping[Name, StoredObject]) -> None:
        """Fetch the needs of objects that are neither among them nor in the local store."""
        needed = {need for obj in objects.values() for need in obj.needs if need not in objects}
        self.objects(Hash(name) for name in needed if not name.startswith(("art-", "ctx-")))
        artifacts = [ArtifactRef(name) for name in needed if name.startswith("art-")]
        fetched = {*self.deltas(artifacts), *self.sequences(artifacts)}
        other_names: list[Name] = [name for name in artifacts if name not in fetched]
        for name in (*other_names, *(name for name in needed if name.startswith("ctx-"))):
            self._fetch(name)

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        distinct_names = list(dict.fromkeys(names))
        bodies = self.local.objects(distinct_names)
        return bodies | self._reader.objects(
            [name for name in distinct_names if name not in bodies]
        )

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        distinct_names = list(dict.fromkeys(names))
        deltas = self.local.deltas(distinct_names)
        return deltas | self._reader.deltas([name for name in distinct_names if name not in deltas])

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        distinct_names = list(dict.fromkeys(names))
        sequences = self.local.sequences(distinct_names)
        return sequences | self._reader.sequences(
            [name for name in distinct_names if name not in sequences]
        )

    def raws(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, bytes]:
        distinct_names = list(dict.fromkeys(names))
        bodies = self.local.raws(distinct_names)
        return bodies | self._reader.raws([name for name in distinct_names if name not in bodies])

    def raw(self, name: ArtifactRef) -> bytes:
        return b"".join(self.read_chunks(name))

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        try:
            refs = self.local.chunk_names(name)
        except ObjectNotFound:
            return self._reader.read_chunks(name)
        return (self._read_piece(ref) for ref in refs)

    def _read_piece(self, ref: ArtifactRef) -> bytes:
        try:
            return self.local.raw(ref)
        except ObjectNotFound:
            return b"".join(self._reader.read_chunks(ref))

    def chunk_names(self, name: ArtifactRef) -> list[ArtifactRef]:
        try:
            return self.local.chunk_names(name)
        except ObjectNotFound:
            return self._reader.query(name, lambda: self.backing.chunk_names(name))

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        return self.local.find_derived(keys)

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        distinct_names = list(dict.fromkeys(names))
        commits = self.local.commits(distinct_names)
        missing = [name for name in distinct_names if name not in commits]
        if missing:
            commits |= self._reader.query(missing[0], lambda: self.backing.commits(missing))
        return commits

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        try:
            return self.local.chain(name, depth)
        except NameNotFound as unknown:
            try:
                return self._reader.query(name, lambda: self.backing.chain(name, depth))
            except NameNotFound:
                raise unknown from None

    def children(self, name: CommitId) -> list[CommitId]:
        local = self.local.children(name)
        return self._merge_oldest_first(
            local, self._query_backing(lambda store: store.children(name)) or []
        )

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        local = self.local.latest_commit(principal, at)
        remote = self._query_backing(lambda store: store.latest_commit(principal, at))
        candidates = self._merge_oldest_first([remote] if remote else [], [local] if local else [])
        if len(candidates) == 2 and is_descendant(self, self.local, candidates[0], candidates[1]):
            return candidates[0]  # The clock stepped back: it was written after the other one.
        return candidates[-1] if candidates else None

    def branches(self, prefix: str = "") -> dict[str, CommitId]:
        """Return the local heads, and those of the backing store for other branches."""
        remote = self._query_backing(lambda store: store.branches(prefix)) or {}
        return dict(sorted((remote | self.local.branches(prefix)).items()))

    def find_branch(self, name: str) -> CommitId | None:
        """Return the local head of a branch, or that of the backing store."""
        return self.local.find_branch(name) or self._query_backing(
            lambda store: store.find_branch(name)
        )

    def _find_heads(self, names: Iterable[str]) -> dict[str, CommitId]:
        heads = {name: self.find_branch(name) for name in names}
        return {name: head for name, head in heads.items() if head is not None}

    def move_branch(self, name: str, to: CommitId | None, *, expected: CommitId | None) -> None:
        """Move the local head of a branch. `push` moves the head in the backing store."""
        if to is not None:
            self.write(WriteBatch(moves={name: BranchMove(to, expected)}))
            return
        check_branch(name)
        check_head(self.local.path, self._find_heads([name]), name, expected)
        local_head = self.local.find_branch(name)
        self.local.move_branch(name, None, expected=expected if local_head else None)

    def heads(self, prefix: str = "") -> dict[HeadName, ArtifactRef]:
        """Return the heads of tickets in the backing store, and the local ones of others.

        While the backing store is unavailable, these are the versions that this store moved to. The
        heads of imported files are the local ones, and those that only the backing store has.
        """
        remote = self._query_backing(lambda store: store.heads(prefix)) or {}
        local = self.local.heads(prefix)
        sources = {name: head for name, head in local.items() if name.startswith(SOURCE_PREFIX)}
        return dict(sorted((local | remote | sources).items()))

    def move_head(self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None) -> None:
        """Move the head of a ticket in the backing store, then the local one.

        So a claim holds for all machines. Raises StoreError if the backing store is unavailable.
        The head of an imported file is moved here only; see `set_heads`.
        """
        if check_head_name(name).startswith(SOURCE_PREFIX):
            self.local.move_head(name, to, expected=expected)
            return
        remote = self.backing.heads(name)
        local = self.local.heads(name)
        check_head(self.local.path, local | remote, name, expected)
        if not self.names_with_prefix(to, 1):
            raise ObjectNotFound(self.local.path, to, needed_by=name)
        copy_artifacts(self, self.backing, [to], existing=remote.values())
        self.backing.move_head(name, to, expected=remote.get(name))
        # The backing store has the head; another thread may have moved the local one since.
        with suppress(StoreError):
            self._fetch(to)
            self.local.move_head(name, to, expected=local.get(name))

    def set_heads(self, heads: Mapping[HeadName, ArtifactRef | None]) -> None:
        """Set the heads of imported files locally. `push` sets those in the backing store."""
        self.local.set_heads(heads)

    def newest_commits(self, limit: int = 20, *, before: CommitId | None = None) -> list[CommitId]:
        if before is not None:
            names = self.newest_commits(NO_LIMIT)
            if before not in names:
                raise NameNotFound("commit", before, names[:3])
            return names[names.index(before) + 1 :][: max(limit, 0)]
        local = self.local.newest_commits(limit)
        remote = self._query_backing(lambda store: store.newest_commits(limit)) or []
        if {*remote} <= {*local}:
            return local
        return self._merge_oldest_first(remote[::-1], local[::-1])[::-1][:limit]

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        remote = self._query_backing(lambda store: store.names_with_prefix(beginning, limit)) or []
        merged: set[CommitId | ArtifactRef] = {
            *self.local.names_with_prefix(beginning, limit),
            *remote,
        }
        return sorted(merged)[: max(limit, 0)]

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        """Replace the notes of a commit locally and, if available, in the backing store."""
        try:
            self.local.update_notes(name, notes, was=was)
        except NameNotFound:
            self._reader.query(name, lambda: self.backing.update_notes(name, notes, was=was))
            return
        with suppress(StoreError, NameNotFound):  # `push` updates them later.
            self.backing.update_notes(name, notes)

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        merged = self.local.commits_by_label(label)
        remote = self._query_backing(lambda store: store.commits_by_label(label)) or {}
        for text, names in remote.items():
            local = self.local.commits(names)  # Of a local commit, the local labels are used.
            if remote_only := [name for name in names if name not in local]:
                merged[text] = self._merge_oldest_first(merged.get(text, []), remote_only)
        return dict(sorted(merged.items()))

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        """Set retention policies. Retained objects are fetched, and replicated ones sent."""
        for name in names:
            if not self.local.names_with_prefix(name, 1):
                self._fetch(name)
        self.local.set_retention(names)
        retained = {
            name: policy
            for name, policy in names.items()
            if policy and policy.policy != "ephemeral"
        }
        missing = find_evicted_needs(self.local, retained) if retained else []
        self.objects(Hash(name) for name in missing if not name.startswith("art-"))
        for name_ in missing:
            if name_.startswith("art-"):
                self._read_piece(ArtifactRef(name_))
        self._send([name for name, policy in retained.items() if policy.policy == "replicate"])

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
        """Remove unneeded local objects. The backing store is not collected."""
        return self.local.collect(
            roots, now=now, grace_s=grace_s, dry_run=dry_run, on_progress=on_progress
        )

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        """Purge in the backing store, then locally. Evicted content is fetched first."""
        for name in stand_ins:
            if not self._fetch(name):
                raise ObjectNotFound(self.local.path, name)
        tombstones = self.backing.tombstones()
        remote_stand_ins = {
            name: body
            for name, body in stand_ins.items()
            if name not in tombstones and self._is_in_backing(name)
        }
        self.backing.purge(remote_stand_ins, tombstone)
        self.local.purge(stand_ins, tombstone)

    def tombstones(self) -> dict[Name, Tombstone]:
        return (
            self._query_backing(lambda store: store.tombstones()) or {}
        ) | self.local.tombstones()

    def iter_objects(self) -> Iterator[StoredObject]:
        """Yield the objects of the backing store, then those that are only local."""
        seen: set[Name] = set()
        for store in (self.backing, self.local):
            for obj in store.iter_objects():
                if obj.name not in seen:
                    seen.add(obj.name)
                    yield obj

    def stats(self) -> StoreStats:
        return self.local.stats()

    def close(self) -> None:
        self.local.close()
        self.backing.close()

    def push(self, on_progress: Progress | None = None) -> PushResult:
        """Copy to the backing store the commits that it lacks, with all their needs and notes.

        Then move its branches, tickets and imported files to the local heads that continue them;
        the others stay, and are in the result. An interrupted push continues with the next one.
        Raises StoreError.
        """
        return push(self, self.local, self.backing, on_progress)

    def evict(self, most_bytes: int) -> EvictionResult:
        """Evict the least recently used local content until the packs take at most `most_bytes`.

        Content is evicted only after it was read and verified in the backing store. Pinned objects,
        messages, deltas and commits stay. Raises StoreError.
        """
        return evict(self.local, most_bytes, self._iter_verified)

    def _iter_verified(self, names: Sequence[Name]) -> Iterator[Name]:
        parts = [Hash(name) for name in names if not name.startswith("art-")]
        for part, body in self.backing.objects(parts).items():
            if compute_name(ObjectKind.PART, body) == part:
                yield part
        for name in names:
            if name.startswith("art-"):
                with suppress(ObjectNotFound, ObjectCorrupted):
                    if compute_name(ObjectKind.RAW, self.backing.raw(ArtifactRef(name))) == name:
                        yield name

    def _send(self, names: Collection[CommitId | ArtifactRef]) -> None:
        """Copy commits and artifacts to the backing store, with all that they need."""
        if names:
            copy_commits(self, self.backing, [CommitId(n) for n in names if n.startswith("ctx-")])
            artifacts = [ArtifactRef(n) for n in names if n.startswith("art-")]
            copy_artifacts(self, self.backing, artifacts, existing=())

    def _fetch(self, name: Name) -> bool:
        """Fetch an object with all its needs. Return whether it is local now."""
        if name.startswith("ctx-"):
            commit_id = CommitId(name)
            if not self.local.commits([commit_id]):
                with suppress(NameNotFound):
                    copy_commits(self.backing, self.local, [commit_id])
            return bool(self.local.commits([commit_id]))
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

    def _is_in_backing(self, name: Name) -> bool:
        if name.startswith(("ctx-", "art-")):
            return bool(self.backing.names_with_prefix(name, 1))
        return bool(self.backing.objects([Hash(name)]))

    def _query_backing(self, query: Callable[[Store], T]) -> T | None:
        """Query the backing store. Return None while it is unavailable."""
        with suppress(StoreError):
            return query(self.backing)
        return None

    def _merge_oldest_first(self, *lists: Iterable[CommitId]) -> list[CommitId]:
        """Merge lists that are oldest first, without duplicates. Equal times keep this order."""
        names = list(dict.fromkeys(name for names in lists for name in names))
        if sum(1 for names in lists for _ in islice(names, 1)) < 2:
            return names
        commits = self.commits(names)
        return sorted(names, key=lambda name: commits[name].commit.created_at)
