"""Two homes and one remote: after any changes and transfers, all have everything."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from harken.core.commits import CommitId, CommitNotes
from harken.core.secrets.redaction import Credentials
from harken.store.fsck import fsck
from harken.tickets.change import TicketChange
from harken.tickets.check import check_tickets
from harken.tickets.tracker import Tickets
from tests.remote_kit import Machine, Server, read_state, serve_home

Step: TypeAlias = Callable[[Machine, int], None]


class History:
    """Random changes of two homes, and transfers between them and a remote."""

    def __init__(self, seed: int, machines: list[Machine], server: Server) -> None:
        self.rng, self.machines, self.server = random.Random(seed), machines, server
        self.count = 0
        self.files: dict[str, bytes] = {}

    def step(self) -> None:
        """Make one change or transfer."""
        number = self.rng.randrange(len(self.machines))
        machine = self.machines[number]
        self.count += 1
        steps: list[Step] = [self.commit, self.label, self.branch, self.log, self.ticket, self.file]
        self.rng.choice([*steps * 2, self.pull, self.push])(machine, number)

    def pull(self, machine: Machine, _: int) -> None:
        machine.pull(self.server.url)

    def push(self, machine: Machine, _: int) -> None:
        machine.push(self.server.url)

    def any_commit(self, machine: Machine) -> CommitId | None:
        names = machine.store.newest_commits(100)
        return self.rng.choice(names) if names else None

    def commit(self, machine: Machine, _: int) -> None:
        parent = self.any_commit(machine) if self.rng.random() < 0.7 else None
        machine.commit(f"text {self.count}", parent=parent, second=self.count)

    def label(self, machine: Machine, _: int) -> None:
        name = self.any_commit(machine)
        if name is None:
            return
        notes = machine.store.commits([name])[name].notes
        labels = {*notes.labels} ^ {self.rng.choice("abcd")}
        machine.store.update_notes(name, CommitNotes(summary="s", labels=tuple(sorted(labels))))

    def branch(self, machine: Machine, number: int) -> None:
        """Move a branch of this home to one of its commits that continues it."""
        name = f"branch-{number}-{self.rng.randrange(2)}"
        head = machine.store.find_branch(name)
        tip = machine.commit(f"on branch {self.count}", parent=head, second=self.count)
        machine.store.move_branch(name, tip, expected=head)

    def log(self, machine: Machine, number: int) -> None:
        machine.log(f"session-{number}-{self.rng.randrange(2)}", f"line {self.count}")

    def ticket(self, machine: Machine, number: int) -> None:
        tickets = Tickets(machine.store, f"author-{number}")
        ids = [*machine.store.heads("tkt-")]
        if not ids or self.rng.random() < 0.3:
            tickets.create(f"Ticket {self.count}")
        elif self.rng.random() < 0.5:
            tickets.note(self.rng.choice(ids), f"note {self.count}")
        else:
            change = TicketChange(add_labels=(self.rng.choice("abc"),), priority=self.count % 5)
            tickets.update(self.rng.choice(ids), change)

    def file(self, machine: Machine, number: int) -> None:
        path = f"/file-{number}-{self.rng.randrange(2)}.jsonl"
        self.files[path] = self.files.get(path, b"") + f"line {self.count}\n".encode()
        tip = machine.commit(f"imported {self.count}", second=self.count)
        machine.import_file(path, self.files[path], tip)


def comparable(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state without objects that nothing references, such as earlier versions."""
    return {key: value for key, value in state.items() if key not in ("objects", "tombstones")}


def settle(machines: list[Machine], url: str) -> None:
    """Pull and push until no home has anything new."""
    for _ in range(6):
        results = [act(url) for m in machines for act in (m.pull, m.push)]
        if all(result.is_up_to_date for result in results):
            return
    raise AssertionError([result for result in results if not result.is_up_to_date])


def converge(seed: int, steps: int, tmp_path: Path) -> None:
    machines = [Machine(tmp_path / f"home-{number}") for number in range(2)]
    with serve_home(tmp_path / "there") as server:
        history = History(seed, machines, server)
        written: set[str] = set()
        notes: set[str] = set()
        for _ in range(steps):
            history.step()
            for machine in machines:
                written |= {*machine.store.newest_commits(1000)}
        logs = {p.name: p.read_bytes() for m in machines for p in m.sessions.glob("*.jsonl")}
        for machine in machines:
            for id_ in machine.store.heads("tkt-"):
                history_of = Tickets(machine.store, "x").history(id_)
                notes |= {version.note for _, version in history_of if version.note}
        settle(machines, server.url)
        states = [comparable(read_state(m.store, m.sessions)) for m in machines]
        states.append(comparable(read_state(server.store, server.folder / "sessions")))
        assert states[0] == states[1] == states[2]
        assert {*states[0]["commits"]} == written
        assert states[0]["logs"].keys() == logs.keys()
        for machine in machines:
            assert fsck(machine.store) == []
            assert check_tickets(machine.store) == []
            data = {bytes(obj.body) for obj in machine.store.iter_objects()}
            assert {*history.files.values()} <= data
        after = {
            version.note
            for id_ in machines[0].store.heads("tkt-")
            for _, version in Tickets(machines[0].store, "x").history(id_)
            if version.note
        }
        assert after == notes
        for machine in machines:
            machine.close()


@pytest.mark.parametrize("seed", range(2))
def test_homes_converge(seed: int, tmp_path: Path) -> None:
    converge(seed, 30, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 200))
def test_homes_converge_after_long_histories(seed: int, tmp_path: Path) -> None:
    converge(seed, 150, tmp_path)


def test_a_redacting_home_keeps_its_originals(tmp_path: Path) -> None:
    """A home with a credential in everything, another that continues it, and back."""
    key = "AKIAQ7WZX5T2MN3BVC4D"
    first, second = Machine(tmp_path / "first"), Machine(tmp_path / "second")
    with serve_home(tmp_path / "there") as server:
        parent = None
        for number in range(5):
            parent = first.commit(f"use {key} {number}", parent=parent, second=number)
        first.push(server.url, Credentials())
        second.pull(server.url)
        assert parent is not None
        reply = second.commit("thanks", parent=parent, second=9)
        second.push(server.url, Credentials())
        before = read_state(first.store, first.sessions)["objects"]
        first.pull(server.url)
        after = read_state(first.store, first.sessions)
        assert reply in after["commits"]
        assert before.items() <= after["objects"].items()
        assert key in str(before)
        assert key not in str(read_state(server.store, server.folder / "sessions"))
        assert key not in str(read_state(second.store, second.sessions))
    first.close()
    second.close()
