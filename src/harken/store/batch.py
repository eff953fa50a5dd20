"""What a batch holds, checked: every name is that of its bytes, and what each thing needs is known.

One idea: a store keeps bytes under names, and this is the only place that turns a batch into them.
So all stores refuse the same batches, and a thing stands after all that it needs. Only what may
be in the store already cannot be seen here: whether what is needed is there, and of which kind
(`fits`), and whether a file is what its name says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from blake3 import blake3

from harken.core import canonical, commits
from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.core.commits import ArtifactRef, Commit, CommitId, CommitNotes, DeltaEntry, Hash
from harken.errors import ObjectCorrupted, ObjectNotFound, ObjectTooLarge
from harken.store.base import ObjectKind, StoredObject, Tombstone, WriteBatch

BATCH = "the batch"
LARGEST_BODY = 256 * 1024 * 1024
"""No thing is larger; a file may be, in pieces."""

DOMAINS = {
    ObjectKind.PART: canonical.PART,
    ObjectKind.MESSAGE: canonical.MESSAGE,
    ObjectKind.DELTA: canonical.DELTA,
    ObjectKind.SEQUENCE: canonical.SEQUENCE,
    ObjectKind.RAW: canonical.RAW,
    ObjectKind.COMMIT: canonical.COMMIT,
}
"""Of the kinds whose name is a hash of their bytes. A file's body says its name, which is that of
all its bytes as raw ones."""
PREFIXES = {
    ObjectKind.DELTA: "art-",
    ObjectKind.SEQUENCE: "art-",
    ObjectKind.RAW: "art-",
    ObjectKind.FILE: "art-",
    ObjectKind.COMMIT: "ctx-",
}
_ARTIFACTS = frozenset({ObjectKind.DELTA, ObjectKind.SEQUENCE, ObjectKind.RAW, ObjectKind.FILE})
_FITTING = {
    ObjectKind.MESSAGE: frozenset({ObjectKind.PART}),
    ObjectKind.DELTA: frozenset({ObjectKind.MESSAGE}),
    ObjectKind.SEQUENCE: _ARTIFACTS,
    ObjectKind.FILE: frozenset({ObjectKind.RAW}),
    ObjectKind.COMMIT: _ARTIFACTS | {ObjectKind.COMMIT},
}
_LIKE_MESSAGE = b'{"parts":'
_ARTIFACT = re.compile(r"art-[0-9a-f]{64}")
_COMMIT = re.compile(r"ctx-[0-9a-f]{64}")


class StoredMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message as it is kept: its role, and its parts by name."""

    parts: list[Hash]
    role: str


class ChunkedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as it is kept: the name of all its bytes, and the pieces that they were cut into."""

    name: ArtifactRef
    pieces: list[ArtifactRef]


class BatchCommit(msgspec.Struct, frozen=True, gc=False):
    """A commit of a batch, its time taken apart."""

    id: CommitId
    commit: Commit
    notes: CommitNotes
    time_us: int


@dataclass(slots=True)
class Contents:
    """All that a batch holds."""

    things: dict[str, StoredObject] = field(default_factory=dict)
    """By name. What needs others stands after those of them that the batch has."""
    commits: list[BatchCommit] = field(default_factory=list)
    """In the order of the batch, each once."""
    files: dict[ArtifactRef, Sequence[ArtifactRef]] = field(default_factory=dict)
    """Those of `things` that are files, by their pieces: not checked yet."""
    derived: Mapping[str, ArtifactRef] = field(default_factory=dict)
    tombstones: Mapping[str, Tombstone] = field(default_factory=dict)


def name_of(kind: ObjectKind, body: bytes) -> str:
    """Return the full name of canonical bytes. Raises ValueError for a file that is none."""
    if kind is ObjectKind.FILE:
        return file_from(body).name
    return PREFIXES.get(kind, "") + _hash(DOMAINS[kind], body)


def fits(thing: StoredObject, kind: ObjectKind | None) -> bool:
    """Whether what a thing needs may be of this kind; None: it was purged, and is not judged."""
    return kind is None or kind in _FITTING[thing.kind]


def contents_of(batch: WriteBatch) -> Contents:
    """Check a batch by itself and return it as bytes.

    Raises ObjectCorrupted where a name is not that of its content or the content is not canonical;
    ObjectTooLarge for an object of more than LARGEST_BODY bytes;
    ObjectNotFound where a name is needed that nothing of the right kind can have; ValueError for
    a commit, notes or an entry with a member that is none.
    """
    loose = {thing.name: thing for thing in _things(batch)}
    found = Contents(derived=dict(batch.derived), tombstones=dict(batch.tombstones))
    if batch.files:
        found.files = {ref: tuple(p) for ref, p in batch.files.items() if ref not in batch.raw}
    for commit, notes in batch.commits:
        thing, new = _commit(commit, notes)
        if thing.name not in loose:
            loose[thing.name] = thing
            found.commits.append(new)
        _place(thing.name, loose, found.things)
    for name in loose:
        if name not in found.things:
            _place(name, loose, found.things)
    return found


def name_commit(commit: Commit, notes: CommitNotes) -> tuple[StoredObject, BatchCommit]:
    """Name a commit. It is not checked: so only where it was made of what is one."""
    return _named(commit, notes, commits.commit_bytes(commit))


def file_thing(name: ArtifactRef, pieces: Sequence[ArtifactRef]) -> StoredObject:
    """Return a file whose name is that of all its bytes. That is not checked."""
    body = canonical.to_canonical_bytes({"name": name, "pieces": list(pieces)})
    return StoredObject(ObjectKind.FILE, name, body, tuple(dict.fromkeys(pieces)))


def batch_from(contents: Contents) -> WriteBatch:
    """Return a batch that holds the same, for a store that checks."""
    of = {
        kind: [one for one in contents.things.values() if one.kind is kind] for kind in ObjectKind
    }
    return WriteBatch(
        objects={Hash(one.name): one.body for one in of[ObjectKind.PART] + of[ObjectKind.MESSAGE]},
        deltas={
            ArtifactRef(one.name): commits.decode_delta(one.body) for one in of[ObjectKind.DELTA]
        },
        raw={ArtifactRef(one.name): one.body for one in of[ObjectKind.RAW]},
        files=contents.files,
        commits=[(one.commit, one.notes) for one in contents.commits],
    )


def _place(name: str, loose: Mapping[str, StoredObject], placed: dict[str, StoredObject]) -> None:
    """Put a thing behind what it needs: commits and their messages come to stand together."""
    waiting = [name]
    while waiting:
        thing = loose[waiting[-1]]
        # A parent is not drawn forward: it stands before its children already, and chains are deep.
        needs = thing.needs if thing.kind is not ObjectKind.COMMIT else thing.needs[:1]
        before = [need for need in needs if need in loose and need not in placed]
        if before:
            for need in before:
                if not fits(thing, loose[need].kind):
                    raise ObjectNotFound(BATCH, need, needed_by=thing.name)
            waiting += before[::-1]
        else:
            placed[waiting.pop()] = thing


def _things(batch: WriteBatch) -> Iterator[StoredObject]:
    for name, body in batch.objects.items():
        yield _object(name, _bearable(name, bytes(body)))
    for ref, entries in batch.deltas.items():
        yield _delta(ref, entries)
    for ref, refs in batch.sequences.items():
        found, body = commits.encode_sequence(refs)
        _same(found, ref)
        _check_names(_ARTIFACT, refs, needed_by=ref)
        yield StoredObject(ObjectKind.SEQUENCE, ref, body, tuple(dict.fromkeys(refs)))
    for ref, data in batch.raw.items():
        _same(name_of(ObjectKind.RAW, data), ref)
        yield StoredObject(ObjectKind.RAW, ref, _bearable(ref, bytes(data)))
    for ref, refs in batch.files.items():
        if ref not in batch.raw:  # a file of one piece is that piece
            _check_names(_ARTIFACT, [ref, *refs], needed_by=ref)
            yield file_thing(ref, refs)


def _bearable(name: str, body: bytes) -> bytes:
    if len(body) > LARGEST_BODY:
        raise ObjectTooLarge(BATCH, name, size_bytes=len(body), limit_bytes=LARGEST_BODY)
    return body


def _object(name: Hash, body: bytes) -> StoredObject:
    if body.startswith(_LIKE_MESSAGE) and _hash(canonical.MESSAGE, body) == name:
        return StoredObject(ObjectKind.MESSAGE, name, body, part_names(name, body))
    _same(_hash(canonical.PART, body), name)
    try:
        is_canonical = canonical.to_canonical_bytes(canonical.from_json(body)) == body
    except ValueError:
        is_canonical = False
    if not is_canonical:
        raise ObjectCorrupted(BATCH, name, reason="it is neither a part nor a canonical message")
    return StoredObject(ObjectKind.PART, name, body)


def part_names(name: str, body: bytes) -> tuple[str, ...]:
    """Return the names of a message's parts, each once. Raises ObjectCorrupted for no message."""
    try:
        shape = _shapes.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        shape = None
    if shape is None or canonical.to_canonical_bytes(shape) != body:
        raise ObjectCorrupted(BATCH, name, reason="it is neither a part nor a canonical message")
    return tuple(dict.fromkeys(shape.parts))


