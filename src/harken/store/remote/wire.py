"""What of a store's contract goes over the wire: canonical bytes, under the names that they have.

One idea: whoever gets bytes computes their name, so neither side trusts the other, nor what lies
between them. In MessagePack a body is its canonical bytes, as they are hashed; in JSON it is the
value, for people.

Source: docs/formats/service.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec

from harken.core import canonical, commits
from harken.core.commits import ArtifactRef, Commit, CommitId, CommitNotes, DeltaEntry, Hash
from harken.store.base import ObjectKind, RetentionPolicy, StoredCommit, Tombstone, WriteBatch
from harken.store.batch import LARGEST_BODY, contents_of

PACKED = "application/msgpack"
JSON = "application/json"
BYTES = "application/octet-stream"
MOST_NAMES = 10_000
"""So many names at most are asked for in one request, and so many commits of a chain given."""
MOST_LISTED = 1_000_000
"""So many names at most are given in one answer."""
BATCH_BYTES = 64 * 1024 * 1024
"""How large a batch is at most, unless the service was told otherwise."""
ANSWER_BYTES = 32 * 1024 * 1024
"""When an answer is as large as this, the rest must be asked for again."""

_FRAME_BYTES = LARGEST_BODY + 1024

T = TypeVar("T")
FullName: TypeAlias = Annotated[str, msgspec.Meta(pattern="^(ctx-|art-)?[0-9a-f]{64}$")]
FullCommit: TypeAlias = Annotated[CommitId, msgspec.Meta(pattern="^ctx-[0-9a-f]{64}$")]
FullArtifact: TypeAlias = Annotated[ArtifactRef, msgspec.Meta(pattern="^art-[0-9a-f]{64}$")]
Names: TypeAlias = Annotated[list[str], msgspec.Meta(max_length=MOST_NAMES)]


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


class CommitAndNotes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A commit, and what of it may change."""

    commit: Commit
    notes: CommitNotes = CommitNotes()


class PlainBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A batch in JSON: values by the names of their canonical bytes; raw bytes in base64."""

    objects: dict[str, Any] = {}
    deltas: dict[str, list[DeltaEntry]] = {}
    sequences: dict[str, list[str]] = {}
    raw: dict[str, bytes] = {}
    files: dict[str, list[str]] = {}
    derived: dict[str, str] = {}
    commits: list[CommitAndNotes] = []
    tombstones: dict[str, Tombstone] = {}


class LogEndBody(msgspec.Struct, frozen=True):
    """How much of a log is there: whole lines, of which the last has this `sum`."""

    size_bytes: int = 0
    last_sum: str = ""
    """16 hex digits; empty: there is no line."""


class PackedFound(msgspec.Struct, frozen=True):
    """Bodies by name, of the first `asked` names of a question: the rest is asked for again."""

    found: dict[str, bytes]
    asked: int


class PackedCommits(msgspec.Struct, frozen=True):
    """Commits, in the order asked for: the name of each, its body and its notes."""

    commits: list[tuple[CommitId, bytes, bytes]]
    asked: int


class PackedThing(msgspec.Struct, frozen=True, array_like=True):
    """One of all things, as it stands in a stream: its name follows from the bytes."""

    kind: ObjectKind
    body: bytes


class NameList(msgspec.Struct, frozen=True):
    """Names of commits and artifacts, sorted."""

    names: list[FullName]


class CommitList(msgspec.Struct, frozen=True):
    """Names of commits."""

    commits: list[FullCommit]


class MaybeCommit(msgspec.Struct, frozen=True):
    """The name of a commit, or null for none."""

    id: FullCommit | None


class LabelList(msgspec.Struct, frozen=True):
    """Labels, and the commits that have them, oldest first."""

    labels: dict[str, list[FullCommit]]


class AskedNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Full names. What has none of them is left out of the answer."""

    names: Names


class RetentionBody(msgspec.Struct, frozen=True):
    """Commits and artifacts that are kept otherwise than usual; null: as all others."""

    kept: dict[str, RetentionPolicy | None]


class Tombstones(msgspec.Struct, frozen=True):
    """What was purged."""

    tombstones: dict[str, Tombstone]


class Collection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What shall be collected: all that no commit, no `roots` and nothing that is kept needs."""

    now: str
    """RFC 3339."""
    roots: list[str] = []
    grace_s: float = 3600
    dry_run: bool = False


class PackedPurge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands in for what, as canonical bytes, and the tombstone, as JSON."""

    stand_ins: dict[str, bytes]
    tombstone: bytes


