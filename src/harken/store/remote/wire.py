"""The wire format of a store: canonical bytes, under their names.

The receiver computes the name of all bytes, so neither side trusts the other or the network. In
MessagePack a body is its canonical bytes, as they are hashed; in JSON it is the value, for people.

Source: docs/formats/service.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec

from harken.core import canonical, commits
from harken.core.commits import (
    ArtifactRef,
    Commit,
    CommitId,
    CommitNotes,
    DeltaEntry,
    Hash,
    HeadName,
)
from harken.store.base import (
    BranchMove,
    ObjectKind,
    RetentionPolicy,
    StoredCommit,
    Tombstone,
    WriteBatch,
)
from harken.store.batch import MAX_OBJECT_BYTES, validate_batch

PACKED = "application/msgpack"
JSON = "application/json"
BYTES = "application/octet-stream"
MAX_NAMES = 10_000
"""The limit of names in a request, and of rows in a page of a list."""
MAX_BATCH_BYTES = 64 * 1024 * 1024
"""The default limit of a batch."""
MAX_RESPONSE_BYTES = 32 * 1024 * 1024
"""A response that reaches this size ends early; the remaining names must be requested again."""

_FRAME_BYTES = MAX_OBJECT_BYTES + 1024

T = TypeVar("T")
FullName: TypeAlias = Annotated[str, msgspec.Meta(pattern="^(ctx-|art-)?[0-9a-f]{64}$")]
FullCommit: TypeAlias = Annotated[CommitId, msgspec.Meta(pattern="^ctx-[0-9a-f]{64}$")]
FullHeadName: TypeAlias = Annotated[HeadName, msgspec.Meta(pattern="^(tkt|src)-[0-9a-f]{64}$")]
FullArtifact: TypeAlias = Annotated[ArtifactRef, msgspec.Meta(pattern="^art-[0-9a-f]{64}$")]
Names: TypeAlias = Annotated[list[str], msgspec.Meta(max_length=MAX_NAMES)]


class PackedBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A batch in MessagePack: canonical bytes by name; commits as pairs, commit and notes."""

    objects: dict[str, bytes] = {}
    deltas: dict[str, bytes] = {}
    sequences: dict[str, bytes] = {}
    raw: dict[str, bytes] = {}
    files: dict[str, bytes] = {}
    derived: bytes = b"{}"
    """A JSON object: key -> `art-` name."""
    commits: list[tuple[bytes, bytes]] = []
    tombstones: bytes = b"{}"
    """A JSON object: name -> tombstone."""
    moves: bytes = b"{}"
    """A JSON object: branch -> move."""


class CommitAndNotes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A commit and its mutable notes."""

    commit: Commit
    notes: CommitNotes = CommitNotes()


class PlainBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch in JSON: values by the names of their canonical bytes. Raw bytes are in base64."""

    objects: dict[str, Any] = {}
    deltas: dict[str, list[DeltaEntry]] = {}
    sequences: dict[str, list[str]] = {}
    raw: dict[str, bytes] = {}
    files: dict[str, list[str]] = {}
    derived: dict[str, str] = {}
    commits: list[CommitAndNotes] = []
    tombstones: dict[str, Tombstone] = {}
    moves: dict[str, BranchMove] = {}
    """Moves of branches by name. If a branch has another head than expected, nothing is written."""


class LogEndBody(msgspec.Struct, frozen=True):
    """The size of a log in complete lines, and the checksum (`sum`) of the last line."""

    size_bytes: int = 0
    last_sum: str = ""
    """16 hex digits, or empty if there is no line."""


class ListedLog(msgspec.Struct, frozen=True):
    """A log of a session on the service."""

    name: str
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    """The size of the plain log, also of a line that is being written."""
    modified_ns: int = 0
    """The time of the last write, in nanoseconds since 1970."""


