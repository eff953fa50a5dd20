"""Copy commits from one store to another with all their needs that the target lacks.

A store that has an object has all its needs. So a walk towards the root ends at the first commit
that exists in the target, and a message that exists there has its parts. Everything is written
after its needs, in batches of a few megabytes: an interrupted copy leaves a consistent target,
and the next copy continues from there.

The target is queried for commits and messages, which are small, never for parts: some parts may
be sent although they exist. Content purged at the source arrives purged, with its tombstone;
content that the target still has stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Protocol, TypeAlias, TypeVar

import msgspec

from harken.core.arguments import check_arguments
from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    DeltaEntry,
    Hash,
    commit_bytes,
    encode_delta,
    hash_raw,
)
from harken.errors import ObjectNotFound
from harken.store.base import Name, Store, StoredCommit, Tombstone, WriteBatch
from harken.store.batch import parse_part_names

SOURCE = "the store that is copied from"
BATCH_BYTES = 4 * 1024 * 1024
"""A batch is written when it reaches this size."""
_MIN_STEPS = 16
_MAX_STEPS = 1024
_COMMITS_PER_BATCH = 64
_LISTED_PER_BATCH = 512
"""A remote store answers for many commits in one response."""
T = TypeVar("T")
Progress: TypeAlias = Callable[[int, int], None]
"""Called after each batch with the number of copied commits and the total."""


class CopyTarget(Protocol):
    """The part of a store that a copy writes to."""

    def write(self, batch: WriteBatch) -> None:
        """As `Store.write`."""
        ...

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        """As `Store.objects`."""
        ...

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        """As `Store.names_with_prefix`."""
        ...


OnCopied: TypeAlias = Callable[[Sequence[StoredCommit]], None]


class CopyResult(msgspec.Struct, frozen=True):
    """The number and size of the objects that a copy sent."""

    commits: int = 0
    objects: int = 0
    """Parts, messages and artifacts that were sent; some may have existed already."""
    size_bytes: int = 0
    """The size of these and of the commits, before compression."""


@check_arguments
def copy_commits(
    source: Store,
    target: Store,
    tips: Iterable[CommitId],
    *,
    on_progress: Progress | None = None,
    at_once_bytes: int = BATCH_BYTES,
) -> CopyResult:
    """Copy commits and their ancestors, oldest first, with summaries and labels.

    A commit that exists in the target keeps its notes, so a second copy changes nothing. Memory
    holds the missing names and one batch. Raises NameNotFound if the source lacks a tip;
    ObjectNotFound, ObjectCorrupted, StoreError, of either store; content written before an error
    stays.
    """
    missing = find_missing_commits(source, target, tips)
    writer = _BatchWriter(source, target, at_once_bytes, source.tombstones() if missing else {})
    for start in range(0, len(missing), _COMMITS_PER_BATCH):
        writer.add_commits(missing[start : start + _COMMITS_PER_BATCH])
        if on_progress is not None:
            on_progress(min(start + _COMMITS_PER_BATCH, len(missing)), len(missing))
    writer.send()
    return CopyResult(len(missing), writer.objects, writer.size_bytes)


def copy_listed_commits(
    source: Store, target: CopyTarget, names: Sequence[CommitId], *, on_copied: OnCopied
) -> CopyResult:
    """Copy these commits, parents first, which the target lacks, in large batches.

    on_copied: called with the commits that are durable in the target. Errors are as for
    `copy_commits`.
    """
    writer = _BatchWriter(source, target, BATCH_BYTES, source.tombstones() if names else {})
    for batch in _slices(names, _LISTED_PER_BATCH):
        copied = writer.add_commits(batch)
        writer.send()
        on_copied(copied)
    return CopyResult(len(names), writer.objects, writer.size_bytes)


def copy_artifacts(
    source: Store,
    target: CopyTarget,
    refs: Iterable[ArtifactRef],
    *,
    existing: Iterable[ArtifactRef],
) -> CopyResult:
    """Copy artifacts of any kind with all their needs, except those of `existing`.

    existing: artifacts that the target has: sequences, at which the copy ends, and chunks of files.
    Errors are as for `copy_commits`.
    """
    writer = _BatchWriter(source, target, BATCH_BYTES, source.tombstones())
    writer.add_artifacts(refs, existing)
    writer.send()
    return CopyResult(0, writer.objects, writer.size_bytes)


def find_missing_commits(source: Store, target: Store, tips: Iterable[CommitId]) -> list[CommitId]:
    """Return the tips and their ancestors that the target lacks, parents before children."""
    distinct_tips = list(dict.fromkeys(tips))
    visited: set[CommitId] = set()
    missing: list[CommitId] = []
    for batch in _slices(distinct_tips, _MAX_STEPS):
        existing = target.commits(batch)
        for tip in batch:
            if tip not in existing:
                branch = list(_walk_missing(source, target, tip, visited))
                visited.update(branch)
                missing += reversed(branch)
    return missing


def _walk_missing(
    source: Store, target: Store, tip: CommitId, visited: set[CommitId]
) -> Iterator[CommitId]:
    """Yield a commit and its ancestors, newest first, up to a seen or existing one."""
    name: CommitId | None = tip
    steps = _MIN_STEPS
    while name is not None and name not in visited:
        commits = source.chain(name, steps)
        existing = target.commits([commit.id for commit in commits if commit.id not in visited])
        for commit in commits:
            if commit.id in visited or commit.id in existing:
                return
            yield commit.id
        name, steps = commits[-1].commit.parent, min(steps * 2, _MAX_STEPS)


class _BatchWriter(msgspec.Struct):
    """A buffer of objects to write.

    Each is added after its needs, so it may be flushed at any time.
    """

    source: Store
    target: CopyTarget
    max_bytes: int
    purged: Mapping[Name, Tombstone]
    """The tombstones of the source: content that is read under another name."""
    objects: int = 0
    size_bytes: int = 0
    _buffered_bytes: int = 0
    _has_content: bool = False
    """Whether anything is buffered. A file may have no bytes."""
    _added: set[ArtifactRef] = msgspec.field(default_factory=set)
    _objects: dict[Hash, bytes] = msgspec.field(default_factory=dict)
    _deltas: dict[ArtifactRef, Sequence[DeltaEntry]] = msgspec.field(default_factory=dict)
    _sequences: dict[ArtifactRef, Sequence[ArtifactRef]] = msgspec.field(default_factory=dict)
    _raw: dict[ArtifactRef, bytes] = msgspec.field(default_factory=dict)
    _files: dict[ArtifactRef, Sequence[ArtifactRef]] = msgspec.field(default_factory=dict)
    _commits: list[tuple[Commit, CommitNotes]] = msgspec.field(default_factory=list)
    _tombstones: dict[Name, Tombstone] = msgspec.field(default_factory=dict)

    def send(self) -> None:
        """Write the buffered batch."""
        batch = WriteBatch(
            objects=self._objects,
            deltas=self._deltas,
            sequences=self._sequences,
            raw=self._raw,
            files=self._files,
            commits=self._commits,
            tombstones=self._tombstones,
        )
        if self._has_content:
            self.target.write(batch)
        self._objects, self._deltas, self._sequences, self._raw = {}, {}, {}, {}
        self._files, self._commits, self._tombstones, self._buffered_bytes = {}, [], {}, 0
        self._has_content = False

    def add_artifacts(self, refs: Iterable[ArtifactRef], existing: Iterable[ArtifactRef]) -> None:
        """Add artifacts with their needs. Those that exist in the target are not added."""
        self._added.update(existing)
        self._add_artifacts(refs)

    def add_commits(self, names: Sequence[CommitId]) -> list[StoredCommit]:
        """Add commits after their artifacts, and return them."""
        stored = self.source.commits(names)
        _check_found(names, stored)
        self._add_artifacts([commit.commit.artifact for commit in stored.values()])
        for name in names:
            self._add_commit(stored[name])
        return [stored[name] for name in names]

    def _add_commit(self, stored: StoredCommit) -> None:
        self._resolve_purged(stored.id)
        self._commits.append((stored.commit, stored.notes))
        self._add_bytes(len(commit_bytes(stored.commit)) + len(stored.notes.summary))

    def _add_artifacts(self, refs: Iterable[ArtifactRef]) -> None:
        """Add artifacts of any kind, however nested, once each and after their needs."""
        stack = list(self._add_leaves(refs).items())
        while stack:
            ref, members = stack.pop()
            if ref in self._added:
                continue
            inner: dict[ArtifactRef, list[ArtifactRef]] = {}
            for batch in _slices(members, _COMMITS_PER_BATCH):
                inner |= self._add_leaves(batch)
            if inner:
                stack += [(ref, members), *inner.items()]
                continue
            self._sequences[ArtifactRef(self._resolve_purged(ref))] = members
            self._added.add(ref)
            self._count_object(75 * len(members))

    def _add_leaves(self, refs: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        """Add new deltas and raw bytes. Return the sequences among the artifacts."""
        pending = [ref for ref in dict.fromkeys(refs) if ref not in self._added]
        deltas = self.source.deltas(pending)
        self._add_messages(entry.message for entries in deltas.values() for entry in entries)
        for ref, entries in deltas.items():
            self._deltas[ArtifactRef(self._resolve_purged(ref))] = entries
            self._count_object(len(encode_delta(entries)[1]))
        sequences = self.source.sequences(ref for ref in pending if ref not in deltas)
        leaves = [ref for ref in pending if ref not in sequences]
        for ref in leaves:
            if ref not in deltas and not self._target_has(ref):
                self._add_raw(ref)
        self._added.update(leaves)
        return sequences

    def _add_raw(self, ref: ArtifactRef) -> None:
        """Add raw bytes chunk by chunk, and the file object if there are several chunks.

        Chunks that the target has are not read.
        """
        pieces: list[ArtifactRef] = []
        for piece in self.source.chunk_names(ref):
            pieces.append(piece)
            if piece == ref or not self._target_has(piece):
                data = self.source.raw(piece)
                pieces[-1] = hash_raw(data)  # Purged content has another name.
                self._raw[pieces[-1]] = data
                self._count_object(len(data))
        name = ArtifactRef(self._resolve_purged(ref))
        if pieces != [name]:
            self._files[name] = pieces
            self._count_object(75 * len(pieces))

    def _target_has(self, ref: ArtifactRef) -> bool:
        is_added = ref in self._raw or ref in self._added
        return is_added or bool(self.target.names_with_prefix(ref, 1))

    def _resolve_purged(self, name: Name) -> Name:
        """Return the name of the content that is read under a name.

        Buffer the tombstone if they differ.

        Both are sent in one batch, since the batch is flushed only after the content was added.
        """
        tombstone = self.purged.get(name)
        if tombstone is None:
            return name
        self._tombstones[name] = tombstone
        return tombstone.stand_in

    def _add_messages(self, names: Iterable[Hash]) -> None:
        """Add messages that the target lacks, after their parts."""
        new_names = [name for name in dict.fromkeys(names) if name not in self._objects]
        existing = self.target.objects(new_names)
        missing = [name for name in new_names if name not in existing]
        messages = self.source.objects(missing)
        _check_found(missing, messages)
        parts = [Hash(part) for name in missing for part in parse_part_names(name, messages[name])]
        for objects in chain(self._iter_parts(dict.fromkeys(parts)), [messages]):
            for name, body in objects.items():
                self._objects[Hash(self._resolve_purged(name))] = body
                self._count_object(len(body))

    def _iter_parts(self, parts: Iterable[Hash]) -> Iterator[dict[Hash, bytes]]:
        """Yield parts in batches of some megabytes, since parts may be large."""
        remaining, size = iter(parts), 32
        while names := list(islice(remaining, size)):
            bodies = self.source.objects(names)
            _check_found(names, bodies)
            yield bodies
            read_bytes = sum(map(len, bodies.values()))
            size = max(1, size // 2) if read_bytes > self.max_bytes else min(size * 2, 4096)

    def _count_object(self, size_bytes: int) -> None:
        self.objects += 1
        self._add_bytes(size_bytes)

    def _add_bytes(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        self._buffered_bytes += size_bytes
        self._has_content = True
        if self._buffered_bytes >= self.max_bytes:
            self.send()


def _slices(names: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _check_found(names: Iterable[str], existing: Container[str]) -> None:
    for name in names:
        if name not in existing:
            raise ObjectNotFound(SOURCE, name)