class PlainPurge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stands in for what, as values; what stands in for raw bytes, in base64."""

    tombstone: Tombstone
    stand_ins: dict[str, Any] = {}
    raw: dict[str, bytes] = {}


class Derived(msgspec.Struct, frozen=True):
    """What was derived under keys, as far as it is still there."""

    derived: dict[str, FullArtifact]


class DoneBody(msgspec.Struct, frozen=True):
    """It is done, and durable."""

    done: Literal[True] = True


_MEMBERS = {
    ObjectKind.PART: "objects",
    ObjectKind.MESSAGE: "objects",
    ObjectKind.DELTA: "deltas",
    ObjectKind.SEQUENCE: "sequences",
    ObjectKind.RAW: "raw",
}


def packed_batch(batch: WriteBatch) -> bytes:
    """Return a batch as MessagePack. Raises as `contents_of` where it is wrong by itself."""
    contents = contents_of(batch)
    bodies: dict[str, dict[str, bytes]] = {}
    for thing in contents.things.values():
        if thing.kind in _MEMBERS:
            bodies.setdefault(_MEMBERS[thing.kind], {})[thing.name] = thing.body
    packed = PackedBatch(
        **bodies,
        files={
            name: canonical.to_canonical_bytes(list(pieces)) for name, pieces in batch.files.items()
        },
        derived=canonical.to_canonical_bytes(dict(batch.derived)),
        commits=[
            (contents.things[new.id].body, canonical.to_canonical_bytes(new.notes))
            for new in contents.commits
        ],
        tombstones=canonical.to_canonical_bytes(dict(batch.tombstones)),
    )
    return pack(packed)


def batch_from(data: bytes) -> WriteBatch:
    """Read a batch from MessagePack. Raises ValueError where it is none."""
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
        commits=[(commits.decode_commit(one), notes_from(other)) for one, other in packed.commits],
        tombstones=read_json(packed.tombstones, dict[str, Tombstone]),
    )


def batch_of(plain: PlainBatch) -> WriteBatch:
    """Return the batch that somebody wrote in JSON."""
    return WriteBatch(
        objects={
            Hash(name): canonical.to_canonical_bytes(value) for name, value in plain.objects.items()
        },
        deltas={ArtifactRef(name): entries for name, entries in plain.deltas.items()},
        sequences={
            ArtifactRef(name): [ArtifactRef(one) for one in names]
            for name, names in plain.sequences.items()
        },
        raw={ArtifactRef(name): body for name, body in plain.raw.items()},
        files={
            ArtifactRef(name): [ArtifactRef(one) for one in names]
            for name, names in plain.files.items()
        },
        derived={key: ArtifactRef(name) for key, name in plain.derived.items()},
        commits=[(one.commit, one.notes) for one in plain.commits],
        tombstones=plain.tombstones,
    )


def packed_commits(stored: Iterable[StoredCommit]) -> list[tuple[CommitId, bytes, bytes]]:
    """Return commits and their notes as canonical bytes."""
    return [
        (one.id, commits.commit_bytes(one.commit), canonical.to_canonical_bytes(one.notes))
        for one in stored
    ]


def frame(value: object) -> bytes:
    """Return a value of a stream: its length in 4 bytes, then MessagePack."""
    data = pack(value)
    return len(data).to_bytes(4, "big") + data


END = (0).to_bytes(4, "big")
"""The last of a stream: without it, the rest is missing."""


def frames(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the values of a stream that comes in parts, each as MessagePack.

    Raises ValueError where the stream ends before its end, or holds what is too long.
    """
    held = bytearray()
    for part in parts:
        held += part
        while len(held) >= 4:
            length = int.from_bytes(held[:4], "big")
            if length == 0:
                return
            if length > _FRAME_BYTES:
                raise ValueError(f"a thing of {length} bytes")
            if len(held) < 4 + length:
                break
            yield bytes(held[4 : 4 + length])
            del held[: 4 + length]
    raise ValueError("the rest is missing")


def notes_from(data: bytes) -> CommitNotes:
    """Read notes from JSON. Raises ValueError where they are none."""
    return read_json(data, CommitNotes)


def pack(value: object) -> bytes:
    """Return a value as MessagePack."""
    return msgspec.msgpack.encode(value)


def unpack(data: bytes, kind: type[T]) -> T:
    """Read a value of this type from MessagePack. Raises ValueError where it is none."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no MessagePack of this form: {error}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(data: bytes, kind: type[T]) -> T:
    """Read a value of this type from JSON. Raises ValueError where it is none."""
    return msgspec.convert(canonical.from_json(data), kind)


def values_of(bodies: Mapping[str, bytes]) -> dict[str, Any]:
    """Return bodies as JSON values. Raises ValueError where one is none."""
    return {name: canonical.from_json(body) for name, body in bodies.items()}
