"""Commits: what one agent understood at one moment, and the deltas that they hold.

One idea: everything that may not change is in the hash, and nothing else is. A commit names its
parent and an artifact; an artifact is a list of occurrences (a delta), a list of such lists (a
sequence: what was materialized), or raw bytes. Equal fields, equal id: a checkpoint that is tried
again is the same commit.

Source: docs/formats/store.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NewType, TypeAlias

import msgspec

from harken.core import codec
from harken.core.messages import ChatMessage, Message, Occurrence, PureMessage, join, split

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


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One message of a delta: which one, and what varies with its occurrence."""

    message: Hash
    occurrence: Occurrence
    time: str | None = None
    """UTC, RFC 3339, where it is known."""
    source: dict[str, Any] | None = None
    """Native ids, usage and the like, as the runtime that it came from has them."""


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return CommitId(f"ctx-{codec.hash_of(codec.COMMIT, fields)}")


class Notes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of a commit may change."""

    summary: str = ""
    derived: bool = False
    """Whether the summary was made from the last answer, since nobody gave one."""
    labels: tuple[str, ...] = ()


def delta_ref(entries: Sequence[Entry]) -> ArtifactRef:
    """Return the name of a delta: of its canonical bytes, a JSON array of its entries."""
    return ArtifactRef(f"art-{codec.hash_of(codec.DELTA, list(entries))}")


def sequence_ref(deltas: Sequence[ArtifactRef]) -> ArtifactRef:
    """Return the name of a sequence: of its canonical bytes, a JSON array of names."""
    return ArtifactRef(f"art-{codec.hash_of(codec.SEQUENCE, list(deltas))}")


def raw_ref(data: bytes) -> ArtifactRef:
    """Return the name of raw bytes."""
    return ArtifactRef(f"art-{codec.digest(codec.RAW, data).hex()}")


def entry_of(message: ChatMessage, **varying: Any) -> tuple[Entry, dict[Hash, bytes]]:
    """Take a message apart; return its entry and the objects (parts, message) that it needs."""
    pure, occurrence = split(message)
    objects: dict[Hash, bytes] = {}
    parts: list[Hash] = []
    for part in pure.parts:
        body = codec.canonical(part)
        hash_ = Hash(codec.digest(codec.PART, body).hex())
        objects[hash_] = body
        parts.append(hash_)
    body = codec.canonical({"parts": parts, "role": pure.role})
    hash_ = Hash(codec.digest(codec.MESSAGE, body).hex())
    objects[hash_] = body
    return Entry(hash_, occurrence, **varying), objects


def message_of(entry: Entry, objects: Mapping[Hash, bytes]) -> Message:
    """Put an entry and its objects together again: the inverse of `entry_of`.

    Raises KeyError for an object that is not among them.
    """
    shape = codec.decode(objects[entry.message])
    parts = [codec.decode(objects[hash_]) for hash_ in shape["parts"]]
    return join(PureMessage(shape["role"], parts), entry.occurrence)
