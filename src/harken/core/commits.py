"""Commits: the context of one agent at one time, and the deltas that commits contain.

The hash covers every immutable field and nothing else. A commit names its parent and an artifact;
an artifact is a list of occurrences (a delta), a list of delta names (a sequence: a materialized
context), or raw bytes. Equal fields give an equal id, so a checkpoint that is retried creates the
same commit.

Source: docs/formats/store.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NewType, TypeAlias, TypeVar

import msgspec
from blake3 import blake3

from harken.core import canonical, structs
from harken.core.messages import (
    ChatMessage,
    Message,
    MessageContent,
    Occurrence,
    join_occurrence,
    message_bytes,
    part_bytes,
    split_parts,
)
from harken.errors import ConfigError

Hash = NewType("Hash", str)
"""64 hex digits of BLAKE3; the full name of an object."""
CommitId = NewType("CommitId", str)
"""`ctx-` and 64 hex digits. Users see and type a prefix of 12 or more digits."""
ArtifactRef = NewType("ArtifactRef", str)
"""`art-` and 64 hex digits."""
HeadName = NewType("HeadName", str)
"""The name of a head: `tkt-` (a ticket) or `src-` (an imported file), and 64 hex digits."""
TicketId: TypeAlias = HeadName
"""The id of a ticket: the head of its versions."""

CommitType: TypeAlias = Literal["delta", "compaction", "snapshot"]
Checkpoint: TypeAlias = Literal[
    "turn_boundary", "tool_call", "compaction", "session_end", "explicit", "spawn", "import"
]
"""The trigger of a commit."""
SHORT_NAME_DIGITS = 12
"""Hex digits in the short form of a name."""


class DeltaEntry(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """One message of a delta: its hash, and the data of this occurrence."""

    message: Hash
    occurrence: Occurrence
    time: str | None = None
    """UTC, RFC 3339, if it is known."""
    source: dict[str, Any] | None = None
    """Native ids, usage and similar data, as the source runtime wrote them."""


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The context of one agent at one time. The id covers all fields."""

    parent: CommitId | None = None
    """None if the commit begins a conversation."""
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
        """The commit's name: the hash of its canonical bytes."""
        return CommitId(
            f"ctx-{canonical.hash_bytes(canonical.COMMIT_DOMAIN, commit_bytes(self)).hex()}"
        )


class CommitNotes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The mutable part of a commit."""

    summary: str = ""
    derived: bool = False
    """Whether the summary was derived from the last answer, because none was written."""
    summarized_by: str = ""
    """The model that wrote the summary; empty if no model did."""
    labels: tuple[str, ...] = ()


def check_notes(notes: CommitNotes) -> None:
    """Raise ValueError (msgspec.ValidationError) if a member has the wrong type."""
    msgspec.convert(msgspec.to_builtins(notes, builtin_types=(bytes,)), CommitNotes)


def check_labels(labels: Iterable[str]) -> None:
    """Raise ConfigError for a blank label: no command could name it."""
    if any(not label.strip() for label in labels):
        raise ConfigError("a label is blank; pass a word, such as 'reviewed'")


def commit_bytes(commit: Commit) -> bytes:
    """Return the canonical bytes that a commit's name covers.

    A member with its default value is left out, so that a later version can add members without
    a change of existing names. Defaults are compared by value and by type (`0` is not `False`):
    msgspec compares them by identity, so equal commits could get different bytes.
    """
    members = {
        name: value
        for (name, default), value in zip(_DEFAULTS, msgspec.structs.astuple(commit), strict=True)
        if value is not default and (type(value) is not type(default) or value != default)
    }
    return canonical.to_canonical_bytes(members)


def decode_commit(body: bytes) -> Commit:
    """Decode a commit from its canonical bytes. Raises ValueError if they are invalid."""
    return _decode_as(body, _commit_decoder, Commit)


def encode_delta(entries: Sequence[DeltaEntry]) -> tuple[ArtifactRef, bytes]:
    """Return the name of a delta and its canonical bytes: the array of its entries, oldest first.

    As in a commit, members with their default values are left out.
    """
    body = canonical.to_canonical_bytes(list(entries))
    if b'"shape":"text"' in body:  # msgspec did not recognize a default that is another object
        body = canonical.to_canonical_bytes([_with_default_shape(entry) for entry in entries])
    return ArtifactRef(f"art-{canonical.hash_bytes(canonical.DELTA_DOMAIN, body).hex()}"), body


def decode_delta(body: bytes) -> list[DeltaEntry]:
    """Decode a delta from its canonical bytes. Raises ValueError if they are invalid."""
    return _decode_as(body, _delta_decoder, list[DeltaEntry])


def encode_sequence(names: Sequence[ArtifactRef]) -> tuple[ArtifactRef, bytes]:
    """Return the name of a sequence and its canonical bytes: the array of its artifacts' names."""
    body = canonical.to_canonical_bytes(list(names))
    return ArtifactRef(f"art-{canonical.hash_bytes(canonical.SEQUENCE_DOMAIN, body).hex()}"), body


