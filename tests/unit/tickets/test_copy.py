"""Tickets are copied between stores with all versions; damage is reported."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harken.context.purge import PurgeRequest, purge_text
from harken.core.commits import TicketId, encode_sequence, hash_raw
from harken.core.secrets.removal import Secret
from harken.store.base import WriteBatch
from harken.store.copying.tickets import copy_tickets
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.tickets.change import TicketChange
from harken.tickets.check import check_tickets
from harken.tickets.record import encode_version
from harken.tickets.ticket import ChangeStamp
from tests.unit.tickets.kit import open_tickets

START = "2027-01-15T08:00:00.000000Z"


def test_copied_tickets_are_equal_with_history_and_attachments() -> None:
    source, target = MemoryStore(), MemoryStore()
    tickets = open_tickets(source)
    data = hash_raw(b"a photograph")
    source.write(WriteBatch(raw={data: b"a photograph"}))
    first = tickets.create("First", TicketChange(add_attachments=(data,)))
    second = tickets.create("Second", TicketChange(add_blockers=(first.id,)))
    tickets.note(first.id, "a note")
    assert copy_tickets(source, target).created == sorted([first.id, second.id])
    copy = open_tickets(target)
    assert copy.list_tickets() == tickets.list_tickets()
    assert copy.history(first.id) == tickets.history(first.id)
    assert target.raw(data) == b"a photograph"
    assert not check_tickets(target)
    assert copy_tickets(source, target).created == []


def test_a_copy_continues_a_ticket_and_reports_one_that_diverged() -> None:
    source, target = MemoryStore(), MemoryStore()
    here, there = open_tickets(source, "ann"), open_tickets(target, "bob")
    same, apart = here.create("Same").id, here.create("Apart").id
    copy_tickets(source, target)
    here.note(same, "one")
    here.note(same, "two")
    here.note(apart, "here")
    there.note(apart, "there")
    result = copy_tickets(source, target)
    assert (result.continued, result.diverged) == ([same], [apart])
    assert there.get(same) == here.get(same)
    assert there.get(apart).version.note == "there"
    there.close(same)
    assert copy_tickets(source, target, [same]).continued == []
    assert there.get(same).is_closed, "an older copy changes nothing"


def test_a_purged_secret_is_gone_from_tickets_that_stay_readable(tmp_path: Path) -> None:
    secret = "sk-very-secret-" + "x" * 20
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        tickets = open_tickets(store)
        ticket = tickets.create("Rotate the key", TicketChange(body=f"It is {secret}."))
        tickets.note(ticket.id, f"the key {secret} is void")
        request = PurgeRequest(secret=Secret(secret), by="ann", why="leaked")
        assert purge_text(store, [], request)
        texts = [version.note + version.ticket.body for _, version in tickets.history(ticket.id)]
        assert all("[purged]" in text and secret not in text for text in texts)
        assert fsck(store) == check_tickets(store) == []
        target = MemoryStore()
        assert copy_tickets(store, target).created == [ticket.id]
        assert open_tickets(target).history(ticket.id) == tickets.history(ticket.id)
    assert secret.encode() not in (tmp_path / "store.db").read_bytes()


def test_links_that_lead_nowhere_and_cycles_are_reported() -> None:
    source, target = MemoryStore(), MemoryStore()
    tickets = open_tickets(source)
    first = tickets.create("First")
    second = tickets.create("Second", TicketChange(add_blockers=(first.id,)))
    copy_tickets(source, target, [second.id])
    [finding] = check_tickets(target)
    assert finding.place == f"ticket {second.id}"
    assert first.id in finding.problem
    state = TicketChange(add_blockers=(second.id,)).apply(first.state)
    name, batch = encode_version(
        msgspec.structs.replace(
            first.version, ticket=state, parent=first.head, created=first.created
        )
    )
    source.write(batch)
    source.move_head(first.id, name, expected=first.head)
    assert {finding.problem for finding in check_tickets(source)} == {"it blocks itself"}


@pytest.mark.parametrize("kind", ["no sequence", "no record", "another ticket", "other members"])
def test_a_head_that_is_no_version_is_reported(kind: str) -> None:
    store = MemoryStore()
    tickets = open_tickets(store)
    ticket = tickets.create("First")
    data = hash_raw(b"{}")
    store.write(WriteBatch(raw={data: b"{}"}))
    record = store.sequences([ticket.head])[ticket.head][0]
    members = {"no record": [data], "other members": [record, data]}.get(kind, [record])
    name, _ = encode_sequence(members)
    store.write(WriteBatch(sequences={name: members}))
    other = TicketId("tkt-" + "1" * 64)
    store.move_head(other, data if kind == "no sequence" else name, expected=None)
    assert [finding.place for finding in check_tickets(store)] == [f"ticket {other}"]


@pytest.mark.parametrize(
    "changes",
    [
        {"time": "soon"},
        {"author": "a\nb"},
        {"created": ChangeStamp("ann", "soon")},
        {"created": ChangeStamp("bob", START)},
    ],
)
def test_a_version_with_an_invalid_stamp_is_reported(changes: dict[str, Any]) -> None:
    store = MemoryStore()
    ticket = open_tickets(store).create("First")
    version = msgspec.structs.replace(ticket.version, parent=ticket.head, **changes)
    name, batch = encode_version(version)
    store.write(batch)
    store.move_head(ticket.id, name, expected=ticket.head)
    assert [finding.place for finding in check_tickets(store)] == [f"ticket {ticket.id}"]
