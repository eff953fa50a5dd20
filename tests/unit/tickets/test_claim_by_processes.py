"""Of processes that claim one ticket at once, one succeeds: with one file, and through a service."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore
from tests.service_kit import TOKEN, services_on_port
from tests.unit.tickets.kit import open_tickets

PROCESSES = 6
TICKETS = 4
CLAIM = """
import sys
from harken.errors import TicketError
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore
from harken.tickets import Tickets

kind, address, token, author = sys.argv[1:]
if kind == "file":
    store = SqliteStore(address)
else:
    store = RemoteStore(address, token=token)
if kind == "tiered":
    store = TieredStore(SqliteStore(author + ".db"), store)
tickets = Tickets(store, "worker")
print("ready", flush=True)
sys.stdin.readline()
while True:
    try:
        print(tickets.claim().id)
    except TicketError:
        break
"""


def _claim_in_processes(kind: str, address: str, folder: Path) -> list[str]:
    """Return the tickets that processes with the same author claimed, released all at once."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, kind, address, TOKEN, f"worker-{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES
    return [line for output in outputs for line in output.split()]


def _create(store: Store) -> list[str]:
    tickets = open_tickets(store)
    return sorted(tickets.create(f"Task {number}").id for number in range(TICKETS))


def test_processes_with_one_file_claim_each_ticket_once(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        ids = _create(store)
        assert sorted(_claim_in_processes("file", str(store.path), tmp_path)) == ids
        statuses = {ticket.state.status for ticket in open_tickets(store).list_tickets()}
        assert statuses == {"in_progress"}


@pytest.mark.parametrize("kind", ["service", "tiered"])
def test_processes_claim_each_ticket_once_through_a_service(tmp_path: Path, kind: str) -> None:
    store = MemoryStore()
    ids = _create(store)
    with services_on_port() as services:
        address = services.serve(store)
        assert sorted(_claim_in_processes(kind, address, tmp_path)) == ids
        with closing(services.client(address)) as client:
            local = SqliteStore(tmp_path / "reader.db")
            with closing(TieredStore(local, client)) as tiered:
                read = open_tickets(tiered).list_tickets()
                assert read == open_tickets(store).list_tickets()