class LogList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Logs, sorted by name."""

    logs: list[ListedLog]
    next: str | None = None


class NotesDigests(msgspec.Struct, frozen=True):
    """For each of 256 groups of commits, by their first two digits, a hash of their notes."""

    digests: Annotated[list[str], msgspec.Meta(min_length=256, max_length=256)]
    """32 hex digits each: see `harken.store.notes`."""


class PackedBodies(msgspec.Struct, frozen=True):
    """Bodies by name, of the first `asked` names of a request. Request the others again."""

    found: dict[str, bytes]
    asked: int


class PackedCommits(msgspec.Struct, frozen=True):
    """Commits in the requested order: the name of each, its body and its notes."""

    commits: list[tuple[CommitId, bytes, bytes]]
    asked: int


class PackedObject(msgspec.Struct, frozen=True, array_like=True):
    """An object of a stream, without its name, which follows from the bytes."""

    kind: ObjectKind
    body: bytes


class NameList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names of commits and artifacts, sorted."""

    names: list[FullName]
    next: str | None = None
    """The position after the last one, if there are more. As in other lists."""


class ChunkList(msgspec.Struct, frozen=True, omit_defaults=True):
    """The chunks of a file, in order."""

    chunks: list[FullArtifact]
    next: str | None = None


class CommitList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names of commits."""

    commits: list[FullCommit]
    next: str | None = None


class OptionalCommit(msgspec.Struct, frozen=True):
    """The name of a commit, or null."""

    id: FullCommit | None


class LabelList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Labels with their commits, oldest first."""

    labels: dict[str, list[FullCommit]]
    next: str | None = None


class BranchList(msgspec.Struct, frozen=True, omit_defaults=True):
    """The heads of branches, by name."""

    branches: dict[str, FullCommit]
    next: str | None = None


class HeadList(msgspec.Struct, frozen=True, omit_defaults=True):
    """The heads of artifacts, by name."""

    heads: dict[FullHeadName, FullArtifact]
    next: str | None = None


class NamesRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Full names. Unknown names are omitted from the response."""

    names: Names


class RetentionBody(msgspec.Struct, frozen=True):
    """Retention policies of commits and artifacts. Null is the default."""

    kept: dict[str, RetentionPolicy | None]


class RetentionList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Retention policies of commits and artifacts, by name."""

    kept: dict[str, RetentionPolicy]
    next: str | None = None


