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


def read_tickets(store: Store, heads: Mapping[TicketId, ArtifactRef]) -> list[Ticket]:
    """Return tickets by their heads. Raises ObjectNotFound, ObjectCorrupted."""
    versions = read_versions(store, list(heads.values()))
    return [Ticket(id=id_, head=head, version=versions[head]) for id_, head in heads.items()]


def ticket_id(first: ArtifactRef) -> TicketId:
    """Return the id of the ticket with this first version."""
    return TicketId(TICKET_PREFIX + first.removeprefix("art-"))
