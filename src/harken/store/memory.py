"""An in-memory store of plain dicts, the reference implementation of `Store`."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping

from harken.core import commits as values
from harken.core.arguments import check_arguments
from harken.core.clock import Clock, parse_rfc3339, system_clock
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, DeltaEntry, Hash, HeadName
from harken.errors import NameNotFound, NotesConflict, ObjectNotFound
from harken.store.base import (
    GcResult,
    Name,
    ObjectKind,
    Progress,
    RetentionPolicy,
    StoredCommit,
    StoredObject,
    StoreStats,
    Tombstone,
    WriteBatch,
)
from harken.store.base import compute_stats as stats
from harken.store.batch import BatchContents, is_allowed_need, parse_file, validate_batch
from harken.store.branches import (
    check_branch,
    check_head,
    check_head_name,
    check_moves,
    check_source,
)
from harken.store.chunking import verify_chunks
from harken.store.purge import plan_purge, purge_new_content, select_new_tombstones
from harken.store.raw_files import VerifiedFiles
from harken.store.retention import active_names, check_policy, find_reachable

NAME = "the store in memory"


@check_arguments
class MemoryStore:
    """A store that lives as long as the process. Threads may share it.

    `clock` gives the time of each write, which `collect` compares.
    """

    def __init__(self, clock: Clock = system_clock) -> None:
        self._lock = threading.RLock()
        self._clock = clock
        self._objects: dict[Name, StoredObject] = {}
        """Objects by the hash of their bytes, in the order of writing: needs come first."""
        self._write_times_us: dict[Name, int] = {}
        """The time of the last write of each object."""
        self._names: list[Name] = []
        """The sorted names of artifacts and commits, for prefix searches."""
        self._notes: dict[Name, CommitNotes] = {}
        """The notes of every commit, in the order of writing."""
        self._derived: dict[str, ArtifactRef] = {}
        self._retention: dict[Name, RetentionPolicy] = {}
        self._tombstones: dict[Name, Tombstone] = {}
        self._branches: dict[str, CommitId] = {}
        self._heads: dict[HeadName, ArtifactRef] = {}
        self._verified_files = VerifiedFiles()

    def write(self, batch: WriteBatch) -> None:
        contents = validate_batch(batch)
        with self._lock:
            purge_new_content(contents, self._tombstones, self._find_object)
            select_new_tombstones(NAME, contents, lambda name: self._find_object(name) is not None)
            self._check(contents)
            new_commits = {commit.id for commit in contents.commits}
            check_moves(
                NAME,
                self._branches,
                contents.moves,
                lambda name: name in new_commits or name in self._notes,
            )
            now_us = self._clock()
            for name, obj in contents.objects.items():
                self._write_times_us[name] = now_us
                if name not in self._objects and name not in self._tombstones:
                    self._objects[name] = obj
            self._tombstones |= contents.tombstones
            for new in contents.commits:
                self._notes.setdefault(new.id, new.notes)
                self._index_name(new.id)
            for name in (*contents.objects, *contents.tombstones):
                if name.startswith("art-"):
                    self._index_name(name)
            self._derived |= contents.derived
            self._branches |= {name: move.to for name, move in contents.moves.items()}

    def _check(self, contents: BatchContents) -> None:
        """Raise ObjectNotFound unless all needs exist and parents precede their children."""
        before: set[Name] = {*contents.tombstones}
        for obj in contents.objects.values():
            for needed in obj.needs:
                need = (
                    contents.objects.get(needed) if needed in before else self._find_object(needed)
                )
                if needed not in contents.tombstones and (
                    need is None or not is_allowed_need(obj, need.kind)
                ):
                    raise ObjectNotFound(NAME, needed, needed_by=obj.name)
            if obj.name in self._tombstones and self._find_object(obj.name) is None:
                raise ObjectNotFound(
                    NAME, obj.name
                )  # A purged and collected object cannot be written again.
            before.add(obj.name)
        self._check_files(contents)
        for key, ref in contents.derived.items():
            if ref not in before and self._find_object(ref) is None:
                raise ObjectNotFound(NAME, ref, needed_by=f"the derived {key!r}")

    def _check_files(self, contents: BatchContents) -> None:
        """Raise ObjectCorrupted if the chunks of a new file do not match its name."""

        def read_piece(piece: ArtifactRef) -> bytes:
            obj = contents.objects.get(piece) or self._find_object(piece)
            return b"" if obj is None else obj.body

        for name, pieces in contents.files.items():
            if self._find_object(name) is None:
                self._verified_files.verify(NAME, name, pieces, read_piece)

    def _index_name(self, name: Name) -> None:
        """Insert a name into the sorted list for prefix searches."""
        index = bisect_left(self._names, name)
        if self._names[index : index + 1] != [name]:
            self._names.insert(index, name)

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        objs = self._iter_kinds(names, ObjectKind.PART, ObjectKind.MESSAGE)
        return {Hash(name): obj.body for name, obj in objs}

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        objs = self._iter_kinds(names, ObjectKind.DELTA)
        return {ArtifactRef(name): values.decode_delta(obj.body) for name, obj in objs}

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        objs = self._iter_kinds(names, ObjectKind.SEQUENCE)
        return {ArtifactRef(name): values.decode_sequence(obj.body) for name, obj in objs}

    def raw(self, name: ArtifactRef) -> bytes:
        return b"".join(self.read_chunks(name))

    def raws(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, bytes]:
        objs = self._iter_kinds(names, ObjectKind.RAW)
        return {ArtifactRef(name): obj.body for name, obj in objs}

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        with self._lock:
            stored = self._find_object(name)
            if stored is None or stored.kind not in (ObjectKind.RAW, ObjectKind.FILE):
                raise ObjectNotFound(NAME, name)
            if stored.kind is ObjectKind.RAW:
                return iter([stored.body])
            objs = [(piece, self._find_object(piece)) for piece in parse_file(stored.body).pieces]
        missing = next((piece for piece, obj in objs if obj is None), None)
        if missing is not None:
            raise ObjectNotFound(NAME, missing, needed_by=name)
        bodies = (obj.body for _, obj in objs if obj is not None)
        return verify_chunks(NAME, ArtifactRef(stored.name), bodies)

    def chunk_names(self, name: ArtifactRef) -> list[ArtifactRef]:
        with self._lock:
            stored = self._find_object(name)
        if stored is None or stored.kind not in (ObjectKind.RAW, ObjectKind.FILE):
            raise ObjectNotFound(NAME, name)
        return [name] if stored.kind is ObjectKind.RAW else parse_file(stored.body).pieces

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        with self._lock:
            return {key: self._derived[key] for key in keys if key in self._derived}

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        objs = self._iter_kinds((name for name in names if name in self._notes), ObjectKind.COMMIT)
        return {CommitId(name): self._build_commit(CommitId(name), obj) for name, obj in objs}

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        commits: list[StoredCommit] = []
        with self._lock:
            current: CommitId | None = self._check_commit(name)
            while current is not None and (depth is None or len(commits) < depth):
                commits.append(self._get_commit(current))
                current = commits[-1].commit.parent
        return commits

    def children(self, name: CommitId) -> list[CommitId]:
        return self._oldest_first(
            stored for stored in self._stored_commits() if stored.commit.parent == name
        )

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        until_us = parse_rfc3339(at)
        commits = (
            stored for stored in self._stored_commits() if stored.commit.principal == principal
        )
        candidates = [s for s in commits if parse_rfc3339(s.commit.created_at) <= until_us]
        latest = next(reversed(self._oldest_first(candidates)), None)
        if latest is None:
            return None
        while children := [stored for stored in candidates if stored.commit.parent == latest]:
            latest = self._oldest_first(children)[-1]
        return latest

    def branches(self, prefix: str = "") -> dict[str, CommitId]:
        with self._lock:
            heads = sorted(self._branches.items())
        return {name: head for name, head in heads if name.startswith(prefix)}

    def find_branch(self, name: str) -> CommitId | None:
        return self._branches.get(name)

    def move_branch(self, name: str, to: CommitId | None, *, expected: CommitId | None) -> None:
        check_branch(name)
        with self._lock:
            check_head(NAME, self._branches, name, expected)
            self._branches.pop(name, None)
            if to is not None:
                self._branches[name] = self._check_commit(to)

    def heads(self, prefix: str = "") -> dict[HeadName, ArtifactRef]:
        with self._lock:
            heads = sorted(self._heads.items())
        return {name: head for name, head in heads if name.startswith(prefix)}

    def move_head(self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None) -> None:
        check_head_name(name)
        with self._lock:
            check_head(NAME, self._heads, name, expected)
            if not self._is_artifact(to):
                raise ObjectNotFound(NAME, to, needed_by=name)
            self._heads[name] = to

    def newest_commits(self, limit: int = 20, *, before: CommitId | None = None) -> list[CommitId]:
        with self._lock:
            names = [CommitId(name) for name in self._notes]
            if before is not None:
                names = names[: names.index(self._check_commit(before))]
        return names[::-1][: max(limit, 0)]

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        with self._lock:
            start = bisect_left(self._names, beginning)
            candidates = self._names[start : start + max(limit, 0)]
        return [ArtifactRef(name) for name in candidates if name.startswith(beginning)]

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        values.check_notes(notes)
        with self._lock:
            if was not in (None, self._notes[self._check_commit(name)]):
                raise NotesConflict(NAME, name)
            self._notes[name] = notes

    def set_heads(self, heads: Mapping[HeadName, ArtifactRef | None]) -> None:
        with self._lock:
            for name, head in heads.items():
                check_source(name)
                if head is not None and not self._is_artifact(head):
                    raise ObjectNotFound(NAME, head, needed_by=name)
            for name, head in heads.items():
                self._heads.pop(name, None)
                if head is not None:
                    self._heads[name] = head

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        stored = list(self._stored_commits())
        labels = {name for s in stored for name in s.notes.labels if label in (None, name)}
        return {
            name: self._oldest_first(s for s in stored if name in s.notes.labels)
            for name in sorted(labels)
        }

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        for policy in names.values():
            if policy is not None:
                check_policy(policy)
        with self._lock:
            for name in names:
                if not self._can_be_retained(name):
                    raise NameNotFound("commit or artifact", name, self._names[:3])
            for name, policy in names.items():
                self._retention.pop(name, None)
                if policy is not None:
                    self._retention[name] = policy

    def _can_be_retained(self, name: Name) -> bool:
        obj = self._find_object(name)
        if obj is None or obj.kind <= ObjectKind.MESSAGE:
            return False
        return obj.kind is not ObjectKind.COMMIT or name in self._notes

    def retention(self) -> dict[CommitId | ArtifactRef, RetentionPolicy]:
        with self._lock:
            return {ArtifactRef(name): policy for name, policy in self._retention.items()}

    def collect(
        self,
        roots: Collection[Name],
        *,
        now: str,
        grace_s: float = 3600,
        dry_run: bool = False,
        on_progress: Progress | None = None,
    ) -> GcResult:
        now_us = parse_rfc3339(now)
        with self._lock:
            grace_start_us = now_us - int(grace_s * 1_000_000)
            recent_names = [
                name for name, time_us in self._write_times_us.items() if time_us > grace_start_us
            ]
            reachable = self._find_reachable([*self._roots(now_us), *roots, *recent_names])
            garbage = [name for name in self._objects if name not in reachable]
            commits = tuple(CommitId(name) for name in self._notes if name not in reachable)
            bodies = [self._objects[name].body for name in garbage]
            object_count = sum(
                self._objects[name].kind is not ObjectKind.COMMIT for name in garbage
            )
            if not dry_run:
                self._remove_commits(commits)
                self._remove_objects(garbage)
        return GcResult(commits, object_count, sum(map(len, bodies)))

    def _roots(self, now_us: int) -> Iterator[Name]:
        """Yield the roots of the collection, and the stand-ins of purged content."""
        retained = active_names(self._retention, now_us)
        yield from retained
        yield from self._branches.values()
        yield from self._heads.values()
        for name, notes in self._notes.items():
            if notes.labels or name in retained or name not in self._retention:
                yield name
        yield from self._stand_ins()

    def _stand_ins(self) -> list[Name]:
        """Return the stand-ins of purged objects: the next write of the old content needs them."""
        items = self._tombstones.items()
        return [tombstone.stand_in for name, tombstone in items if not name.startswith("ctx-")]

    def _find_reachable(self, roots: Iterable[Name]) -> set[Name]:
        def needs(name: Name) -> Iterable[Name]:
            tombstone, obj = self._tombstones.get(name), self._objects.get(name)
            return (tombstone.stand_in,) if tombstone is not None else obj.needs if obj else ()

        return find_reachable(roots, needs)

    def _remove_commits(self, commits: Iterable[CommitId]) -> None:
        for name in commits:
            self._notes.pop(name)
            self._retention.pop(name, None)

    def _remove_objects(self, names: Iterable[Name]) -> None:
        """Remove objects and all references to them by name."""
        for name in names:
            self._objects.pop(name, None)
            self._write_times_us.pop(name, None)
        self._names = [n for n in self._names if n in self._notes or self._is_artifact(n)]
        self._retention = {
            n: k for n, k in self._retention.items() if n in self._notes or self._is_artifact(n)
        }
        self._derived = {key: ref for key, ref in self._derived.items() if self._is_artifact(ref)}

    def _is_artifact(self, name: Name) -> bool:
        return name.startswith("art-") and self._find_object(name) is not None

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        with self._lock:
            plan = plan_purge(
                NAME,
                stand_ins,
                tombstone,
                find_object=self._find_object,
                tombstones=self._tombstones,
            )
            for name, obj in plan.contents.objects.items():
                if name not in self._tombstones and name not in plan.tombstones:
                    self._objects.setdefault(name, obj)
                    self._write_times_us[name] = self._clock()
                    if name.startswith("art-"):
                        self._index_name(name)
            self._tombstones |= plan.tombstones
            self._remove_objects([*plan.originals, *self._find_only_derived()])
            self._derived = {}

    def _find_only_derived(self) -> set[Name]:
        """Return the derived artifacts and the objects that nothing else needs."""
        derivable = self._find_reachable(self._derived.values())
        other_names = (name for name in self._objects if name not in derivable)
        return derivable - self._find_reachable(
            [
                *other_names,
                *self._notes,
                *self._retention,
                *self._heads.values(),
                *self._stand_ins(),
            ]
        )

    def tombstones(self) -> dict[Name, Tombstone]:
        with self._lock:
            return dict(self._tombstones)

    def iter_objects(self) -> Iterator[StoredObject]:
        with self._lock:
            return iter(list(self._objects.values()))

    def stats(self) -> StoreStats:
        return stats(self.iter_objects())

    def close(self) -> None:
        """Do nothing: the memory is freed with the object."""

    def _find_object(self, name: Name) -> StoredObject | None:
        """Return the object that is read under a name, or None."""
        tombstone = self._tombstones.get(name)
        return self._objects.get(name if tombstone is None else tombstone.stand_in)

    def _iter_kinds(
        self, names: Iterable[Name], *kinds: ObjectKind
    ) -> Iterator[tuple[Name, StoredObject]]:
        for name in names:
            obj = self._find_object(name)
            if obj is not None and obj.kind in kinds:
                yield name, obj

    def _stored_commits(self) -> Iterator[StoredCommit]:
        with self._lock:
            return iter([self._get_commit(CommitId(name)) for name in self._notes])

    def _get_commit(self, name: CommitId) -> StoredCommit:
        obj = self._find_object(name)
        if obj is None:
            raise ObjectNotFound(NAME, name)
        return self._build_commit(name, obj)

    def _build_commit(self, name: CommitId, obj: StoredObject) -> StoredCommit:
        return StoredCommit(name, values.decode_commit(obj.body), self._notes[name])

    def _check_commit(self, name: CommitId) -> CommitId:
        if name not in self._notes:
            raise NameNotFound("commit", name, list(self._notes)[:-4:-1])
        return name

    def _oldest_first(self, commits: Iterable[StoredCommit]) -> list[CommitId]:
        return [stored.id for stored in sorted(commits, key=lambda s: s.commit.created_at)]