class Tombstones(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tombstones by the name of the purged content."""

    tombstones: dict[str, Tombstone]
    next: str | None = None


class Collection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A collection request: remove all that no commit, no `roots` and no retained object needs."""

    now: str
    """RFC 3339."""
    roots: list[str] = []
    grace_s: float = 3600
    dry_run: bool = False


class PackedPurge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A purge request: stand-ins as canonical bytes by name, and the tombstone as JSON."""

    stand_ins: dict[str, bytes]
    tombstone: bytes


class PlainPurge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A purge request in JSON: stand-ins as values by name, those for raw bytes in base64."""

    tombstone: Tombstone
    stand_ins: dict[str, Any] = {}
    raw: dict[str, bytes] = {}


class Derived(msgspec.Struct, frozen=True):
    """Derived artifacts that still exist, by key."""

    derived: dict[str, FullArtifact]


class DoneBody(msgspec.Struct, frozen=True):
    """The response to a write that is durable."""

    done: Literal[True] = True


_MEMBERS = {
    ObjectKind.PART: "objects",
    ObjectKind.MESSAGE: "objects",
    ObjectKind.DELTA: "deltas",
    ObjectKind.SEQUENCE: "sequences",
    ObjectKind.RAW: "raw",
}


def encode_batch(batch: WriteBatch) -> bytes:
    """Encode a batch as MessagePack. Raises as `contents_of` if the batch is invalid."""
    contents = validate_batch(batch)
    bodies: dict[str, dict[str, bytes]] = {}
    for obj in contents.objects.values():
        if obj.kind in _MEMBERS:
            bodies.setdefault(_MEMBERS[obj.kind], {})[obj.name] = obj.body
    packed = PackedBatch(
        **bodies,
        files={
            name: canonical.to_canonical_bytes(list(pieces)) for name, pieces in batch.files.items()
        },
        derived=canonical.to_canonical_bytes(dict(batch.derived)),
        commits=[
            (contents.objects[new.id].body, canonical.to_canonical_bytes(new.notes))
            for new in contents.commits
        ],
        tombstones=canonical.to_canonical_bytes(dict(batch.tombstones)),
        moves=canonical.to_canonical_bytes(dict(batch.moves)),
    )
    return pack(packed)


def decode_batch(data: bytes) -> WriteBatch:
    """Decode a batch from MessagePack. Raises ValueError if it is invalid."""
    packed = unpack(data, PackedBatch)
    return WriteBatch(
        objects={Hash(name): body for name, body in packed.objects.items()},
        deltas={
            ArtifactRef(name): commits.decode_delta(body) for name, body in packed.deltas.items()
        },
        sequences={
            ArtifactRef(name): commits.decode_sequence(body)
            for name, body in packed.sequences.items()
        },
        raw={ArtifactRef(name): body for name, body in packed.raw.items()},
        files={ArtifactRef(n): commits.decode_sequence(body) for n, body in packed.files.items()},
        derived=read_json(packed.derived, dict[str, ArtifactRef]),
        commits=[
            (commits.decode_commit(commit), decode_notes(notes)) for commit, notes in packed.commits
        ],
        tombstones=read_json(packed.tombstones, dict[str, Tombstone]),
        moves=read_json(packed.moves, dict[str, BranchMove]),
    )


def batch_from_json(source: PlainBatch) -> WriteBatch:
    """Convert a batch from its JSON form."""
    return WriteBatch(
        objects={
            Hash(name): canonical.to_canonical_bytes(value)
            for name, value in source.objects.items()
        },
        deltas={ArtifactRef(name): entries for name, entries in source.deltas.items()},
        sequences={
            ArtifactRef(name): [ArtifactRef(member) for member in names]
            for name, names in source.sequences.items()
        },
        raw={ArtifactRef(name): body for name, body in source.raw.items()},
        files={
            ArtifactRef(name): [ArtifactRef(member) for member in names]
            for name, names in source.files.items()
        },
        derived={key: ArtifactRef(name) for key, name in source.derived.items()},
        commits=[(member.commit, member.notes) for member in source.commits],
        tombstones=source.tombstones,
        moves=source.moves,
    )


def encode_commits(stored: Iterable[StoredCommit]) -> list[tuple[CommitId, bytes, bytes]]:
    """Encode commits and their notes as canonical bytes."""
    return [
        (commit.id, commits.commit_bytes(commit.commit), canonical.to_canonical_bytes(commit.notes))
        for commit in stored
    ]


def encode_frame(value: object) -> bytes:
    """Encode a value of a stream: its length in 4 bytes, then MessagePack."""
    data = pack(value)
    return len(data).to_bytes(4, "big") + data


END = (0).to_bytes(4, "big")
"""The end marker of a stream. A stream without it is incomplete."""


def iter_frames(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the values of a stream that arrives in parts, each as MessagePack.

    Raises ValueError if the stream has no end marker, or a value is too long.
    """
    buffer = bytearray()
    for part in parts:
        buffer += part
        while len(buffer) >= 4:
            length = int.from_bytes(buffer[:4], "big")
            if length == 0:
                return
            if length > _FRAME_BYTES:
                raise ValueError(f"an object of {length} bytes")
            if len(buffer) < 4 + length:
                break
            yield bytes(buffer[4 : 4 + length])
            del buffer[: 4 + length]
    raise ValueError("the rest is missing")


def decode_notes(data: bytes) -> CommitNotes:
    """Decode notes from JSON. Raises ValueError if they are invalid."""
    return read_json(data, CommitNotes)


def pack(value: object) -> bytes:
    """Encode a value as MessagePack."""
    return msgspec.msgpack.encode(value)


def unpack(data: bytes, kind: type[T]) -> T:
    """Decode a value of this type from MessagePack. Raises ValueError if it is invalid."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"invalid MessagePack for this type: {error}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(data: bytes, kind: type[T]) -> T:
    """Decode a value of this type from JSON. Raises ValueError if it is invalid."""
    return msgspec.convert(canonical.from_json(data), kind)


def decode_bodies(bodies: Mapping[str, bytes]) -> dict[str, Any]:
    """Decode bodies to JSON values. Raises ValueError if a body is invalid."""
    return {name: canonical.from_json(body) for name, body in bodies.items()}
