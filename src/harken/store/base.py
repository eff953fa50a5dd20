"""The contract of every store: objects, commits, and what of them may change.

One idea: everything is named by its content, so writing is idempotent and order does not matter
beyond this: a commit is written with, or after, all that it names. A store may be a file, memory
or a service far away: so reads and writes come in batches, and there is no other round trip.
Every implementation passes `harken.testing.store.StoreSuite`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harken.core.commits import ArtifactRef, Commit, CommitId, Entry, Hash, Notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What is written at once: all of it, or nothing."""

    objects: Mapping[Hash, bytes] = field(default_factory=dict)
    """Parts and messages by their hash: canonical bytes."""
    deltas: Mapping[ArtifactRef, Sequence[Entry]] = field(default_factory=dict)
    sequences: Mapping[ArtifactRef, Sequence[ArtifactRef]] = field(default_factory=dict)
    raw: Mapping[ArtifactRef, bytes] = field(default_factory=dict)
    commits: Sequence[tuple[Commit, Notes]] = ()
    """A parent stands before its children. One that is there already keeps its notes."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A commit as a store has it."""

    id: CommitId
    commit: Commit
    notes: Notes


class Store(Protocol):
    """Where objects and commits are kept. All methods block; a caller may use a thread."""

    def write(self, batch: Batch) -> None:
        """Write a batch; on return it survives a power cut, whatever was there already.

        Raises ObjectMissing where a delta, a sequence or a commit names something that is neither
        there nor in the batch; ObjectDamaged where a name is not that of its content; StoreError
        where the disk refuses. Then nothing of the batch was written.
        """
        ...

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        """Return parts and messages by name; those that are not there are left out.

        Raises ObjectDamaged where the bytes of one are not what its name says.
        """
        ...

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[Entry]]:
        """Return deltas by name, their entries oldest first; as `objects`."""
        ...

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        """Return sequences by name; as `objects`."""
        ...

    def raw(self, name: ArtifactRef) -> bytes:
        """Return raw bytes. Raises ObjectMissing, ObjectDamaged."""
        ...

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, Stored]:
        """Return commits by their full name; those that are not there are left out."""
        ...

    def chain(self, name: CommitId, depth: int | None = None) -> list[Stored]:
        """Return a commit and those before it, newest first, at most `depth`.

        Raises UnknownName for a commit that is not there.
        """
        ...

    def children(self, name: CommitId) -> list[CommitId]:
        """Return the commits whose parent this is, oldest first."""
        ...

    def latest(self, principal: str, at: str) -> CommitId | None:
        """Return a principal's last commit at or before a time (RFC 3339); None: it has none."""
        ...

    def newest(self, limit: int = 20) -> list[CommitId]:
        """Return the commits that were written last, the last first, at most `limit`."""
        ...

    def named(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        """Return the names that begin so (`ctx-12ab`, `art-...`), sorted, at most `limit`."""
        ...

    def annotate(self, name: CommitId, notes: Notes) -> None:
        """Replace what of a commit may change. Raises UnknownName."""
        ...

    def labelled(self, label: str | None = None) -> dict[str, list[CommitId]]:
        """Return labels and the commits that have them, oldest first; one, or all."""
        ...

    def close(self) -> None:
        """Let go of the store. A second call does nothing."""
        ...
