"""Literal names of the versions of a ticket. A change is a new format.

The values stand in docs/formats/tickets.md too.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.core import canonical
from harken.core.commits import encode_sequence, hash_raw
from harken.tickets.record import decode_record, encode_version, ticket_id
from harken.tickets.ticket import (
    DISPOSITIONS,
    STATUSES,
    TYPES,
    ChangeStamp,
    TicketState,
    TicketVersion,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats" / "tickets.md"
CTX = "ctx-ba2333cf96599b822f78d3fa055dd53f77cf29f7f0d2b575cd764419ee1a4fdd"
STATE = TicketState(title="Repair the kettle", priority=1, labels=("tea",))
FIRST_RECORD = "art-061e48a7a97c45c0711d3c2a7544bf85ca4681c58afaaa9812347e34b0935021"
FIRST = "art-5fae2d36dcd296fc3e3913dbed4acad4a82277ac80a9d68e7fe08b22e389f2df"
NOTE_RECORD = "art-e3b4b7b87bafde09834590e0468583c904b13f51c61ea2476c56dd872edf3ace"
NOTE = "art-04336fc428438faed9bc8e18c665b5d97c710b3ff74ea8894d8eb8e187bddf75"


def _versions() -> list[TicketVersion]:
    created = ChangeStamp("ann", "2026-01-31T12:00:00.000000Z", CTX)
    first = TicketVersion(
        action="create",
        author=created.author,
        time=created.time,
        context_id=CTX,
        ticket=STATE,
        nonce="0123456789abcdef",
    )
    note = TicketVersion(
        action="note",
        author="bob",
        time="2026-01-31T12:00:01.000000Z",
        note="The seal fits.",
        ticket=STATE,
        parent=encode_version(first)[0],
        created=created,
        earlier_context_id=CTX,
    )
    return [first, note]


@pytest.mark.req("S2-44")
def test_the_names_of_versions() -> None:
    text = DOCUMENT.read_text("utf-8")
    expected = [(FIRST_RECORD, FIRST), (NOTE_RECORD, NOTE)]
    for version, (record_name, name) in zip(_versions(), expected, strict=True):
        record = canonical.to_canonical_bytes(version)
        assert record.decode() in text
        members = [hash_raw(record), *([] if version.parent is None else [version.parent])]
        assert (members[0], encode_sequence(members)[0]) == (record_name, name)
        assert encode_version(version)[0] == name
        assert decode_record(name, record) == version
        assert record_name in text
        assert name in text
    assert ticket_id(encode_version(_versions()[0])[0]) in text


def test_the_document_lists_every_member_and_value() -> None:
    text = DOCUMENT.read_text("utf-8")
    names = [*TicketVersion.__struct_fields__, *TicketState.__struct_fields__]
    for name in (*names, *STATUSES, *TYPES, *DISPOSITIONS):
        assert f"`{name}`" in text, name


def test_members_of_later_versions_are_ignored() -> None:
    record = {**json.loads(canonical.to_canonical_bytes(_versions()[0])), "color": "red"}
    record["ticket"]["size"] = 1
    assert decode_record(FIRST, json.dumps(record).encode()) == _versions()[0]
