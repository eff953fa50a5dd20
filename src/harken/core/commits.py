"""Commits: what one agent understood at one moment, and the deltas that they hold.

One idea: everything that may not change is in the hash, and nothing else is. A commit names its
parent and an artifact; an artifact is a list of occurrences (a delta), a list of such lists (a
sequence: what was materialized), or raw bytes. Equal fields, equal id: a checkpoint that is tried
again is the same commit.

Source: docs/formats/store.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NewType, TypeAlias, TypeVar

import msgspec
from blake3 import blake3

from harken.core import canonical
from harken.core.messages import (
    ChatMessage,
    Message,
    MessageContent,
    Occurrence,
    join_occurrence,
    part_bytes,
    split_parts,
)

Hash = NewType("Hash", str)
"""64 hex digits of BLAKE3; the full name of an object."""
CommitId = NewType("CommitId", str)
"""`ctx-` and 64 hex digits; people see and give 12 or more of them."""
ArtifactRef = NewType("ArtifactRef", str)
"""`art-` and 64 hex digits."""

CommitType: TypeAlias = Literal["delta", "compaction", "snapshot"]
Checkpoint: TypeAlias = Literal[
    "turn_boundary", "tool_call", "compaction", "session_end", "explicit", "spawn", "import"
]
"""What triggered a commit."""
SHOWN = 12
"""How many hex digits of a name people see."""


class DeltaEntry(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """One message of a delta: which one, and what varies with its occurrence."""

    message: Hash
    occurrence: Occurrence
    time: str | None = None
    """UTC, RFC 3339, where it is known."""
    source: dict[str, Any] | None = None
    """Native ids, usage and the like, as the runtime that it came from has them."""


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What one agent understood at one moment. All of it is covered by the id."""

    parent: CommitId | None = None
    """None: the conversation begins here."""
    type: CommitType = "delta"
    artifact: ArtifactRef
    format: str = "events-v1"
    template: str = ""
    principal: str = ""
    machine: str = ""
    session_id: str = ""
    checkpoint: Checkpoint = "explicit"
    ticket_id: str = ""
    thread_id: str = ""
    message_count: int = 0
    token_count: int = 0
    created_at: str
    """UTC, RFC 3339, microseconds: the time of the last entry that it covers."""

    @property
    def id(self) -> CommitId:
        """Its name."""
        return CommitId(f"ctx-{canonical.hash_bytes(canonical.COMMIT, commit_bytes(self)).hex()}")


class CommitNotes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What of a commit may change."""

    summary: str = ""
    derived: bool = False
    """Whether the summary was made from the last answer, since nobody gave one."""
    summarized_by: str = ""
    """The model that wrote the summary; empty: no model did."""
    labels: tuple[str, ...] = ()


def check_notes(notes: CommitNotes) -> None:
    """Raise ValueError (msgspec.ValidationError) where a member has the wrong type."""
    msgspec.convert(msgspec.to_builtins(notes, builtin_types=(bytes,)), CommitNotes)


def commit_bytes(commit: Commit) -> bytes:
    """Return the canonical bytes that a commit's name covers.

    A member that has its default is left out, so that a later version may add members and every
    commit keeps its name. The defaults are compared by value and by type (`0` is not `False`):
    msgspec compares them by identity, so that equal commits might get different bytes.
    """
    members = {
        name: value
        for (name, default), value in zip(_DEFAULTS, msgspec.structs.astuple(commit), strict=True)
        if value is not default and (type(value) is not type(default) or value != default)
    }
    return canonical.to_canonical_bytes(members)


def decode_commit(body: bytes) -> Commit:
    """Read a commit from its canonical bytes. Raises ValueError where they are none."""
    return _typed(body, _commit_decoder, Commit)


def encode_delta(entries: Sequence[DeltaEntry]) -> tuple[ArtifactRef, bytes]:
    """Return the name of a delta and its canonical bytes: the array of its entries, oldest first.

    As in a commit, members that have their default are left out.
    """
    body = canonical.to_canonical_bytes(list(entries))
    if b'"shape":"text"' in body:  # a "text" that is not the very object that msgspec knows
        body = canonical.to_canonical_bytes([_plain_shape(entry) for entry in entries])
    return ArtifactRef(f"art-{canonical.hash_bytes(canonical.DELTA, body).hex()}"), body


def decode_delta(body: bytes) -> list[DeltaEntry]:
    """Read a delta from its canonical bytes. Raises ValueError where they are none."""
    return _typed(body, _delta_decoder, list[DeltaEntry])


def encode_sequence(names: Sequence[ArtifactRef]) -> tuple[ArtifactRef, bytes]:
    """Return the name of a sequence and its canonical bytes: the array of its artifacts' names."""
    body = canonical.to_canonical_bytes(list(names))
    return ArtifactRef(f"art-{canonical.hash_bytes(canonical.SEQUENCE, body).hex()}"), body


