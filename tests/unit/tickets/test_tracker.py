"""Tickets are created, changed and read over any store, and no change is lost."""

from __future__ import annotations

import threading

import pytest

from harken.core.commits import TicketId, hash_raw
from harken.errors import AmbiguousName, HarkenError, NameNotFound, ObjectNotFound, TicketError
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from harken.testing.store_kit import batch_of, commit_in
from harken.tickets.change import TicketChange
from harken.tickets.query import TicketFilter
from harken.tickets.ticket import Ticket
from harken.tickets.tracker import Tickets, resolve_context
from tests.unit.tickets.kit import open_tickets

CTX = "ctx-" + "a" * 64


@pytest.mark.req("S2-42")
def test_a_ticket_is_created_with_all_its_fields_and_read_by_a_prefix_of_its_id() -> None:
    tickets = open_tickets()
    epic = tickets.create("The tea house", TicketChange(type="epic"))
    change = TicketChange(
        body="It leaks.",
        priority=0,
        type="bug",
        add_labels=("tea", "kettle"),
        assignee="bob",
        parent=epic.id,
        add_reviewers=("carl",),
    )
    created = tickets.create("Repair the kettle", change)
    ticket = tickets.get(created.id[:10])
    assert ticket == created == tickets.get(created.id[4:12])
    state = ticket.state
    assert (state.title, state.body, state.status) == ("Repair the kettle", "It leaks.", "open")
    assert (state.priority, state.type, state.labels) == (0, "bug", ("kettle", "tea"))
    assert (state.assignee, state.parent, state.reviewers) == ("bob", epic.id, {"carl": "pending"})
    assert [t.id for t in tickets.list_tickets()] == [created.id, epic.id]


@pytest.mark.req("S2-42")
def test_every_verb_makes_a_version_and_history_has_them_all() -> None:
    tickets = open_tickets()
    id_ = tickets.create("Repair the kettle", note="seen at noon").id
    tickets.update(id_, TicketChange(priority=1))
    tickets.note(id_, "The seal is broken.")
    tickets.defer(id_, until="2030-01-01T00:00:00+01:00", note="no seal in stock")
    assert tickets.get(id_).state.deferred_until == "2029-12-31T23:00:00.000000Z"
    tickets.reopen(id_)
    tickets.claim(id_)
    tickets.close(id_, note="replaced the seal")
    tickets.reopen(id_, note="still leaks")
    history = [version for _, version in tickets.history(id_)]
    assert [(version.action, version.ticket.status, version.note) for version in history] == [
        ("create", "open", "seen at noon"),
        ("update", "open", ""),
        ("note", "open", "The seal is broken."),
        ("defer", "deferred", "no seal in stock"),
        ("reopen", "open", ""),
        ("claim", "in_progress", ""),
        ("close", "closed", "replaced the seal"),
        ("reopen", "open", "still leaks"),
    ]
    assert history[-1].ticket.deferred_until == ""
    assert [version.time for version in history] == sorted({version.time for version in history})


def test_an_update_without_effect_writes_no_version() -> None:
    tickets = open_tickets()
    ticket = tickets.create("Repair the kettle", TicketChange(add_labels=("tea",)))
    assert tickets.update(ticket.id, TicketChange(add_labels=("tea",), priority=2)) == ticket
    assert len(tickets.history(ticket.id)) == 1


@pytest.mark.req("S2-43", "S2-44")
def test_every_version_keeps_author_time_and_context_uninterpreted() -> None:
    store = MemoryStore()
    finding = open_tickets(store, "reviewer", lambda: CTX).create("A finding")
    author = open_tickets(store, "author", lambda: "any text at all")
    author.note(finding.id, "what do you mean?")
    after = open_tickets(store, "owner").close(finding.id)
    stamps = [(v.author, v.context_id) for _, v in author.history(finding.id)]
    assert stamps == [("reviewer", CTX), ("author", "any text at all"), ("owner", "")]
    assert (after.created.author, after.created.context_id) == ("reviewer", CTX)
    assert after.context_id == "any text at all", "the last known context, for a successor"
    assert after.as_json()["created_context_id"] == CTX


