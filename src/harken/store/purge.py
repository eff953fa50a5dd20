"""Stand-ins: what is put in the place of purged content, checked before anything is changed.

One idea: a stand-in is a thing like any other, with a name of its own; a tombstone leads from the
old name to it. So what names the old content need not change, and every name but those of purged
things is still that of its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from blake3 import blake3

from harken.core import canonical
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
)
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import Name, ObjectKind, StoredObject, Tombstone, WriteBatch
from harken.store.batch import Contents, contents_of, file_from, name_of
from harken.store.chunking import checked

STAND_IN = "the stand-in"
_FULL = re.compile(r"(ctx-|art-)?[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What a purge will do."""

    contents: Contents
    """The stand-ins as things, by their own names."""
    gone: Mapping[Name, StoredObject]
    """The things whose bytes go, by their own names."""
    tombstones: Mapping[Name, Tombstone]
    """All that are new or lead elsewhere now."""


def replaced(
    where: str,
    stand_ins: Mapping[Name, bytes],
    tombstone: Tombstone,
    *,
    found: Callable[[Name], StoredObject | None],
    tombstones: Mapping[Name, Tombstone],
) -> PurgePlan:
    """Check what shall be purged and return what that comes to; nothing is changed.

    `found` gives what is read under a name. Raises ObjectNotFound for a name that is not there, or
    a stand-in that needs what is not; ObjectCorrupted for a stand-in that is none of that kind in
    canonical form; ValueError for one that is what it stands for, or moves a commit.
    """
    gone: dict[Name, StoredObject] = {}
    leads: dict[Name, Name] = {}
    batch = _Loose()
    for name, body in stand_ins.items():
        thing = found(name)
        if thing is None:
            raise ObjectNotFound(where, name)
        gone[thing.name] = thing
        leads[name] = leads[thing.name] = batch.add(thing.kind, body)
        _check_same_place(thing, body)
    contents = contents_of(batch.batch())
    for name, body in stand_ins.items():
        if contents.things[leads[name]].body != body:
            raise ObjectCorrupted(STAND_IN, name, reason="it is not in canonical form")
    for thing in contents.things.values():
        for needed in thing.needs:
            if needed not in contents.things and found(needed) is None:
                raise ObjectNotFound(where, needed, needed_by=thing.name)
    for name, pieces in contents.files.items():
        whole = (contents.things.get(piece) or found(piece) for piece in pieces)
        for _ in checked(STAND_IN, name, (thing.body for thing in whole if thing)):
            pass
    before = {name: stone.stand_in for name, stone in tombstones.items()}
    after = _ends({**before, **leads})
    stones = {
        name: msgspec.structs.replace(
            tombstone if name in leads else tombstones[name], stand_in=end
        )
        for name, end in after.items()
        if before.get(name) != end or name in leads
    }
    return PurgePlan(contents, gone, stones)


def bring(where: str, contents: Contents, there: Callable[[Name], bool]) -> None:
    """Leave in a batch the tombstones that are new: nothing is there under their names.

    The commits that stand in have the names of those that they stand for afterwards. Raises
    ObjectNotFound for a tombstone whose stand-in is neither there nor in the batch, ValueError for
    one that stands for something of another kind, or for what the batch has.
    """
    new: dict[Name, Tombstone] = {}
    for name, stone in contents.tombstones.items():
        if not _FULL.fullmatch(name) or name[:-64] != stone.stand_in[:-64]:
            raise ValueError(f"{stone.stand_in!r} cannot stand for {name!r}")
        if name in contents.things or stone.stand_in in contents.tombstones:
            raise ValueError(f"{name} cannot be purged and be, or stand for something purged")
        if not there(name):
            if stone.stand_in not in contents.things and not there(stone.stand_in):
                raise ObjectNotFound(where, stone.stand_in, needed_by=name)
            new[name] = stone
        elif name.startswith("ctx-"):
            contents.things.pop(stone.stand_in, None)
    names = {stone.stand_in: CommitId(name) for name, stone in new.items()}
    contents.commits = [
        msgspec.structs.replace(one, id=names.get(one.id, one.id))
        for one in contents.commits
        if one.id in contents.things
    ]
    contents.tombstones = new


def inherit(
    contents: Contents,
    tombstones: Mapping[Name, Tombstone],
    found: Callable[[Name], StoredObject | None],
) -> None:
    """Let a new file that has a purged piece be purged, too: it holds what was purged.

    So a file that grew can be kept again. `found` gives what is read under a name.
    """
    for name, pieces in list(contents.files.items()):
        purged = next((piece for piece in pieces if piece in tombstones), None)
        if purged is None or found(name) is not None:
            continue
        hasher = blake3(canonical.RAW)
        refs: list[ArtifactRef] = []
        for piece in pieces:
            thing = found(piece) or contents.things.get(piece)
            if thing is None:
                return  # refused soon, because it is missing
            refs.append(ArtifactRef(thing.name))
            hasher.update(thing.body)
        own = ArtifactRef(f"art-{hasher.hexdigest()}")
        body = canonical.to_canonical_bytes({"name": own, "pieces": refs})
        del contents.things[name], contents.files[name]
        contents.things[own] = StoredObject(ObjectKind.FILE, own, body, tuple(dict.fromkeys(refs)))
        contents.files[own] = refs
        stone = msgspec.structs.replace(tombstones[purged], stand_in=own)
        contents.tombstones = {**contents.tombstones, name: stone}


def _ends(leads: Mapping[Name, Name]) -> dict[Name, Name]:
    """Return where each name leads in the end: a stand-in may have been purged, too."""
    ends: dict[Name, Name] = {}
    for name in leads:
        passed, at = {name}, leads[name]
        while at in leads:
            if at in passed:
                raise ValueError(f"{name} cannot stand for itself: what stands for it is the same")
            passed.add(at)
            at = leads[at]
        if at == name:
            raise ValueError(f"{name} cannot stand for itself: what stands for it is the same")
        ends[name] = at
    return ends


class _Loose:
    """A batch that grows thing by thing."""

    def __init__(self) -> None:
        self._objects: dict[Hash, bytes] = {}
        self._deltas: dict[ArtifactRef, list[DeltaEntry]] = {}
        self._sequences: dict[ArtifactRef, list[ArtifactRef]] = {}
        self._raw: dict[ArtifactRef, bytes] = {}
        self._files: dict[ArtifactRef, list[ArtifactRef]] = {}
        self._commits: list[tuple[Commit, CommitNotes]] = []

    def add(self, kind: ObjectKind, body: bytes) -> Name:
        """Add canonical bytes; return the name that they have."""
        try:
            return self._add(kind, body)
        except ValueError as error:
            raise ObjectCorrupted(STAND_IN, kind.name.lower(), reason=str(error)) from None

    def _add(self, kind: ObjectKind, body: bytes) -> Name:
        if kind is ObjectKind.FILE:
            shape = file_from(body)
            self._files[shape.name] = shape.pieces
            return shape.name
        name = name_of(kind, body)
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
        """Return all that was added."""
        return WriteBatch(
            objects=self._objects,
            deltas=self._deltas,
            sequences=self._sequences,
            raw=self._raw,
            files=self._files,
            commits=self._commits,
        )


def _check_same_place(thing: StoredObject, body: bytes) -> None:
    """Raise ValueError where a commit would come to stand elsewhere in the history."""
    if thing.kind is not ObjectKind.COMMIT:
        return
    old, new = decode_commit(thing.body), decode_commit(body)
    if (old.parent, old.created_at) != (new.parent, new.created_at):
        raise ValueError(f"{thing.name} keeps its parent and its time, whatever stands for it")
