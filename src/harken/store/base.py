"""The contract of every store: objects, commits, and what of them may change.

One idea: everything is named by its content, so writing is idempotent and order does not matter
beyond this: a commit is written with, or after, all that it names. A store may be a file, memory
or a service far away: so reads and writes come in batches, and there is no other round trip.
Every implementation passes `harken.testing.store.StoreSuite`.

How much is in a store: counted by reading everything once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

from harken.core.commits import ArtifactRef, Commit, CommitId, CommitNotes, DeltaEntry, Hash

Name: TypeAlias = str
"""The full name of anything: of an object, an artifact or a commit."""


class Tombstone(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands where something was purged."""

    when: str
    by: str
    why: str
    stand_in: Name = ""
    """What is read in its place: the same thing without what had to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBatch:
    """What is written at once: all of it, or nothing."""

    objects: Mapping[Hash, bytes] = field(default_factory=dict)
    """Parts and messages by their hash: canonical bytes."""
    deltas: Mapping[ArtifactRef, Sequence[DeltaEntry]] = field(default_factory=dict)
    sequences: Mapping[ArtifactRef, Sequence[ArtifactRef]] = field(default_factory=dict)
    raw: Mapping[ArtifactRef, bytes] = field(default_factory=dict)
    files: Mapping[ArtifactRef, Sequence[ArtifactRef]] = field(default_factory=dict)
    """Raw bytes that are large: the raw artifacts that make them up, in order. The name is that of
    all the bytes, so it says nothing of how they were cut."""
    derived: Mapping[str, ArtifactRef] = field(default_factory=dict)
    """What can be made again, by a key that says how: a materialized conversation, a translation.
    It is no reason to keep an artifact."""
    commits: Sequence[tuple[Commit, CommitNotes]] = ()
    """A parent stands before its children. One that is there already keeps its notes."""
    tombstones: Mapping[Name, Tombstone] = field(default_factory=dict)
    """What was purged elsewhere, so that what names it can be brought here. The stand-in is in the
    batch, or there; that of a commit is among `commits`, and is entered under the old name. What is
    there stays as it is: nobody purges by writing."""


class StoredCommit(msgspec.Struct, frozen=True):
    """A commit as a store has it."""

    id: CommitId
    commit: Commit
    notes: CommitNotes


class ObjectKind(IntEnum):
    """What a thing is. The numbers stand in files."""

    __hash__ = int.__hash__  # that of enums is in Python, and each thing is looked at often

    PART = 1
    MESSAGE = 2
    DELTA = 3
    SEQUENCE = 4
    RAW = 5
    COMMIT = 6
    FILE = 7


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """Bytes, what they are, and the full names of what they need: those must be there too."""

    kind: ObjectKind
    name: Name
    body: bytes
    needs: tuple[Name, ...] = ()


class RetentionPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long something is kept that would go otherwise, or goes that would stay."""

    policy: Literal["pin", "ephemeral", "replicate"]
    """`pin`: here, always. `replicate`: here and in the backing store. `ephemeral`: until a time,
    then `collect` takes it, a commit also (unless one that stays is built on it)."""
    until: str | None = None
    """RFC 3339, for `ephemeral` only."""


@dataclass(frozen=True, slots=True)
class GcResult:
    """What `collect` took, or would take."""

    commits: tuple[CommitId, ...] = ()
    things: int = 0
    """How many parts, messages and artifacts."""
    size_bytes: int = 0
    """How much smaller the store gets, as far as that can be said."""


@dataclass(frozen=True, slots=True)
class StoreStats:
    """How much is in a store."""

    things: Mapping[str, int]
    """Kind (`part`, `message`, `delta`, `sequence`, `raw`, `commit`) -> how many."""
    raw_bytes: int
    """Of all things, each once, as they were before they were packed."""
    stored_bytes: int
    """On the disk."""
    logical_bytes: int
    """Of all things as often as deltas and commits name them: what no sharing would cost."""


