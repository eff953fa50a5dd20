"""Validate a write batch: every name matches its bytes, and the needs of each object are listed.

This is the only place that turns a batch into named bytes, so all stores reject the same batches.
Each object follows all that it needs. A check that requires the store's content is not done
here: whether a needed object exists and has the right kind (`fits`), and whether a file matches
its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from blake3 import blake3

from harken.core import canonical, commits, structs
from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.core.commits import ArtifactRef, Commit, CommitId, CommitNotes, DeltaEntry, Hash
from harken.errors import ObjectCorrupted, ObjectNotFound, ObjectTooLarge
from harken.store.base import BranchMove, ObjectKind, StoredObject, Tombstone, WriteBatch
from harken.store.branches import check_branch

BATCH = "the batch"
MAX_OBJECT_BYTES = 256 * 1024 * 1024
"""The size limit of an object. A file may be larger, in chunks."""

DOMAIN_BY_KIND = {
    ObjectKind.PART: canonical.PART_DOMAIN,
    ObjectKind.MESSAGE: canonical.MESSAGE_DOMAIN,
    ObjectKind.DELTA: canonical.DELTA_DOMAIN,
    ObjectKind.SEQUENCE: canonical.SEQUENCE_DOMAIN,
    ObjectKind.RAW: canonical.RAW_DOMAIN,
    ObjectKind.COMMIT: canonical.COMMIT_DOMAIN,
}
"""The hash domain of each kind whose name is a hash of its body. The body of a file contains its
name, which is the hash of all its bytes as raw ones.
"""
PREFIX_BY_KIND = {
    ObjectKind.DELTA: "art-",
    ObjectKind.SEQUENCE: "art-",
    ObjectKind.RAW: "art-",
    ObjectKind.FILE: "art-",
    ObjectKind.COMMIT: "ctx-",
}
_ARTIFACTS = frozenset({ObjectKind.DELTA, ObjectKind.SEQUENCE, ObjectKind.RAW, ObjectKind.FILE})
_ALLOWED_NEEDS = {
    ObjectKind.MESSAGE: frozenset({ObjectKind.PART}),
    ObjectKind.DELTA: frozenset({ObjectKind.MESSAGE}),
    ObjectKind.SEQUENCE: _ARTIFACTS,
    ObjectKind.FILE: frozenset({ObjectKind.RAW}),
    ObjectKind.COMMIT: _ARTIFACTS | {ObjectKind.COMMIT},
}
MESSAGE_START = b'{"parts":'
"""The beginning of the canonical bytes of a message."""
_ARTIFACT_PATTERN = re.compile(r"art-[0-9a-f]{64}")
_COMMIT_PATTERN = re.compile(r"ctx-[0-9a-f]{64}")


class StoredMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message in stored form: its role, and its parts by name."""

    parts: list[Hash]
    role: str


class ChunkedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file in stored form: the name of all its bytes, and its chunks by name."""

    name: ArtifactRef
    pieces: list[ArtifactRef]


class BatchCommit(msgspec.Struct, frozen=True, gc=False):
    """A commit of a batch, with its parsed time."""

    id: CommitId
    commit: Commit
    notes: CommitNotes
    time_us: int


class BatchContents(msgspec.Struct):
    """The validated contents of a batch."""

    objects: dict[str, StoredObject] = msgspec.field(default_factory=dict)
    """Objects by name. Each follows those of its needs that the batch contains."""
    commits: list[BatchCommit] = msgspec.field(default_factory=list)
    """Commits in the order of the batch, without duplicates."""
    files: dict[ArtifactRef, Sequence[ArtifactRef]] = msgspec.field(default_factory=dict)
    """The files among `objects`, with their chunks. Their names are not verified yet."""
    derived: Mapping[str, ArtifactRef] = msgspec.field(default_factory=dict)
    tombstones: Mapping[str, Tombstone] = msgspec.field(default_factory=dict)
    moves: Mapping[str, BranchMove] = msgspec.field(default_factory=dict)

    def copy(self) -> BatchContents:
        """Return contents of which objects, files and tombstones can be replaced."""
        return structs.replace(self, objects={**self.objects}, files={**self.files})


def compute_name(kind: ObjectKind, body: bytes) -> str:
    """Return the full name of canonical bytes. Raises ValueError if a file body is invalid."""
    if kind is ObjectKind.FILE:
        return parse_file(body).name
    return PREFIX_BY_KIND.get(kind, "") + _hash(DOMAIN_BY_KIND[kind], body)


def is_allowed_need(obj: StoredObject, kind: ObjectKind | None) -> bool:
    """Whether a need of an object may be of this kind. A purged need (None) is not judged."""
    return kind is None or kind in _ALLOWED_NEEDS[obj.kind]


def validate_batch(batch: WriteBatch) -> BatchContents:
    """Validate a batch by itself and return its contents as bytes.

    Raises ObjectCorrupted if a name does not match its content or the content is not canonical;
    ObjectTooLarge for an object of more than `MAX_OBJECT_BYTES` bytes; ObjectNotFound if a needed
    name cannot be that of an artifact or a commit; ValueError if a commit, notes or an entry has an
    invalid member, ConfigError for the name of a branch. The store checks that needs exist and are
    of the right kind.
    """
    unordered = {obj.name: obj for obj in _iter_objects(batch)}
    for branch in batch.moves:
        check_branch(branch)
    contents = BatchContents(
        derived=dict(batch.derived), tombstones=dict(batch.tombstones), moves=dict(batch.moves)
    )
    if batch.files:
        contents.files = {
            ref: tuple(pieces) for ref, pieces in batch.files.items() if ref not in batch.raw
        }
    for commit, notes in batch.commits:
        obj, new = _validate_commit(commit, notes)
        if obj.name not in unordered:
            unordered[obj.name] = obj
            contents.commits.append(new)
        _append_with_needs(obj.name, unordered, contents.objects)
    for name in unordered:
        if name not in contents.objects:
            _append_with_needs(name, unordered, contents.objects)
    return contents


def name_commit(commit: Commit, notes: CommitNotes) -> tuple[StoredObject, BatchCommit]:
    """Compute the name of a commit without validating it. The parts of the commit must be valid."""
    return _build_commit(commit, notes, commits.commit_bytes(commit))


def build_file_object(name: ArtifactRef, pieces: Sequence[ArtifactRef]) -> StoredObject:
    """Build the object of a file from its name and chunks. The name is not verified."""
    body = canonical.to_canonical_bytes({"name": name, "pieces": list(pieces)})
    return StoredObject(ObjectKind.FILE, name, body, tuple(dict.fromkeys(pieces)))


def batch_from(contents: BatchContents) -> WriteBatch:
    """Build a batch with the same contents, for a store that validates batches."""
    by_kind = {
        kind: [obj for obj in contents.objects.values() if obj.kind is kind] for kind in ObjectKind
    }
    return WriteBatch(
        objects={
            Hash(obj.name): obj.body
            for obj in by_kind[ObjectKind.PART] + by_kind[ObjectKind.MESSAGE]
        },
        deltas={
            ArtifactRef(obj.name): commits.decode_delta(obj.body)
            for obj in by_kind[ObjectKind.DELTA]
        },
        sequences={
            ArtifactRef(obj.name): commits.decode_sequence(obj.body)
            for obj in by_kind[ObjectKind.SEQUENCE]
        },
        raw={ArtifactRef(obj.name): obj.body for obj in by_kind[ObjectKind.RAW]},
        files=contents.files,
        commits=[(obj.commit, obj.notes) for obj in contents.commits],
        moves=contents.moves,
    )


def _append_with_needs(
    name: str, unordered: Mapping[str, StoredObject], ordered: dict[str, StoredObject]
) -> None:
    """Append an object after its needs, so that commits and their messages are adjacent."""
    stack = [name]
    while stack:
        obj = unordered[stack[-1]]
        # A parent is not moved: it precedes its children already, and chains are deep.
        needs = obj.needs if obj.kind is not ObjectKind.COMMIT else obj.needs[:1]
        missing = [need for need in needs if need in unordered and need not in ordered]
        if missing:
            stack += missing[::-1]
        else:
            ordered[stack.pop()] = obj


def _iter_objects(batch: WriteBatch) -> Iterator[StoredObject]:
    for name, body in batch.objects.items():
        yield _validate_object(name, _check_size(name, bytes(body)))
    for ref, entries in batch.deltas.items():
        yield _validate_delta(ref, entries)
    for ref, refs in batch.sequences.items():
        hash_name, body = commits.encode_sequence(refs)
        _check_equal(hash_name, ref)
        _check_names(_ARTIFACT_PATTERN, refs, needed_by=ref)
        yield StoredObject(ObjectKind.SEQUENCE, ref, body, tuple(dict.fromkeys(refs)))
    for ref, data in batch.raw.items():
        _check_equal(compute_name(ObjectKind.RAW, data), ref)
        yield StoredObject(ObjectKind.RAW, ref, _check_size(ref, bytes(data)))
    for ref, refs in batch.files.items():
        if ref not in batch.raw:  # A file of one chunk is that chunk.
            _check_names(_ARTIFACT_PATTERN, [ref, *refs], needed_by=ref)
            yield build_file_object(ref, refs)


def _check_size(name: str, body: bytes) -> bytes:
    if len(body) > MAX_OBJECT_BYTES:
        raise ObjectTooLarge(BATCH, name, size_bytes=len(body), limit_bytes=MAX_OBJECT_BYTES)
    return body


def _validate_object(name: Hash, body: bytes) -> StoredObject:
    if body.startswith(MESSAGE_START) and _hash(canonical.MESSAGE_DOMAIN, body) == name:
        return StoredObject(ObjectKind.MESSAGE, name, body, parse_part_names(name, body))
    _check_equal(_hash(canonical.PART_DOMAIN, body), name)
    try:
        is_canonical = canonical.to_canonical_bytes(canonical.from_json(body)) == body
    except ValueError:
        is_canonical = False
    if not is_canonical:
        raise ObjectCorrupted(BATCH, name, reason="it is neither a part nor a canonical message")
    return StoredObject(ObjectKind.PART, name, body)


def parse_part_names(name: str, body: bytes) -> tuple[str, ...]:
    """Return the distinct part names of a message. Raises ObjectCorrupted."""
    try:
        message = _message_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = None
    if message is None or canonical.to_canonical_bytes(message) != body:
        raise ObjectCorrupted(BATCH, name, reason="it is neither a part nor a canonical message")
    return tuple(dict.fromkeys(message.parts))


def parse_message(body: bytes) -> StoredMessage:
    """Parse the canonical bytes of a message. Raises ValueError."""
    try:
        return _message_decoder.decode(body)
    except UnicodeDecodeError:  # The text contains lone surrogates.
        return msgspec.convert(canonical.from_json(body), StoredMessage)


def parse_file(body: bytes) -> ChunkedFile:
    """Parse the canonical bytes of a file. Raises ValueError."""
    file = _file_decoder.decode(body)
    for name in (file.name, *file.pieces):
        if not _ARTIFACT_PATTERN.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of an artifact")
    return file


def parse_needs(kind: ObjectKind, body: bytes) -> tuple[str, ...]:
    """Return the full names that canonical bytes reference. Raises ValueError."""
    match kind:
        case ObjectKind.MESSAGE:
            return tuple(dict.fromkeys(parse_message(body).parts))
        case ObjectKind.DELTA:
            return tuple(dict.fromkeys(entry.message for entry in commits.decode_delta(body)))
        case ObjectKind.SEQUENCE:
            return tuple(dict.fromkeys(commits.decode_sequence(body)))
        case ObjectKind.FILE:
            return tuple(dict.fromkeys(parse_file(body).pieces))
        case ObjectKind.COMMIT:
            return _commit_needs(commits.decode_commit(body))
        case _:
            return ()


def _validate_delta(ref: ArtifactRef, entries: Sequence[DeltaEntry]) -> StoredObject:
    """Validate a delta. Raises ObjectCorrupted if it does not survive a round trip."""
    try:
        hash_name, body = commits.encode_delta(entries)
        _check_equal(hash_name, ref)
        decoded = commits.decode_delta(body)
        is_equal = canonical.to_canonical_bytes(decoded) == body
        if b"null" in body:  # The encoder writes null also for invalid numbers.
            is_equal &= msgspec.to_builtins(decoded) == msgspec.to_builtins(list(entries))
    except (TypeError, ValueError) as error:
        raise ObjectCorrupted(BATCH, ref, reason=f"it is not a list of entries: {error}") from None
    if not is_equal:
        raise ObjectCorrupted(BATCH, ref, reason="it is not in canonical form")
    return StoredObject(
        ObjectKind.DELTA, ref, body, tuple(dict.fromkeys([entry.message for entry in entries]))
    )


def _build_commit(
    commit: Commit, notes: CommitNotes, body: bytes
) -> tuple[StoredObject, BatchCommit]:
    name = CommitId(f"ctx-{_hash(canonical.COMMIT_DOMAIN, body)}")
    obj = StoredObject(ObjectKind.COMMIT, name, body, _commit_needs(commit))
    return obj, BatchCommit(name, commit, notes, parse_rfc3339(commit.created_at))


def _commit_needs(commit: Commit) -> tuple[str, ...]:
    return (commit.artifact,) if commit.parent is None else (commit.artifact, commit.parent)


def _validate_commit(commit: Commit, notes: CommitNotes) -> tuple[StoredObject, BatchCommit]:
    body = commits.commit_bytes(commit)
    if commits.decode_commit(body) != commit:
        raise ValueError(f"{commit} does not survive encoding and decoding")
    obj, new = _build_commit(commit, notes, body)
    if format_rfc3339(new.time_us) != commit.created_at:
        raise ValueError(f"{commit.created_at!r} is not in UTC with microseconds")
    commits.check_notes(notes)
    _check_names(_ARTIFACT_PATTERN, obj.needs[:1], needed_by=new.id)
    _check_names(_COMMIT_PATTERN, obj.needs[1:], needed_by=new.id)
    return obj, new


def _hash(domain: bytes, body: bytes) -> str:
    return blake3(domain + body).hexdigest()


def _check_names(pattern: re.Pattern[str], names: Sequence[str], *, needed_by: str) -> None:
    for name in names:
        if not pattern.fullmatch(name):
            raise ObjectNotFound(BATCH, name, needed_by=needed_by)


def _check_equal(computed: str, name: str) -> None:
    if computed != name:
        raise ObjectCorrupted(BATCH, name, reason=f"its content has the name {computed}")


_message_decoder = msgspec.json.Decoder(StoredMessage)
_file_decoder = msgspec.json.Decoder(ChunkedFile)
