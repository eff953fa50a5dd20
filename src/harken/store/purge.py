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
    Entry,
    Hash,
    Notes,
    commit_from,
    delta_from,
    sequence_from,
)
from harken.errors import ObjectDamaged, ObjectMissing
from harken.store.base import Batch, Kind, Name, Thing, Tombstone
from harken.store.batch import Contents, contents_of, file_from, name_of
from harken.store.chunking import checked

STAND_IN = "the stand-in"
_FULL = re.compile(r"(ctx-|art-)?[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a purge will do."""

    contents: Contents
    """The stand-ins as things, by their own names."""
    gone: Mapping[Name, Thing]
    """The things whose bytes go, by their own names."""
    tombstones: Mapping[Name, Tombstone]
    """All that are new or lead elsewhere now."""


def replaced(
    where: str,
    stand_ins: Mapping[Name, bytes],
    tombstone: Tombstone,
    *,
    found: Callable[[Name], Thing | None],
    tombstones: Mapping[Name, Tombstone],
) -> Replaced:
    """Check what shall be purged and return what that comes to; nothing is changed.

    `found` gives what is read under a name. Raises ObjectMissing for a name that is not there, or a
    stand-in that needs what is not; ObjectDamaged for a stand-in that is none of that kind in
    canonical form; ValueError for one that is what it stands for, or moves a commit.
    """
    gone: dict[Name, Thing] = {}
    leads: dict[Name, Name] = {}
    batch = _Loose()
    for name, body in stand_ins.items():
        thing = found(name)
        if thing is None:
            raise ObjectMissing(where, name)
        gone[thing.name] = thing
        leads[name] = leads[thing.name] = batch.add(thing.kind, body)
        _check_same_place(thing, body)
    contents = contents_of(batch.batch())
    for name, body in stand_ins.items():
        if contents.things[leads[name]].body != body:
            raise ObjectDamaged(STAND_IN, name, reason="it is not in canonical form")
    for thing in contents.things.values():
        for needed in thing.needs:
            if needed not in contents.things and found(needed) is None:
                raise ObjectMissing(where, needed, needed_by=thing.name)
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
    return Replaced(contents, gone, stones)


def bring(where: str, contents: Contents, there: Callable[[Name], bool]) -> None:
    """Leave in a batch the tombstones that are new: nothing is there under their names.

    The commits that stand in have the names of those that they stand for afterwards. Raises
    ObjectMissing for a tombstone whose stand-in is neither there nor in the batch, ValueError for
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
                raise ObjectMissing(where, stone.stand_in, needed_by=name)
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
    found: Callable[[Name], Thing | None],
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
        body = canonical.canonical({"name": own, "pieces": refs})
        del contents.things[name], contents.files[name]
        contents.things[own] = Thing(Kind.FILE, own, body, tuple(dict.fromkeys(refs)))
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
        self._deltas: dict[ArtifactRef, list[Entry]] = {}
        self._sequences: dict[ArtifactRef, list[ArtifactRef]] = {}
        self._raw: dict[ArtifactRef, bytes] = {}
        self._files: dict[ArtifactRef, list[ArtifactRef]] = {}
        self._commits: list[tuple[Commit, Notes]] = []

    def add(self, kind: Kind, body: bytes) -> Name:
        """Add canonical bytes; return the name that they have."""
        try:
            return self._add(kind, body)
        except ValueError as error:
            raise ObjectDamaged(STAND_IN, kind.name.lower(), reason=str(error)) from None

    def _add(self, kind: Kind, body: bytes) -> Name:
        if kind is Kind.FILE:
            shape = file_from(body)
            self._files[shape.name] = shape.pieces
            return shape.name
        name = name_of(kind, body)
        match kind:
            case Kind.PART | Kind.MESSAGE:
                self._objects[Hash(name)] = body
            case Kind.DELTA:
                self._deltas[ArtifactRef(name)] = delta_from(body)
            case Kind.SEQUENCE:
                self._sequences[ArtifactRef(name)] = sequence_from(body)
            case Kind.RAW:
                self._raw[ArtifactRef(name)] = body
            case Kind.COMMIT:
                self._commits.append((commit_from(body), Notes()))
        return name

    def batch(self) -> Batch:
        """Return all that was added."""
        return Batch(
            objects=self._objects,
            deltas=self._deltas,
            sequences=self._sequences,
            raw=self._raw,
            files=self._files,
            commits=self._commits,
        )


def _check_same_place(thing: Thing, body: bytes) -> None:
    """Raise ValueError where a commit would come to stand elsewhere in the history."""
    if thing.kind is not Kind.COMMIT:
        return
    old, new = commit_from(thing.body), commit_from(body)
    if (old.parent, old.created_at) != (new.parent, new.created_at):
        raise ValueError(f"{thing.name} keeps its parent and its time, whatever stands for it")
