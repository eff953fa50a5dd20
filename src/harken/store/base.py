"""The `Store` protocol: immutable objects, commits, and the mutable data about them.

Every object is named by its content, so writes are idempotent and their order matters only in
this: a commit is written with, or after, everything that it references. A store may be a file,
memory or a remote service, so reads and writes are batched, and there are no other round trips.
Every implementation passes `harken.testing.store.StoreSuite`.

Statistics of a store are computed by one pass over all objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    DeltaEntry,
    Hash,
    HeadName,
)

Name: TypeAlias = str
"""The full name of an object, an artifact or a commit."""
Progress: TypeAlias = Callable[[int, int], None]
"""Is called with the number of steps that are done, and of all steps."""
NO_LIMIT = 2**62
"""A limit that lists everything."""


class Tombstone(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record that replaces purged content."""

    when: str
    by: str
    why: str
    stand_in: Name = ""
    """The name of the replacement content: the same object without the purged part."""


class BranchMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A move of the head of a branch, by compare-and-swap."""

    to: CommitId
    expected: CommitId | None = None
    """The required current head. None: the branch does not exist yet."""


class WriteBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The objects and commits of one atomic write."""

    objects: Mapping[Hash, bytes] = msgspec.field(default_factory=dict)
    """Parts and messages by their hash: canonical bytes."""
    deltas: Mapping[ArtifactRef, Sequence[DeltaEntry]] = msgspec.field(default_factory=dict)
    sequences: Mapping[ArtifactRef, Sequence[ArtifactRef]] = msgspec.field(default_factory=dict)
    raw: Mapping[ArtifactRef, bytes] = msgspec.field(default_factory=dict)
    files: Mapping[ArtifactRef, Sequence[ArtifactRef]] = msgspec.field(default_factory=dict)
    """Large raw bytes: the raw artifacts that are their chunks, in order. The name is the hash of
    all the bytes, so it does not depend on how they were split.
    """
    derived: Mapping[str, ArtifactRef] = msgspec.field(default_factory=dict)
    """Content that can be computed again, by a key that says how: a materialized conversation or a
    translation. An entry does not keep its artifact from being collected.
    """
    commits: Sequence[tuple[Commit, CommitNotes]] = ()
    """A parent precedes its children. A commit that exists already keeps its notes."""
    tombstones: Mapping[Name, Tombstone] = msgspec.field(default_factory=dict)
    """Purges of another store, so that objects which need the purged content can be copied here.
    The stand-in is in the batch or in the store; that of a commit is among `commits`, and is
    entered under the old name. Existing content is unchanged: a write never purges.
    """
    moves: Mapping[str, BranchMove] = msgspec.field(default_factory=dict)
    """Moves of branches by name, to commits of the batch or of the store. If one of the branches
    has another head than expected, nothing of the batch is written.
    """


class StoredCommit(msgspec.Struct, frozen=True, gc=False):
    """A commit with its id and its notes, as read from a store."""

    id: CommitId
    commit: Commit
    notes: CommitNotes


class CommitLink(NamedTuple):
    """The place of a commit in the history, which a store may know without reading the commit."""

    id: CommitId
    parent: CommitId | None
    time_us: int
    principal: str


class ObjectKind(IntEnum):
    """The kind of a stored object. The numbers are part of file formats."""

    # The hash of an Enum is computed in Python, and kinds are hashed often.
    __hash__ = int.__hash__

    PART = 1
    MESSAGE = 2
    DELTA = 3
    SEQUENCE = 4
    RAW = 5
    COMMIT = 6
    FILE = 7


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """The bytes of an object, its kind, and the full names of the objects it requires."""

    kind: ObjectKind
    name: Name
    body: bytes
    needs: tuple[Name, ...] = ()


class RetentionPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The retention of a commit or an artifact, if it is not the default."""

    policy: Literal["pin", "ephemeral", "replicate"]
    """`pin`: retained here forever. `replicate`: retained here and in the backing store.
    `ephemeral`: retained until a time, then removed by `collect`, also a commit (unless a retained
    one builds on it).
    """
    until: str | None = None
    """RFC 3339, for `ephemeral` only."""


class GcResult(msgspec.Struct, frozen=True):
    """The objects that `collect` removed, or would remove."""

    commits: tuple[CommitId, ...] = ()
    objects: int = 0
    """The number of parts, messages and artifacts."""
    size_bytes: int = 0
    """An estimate of the bytes freed."""


class StoreFinding(msgspec.Struct, frozen=True):
    """A problem in a store. `place` is a name, or a location of the bytes."""

    place: str
    problem: str


class UnusedSpace(msgspec.Struct, frozen=True):
    """The unused part of the file of a store."""

    size_bytes: int
    """0 if there is too little to rewrite the file."""
    room_bytes: int
    """The free disk space that a rewrite needs: SQLite makes two copies of the used part, one of
    them in its log.
    """


class EvictionResult(msgspec.Struct, frozen=True):
    """The number and size of the evicted objects."""

    objects: int = 0
    size_bytes: int = 0
    """An estimate of the bytes saved in packs."""


class StoreStats(msgspec.Struct, frozen=True):
    """Object counts and sizes of a store."""

    objects: Mapping[str, int]
    """Kind (`part`, `message`, `delta`, `sequence`, `raw`, `commit`) -> number of objects."""
    raw_bytes: int
    """The size of all objects, each counted once, before compression."""
    stored_bytes: int
    """The size on disk."""
    logical_bytes: int
    """The size of all objects, counted as often as deltas and commits reference them (no sharing).
    """


class Store(Protocol):
    """A content-addressed store of objects and commits.

    All methods block; a caller may use a thread.
    """

    def write(self, batch: WriteBatch) -> None:
        """Write a batch atomically. On return, all its content survives a power failure.

        Raises ObjectNotFound if a delta, a sequence or a commit references a name that is neither
        in the store nor in the batch; ObjectCorrupted if a name is not the hash of its content;
        BranchConflict, NameNotFound, ConfigError for a move, as `move_branch`; StoreError if the
        disk refuses. In these cases nothing of the batch was written.
        """
        ...

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        """Return parts and messages by name, without those that do not exist.

        Raises ObjectCorrupted if the bytes of an object do not match its name.
        """
        ...

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        """Return deltas by name, their entries oldest first. Errors are as for `objects`."""
        ...

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        """Return sequences by name. Errors are as for `objects`."""
        ...

    def raw(self, name: ArtifactRef) -> bytes:
        """Return raw bytes. Raises ObjectNotFound, ObjectCorrupted."""
        ...

    def raws(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, bytes]:
        """Return raw bytes by name, without files of several chunks. Errors are as for `objects`.

        This reads many small artifacts in few round trips; `raw` reads an artifact of any size.
        """
        ...

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        """Yield raw bytes of any size in chunks. Errors are as for `raw`.

        If all chunks together do not match the name, the last step raises ObjectCorrupted.
        """
        ...

    def chunk_names(self, name: ArtifactRef) -> list[ArtifactRef]:
        """Return the raw artifacts that are the chunks of a file, in order.

        Raw bytes are their own chunk. So a reader that has an earlier version of a file reads only
        the new chunks. Raises ObjectNotFound.
        """
        ...

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        """Return the derived artifacts of these keys that still exist."""
        ...

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        """Return commits by full name, without those that do not exist."""
        ...

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        """Return a commit and its ancestors, newest first, at most `depth` commits.

        Raises NameNotFound if the commit does not exist.
        """
        ...

    def children(self, name: CommitId) -> list[CommitId]:
        """Return the child commits of a commit, oldest first."""
        ...

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        """Return a principal's last commit at or before a time (RFC 3339), or None.

        This is the commit with the greatest time, or, if a clock stepped back after it, its latest
        descendant of the same principal whose time is not after `at`.
        """
        ...

    def newest_commits(self, limit: int = 20, *, before: CommitId | None = None) -> list[CommitId]:
        """Return the most recently written commits, newest first, at most `limit`.

        before: return those that were written before this commit. Raises NameNotFound if it does
        not exist.
        """
        ...

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        """Return at most `limit` names that start with a prefix (`ctx-12ab`, `art-...`), sorted."""
        ...

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        """Replace the mutable notes of a commit.

        With `was`, replace them only if they equal `was`. Raises NameNotFound, NotesConflict.
        """
        ...

    def branches(self, prefix: str = "") -> dict[str, CommitId]:
        """Return the heads of the branches whose names start with a prefix, sorted by name."""
        ...

    def find_branch(self, name: str) -> CommitId | None:
        """Return the head of a branch. Return None if the branch does not exist.

        The cost does not grow with the number of branches.
        """
        ...

    def move_branch(self, name: str, to: CommitId | None, *, expected: CommitId | None) -> None:
        """Move the head of a branch from `expected` to `to`.

        An expected head of None creates the branch, and a new head of None deletes it. A head
        and all that it needs is retained. Raises BranchConflict if the branch has another head,
        NameNotFound if `to` does not exist, ConfigError for an invalid name (see `check_branch`).
        """
        ...

    def heads(self, prefix: str = "") -> dict[HeadName, ArtifactRef]:
        """Return the heads of artifacts whose names start with a prefix, sorted by name."""
        ...

    def move_head(self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None) -> None:
        """Move the head of a ticket or an imported file. An expected head of None creates it.

        A head and all that it needs is retained. A version is any artifact. Raises BranchConflict
        if the name has another head, ObjectNotFound if `to` does not exist, ConfigError for an
        invalid name.
        """
        ...

    def set_heads(self, heads: Mapping[HeadName, ArtifactRef | None]) -> None:
        """Set the heads of imported files, atomically, or remove those with None.

        Each file has one writer, the machine that has it, so there is no comparison. Raises
        ObjectNotFound, and ConfigError for the name of anything else.
        """
        ...

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        """Return labels with their commits, oldest first: of one label, or of all."""
        ...

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        """Set the retention of objects, or restore the default with None. Raises NameNotFound."""
        ...

    def retention(self) -> dict[CommitId | ArtifactRef, RetentionPolicy]:
        """Return the retention policies that differ from the default."""
        ...

    def collect(
        self,
        roots: Collection[Name],
        *,
        now: str,
        grace_s: float = 3600,
        dry_run: bool = False,
        on_progress: Progress | None = None,
    ) -> GcResult:
        """Remove objects that no commit, root or retained object requires.

        Expired objects are removed too. Objects written in the last `grace_s` seconds stay, and so
        do objects that any process writes, or writes again, during the collection. No other read
        changes. A collection may be interrupted at any time and run again. `now` is RFC 3339.
        A store that knows its progress reports it.
        Raises StoreError.
        """
        ...

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        """Replace the content of objects for good: no trace of the old bytes remains.

        `stand_ins`: canonical bytes of the same kind. A read of the old name returns the new
        content;
        a write of the old content changes nothing. Derived artifacts are forgotten. Raises
        ObjectNotFound for a name that does not exist.
        """
        ...

    def tombstones(self) -> dict[Name, Tombstone]:
        """Return all purges, by the name of the purged content."""
        ...

    def iter_objects(self) -> Iterator[StoredObject]:
        """Yield every object, each after the objects that it requires.

        Objects written during the iteration may be left out. Raises ObjectCorrupted.
        """
        ...

    def stats(self) -> StoreStats:
        """Return object counts and sizes."""
        ...

    def close(self) -> None:
        """Close the store. A second call does nothing."""
        ...


def compute_stats(objects: Iterable[StoredObject], path: Path | None = None) -> StoreStats:
    """Count objects, each after those that it requires; `path` is the file that holds them."""
    counts = {kind.name.lower(): 0 for kind in ObjectKind if kind is not ObjectKind.FILE}
    sizes_with_needs: dict[bytes, int] = {}
    # Objects that nothing references, such as imported files, count once, with all their chunks.
    unreferenced: dict[bytes, int] = {}
    raw_bytes = logical_bytes = 0
    for obj in objects:
        name = bytes.fromhex(obj.name[-64:-32])
        if name in sizes_with_needs:
            continue
        size = len(obj.body)
        kind = ObjectKind.RAW if obj.kind is ObjectKind.FILE else obj.kind
        counts[kind.name.lower()] += 1
        raw_bytes += size
        needs = [bytes.fromhex(need[-64:-32]) for need in obj.needs]
        for need in needs:
            unreferenced.pop(need, None)
        counted_needs = needs[:1] if obj.kind is ObjectKind.COMMIT else needs
        sizes_with_needs[name] = size + sum(sizes_with_needs.get(need, 0) for need in counted_needs)
        if obj.kind is ObjectKind.COMMIT:
            logical_bytes += sizes_with_needs[name]
        else:
            unreferenced[name] = size if obj.kind is ObjectKind.SEQUENCE else sizes_with_needs[name]
    stored_bytes = raw_bytes if path is None else _file_size(path)
    return StoreStats(counts, raw_bytes, stored_bytes, logical_bytes + sum(unreferenced.values()))


def _file_size(path: Path) -> int:
    files = [path, path.with_name(path.name + "-wal")]
    return sum(file.stat().st_size for file in files if file.exists())
