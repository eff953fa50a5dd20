"""kill -9 of the process that pushes or pulls everything, and of the service."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from harken.core.commits import CommitNotes
from harken.session.verify import verify
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.tickets.check import check_tickets
from harken.tickets.tracker import Tickets
from tests.crash.test_ship_kill import Children, children
from tests.remote_kit import Machine, read_state


def fill(folder: Path, size: int) -> None:
    """Write a home with something of every kind, and enough of it to be interrupted."""
    machine = Machine(folder)
    parent = None
    for number in range(size):
        parent = machine.commit(f"{number} " + "x" * 3000, parent=parent, second=number)
    assert parent is not None
    machine.store.update_notes(parent, CommitNotes(summary="The end", labels=("last",)))
    machine.store.move_branch("main", parent, expected=None)
    machine.import_file("/a.jsonl", b"a line\n" * 200_000, parent)
    for number in range(3):
        ticket = Tickets(machine.store, "alice").create(f"Ticket {number}")
        Tickets(machine.store, "alice").note(ticket.id, "It is hard.")
        machine.log(f"s{number}", *["y" * 5000 for _ in range(size)])
    machine.close()


def read_home(folder: Path) -> dict[str, object]:
    """Return all that a home has, after a complete check of it."""
    with closing(SqliteStore(folder / "store.db")) as store:
        assert fsck(store) == []
        assert check_tickets(store) == []
        for log in (folder / "sessions").glob("*.jsonl"):
            assert verify(log) == []
        return read_state(store, folder / "sessions")


def interrupt(client: Children, service: Children, dice: Random, *, kills: int) -> int:
    """Kill the client or the service some times during a transfer. Return the interruptions."""
    cuts, longest_s = 0, 0.5
    for _ in range(kills):
        if not service.pid:
            service.begin()
        client.begin()
        time.sleep(longest_s * dice.random() ** 2)
        if dice.random() < 0.4:
            service.kill()
        cuts += client.kill()
    if not service.pid:
        service.begin()
    client.begin()
    client.wait_exited()
    return cuts


def check_kills(tmp_path: Path, *, kills: int, seed: int, size: int) -> None:
    """Push and clone with interruptions, and compare all three homes."""
    home, there, copy = tmp_path / "home", tmp_path / "there", tmp_path / "copy"
    socket, dice = tmp_path / "run" / "s", Random(seed)
    fill(home, size)
    with children("serve", there, socket) as service:
        with children("push-all", home, socket) as client:
            cuts = interrupt(client, service, dice, kills=kills)
        with children("pull", copy, socket) as client:
            cuts += interrupt(client, service, dice, kills=kills)
    expected = read_home(home)
    assert read_home(there) == expected
    assert read_home(copy) == expected
    assert cuts > 0


@pytest.mark.req("D-06")
def test_kill_9_loses_and_doubles_nothing(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=3, seed=1, size=30)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_kill_9_loses_nothing_many_times(tmp_path: Path, seed: int) -> None:
    check_kills(tmp_path, kills=20, seed=seed, size=300)