@pytest.mark.req("S2-45")
def test_a_change_without_context_is_linked_to_the_last_commit_of_its_author() -> None:
    store = MemoryStore()
    tickets = open_tickets(store, "ann")
    before = batch_of("thinking", principal="ann", second=1)
    other = batch_of("thinking too", principal="bob", second=2)
    later = batch_of("afterwards", principal="ann", created_at="2100-01-01T00:00:00.000000Z")
    for batch in (before, other, later):
        store.write(batch)
    ticket = tickets.create("Repair the kettle")
    assert ticket.context_id == ""
    assert resolve_context(store, ticket.version) == commit_in(before)
    nobody = open_tickets(store, "zoe").create("Another")
    assert resolve_context(store, nobody.version) is None
    own = open_tickets(store, "ann", lambda: CTX).create("With context")
    assert resolve_context(store, own.version) == CTX


@pytest.mark.req("S2-46")
def test_a_ticket_in_review_has_reviewers_and_findings_as_children() -> None:
    store = MemoryStore()
    author = open_tickets(store, "author")
    parent = author.create("Rewrite the parser")
    author.update(parent.id, TicketChange(status="review", add_reviewers=("rita", "rob")))
    reviewer = open_tickets(store, "rita", lambda: CTX)
    finding = reviewer.create(
        "It drops lines", TicketChange(type="review_finding", parent=parent.id)
    )
    reviewer.update(parent.id, TicketChange(reviews={"rita": "changes_requested"}))
    author.update(parent.id, TicketChange(add_reviewers=("rita",)))
    assert author.get(parent.id).state.reviewers == {"rita": "changes_requested", "rob": "pending"}
    assert author.list_tickets(TicketFilter(parent=parent.id)) == [finding]
    assert finding.created.context_id == CTX
    with pytest.raises(ValueError, match="parent"):
        reviewer.create("No parent", TicketChange(type="review_finding"))


def test_ready_tickets_are_open_and_all_their_blockers_are_closed() -> None:
    tickets = open_tickets()
    first = tickets.create("First")
    second = tickets.create("Second", TicketChange(add_blockers=(first.id,), priority=0))
    assert [t.id for t in tickets.ready()] == [first.id]
    with pytest.raises(TicketError, match=f"blocked by {first.id[:16]}"):
        tickets.claim(second.id)
    tickets.close(first.id)
    assert [t.id for t in tickets.ready()] == [second.id]
    assert tickets.claim().id == second.id
    with pytest.raises(TicketError, match="no ticket is ready"):
        tickets.claim()


def test_cycles_of_blockers_and_of_parents_are_refused() -> None:
    tickets = open_tickets()
    a, b, c = (tickets.create(name).id for name in "abc")
    tickets.update(b, TicketChange(add_blockers=(a,), parent=a))
    tickets.update(c, TicketChange(add_blockers=(b,), parent=b))
    for change in (TicketChange(add_blockers=(c,)), TicketChange(parent=c)):
        with pytest.raises(TicketError, match=rf"{a[:16]} <- {b[:16]} <- |itself|parent"):
            tickets.update(a, change)
    with pytest.raises(TicketError, match="itself"):
        tickets.update(a, TicketChange(add_blockers=(a,)))
    assert tickets.get(a).state.blocked_by == ()


def test_a_cycle_that_two_writers_make_at_once_is_undone() -> None:
    store = MemoryStore()
    tickets = open_tickets(store)
    a, b = (tickets.create(name).id for name in "ab")
    is_first = True

    class RacingTickets(Tickets):
        """Another writer adds the opposite link between the check and the move."""

        def _check_links(self, *arguments: object) -> None:
            nonlocal is_first
            super()._check_links(*arguments)  # type: ignore[arg-type]
            if is_first:
                is_first = False
                tickets.update(b, TicketChange(add_blockers=(a,)))

    with pytest.raises(TicketError, match="block itself"):
        RacingTickets(store, "bob").update(a, TicketChange(add_blockers=(b,)))
    assert tickets.get(a).state.blocked_by == ()
    assert tickets.get(b).state.blocked_by == (a,)


def test_a_claim_is_refused_if_the_ticket_is_taken_closed_or_assigned_to_another() -> None:
    store = MemoryStore()
    ann, bob = open_tickets(store, "ann"), open_tickets(store, "bob")
    id_ = ann.create("Repair the kettle").id
    assert bob.claim(id_).state.assignee == "bob"
    with pytest.raises(TicketError, match="assigned to bob"):
        ann.claim(id_)
    with pytest.raises(TicketError, match="in progress already, by bob"):
        bob.claim(id_)
    bob.close(id_)
    with pytest.raises(TicketError, match="is closed"):
        bob.claim(id_)
    assigned = ann.create("For bob", TicketChange(assignee="bob")).id
    with pytest.raises(TicketError, match="assigned to bob"):
        ann.claim(assigned)
    with pytest.raises(TicketError, match="no ticket is ready"):
        ann.claim()
    assert bob.claim().id == assigned