def decode_sequence(body: bytes) -> list[ArtifactRef]:
    """Decode a sequence from its canonical bytes. Raises ValueError if they are invalid."""
    return _decode_as(body, _sequence_decoder, list[ArtifactRef])


def hash_raw(data: bytes) -> ArtifactRef:
    """Return the name of raw bytes."""
    return ArtifactRef(f"art-{canonical.hash_bytes(canonical.RAW_DOMAIN, data).hex()}")


def encode_entry(
    message: ChatMessage, **occurrence_fields: Any
) -> tuple[DeltaEntry, dict[Hash, bytes]]:
    """Encode a message as a delta entry, and the objects (parts, message) that the entry needs."""
    encoded = encode_message(message)
    objects = dict(encoded.parts)
    objects[encoded.name] = encoded.body
    return DeltaEntry(encoded.name, encoded.occurrence, **occurrence_fields), objects


class EncodedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message's name, and the objects that represent it in a store."""

    name: Hash
    body: bytes
    parts: tuple[tuple[Hash, bytes], ...]
    """Names and bodies, in order."""
    occurrence: Occurrence


def encode_message(message: ChatMessage) -> EncodedMessage:
    """Encode a message as store objects. Raises ValueError as `split_occurrence`."""
    items, occurrence = split_parts(message)
    parts = tuple([(_hash_part(body), body) for body in part_bytes(message, items)])
    body = message_bytes(message.role, [name for name, _ in parts])
    name = Hash(blake3(canonical.MESSAGE_DOMAIN + body).hexdigest())
    return EncodedMessage(name, body, parts, occurrence)


def _hash_part(body: bytes) -> Hash:
    return Hash(blake3(canonical.PART_DOMAIN + body).hexdigest())


def decode_entry(entry: DeltaEntry, objects: Mapping[Hash, bytes]) -> Message:
    """Decode an entry and its objects into a message: the inverse of `encode_entry`.

    Raises KeyError for an object that is missing from `objects`.
    """
    shape = canonical.from_json(objects[entry.message])
    parts = [canonical.from_json(objects[hash_]) for hash_ in shape["parts"]]
    return join_occurrence(MessageContent(shape["role"], parts), entry.occurrence)


T = TypeVar("T")
_DEFAULTS = [(field.name, field.default) for field in msgspec.structs.fields(Commit)]
_commit_decoder = msgspec.json.Decoder(Commit)
_delta_decoder = msgspec.json.Decoder(list[DeltaEntry])
_sequence_decoder = msgspec.json.Decoder(list[ArtifactRef])


def _decode_as(body: bytes, decoder: msgspec.json.Decoder[T], kind: type[T]) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):  # lone surrogates, or a wrong shape
        return msgspec.convert(canonical.from_json(body), kind)


def _with_default_shape(entry: DeltaEntry) -> DeltaEntry:
    """Return an equal entry in which a default shape is the default object itself."""
    if entry.occurrence.shape != "text":
        return entry
    occurrence = structs.replace(entry.occurrence, shape=Occurrence().shape)
    return structs.replace(entry, occurrence=occurrence)