class Store(Protocol):
    """Where objects and commits are kept. All methods block; a caller may use a thread."""

    def write(self, batch: WriteBatch) -> None:
        """Write a batch; on return it survives a power cut, whatever was there already.

        Raises ObjectNotFound where a delta, a sequence or a commit names something that is neither
        there nor in the batch; ObjectCorrupted where a name is not that of its content; StoreError
        where the disk refuses. Then nothing of the batch was written.
        """
        ...

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        """Return parts and messages by name; those that are not there are left out.

        Raises ObjectCorrupted where the bytes of one are not what its name says.
        """
        ...

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        """Return deltas by name, their entries oldest first; as `objects`."""
        ...

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        """Return sequences by name; as `objects`."""
        ...

    def raw(self, name: ArtifactRef) -> bytes:
        """Return raw bytes. Raises ObjectNotFound, ObjectCorrupted."""
        ...

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        """Yield raw bytes piece by piece, however many they are. As `raw`.

        Where all pieces together are not what the name says, the last step raises ObjectCorrupted.
        """
        ...

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        """Return what was derived under these keys and is still there."""
        ...

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        """Return commits by their full name; those that are not there are left out."""
        ...

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        """Return a commit and those before it, newest first, at most `depth`.

        Raises NameNotFound for a commit that is not there.
        """
        ...

    def children(self, name: CommitId) -> list[CommitId]:
        """Return the commits whose parent this is, oldest first."""
        ...

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        """Return a principal's last commit at or before a time (RFC 3339); None: it has none."""
        ...

    def newest_commits(self, limit: int = 20) -> list[CommitId]:
        """Return the commits that were written last, the last first, at most `limit`."""
        ...

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        """Return the names that begin so (`ctx-12ab`, `art-...`), sorted, at most `limit`."""
        ...

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        """Replace what of a commit may change.

        With `was`, only if that is what is there. Raises NameNotFound, NotesConflict.
        """
        ...

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        """Return labels and the commits that have them, oldest first; one, or all."""
        ...

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        """Say how long commits and artifacts are kept; None: as all others. Raises NameNotFound."""
        ...

    def retention(self) -> dict[CommitId | ArtifactRef, RetentionPolicy]:
        """Return what is kept otherwise than usual."""
        ...

    def collect(
        self, roots: Collection[Name], *, now: str, grace_s: float = 3600, dry_run: bool = False
    ) -> GcResult:
        """Remove what no commit, no `roots` and nothing that is kept needs, and what has expired.

        What was written in the last `grace_s` seconds stays, and so does all that somebody writes
        meanwhile, or writes again. Nothing else that is read changes. It may be cut off at any
        moment and begun again. `now` is RFC 3339. Raises StoreError.
        """
        ...

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        """Put other content in the place of things, for good: no trace of the old bytes remains.

        `stand_ins`: canonical bytes of the same kind. Whoever reads the old name is given the new
        content; whoever writes the old content again changes nothing. What was derived is
        forgotten. Raises ObjectNotFound for a name that is not there.
        """
        ...

    def tombstones(self) -> dict[Name, Tombstone]:
        """Return what was purged."""
        ...

    def iter_objects(self) -> Iterator[StoredObject]:
        """Yield everything that is there, what is needed before what needs it.

        What is written meanwhile may be left out. Raises ObjectCorrupted.
        """
        ...

    def stats(self) -> StoreStats:
        """Return how much is there."""
        ...

    def close(self) -> None:
        """Let go of the store. A second call does nothing."""
        ...


def stats(things: Iterable[StoredObject], path: Path | None = None) -> StoreStats:
    """Count things, those that others need before them; `path`: the file that they are in."""
    counts = {kind.name.lower(): 0 for kind in ObjectKind if kind is not ObjectKind.FILE}
    whole: dict[bytes, int] = {}
    # What nothing names, such as files that were imported: it counts once, with all its pieces.
    alone: dict[bytes, int] = {}
    raw_bytes = logical_bytes = 0
    for thing in things:
        name = bytes.fromhex(thing.name[-64:-32])
        if name in whole:
            continue
        size = len(thing.body)
        kind = ObjectKind.RAW if thing.kind is ObjectKind.FILE else thing.kind
        counts[kind.name.lower()] += 1
        raw_bytes += size
        needs = [bytes.fromhex(need[-64:-32]) for need in thing.needs]
        for need in needs:
            alone.pop(need, None)
        inside = needs[:1] if thing.kind is ObjectKind.COMMIT else needs
        whole[name] = size + sum(whole.get(need, 0) for need in inside)
        if thing.kind is ObjectKind.COMMIT:
            logical_bytes += whole[name]
        else:
            alone[name] = size if thing.kind is ObjectKind.SEQUENCE else whole[name]
    stored_bytes = raw_bytes if path is None else _on_disk(path)
    return StoreStats(counts, raw_bytes, stored_bytes, logical_bytes + sum(alone.values()))


def _on_disk(path: Path) -> int:
    files = [path, path.with_name(path.name + "-wal")]
    return sum(file.stat().st_size for file in files if file.exists())