def message_from(body: bytes) -> StoredMessage:
    """Read a message's role and parts from its canonical bytes. Raises ValueError: none."""
    try:
        return _shapes.decode(body)
    except UnicodeDecodeError:  # lone surrogates
        return msgspec.convert(canonical.from_json(body), StoredMessage)


def file_from(body: bytes) -> ChunkedFile:
    """Read a file's name and pieces from its canonical bytes. Raises ValueError: they are none."""
    cut = _cuts.decode(body)
    for name in (cut.name, *cut.pieces):
        if not _ARTIFACT.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an artifact")
    return cut


def needs_of(kind: ObjectKind, body: bytes) -> tuple[str, ...]:
    """Return the full names of what canonical bytes name. Raises ValueError: they are not that."""
    match kind:
        case ObjectKind.MESSAGE:
            return tuple(dict.fromkeys(message_from(body).parts))
        case ObjectKind.DELTA:
            return tuple(dict.fromkeys(entry.message for entry in commits.decode_delta(body)))
        case ObjectKind.SEQUENCE:
            return tuple(dict.fromkeys(commits.decode_sequence(body)))
        case ObjectKind.FILE:
            return tuple(dict.fromkeys(file_from(body).pieces))
        case ObjectKind.COMMIT:
            return _needs_of(commits.decode_commit(body))
        case _:
            return ()


def _delta(ref: ArtifactRef, entries: Sequence[DeltaEntry]) -> StoredObject:
    """Return a delta; raise where it would not come back: its members have the wrong types."""
    try:
        found, body = commits.encode_delta(entries)
        _same(found, ref)
        again = commits.decode_delta(body)
        comes_back = canonical.to_canonical_bytes(again) == body
        if b"null" in body:  # that is written for what is no number, too
            comes_back &= msgspec.to_builtins(again) == msgspec.to_builtins(list(entries))
    except (TypeError, ValueError) as error:
        raise ObjectCorrupted(BATCH, ref, reason=f"it is no list of entries: {error}") from None
    if not comes_back:
        raise ObjectCorrupted(BATCH, ref, reason="it is not in canonical form")
    return StoredObject(
        ObjectKind.DELTA, ref, body, tuple(dict.fromkeys([one.message for one in entries]))
    )


def _named(commit: Commit, notes: CommitNotes, body: bytes) -> tuple[StoredObject, BatchCommit]:
    name = CommitId(f"ctx-{_hash(canonical.COMMIT, body)}")
    thing = StoredObject(ObjectKind.COMMIT, name, body, _needs_of(commit))
    return thing, BatchCommit(name, commit, notes, parse_rfc3339(commit.created_at))


def _needs_of(commit: Commit) -> tuple[str, ...]:
    return (commit.artifact,) if commit.parent is None else (commit.artifact, commit.parent)


def _commit(commit: Commit, notes: CommitNotes) -> tuple[StoredObject, BatchCommit]:
    body = commits.commit_bytes(commit)
    if commits.decode_commit(body) != commit:
        raise ValueError(f"{commit} does not come back as it is")
    thing, new = _named(commit, notes, body)
    if format_rfc3339(new.time_us) != commit.created_at:
        raise ValueError(f"{commit.created_at!r} is not in UTC with microseconds")
    commits.check_notes(notes)
    _check_names(_ARTIFACT, thing.needs[:1], needed_by=new.id)
    _check_names(_COMMIT, thing.needs[1:], needed_by=new.id)
    return thing, new


def _hash(domain: bytes, body: bytes) -> str:
    return blake3(domain + body).hexdigest()


def _check_names(pattern: re.Pattern[str], names: Sequence[str], *, needed_by: str) -> None:
    for name in names:
        if not pattern.fullmatch(name):
            raise ObjectNotFound(BATCH, name, needed_by=needed_by)


def _same(found: str, name: str) -> None:
    if found != name:
        raise ObjectCorrupted(BATCH, name, reason=f"its content has the name {found}")


_shapes = msgspec.json.Decoder(StoredMessage)
_cuts = msgspec.json.Decoder(ChunkedFile)
