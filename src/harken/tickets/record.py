"""The records of tickets: a version as a write batch, and back.

A version is a sequence: its record as canonical JSON, the version before it, and its attachments.
So all that a version needs is kept, copied and verified with it.

Source: docs/formats/tickets.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from harken.core import canonical, commits
from harken.core.commits import ArtifactRef, TicketId
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import Store, WriteBatch
from harken.store.branches import TICKET_PREFIX
from harken.tickets.ticket import Ticket, TicketVersion

WHERE = "the tickets"
_ID_CHARS = len(TICKET_PREFIX) + 64


def encode_version(version: TicketVersion) -> tuple[ArtifactRef, WriteBatch]:
    """Return the name of a version, and the batch that writes it."""
    record = canonical.to_canonical_bytes(version)
    members = list_members(commits.hash_raw(record), version)
    name, _ = commits.encode_sequence(members)
    return name, WriteBatch(raw={members[0]: record}, sequences={name: members})


def list_members(record: ArtifactRef, version: TicketVersion) -> list[ArtifactRef]:
    """Return the members of the sequence of a version whose record has this name."""
    before = [] if version.parent is None else [version.parent]
    return list(dict.fromkeys([record, *before, *version.ticket.attachments]))


def decode_record(name: str, record: bytes) -> TicketVersion:
    """Decode a record. Raises ObjectCorrupted if it is not that of a version."""
    try:
        return msgspec.convert(canonical.from_json(record), TicketVersion)
    except (ValueError, RecursionError) as error:
        raise ObjectCorrupted(WHERE, name, reason=f"not a version of a ticket: {error}") from None


def read_versions(store: Store, names: Sequence[ArtifactRef]) -> dict[ArtifactRef, TicketVersion]:
    """Return versions by name, in two reads. Raises ObjectNotFound, ObjectCorrupted."""
    sequences = store.sequences(names)
    records = store.raws([members[0] for members in sequences.values() if members])
    versions: dict[ArtifactRef, TicketVersion] = {}
    for name in names:
        members = sequences.get(name)
        if not members or members[0] not in records:
            raise ObjectNotFound(WHERE, members[0] if members else name, needed_by=name)
        versions[name] = decode_record(name, records[members[0]])
    return versions


class TicketReading(msgspec.Struct, frozen=True):
    """The tickets of a store, and the problems of those that cannot be read."""

    tickets: list[Ticket]
    damaged: dict[TicketId, str]


def read_all_tickets(store: Store) -> TicketReading:
    """Read all tickets. A damaged one does not keep the others from being read.

    Raises StoreError if the store fails as a whole.
    """
    heads, damaged = list_heads(store)
    try:
        return TicketReading(read_tickets(store, heads), damaged)
    except (ObjectNotFound, ObjectCorrupted):
        tickets: list[Ticket] = []
        for id_, head in heads.items():
            try:
                tickets += read_tickets(store, {id_: head})
            except (ObjectNotFound, ObjectCorrupted) as error:
                damaged[id_] = str(error)
        return TicketReading(tickets, damaged)


def list_heads(store: Store) -> tuple[dict[TicketId, ArtifactRef], dict[TicketId, str]]:
    """Return the heads of all tickets, and the names and problems of damaged heads."""
    try:
        return store.heads(TICKET_PREFIX), {}
    except ObjectCorrupted as error:
        heads: dict[TicketId, ArtifactRef] = {}
        damaged: dict[TicketId, str] = {}
        _add_heads(store, TICKET_PREFIX, heads, damaged)
        # The damaged name may begin with no digit.
        return heads, damaged or {TicketId(error.name): str(error)}


def _add_heads(
    store: Store, prefix: str, heads: dict[TicketId, ArtifactRef], damaged: dict[TicketId, str]
) -> None:
    """Add the heads with a prefix, narrowing it until damaged heads are alone."""
    for digit in "0123456789abcdef":
        longer = prefix + digit
        try:
            heads |= store.heads(longer)
        except ObjectCorrupted as error:
            if len(longer) < _ID_CHARS:
                _add_heads(store, longer, heads, damaged)
            else:
                damaged[TicketId(longer)] = str(error)


def read_tickets(store: Store, heads: Mapping[TicketId, ArtifactRef]) -> list[Ticket]:
    """Return tickets by their heads. Raises ObjectNotFound, ObjectCorrupted."""
    versions = read_versions(store, list(heads.values()))
    return [Ticket(id=id_, head=head, version=versions[head]) for id_, head in heads.items()]


def ticket_id(first: ArtifactRef) -> TicketId:
    """Return the id of the ticket with this first version."""
    return TicketId(TICKET_PREFIX + first.removeprefix("art-"))
