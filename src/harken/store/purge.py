"""Stand-ins for purged content, validated before anything is changed.

A stand-in is an ordinary object with a name of its own; a tombstone maps the old name to it. So
references to the old content need not change, and every name except those of purged objects is
still the hash of its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec
from blake3 import blake3

from harken.core import canonical, structs
from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    DeltaEntry,
    Hash,
    decode_commit,
    decode_delta,
    decode_sequence,
    hash_raw,
)
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import Name, ObjectKind, StoredObject, Tombstone, WriteBatch
from harken.store.batch import BatchContents, compute_name, parse_file, validate_batch
from harken.store.chunking import verify_chunks

STAND_IN = "the stand-in"
_FULL_NAME_PATTERN = re.compile(r"(ctx-|art-)?[0-9a-f]{64}")


class PurgePlan(msgspec.Struct, frozen=True):
    """The validated effects of a purge."""

    contents: BatchContents
    """The stand-ins as objects, by their own names."""
    originals: Mapping[Name, StoredObject]
    """The objects whose bytes are removed, by their own names."""
    tombstones: Mapping[Name, Tombstone]
    """All tombstones that are new or changed."""


def plan_purge(
    where: str,
    stand_ins: Mapping[Name, bytes],
    tombstone: Tombstone,
    *,
    find_object: Callable[[Name], StoredObject | None],
    tombstones: Mapping[Name, Tombstone],
) -> PurgePlan:
    """Validate a purge and return its plan. Nothing is changed.

    `find_object` returns the object that is read under a name. Raises ObjectNotFound for a name
    that does not exist, or if a need of a stand-in does not; ObjectCorrupted if a stand-in is not
    of the same kind in canonical form; ValueError if a stand-in equals the original or moves a
    commit.
    """
    originals: dict[Name, StoredObject] = {}
    targets: dict[Name, Name] = {}
    builder = _BatchBuilder()
    for name, body in stand_ins.items():
        obj = find_object(name)
        if obj is None:
            raise ObjectNotFound(where, name)
        originals[obj.name] = obj
        targets[name] = targets[obj.name] = builder.add(obj.kind, body)
        _check_same_parent(obj, body)
    contents = validate_batch(builder.batch())
    for name, body in stand_ins.items():
        if contents.objects[targets[name]].body != body:
            raise ObjectCorrupted(STAND_IN, name, reason="it is not in canonical form")
    for obj in contents.objects.values():
        for needed in obj.needs:
            if needed not in contents.objects and find_object(needed) is None:
                raise ObjectNotFound(where, needed, needed_by=obj.name)
    for name, pieces in contents.files.items():
        objs = (contents.objects.get(piece) or find_object(piece) for piece in pieces)
        for _ in verify_chunks(STAND_IN, name, (obj.body for obj in objs if obj)):
            pass
    old_targets = {name: old.stand_in for name, old in tombstones.items()}
    final_targets = _follow_chains({**old_targets, **targets})
    new_tombstones = {
        name: structs.replace(tombstone if name in targets else tombstones[name], stand_in=end)
        for name, end in final_targets.items()
        if old_targets.get(name) != end or name in targets
    }
    return PurgePlan(contents, originals, new_tombstones)


def select_new_tombstones(
    where: str, contents: BatchContents, exists: Callable[[Name], bool]
) -> None:
    """Retain in a batch only the new tombstones: no content exists under their names.

    Commits that are stand-ins get the names of the commits that they replace. Raises ObjectNotFound
    for a tombstone without stand-in in the store and the batch, ValueError if a stand-in is of
    another kind, or replaces content of the batch.
    """
    new: dict[Name, Tombstone] = {}
    for name, tombstone in contents.tombstones.items():
        if not _FULL_NAME_PATTERN.fullmatch(name) or name[:-64] != tombstone.stand_in[:-64]:
            raise ValueError(f"{tombstone.stand_in!r} cannot replace {name!r}")
        if name in contents.objects or tombstone.stand_in in contents.tombstones:
            raise ValueError(
                f"{name} cannot be purged: the batch contains it, or it replaces a purged object"
            )
        if not exists(name):
            if tombstone.stand_in not in contents.objects and not exists(tombstone.stand_in):
                raise ObjectNotFound(where, tombstone.stand_in, needed_by=name)
            new[name] = tombstone
        elif name.startswith("ctx-"):
            contents.objects.pop(tombstone.stand_in, None)
    names = {tombstone.stand_in: CommitId(name) for name, tombstone in new.items()}
    contents.commits = [
        structs.replace(commit, id=names.get(commit.id, commit.id))
        for commit in contents.commits
        if commit.id in contents.objects
    ]
    contents.tombstones = new


def purge_new_content(
    contents: BatchContents,
    tombstones: Mapping[Name, Tombstone],
    find_object: Callable[[Name], StoredObject | None],
) -> None:
    """Purge new raw bytes that begin with purged ones, and new files with a purged chunk.

    So a file that grew can be stored again, without the purged text. `find_object` returns the
    object that is read under a name.
    """
    if not tombstones:
        return
    for obj in list(contents.objects.values()):
        if obj.kind is ObjectKind.RAW and obj.name not in tombstones:
            _purge_new_raw(obj, contents, tombstones, find_object)
    for name, pieces in list(contents.files.items()):
        purged = next((p for p in pieces if p in tombstones or p in contents.tombstones), None)
        if purged is None or find_object(name) is not None:
            continue
        hasher = blake3(canonical.RAW_DOMAIN)
        refs: list[ArtifactRef] = []
        for piece in pieces:
            new = contents.tombstones.get(piece)
            actual = piece if new is None else new.stand_in
            chunk = find_object(actual) or contents.objects.get(actual)
            if chunk is None:
                break  # The write fails later, because the chunk is missing.
            refs.append(ArtifactRef(chunk.name))
            hasher.update(chunk.body)
        else:
            new_name = ArtifactRef(f"art-{hasher.hexdigest()}")
            body = canonical.to_canonical_bytes({"name": new_name, "pieces": refs})
            del contents.files[name]
            contents.files[new_name] = refs
            tombstone = tombstones.get(purged) or contents.tombstones[purged]
            needs = tuple(dict.fromkeys(refs))
            new_file = StoredObject(ObjectKind.FILE, new_name, body, needs)
            _replace_new(contents, name, new_file, tombstone)


def find_purged_beginning(
    data: bytes, tombstones: Mapping[Name, Tombstone]
) -> tuple[int, Name] | None:
    """Return the length and the name of the longest purged bytes that raw bytes begin with.

    They end at a line end, because a file grows by lines. Return None if there are none.
    """
    hasher, start, longest = blake3(canonical.RAW_DOMAIN), 0, None
    while end := data.find(b"\n", start) + 1:
        hasher.update(data[start:end])
        start = end
        if (name := f"art-{hasher.hexdigest()}") in tombstones:
            longest = end, name
    return longest


def _purge_new_raw(
    obj: StoredObject,
    contents: BatchContents,
    tombstones: Mapping[Name, Tombstone],
    find_object: Callable[[Name], StoredObject | None],
) -> None:
    """Replace purged bytes at the beginning of new raw bytes by their stand-in."""
    beginning = find_purged_beginning(obj.body, tombstones)
    if beginning is None or find_object(obj.name) is not None:
        return
    size, purged = beginning
    stand_in = find_object(purged)
    if stand_in is None or stand_in.kind is not ObjectKind.RAW:
        return
    body = stand_in.body + obj.body[size:]
    new = StoredObject(ObjectKind.RAW, hash_raw(body), body)
    _replace_new(contents, obj.name, new, tombstones[purged])


def _replace_new(
    contents: BatchContents, name: Name, new: StoredObject, tombstone: Tombstone
) -> None:
    """Replace an object of a batch by its stand-in, at the same place."""
    contents.objects = {
        (new.name if key == name else key): (new if key == name else obj)
        for key, obj in contents.objects.items()
    }
    tombstone = structs.replace(tombstone, stand_in=new.name)
    contents.tombstones = {**contents.tombstones, name: tombstone}


def _follow_chains(targets: Mapping[Name, Name]) -> dict[Name, Name]:
    """Return the final target of each name, since a stand-in may have been purged too."""
    ends: dict[Name, Name] = {}
    for name in targets:
        visited, target = {name}, targets[name]
        while target in targets:
            if target in visited:
                raise ValueError(f"{name} cannot replace itself")
            visited.add(target)
            target = targets[target]
        if target == name:
            raise ValueError(f"{name} cannot replace itself")
        ends[name] = target
    return ends


class _BatchBuilder:
    """A write batch that is built object by object."""

    def __init__(self) -> None:
        self._objects: dict[Hash, bytes] = {}
        self._deltas: dict[ArtifactRef, list[DeltaEntry]] = {}
        self._sequences: dict[ArtifactRef, list[ArtifactRef]] = {}
        self._raw: dict[ArtifactRef, bytes] = {}
        self._files: dict[ArtifactRef, list[ArtifactRef]] = {}
        self._commits: list[tuple[Commit, CommitNotes]] = []

    def add(self, kind: ObjectKind, body: bytes) -> Name:
        """Add canonical bytes and return their name."""
        try:
            return self._add(kind, body)
        except ValueError as error:
            raise ObjectCorrupted(STAND_IN, kind.name.lower(), reason=str(error)) from None

    def _add(self, kind: ObjectKind, body: bytes) -> Name:
        if kind is ObjectKind.FILE:
            file = parse_file(body)
            self._files[file.name] = file.pieces
            return file.name
        name = compute_name(kind, body)
        match kind:
            case ObjectKind.PART | ObjectKind.MESSAGE:
                self._objects[Hash(name)] = body
            case ObjectKind.DELTA:
                self._deltas[ArtifactRef(name)] = decode_delta(body)
            case ObjectKind.SEQUENCE:
                self._sequences[ArtifactRef(name)] = decode_sequence(body)
            case ObjectKind.RAW:
                self._raw[ArtifactRef(name)] = body
            case ObjectKind.COMMIT:
                self._commits.append((decode_commit(body), CommitNotes()))
        return name

    def batch(self) -> WriteBatch:
        """Return a batch of everything that was added."""
        return WriteBatch(
            objects=self._objects,
            deltas=self._deltas,
            sequences=self._sequences,
            raw=self._raw,
            files=self._files,
            commits=self._commits,
        )


def _check_same_parent(obj: StoredObject, body: bytes) -> None:
    """Raise ValueError if a stand-in changes the parent or the time of a commit."""
    if obj.kind is not ObjectKind.COMMIT:
        return
    old, new = decode_commit(obj.body), decode_commit(body)
    if (old.parent, old.created_at) != (new.parent, new.created_at):
        raise ValueError(f"the replacement of {obj.name} must keep its parent and time")
