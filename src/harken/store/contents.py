"""What a batch holds, checked: every name is that of its bytes, and what each thing needs is known.

One idea: a store keeps bytes under names, and this is the only place that turns a batch into them.
So all stores refuse the same batches, and a thing stands after all that it needs. Only whether a
file is what its name says cannot be seen here: its pieces may be in the store (`files.checked`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from harken.core import codec, commits
from harken.core.clock import microseconds, rfc3339
from harken.core.commits import ArtifactRef, Commit, CommitId, Hash, Notes
from harken.errors import ObjectDamaged
from harken.store.base import Batch, Kind, Thing, Tombstone

BATCH = "the batch"
LARGEST_BODY = 256 * 1024 * 1024
"""No thing is larger; a file may be, in pieces."""

DOMAINS = {
    Kind.PART: codec.PART,
    Kind.MESSAGE: codec.MESSAGE,
    Kind.DELTA: codec.DELTA,
    Kind.SEQUENCE: codec.SEQUENCE,
    Kind.RAW: codec.RAW,
    Kind.COMMIT: codec.COMMIT,
}
"""Of the kinds whose name is a hash of their bytes: of all but files."""
PREFIXES = {
    Kind.DELTA: "art-",
    Kind.SEQUENCE: "art-",
    Kind.RAW: "art-",
    Kind.FILE: "art-",
    Kind.COMMIT: "ctx-",
}
_ARTIFACT = re.compile(r"art-[0-9a-f]{64}")


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message as it is kept: its role, and its parts by name."""

    parts: list[Hash]
    role: str


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as it is kept: the name of all its bytes, and the pieces that they were cut into."""

    name: ArtifactRef
    pieces: list[ArtifactRef]


@dataclass(frozen=True, slots=True)
class NewCommit:
    """A commit of a batch, its time taken apart."""

    id: CommitId
    commit: Commit
    notes: Notes
    time_us: int


@dataclass(slots=True)
class Contents:
    """All that a batch holds."""

    things: dict[str, Thing] = field(default_factory=dict)
    """By name. What needs others stands after those of them that the batch has."""
    commits: list[NewCommit] = field(default_factory=list)
    """In the order of the batch, each once."""
    files: dict[ArtifactRef, Sequence[ArtifactRef]] = field(default_factory=dict)
    """Those of `things` that are files, by their pieces: not checked yet."""
    derived: Mapping[str, ArtifactRef] = field(default_factory=dict)
    tombstones: Mapping[str, Tombstone] = field(default_factory=dict)


def name_of(kind: Kind, body: bytes) -> str:
    """Return the full name of canonical bytes. Raises ValueError for a file that is none."""
    if kind is Kind.FILE:
        return file_from(body).name
    return PREFIXES.get(kind, "") + codec.digest(DOMAINS[kind], body).hex()


def contents_of(batch: Batch) -> Contents:
    """Check a batch by itself and return it as bytes.

    Raises ObjectDamaged where a name is not that of its content or the content is not canonical;
    ValueError for a commit or notes with a member that is none.
    """
    loose = {thing.name: thing for thing in _things(batch)}
    found = Contents(derived=dict(batch.derived), tombstones=dict(batch.tombstones))
    found.files = {name: tuple(refs) for name, refs in batch.files.items() if name not in batch.raw}
    for commit, notes in batch.commits:
        thing = _commit(commit, notes)
        if thing.name not in loose:
            loose[thing.name] = thing
            id_ = CommitId(thing.name)
            found.commits.append(NewCommit(id_, commit, notes, microseconds(commit.created_at)))
        _place(thing.name, loose, found.things)
    for name in loose:
        _place(name, loose, found.things)
    return found


def _place(name: str, loose: dict[str, Thing], placed: dict[str, Thing]) -> None:
    """Put a thing behind what it needs: commits and their messages come to stand together."""
    if name in placed or name not in loose:
        return
    thing = loose[name]
    # A parent is not drawn forward: it stands before its children already, and a chain is deep.
    for needed in thing.needs if thing.kind is not Kind.COMMIT else thing.needs[:1]:
        _place(needed, loose, placed)
    placed[name] = thing


def _things(batch: Batch) -> Iterator[Thing]:
    for name, body in batch.objects.items():
        yield _object(name, _bearable(name, bytes(body)))
    for ref, entries in batch.deltas.items():
        found, body = commits.delta_of(entries)
        _same(found, ref)
        _readable(ref, body)
        yield Thing(Kind.DELTA, ref, body, tuple(dict.fromkeys(entry.message for entry in entries)))
    for ref, refs in batch.sequences.items():
        found, body = commits.sequence_of(refs)
        _same(found, ref)
        yield Thing(Kind.SEQUENCE, ref, body, tuple(dict.fromkeys(refs)))
    for ref, data in batch.raw.items():
        _same(name_of(Kind.RAW, data), ref)
        yield Thing(Kind.RAW, ref, _bearable(ref, bytes(data)))
    for ref, refs in batch.files.items():
        if ref not in batch.raw:  # a file of one piece is that piece
            body = codec.canonical({"name": ref, "pieces": list(refs)})
            file_from(body)
            yield Thing(Kind.FILE, ref, body, tuple(dict.fromkeys(refs)))


def _bearable(name: str, body: bytes) -> bytes:
    if len(body) > LARGEST_BODY:
        raise ObjectDamaged(
            BATCH, name, reason=f"it has more than {LARGEST_BODY} bytes: write it as a file"
        )
    return body


def _object(name: Hash, body: bytes) -> Thing:
    if name_of(Kind.PART, body) == name:
        return Thing(Kind.PART, name, body)
    _same(name_of(Kind.MESSAGE, body), name)
    return Thing(Kind.MESSAGE, name, body, parts_of(name, body))


def parts_of(name: str, body: bytes) -> tuple[str, ...]:
    """Return the names of a message's parts, each once. Raises ObjectDamaged for no message."""
    try:
        shape = _shapes.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        shape = None
    if shape is None or codec.canonical(shape) != body:
        raise ObjectDamaged(BATCH, name, reason="it is neither a part nor a canonical message")
    return tuple(dict.fromkeys(shape.parts))


