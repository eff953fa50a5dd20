"""Push, pull and clone between real homes: what is there arrives, once, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.context.purge import PurgeRequest, purge_text
from harken.core.commits import CommitNotes, Hash
from harken.core.secrets.redaction import Credentials
from harken.core.secrets.removal import Secret
from harken.errors import StoreError
from harken.remotes.commit_names import OVERLAP
from harken.store.base import RetentionPolicy, Tombstone
from harken.store.fsck import fsck
from harken.tickets.change import TicketChange
from harken.tickets.check import check_tickets
from harken.tickets.tracker import Tickets
from tests.remote_kit import Machine, Server, read_state, serve_home

KEY = "AKIAQ7WZX5T2MN3BVC4D"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serve_home(tmp_path / "there") as server:
        yield server


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "alice")
    yield machine
    machine.close()


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "bob")
    yield machine
    machine.close()


def fill(machine: Machine) -> None:
    """Write something of every kind."""
    machine.commit_many(3 * OVERLAP)
    first = machine.commit("Hi", "Hello")
    tip = machine.commit("More", parent=first)
    machine.store.update_notes(first, CommitNotes(summary="Greetings", labels=("good",)))
    machine.store.move_branch("main", tip, expected=None)
    machine.store.set_retention({tip: RetentionPolicy("pin")})
    machine.log("one", "Hi", "Hello")
    machine.log("two", "Another")
    machine.import_file("/a.jsonl", b'{"a": 1}\n' * 1000, tip)
    tickets = Tickets(machine.store, "alice")
    ticket = tickets.create("Fix it", note="now")
    tickets.note(ticket.id, "It is hard.")


def test_a_clone_has_everything(alice: Machine, bob: Machine, server: Server) -> None:
    fill(alice)
    alice.push(server.url)
    result = bob.pull(server.url, is_clone=True)
    assert (result.commits - 3 * OVERLAP, result.tickets, result.files, len(result.new_logs)) == (
        2,
        1,
        1,
        2,
    )
    expected = read_state(alice.store, alice.sessions)
    assert read_state(server.store, server.folder / "sessions") == expected
    assert read_state(bob.store, bob.sessions) == expected
    assert fsck(bob.store) == []
    assert check_tickets(bob.store) == []
    again = bob.pull(server.url)
    assert again.is_up_to_date
    assert not again.needs_attention
    assert bob.push(server.url).is_up_to_date
    assert alice.pull(server.url).is_up_to_date


@pytest.mark.parametrize("loses_response", [False, True])
def test_a_pull_that_is_cut_anywhere_goes_on(
    alice: Machine, server: Server, tmp_path: Path, loses_response: bool
) -> None:
    fill(alice)
    alice.push(server.url)
    expected = read_state(alice.store, alice.sessions)
    server.cutter.loses_response = loses_response
    machine, cuts = Machine(tmp_path / "cut"), 0
    for allowed in range(200):
        server.cutter.reset(allowed)
        try:
            machine.pull(server.url)
        except StoreError:
            cuts += 1
        else:
            break
    assert cuts > 10
    assert read_state(machine.store, machine.sessions) == expected
    machine.close()


@pytest.mark.parametrize("loses_response", [False, True])
def test_a_push_that_is_cut_anywhere_goes_on(
    alice: Machine, server: Server, loses_response: bool
) -> None:
    fill(alice)
    server.cutter.loses_response = loses_response
    cuts = 0
    for allowed in range(200):
        server.cutter.reset(allowed)
        try:
            alice.push(server.url)
        except StoreError:
            cuts += 1
        else:
            break
    assert cuts > 7
    expected = read_state(alice.store, alice.sessions)
    assert read_state(server.store, server.folder / "sessions") == expected


def test_finished_parts_are_not_sent_again(alice: Machine, bob: Machine, server: Server) -> None:
    for number in range(40):
        alice.commit("x" * 20_000 + str(number))
    alice.log("long", *["y" * 10_000 for _ in range(50)])
    alice.push(server.url)
    sent = server.cutter.received_bytes
    assert sent > 1_000_000
    server.cutter.reset()
    alice.push(server.url)
    assert server.cutter.received_bytes < 20_000
    alice.log("long", "one more line")
    alice.commit("new")
    server.cutter.reset()
    alice.push(server.url)
    assert server.cutter.received_bytes < 30_000


def test_up_to_date_is_few_requests_for_any_history(
    alice: Machine, bob: Machine, server: Server
) -> None:
    def count(act: str) -> int:
        server.cutter.reset()
        getattr(bob, act)(server.url)
        return len(server.cutter.requests)

    alice.commit("first")
    alice.push(server.url)
    bob.pull(server.url)
    small = count("pull"), count("push")
    parent = None
    for number in range(500):
        parent = alice.commit(f"message {number}", parent=parent)
        if number % 20 == 0:
            alice.log(f"session-{number}", "Hi")
    alice.push(server.url)
    bob.pull(server.url)
    assert (count("pull"), count("push")) == small
    assert sum(small) < 25


def test_a_branch_follows_the_remote_and_never_goes_back(
    alice: Machine, bob: Machine, server: Server
) -> None:
    first = alice.commit("1")
    alice.store.move_branch("main", first, expected=None)
    alice.push(server.url)
    bob.pull(server.url)
    second = alice.commit("2", parent=first)
    alice.store.move_branch("main", second, expected=first)
    alice.push(server.url)
    assert [branch.change for branch in bob.pull(server.url).branches] == ["moved"]
    assert bob.store.find_branch("main") == second
    ours, theirs = bob.commit("3b", parent=second), alice.commit("3a", parent=second)
    bob.store.move_branch("main", ours, expected=second)
    alice.store.move_branch("main", theirs, expected=second)
    alice.push(server.url)
    assert [branch.change for branch in bob.push(server.url).branches] == ["diverged"]
    result = bob.pull(server.url)
    assert [branch.change for branch in result.branches] == ["diverged"]
    assert result.needs_attention
    assert bob.store.find_branch("main") == ours
    assert bob.store.commits([theirs])
    bob.store.move_branch("main", None, expected=ours)
    bob.pull(server.url)
    assert bob.store.find_branch("main") is None  # It was deleted here, and did not move there.


def test_labels_and_summaries_are_merged(alice: Machine, bob: Machine, server: Server) -> None:
    name = alice.commit("1")
    alice.store.update_notes(name, CommitNotes(summary="old", labels=("a", "b")))
    alice.push(server.url)
    bob.pull(server.url)
    alice.store.update_notes(name, CommitNotes(summary="new", labels=("b", "c")))
    bob.store.update_notes(name, CommitNotes(summary="old", labels=("a", "b", "d")))
    alice.push(server.url)
    assert bob.push(server.url).conflicting_notes == [name]
    assert bob.pull(server.url).notes == 1
    assert bob.store.commits([name])[name].notes == CommitNotes(
        summary="new", labels=("b", "c", "d")
    )
    bob.push(server.url)
    alice.pull(server.url)
    assert {*alice.store.commits([name])[name].notes.labels} == {"b", "c", "d"}
    alice.store.update_notes(name, CommitNotes(summary="by alice"))
    bob.store.update_notes(name, CommitNotes(summary="by bob"))
    alice.push(server.url)
    assert bob.pull(server.url).conflicting_notes == [name]
    assert bob.store.commits([name])[name].notes.summary == "by bob"


def test_a_log_is_continued_and_a_diverged_one_stays(
    alice: Machine, bob: Machine, server: Server
) -> None:
    path = alice.log("s", "1")
    alice.push(server.url)
    bob.pull(server.url)
    alice.log("s", "2")
    alice.push(server.url)
    log = bob.pull(server.url).new_logs[0]
    assert (log.lines, log.is_new) == (1, False)
    assert (bob.sessions / "s.jsonl").read_bytes() == path.read_bytes()
    alice.log("s", "3")
    before = bob.log("s", "3b").read_bytes()
    assert bob.pull(server.url).logs[0].relation == "ahead"
    alice.push(server.url)
    result = bob.pull(server.url)
    assert [log.relation for log in result.problems] == ["diverged"]
    assert (bob.sessions / "s.jsonl").read_bytes() == before
    (bob.sessions / "s.jsonl").rename(bob.sessions / "mine.jsonl")
    bob.pull(server.url)
    assert (bob.sessions / "s.jsonl").read_bytes() == path.read_bytes()


def test_a_log_that_was_removed_here_does_not_come_back(
    alice: Machine, bob: Machine, server: Server
) -> None:
    path = alice.log("s", "1")
    alice.push(server.url)
    bob.pull(server.url)
    (bob.sessions / "s.jsonl").rename(bob.sessions / "renamed.jsonl")
    assert [log.relation for log in bob.pull(server.url).logs] == ["removed"]
    assert [log.name for log in bob.sessions.glob("*.jsonl")] == ["renamed.jsonl"]
    bob.pull(server.url, "s")
    assert (bob.sessions / "s.jsonl").read_bytes() == path.read_bytes()
    (bob.sessions / "s.jsonl").unlink()
    alice.log("s", "2")
    alice.push(server.url)
    assert bob.pull(server.url).new_logs[0].lines == len(path.read_bytes().splitlines())


def test_a_log_that_was_purged_here_is_not_pulled(
    alice: Machine, bob: Machine, server: Server
) -> None:
    alice.log("s", "the word is swordfish", "and more")
    alice.push(server.url)
    bob.pull(server.url)
    secret = Secret("swordfish")
    purge_text(bob.store, [bob.sessions / "s.jsonl"], PurgeRequest(secret=secret, by="b", why="w"))
    (problem,) = bob.pull(server.url).problems
    assert "purged here" in problem.reason
    assert b"swordfish" not in (bob.sessions / "s.jsonl").read_bytes()


def test_a_redacted_copy_does_not_replace_the_original(
    alice: Machine, bob: Machine, server: Server
) -> None:
    secret = alice.commit(f"use {KEY} here")
    alice.store.update_notes(secret, CommitNotes(summary=f"with {KEY}"))
    alice.log("s", f"use {KEY} here")
    alice.import_file("/a.jsonl", f"use {KEY} here\n".encode() * 3, secret)
    Tickets(alice.store, "alice").create(f"Remove {KEY}")
    before = read_state(alice.store, alice.sessions)
    alice.push(server.url, Credentials())
    there = read_state(server.store, server.folder / "sessions")
    assert KEY not in str(there)
    assert there["commits"].keys() == before["commits"].keys()
    assert there["tickets"] == before["tickets"]
    result = alice.pull(server.url)
    assert [log.relation for log in result.logs] == ["redacted"]
    assert (result.is_up_to_date, result.needs_attention, result.unpurged) == (True, False, {})
    assert read_state(alice.store, alice.sessions) == before
    bob.pull(server.url)
    assert KEY not in str(read_state(bob.store, bob.sessions))
    assert fsck(bob.store) == []
    bob.store.update_notes(secret, CommitNotes(summary="with", labels=("seen",)))
    bob.push(server.url, Credentials())
    alice.log("s", f"and {KEY} again")
    alice.push(server.url, Credentials())
    assert bob.pull(server.url).new_logs[0].lines == 1
    alice.pull(server.url)
    assert read_state(alice.store, alice.sessions)["labels"][secret] == {"seen"}


def test_purged_content_does_not_come_back(alice: Machine, bob: Machine, server: Server) -> None:
    fill(alice)
    alice.commit("the word is swordfish")
    part = next(Hash(obj.name) for obj in alice.store.iter_objects() if b"swordfish" in obj.body)
    alice.push(server.url)
    bob.pull(server.url)
    tombstone = Tombstone(when="2026-01-01T00:00:00.000000Z", by="alice", why="it was a secret")
    body = alice.store.objects([part])[part]
    purged_body = body.replace(b"swordfish", b"[purged]")
    alice.store.purge({part: purged_body}, tombstone)
    assert alice.push(server.url).purged == 1
    bob.push(server.url)
    assert b"swordfish" not in b"".join(read_state(server.store, bob.sessions)["objects"].values())
    result = bob.pull(server.url)
    assert [*result.unpurged] == [part]
    assert bob.store.objects([part])[part] == body
    alice.pull(server.url)
    assert alice.store.objects([part])[part] == purged_body
    assert bob.pull(server.url, purge=True).purged == 1
    assert bob.store.objects([part])[part] == purged_body
    assert bob.pull(server.url).unpurged == {}
    assert fsck(bob.store) == []


def test_tickets_with_changes_on_both_sides_have_all_of_them(
    alice: Machine, bob: Machine, server: Server
) -> None:
    ticket = Tickets(alice.store, "alice").create("Fix it").id
    alice.push(server.url)
    bob.pull(server.url)
    Tickets(alice.store, "alice").update(ticket, TicketChange(add_labels=("a",), priority=1))
    Tickets(alice.store, "alice").claim(ticket)
    Tickets(bob.store, "bob").note(ticket, "I saw it, too.")
    Tickets(bob.store, "bob").update(ticket, TicketChange(add_labels=("b",), priority=3))
    Tickets(bob.store, "bob").claim(ticket)
    alice.push(server.url)
    assert bob.push(server.url).diverged_tickets == [ticket]
    assert bob.pull(server.url).merged_tickets == [ticket]
    history = Tickets(bob.store, "bob").history(ticket)
    assert [(version.author, version.action) for _, version in history] == [
        ("alice", "create"),
        ("alice", "update"),
        ("alice", "claim"),
        ("bob", "note"),
        ("bob", "update"),
        ("bob", "note"),
    ]
    state = history[-1][1].ticket
    assert (state.labels, state.priority, state.assignee) == (("a", "b"), 1, "alice")
    assert check_tickets(bob.store) == []
    assert bob.push(server.url).tickets == 1
    assert alice.pull(server.url).tickets == 1
    assert alice.store.heads("tkt-") == bob.store.heads("tkt-")
