"""What starts read from the store: the tickets that are asked for, with few requests."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from harken.core.commits import ArtifactRef, CommitId, TicketId, encode_sequence, hash_raw
from harken.review.run import find_session_tip
from harken.store.base import StoredCommit, WriteBatch
from harken.store.memory import MemoryStore
from harken.testing.store_kit import batch_of, commit_in
from harken.tickets.change import TicketChange
from harken.tickets.start import StartCondition
from harken.tickets.tracker import Tickets
from tests.unit.review.agents_kit import Clock, Home

NOW_S = 32_774_400
"""The time of the clock of these tests, in seconds after the beginning of 2026."""
IN_REVIEW = TicketChange(status="review", add_reviewers=("rita",))


class CountingStore(MemoryStore):
    """A store that counts the requests for objects."""

    reads = 0

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        self.reads += 1
        return super().sequences(names)

    def raws(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, bytes]:
        self.reads += 1
        return super().raws(names)

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        self.reads += 1
        return super().commits(names)


def create_tickets(store: MemoryStore, count: int) -> list[TicketId]:
    """Create tickets of three versions each."""
    tickets = Tickets(store, "ann")
    ids = [tickets.create(f"Task {number}").id for number in range(count)]
    for id_ in ids:
        tickets.note(id_, "first")
        tickets.note(id_, "second")
    return ids


@pytest.mark.parametrize("count", [3, 40])
def test_the_versions_of_all_tickets_are_read_together(count: int) -> None:
    store = CountingStore()
    create_tickets(store, count)
    ledger = Home(store, Clock()).start_runner().ledger
    store.reads = 0
    ledger.read()
    assert store.reads == 2 * 3, "two for each version of a ticket, however many tickets"
    store.reads = 0
    ledger.read()
    assert store.reads == 0, "nothing has changed"


def test_only_the_tickets_that_are_asked_for_are_read() -> None:
    store = CountingStore()
    ids = create_tickets(store, 5)
    Tickets(store, "ann").note(ids[0], "a fourth version")
    ledger = Home(store, Clock()).start_runner().ledger
    store.reads = 0
    ledger.read({ids[1]})
    assert store.reads == 2 * 3


def test_a_ready_ticket_is_started_alone_if_its_blockers_are_closed() -> None:
    home = Home(MemoryStore(), Clock())
    pm = home.clock.open_tickets(home.store, "pm")
    blocker = pm.create("First").id
    ticket = pm.create("Second", TicketChange(add_blockers=(blocker,))).id
    work = StartCondition(name="work", event="ready", template="coder")
    assert home.start_runner((work,)).run_all({ticket}) == 0
    pm.close(blocker)
    assert home.start_runner((work,)).run_all({ticket}) == 1
    assert [task.ticket for task in home.agents.tasks] == [ticket]


def test_an_unreadable_ticket_is_the_failure_of_those_that_read_it() -> None:
    home = Home(MemoryStore(), Clock())
    author = home.clock.open_tickets(home.store, "ann")
    ticket = author.create("Rewrite the parser", IN_REVIEW).id
    bad = author.create("Damaged")
    record = hash_raw(b"{}")
    name, _ = encode_sequence([record])
    home.store.write(WriteBatch(raw={record: b"{}"}, sequences={name: [record]}))
    home.store.move_head(bad.id, name, expected=bad.head)
    runner = home.start_runner()
    assert (runner.run_all({ticket}), runner.has_failed) == (1, False)
    author.create("Rewrite it again", IN_REVIEW)
    assert (runner.run_all(), runner.has_failed) == (1, True), "the others are run"
    assert any("cannot be read" in event.text for event in home.events)


def test_the_tip_of_a_session_is_found_below_any_number_of_newer_commits() -> None:
    home = Home(MemoryStore(), Clock())
    home.clock.open_tickets(home.store, "ann").create("Rewrite the parser", IN_REVIEW)
    ledger = home.start_runner().ledger
    start = ledger.record(ledger.read().due[0])
    assert start is not None
    assert find_session_tip(home.store, start) is None
    own = batch_of("mine", second=NOW_S, session_id=start.record.session, principal="rita")
    home.store.write(own)
    for number in range(2_100):
        home.store.write(batch_of(f"other {number}", second=NOW_S, session_id="other"))
    tip = find_session_tip(home.store, start)
    assert tip is not None
    assert tip.id == commit_in(own)