def needs_of(kind: Kind, body: bytes) -> tuple[str, ...]:
    """Return the full names of what canonical bytes name. Raises ValueError: they are not that."""
    match kind:
        case Kind.MESSAGE:
            return tuple(dict.fromkeys(_shapes.decode(body).parts))
        case Kind.DELTA:
            return tuple(dict.fromkeys(entry.message for entry in commits.delta_from(body)))
        case Kind.SEQUENCE:
            return tuple(dict.fromkeys(commits.sequence_from(body)))
        case Kind.FILE:
            return tuple(dict.fromkeys(file_from(body).pieces))
        case Kind.COMMIT:
            commit = commits.commit_from(body)
            return (commit.artifact, *([] if commit.parent is None else [commit.parent]))
        case _:
            return ()


def file_from(body: bytes) -> Cut:
    """Read a file's pieces from its canonical bytes. Raises ValueError where they are none."""
    cut = _cuts.decode(body)
    for name in (cut.name, *cut.pieces):
        if not _ARTIFACT.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an artifact")
    return cut


def _readable(name: str, body: bytes) -> None:
    """Raise where a delta would not come back: its members have the wrong types."""
    try:
        _, again = commits.delta_of(commits.delta_from(body))
    except ValueError as error:
        raise ObjectDamaged(BATCH, name, reason=f"it is no list of entries: {error}") from None
    if again != body:
        raise ObjectDamaged(BATCH, name, reason="it is not in canonical form")


def _commit(commit: Commit, notes: Notes) -> Thing:
    body = commits.commit_bytes(commit)
    if commits.commit_from(body) != commit:
        raise ValueError(f"{commit} does not come back as it is")
    if rfc3339(microseconds(commit.created_at)) != commit.created_at:
        raise ValueError(f"{commit.created_at!r} is not in UTC with microseconds")
    commits.check_notes(notes)
    needs = (commit.artifact,) if commit.parent is None else (commit.artifact, commit.parent)
    return Thing(Kind.COMMIT, name_of(Kind.COMMIT, body), body, needs)


def _same(found: str, name: str) -> None:
    if found != name:
        raise ObjectDamaged(BATCH, name, reason=f"its content has the name {found}")


_shapes = msgspec.json.Decoder(Shape)
_cuts = msgspec.json.Decoder(Cut)