def decode_sequence(body: bytes) -> list[ArtifactRef]:
    """Read a sequence from its canonical bytes. Raises ValueError where they are none."""
    return _typed(body, _sequence_decoder, list[ArtifactRef])


def hash_raw(data: bytes) -> ArtifactRef:
    """Return the name of raw bytes."""
    return ArtifactRef(f"art-{canonical.hash_bytes(canonical.RAW, data).hex()}")


def encode_entry(message: ChatMessage, **varying: Any) -> tuple[DeltaEntry, dict[Hash, bytes]]:
    """Take a message apart; return its entry and the objects (parts, message) that it needs."""
    said = encode_message(message)
    objects = dict(said.parts)
    objects[said.name] = said.body
    return DeltaEntry(said.name, said.occurrence, **varying), objects


class EncodedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message by its name, and all that has to be kept for it."""

    name: Hash
    body: bytes
    parts: tuple[tuple[Hash, bytes], ...]
    """Names and bodies, in order."""
    occurrence: Occurrence


def encode_message(message: ChatMessage) -> EncodedMessage:
    """Take a message apart; return what its name stands for. Raises ValueError: see `apart`."""
    items, occurrence = split_parts(message)
    parts = tuple([(_part_hash(body), body) for body in part_bytes(message, items)])
    names = ",".join([f'"{name}"' for name, _ in parts]).encode()
    body = b'{"parts":[%b],"role":%b}' % (names, canonical.to_canonical_bytes(message.role))
    name = Hash(blake3(canonical.MESSAGE + body).hexdigest())
    return EncodedMessage(name, body, parts, occurrence)


def _part_hash(body: bytes) -> Hash:
    return Hash(blake3(canonical.PART + body).hexdigest())


def decode_entry(entry: DeltaEntry, objects: Mapping[Hash, bytes]) -> Message:
    """Put an entry and its objects together again: the inverse of `entry_of`.

    Raises KeyError for an object that is not among them.
    """
    shape = canonical.from_json(objects[entry.message])
    parts = [canonical.from_json(objects[hash_]) for hash_ in shape["parts"]]
    return join_occurrence(MessageContent(shape["role"], parts), entry.occurrence)


T = TypeVar("T")
_DEFAULTS = [(field.name, field.default) for field in msgspec.structs.fields(Commit)]
_commit_decoder = msgspec.json.Decoder(Commit)
_delta_decoder = msgspec.json.Decoder(list[DeltaEntry])
_sequence_decoder = msgspec.json.Decoder(list[ArtifactRef])


def _typed(body: bytes, decoder: msgspec.json.Decoder[T], kind: type[T]) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):  # lone surrogates, or a wrong shape
        return msgspec.convert(canonical.from_json(body), kind)


def _plain_shape(entry: DeltaEntry) -> DeltaEntry:
    """Return an equal entry whose shape, where it is the default, is the default object."""
    if entry.occurrence.shape != "text":
        return entry
    occurrence = msgspec.structs.replace(entry.occurrence, shape=Occurrence().shape)
    return msgspec.structs.replace(entry, occurrence=occurrence)