def test_of_threads_that_claim_at_once_each_gets_its_own_ticket() -> None:
    store = MemoryStore()
    ids = {open_tickets(store).create(f"Task {number}").id for number in range(8)}
    claimed: list[TicketId] = []
    refused: list[HarkenError] = []

    def claim(number: int) -> None:
        try:
            claimed.append(Tickets(store, f"agent {number}").claim().id)
        except HarkenError as error:
            refused.append(error)

    threads = [threading.Thread(target=claim, args=[number]) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sorted(claimed), len(refused)) == (sorted(ids), 4)


def test_changes_at_once_are_all_kept() -> None:
    store = MemoryStore()
    id_ = open_tickets(store).create("Repair the kettle").id

    def change(number: int) -> None:
        tickets = Tickets(store, f"agent {number}")
        tickets.update(id_, TicketChange(add_labels=(f"label-{number}",)))
        tickets.note(id_, f"note {number}")

    threads = [threading.Thread(target=change, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tickets = open_tickets(store)
    assert tickets.get(id_).state.labels == tuple(f"label-{number}" for number in range(8))
    notes = {version.note for _, version in tickets.history(id_)} - {""}
    assert notes == {f"note {number}" for number in range(8)}


def test_attachments_are_kept_by_the_ticket_and_must_exist() -> None:
    store = MemoryStore()
    tickets = open_tickets(store)
    data = hash_raw(b"a photograph")
    store.write(WriteBatch(raw={data: b"a photograph"}))
    ticket = tickets.create("Repair the kettle", TicketChange(add_attachments=(data,)))
    store.collect([], now="2100-01-01T00:00:00Z", grace_s=0)
    assert store.raw(data) == b"a photograph"
    assert tickets.get(ticket.id) == ticket
    with pytest.raises(ObjectNotFound):
        tickets.update(ticket.id, TicketChange(add_attachments=(hash_raw(b"none"),)))


@pytest.mark.parametrize(
    "change",
    [
        TicketChange(title=" "),
        TicketChange(title="two\nlines"),
        TicketChange(title="x" * 501),
        TicketChange(priority=5),
        TicketChange(priority=-1),
        TicketChange(status="done"),  # type: ignore[arg-type]
        TicketChange(type="wish"),  # type: ignore[arg-type]
        TicketChange(add_labels=("",)),
        TicketChange(reviews={"ann": "fine"}),  # type: ignore[dict-item]
        TicketChange(body="x" * 1_000_001),
    ],
)
def test_invalid_fields_are_refused_and_nothing_changes(change: TicketChange) -> None:
    tickets = open_tickets()
    ticket = tickets.create("Repair the kettle")
    with pytest.raises(ValueError, match=r"."):
        tickets.update(ticket.id, change)
    assert tickets.get(ticket.id) == ticket


def test_unknown_and_ambiguous_ids_are_errors_that_list_candidates() -> None:
    tickets = open_tickets()
    with pytest.raises(NameNotFound):
        tickets.get("tkt-12")
    created = [tickets.create(f"Task {number}") for number in range(20)]
    first: dict[str, list[Ticket]] = {}
    for ticket in created:
        first.setdefault(ticket.id[:5], []).append(ticket)
    prefix = next(prefix for prefix, same in first.items() if len(same) > 1)
    with pytest.raises(AmbiguousName, match="tkt-"):
        tickets.get(prefix)
    for name in ("", "tkt-", "ctx-" + "1" * 64, "x"):
        with pytest.raises(NameNotFound if name != "tkt-" else AmbiguousName):
            tickets.get(name)
    missing = TicketId("tkt-" + "0" * 64)
    for change in (TicketChange(parent=missing), TicketChange(add_blockers=(missing,))):
        with pytest.raises(NameNotFound):
            tickets.update(created[0].id, change)


def test_verbs_that_do_not_fit_the_status_are_refused() -> None:
    tickets = open_tickets()
    id_ = tickets.create("Repair the kettle").id
    with pytest.raises(TicketError, match="only closed and deferred"):
        tickets.reopen(id_)
    with pytest.raises(ValueError, match="empty"):
        tickets.note(id_, " \n")
    tickets.close(id_)
    with pytest.raises(TicketError, match="closed already"):
        tickets.close(id_)
    with pytest.raises(TicketError, match="reopen it first"):
        tickets.defer(id_)
