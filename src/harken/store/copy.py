"""Copying commits from one store to another, with all that they need and nothing that is there.

One idea: what a store has, it has whole. So a walk towards the root ends at the first commit that
the target knows, and a message that it knows brings its parts. Everything is written after what it
needs, a few megabytes at once: a copy that is cut off leaves a whole target, and the next one goes
on from there.

The target is asked for commits and messages, which are small, never for parts: of those a few may
be sent that it has. What was purged at the source arrives purged, with its tombstone; what the
target still has stays as it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TypeAlias, TypeVar

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
from harken.store.batch import part_names

SOURCE = "the store that is copied from"
AT_ONCE_BYTES = 4 * 1024 * 1024
"""A batch is written when it has so many."""
_FIRST_STEPS = 16
_MOST_STEPS = 1024
_COMMITS = 64
T = TypeVar("T")
Progress: TypeAlias = Callable[[int, int], None]
"""Told after each batch: how many commits are copied, of how many."""


@dataclass(frozen=True, slots=True)
class CopyResult:
    """What a copy brought."""

    commits: int = 0
    things: int = 0
    """Parts, messages and artifacts that were sent; some may have been there."""
    size_bytes: int = 0
    """Of these and of the commits, before any compression."""


@check_arguments
def copy_commits(
    source: Store,
    target: Store,
    tips: Iterable[CommitId],
    *,
    on_progress: Progress | None = None,
    at_once_bytes: int = AT_ONCE_BYTES,
) -> CopyResult:
    """Copy commits and all before them, oldest first, with summaries and labels.

    A commit that is there keeps its own. Copied twice, nothing changes. Memory: the names of what
    is missing, and one batch. Raises NameNotFound for a tip that the source has not;
    ObjectNotFound, ObjectCorrupted, StoreError, of either; what was written until then stays.
    """
    missing = missing_commits(source, target, tips)
    load = _Load(source, target, at_once_bytes, source.tombstones() if missing else {})
    for at in range(0, len(missing), _COMMITS):
        load.add_commits(missing[at : at + _COMMITS])
        if on_progress is not None:
            on_progress(min(at + _COMMITS, len(missing)), len(missing))
    load.send()
    return CopyResult(len(missing), load.things, load.size_bytes)


def missing_commits(source: Store, target: Store, tips: Iterable[CommitId]) -> list[CommitId]:
    """Return the tips and all before them that the target has not; parents before children."""
    wanted = list(dict.fromkeys(tips))
    seen: set[CommitId] = set()
    missing: list[CommitId] = []
    for some in _slices(wanted, _MOST_STEPS):
        there = target.commits(some)
        for tip in some:
            if tip not in there:
                branch = list(_branch(source, target, tip, seen))
                seen.update(branch)
                missing += reversed(branch)
    return missing


def _branch(source: Store, target: Store, tip: CommitId, seen: set[CommitId]) -> Iterator[CommitId]:
    """Yield a commit and those before it, newest first, up to one that is seen or there."""
    at: CommitId | None = tip
    steps = _FIRST_STEPS
    while at is not None and at not in seen:
        walked = source.chain(at, steps)
        there = target.commits([one.id for one in walked if one.id not in seen])
        for one in walked:
            if one.id in seen or one.id in there:
                return
            yield one.id
        at, steps = walked[-1].commit.parent, min(steps * 2, _MOST_STEPS)


@dataclass(slots=True)
class _Load:
    """What is on its way. Each thing is added after all that it needs, so it may go at any time."""

    source: Store
    target: Store
    most_bytes: int
    purged: Mapping[Name, Tombstone]
    """What is read at the source in the place of something else."""
    things: int = 0
    size_bytes: int = 0
    _waiting_bytes: int = 0
    _added: set[ArtifactRef] = field(default_factory=set)
    _objects: dict[Hash, bytes] = field(default_factory=dict)
    _deltas: dict[ArtifactRef, Sequence[DeltaEntry]] = field(default_factory=dict)
    _sequences: dict[ArtifactRef, Sequence[ArtifactRef]] = field(default_factory=dict)
    _raw: dict[ArtifactRef, bytes] = field(default_factory=dict)
    _files: dict[ArtifactRef, Sequence[ArtifactRef]] = field(default_factory=dict)
    _commits: list[tuple[Commit, CommitNotes]] = field(default_factory=list)
    _tombstones: dict[Name, Tombstone] = field(default_factory=dict)

    def send(self) -> None:
        """Write what waits."""
        batch = WriteBatch(
            objects=self._objects,
            deltas=self._deltas,
            sequences=self._sequences,
            raw=self._raw,
            files=self._files,
            commits=self._commits,
            tombstones=self._tombstones,
        )
        if self._waiting_bytes:
            self.target.write(batch)
        self._objects, self._deltas, self._sequences, self._raw = {}, {}, {}, {}
        self._files, self._commits, self._tombstones, self._waiting_bytes = {}, [], {}, 0

    def add_commits(self, names: Sequence[CommitId]) -> None:
        """Add commits after their artifacts."""
        found = self.source.commits(names)
        _check_there(names, found)
        self._add_artifacts([one.commit.artifact for one in found.values()])
        for name in names:
            self._add_commit(found[name])

    def _add_commit(self, one: StoredCommit) -> None:
        self._really(one.id)
        self._commits.append((one.commit, one.notes))
        self._weigh(len(commit_bytes(one.commit)) + len(one.notes.summary))

    def _add_artifacts(self, refs: Iterable[ArtifactRef]) -> None:
        """Add artifacts of any kind after what they need, each once, however they are nested."""
        waiting = list(self._add_plain(refs).items())
        while waiting:
            ref, members = waiting.pop()
            if ref in self._added:
                continue
            inner: dict[ArtifactRef, list[ArtifactRef]] = {}
            for some in _slices(members, _COMMITS):
                inner |= self._add_plain(some)
            if inner:
                waiting += [(ref, members), *inner.items()]
                continue
            self._sequences[ArtifactRef(self._really(ref))] = members
            self._added.add(ref)
            self._count(75 * len(members))

    def _add_plain(self, refs: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        """Add deltas and raw bytes that were not added yet; return the sequences among them."""
        left = [ref for ref in dict.fromkeys(refs) if ref not in self._added]
        deltas = self.source.deltas(left)
        self._add_messages(entry.message for entries in deltas.values() for entry in entries)
        for ref, entries in deltas.items():
            self._deltas[ArtifactRef(self._really(ref))] = entries
            self._count(len(encode_delta(entries)[1]))
        sequences = self.source.sequences(ref for ref in left if ref not in deltas)
        plain = [ref for ref in left if ref not in sequences]
        for ref in plain:
            if ref not in deltas and not self._has(ref):
                self._add_raw(ref)
        self._added.update(plain)
        return sequences

    def _add_raw(self, ref: ArtifactRef) -> None:
        """Add raw bytes piece by piece, and what they make up where they are several."""
        pieces: list[ArtifactRef] = []
        for data in self.source.read_chunks(ref):
            pieces.append(hash_raw(data))
            if not self._has(pieces[-1]):
                self._raw[pieces[-1]] = data
                self._count(len(data))
        name = ArtifactRef(self._really(ref))
        if pieces != [name]:
            self._files[name] = pieces
            self._count(75 * len(pieces))

    def _has(self, ref: ArtifactRef) -> bool:
        return ref in self._raw or bool(self.target.names_with_prefix(ref, 1))

    def _really(self, name: Name) -> Name:
        """Return the name of what is read under a name; where it is another, say so to the target.

        Both travel in one batch, since nothing is sent before what follows is added.
        """
        stone = self.purged.get(name)
        if stone is None:
            return name
        self._tombstones[name] = stone
        return stone.stand_in

    def _add_messages(self, names: Iterable[Hash]) -> None:
        """Add messages that are not there, after their parts."""
        asked = [name for name in dict.fromkeys(names) if name not in self._objects]
        there = self.target.objects(asked)
        absent = [name for name in asked if name not in there]
        messages = self.source.objects(absent)
        _check_there(absent, messages)
        parts = [Hash(part) for name in absent for part in part_names(name, messages[name])]
        for some in chain(self._read(dict.fromkeys(parts)), [messages]):
            for name, body in some.items():
                self._objects[Hash(self._really(name))] = body
                self._count(len(body))

    def _read(self, parts: Iterable[Hash]) -> Iterator[dict[Hash, bytes]]:
        """Yield parts, as many at once as are some megabytes: no more, for they may be large."""
        left, size = iter(parts), 32
        while names := list(islice(left, size)):
            found = self.source.objects(names)
            _check_there(names, found)
            yield found
            read_bytes = sum(map(len, found.values()))
            size = max(1, size // 2) if read_bytes > self.most_bytes else min(size * 2, 4096)

    def _count(self, size_bytes: int) -> None:
        self.things += 1
        self._weigh(size_bytes)

    def _weigh(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        self._waiting_bytes += size_bytes
        if self._waiting_bytes >= self.most_bytes:
            self.send()


def _slices(names: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for at in range(0, len(names), size):
        yield names[at : at + size]


def _check_there(names: Iterable[str], found: Container[str]) -> None:
    for name in names:
        if name not in found:
            raise ObjectNotFound(SOURCE, name)
