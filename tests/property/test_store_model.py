"""Every store is compared with dictionaries, through any sequence of operations and crashes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from harken.store.base import Store
from harken.store.postgresql.store import PostgresStore
from harken.store.sqlite.store import SqliteStore
from tests.postgres_kit import PostgresServer
from tests.property.store_machine import MemoryMachine, SqliteMachine, StoreMachine, TieredMachine
from tests.service_kit import Services, services_on_port


class RemoteMachine(SqliteMachine):
    """A file behind a service on loopback. A crash is that of the service."""

    services: Services

    def open(self) -> Store:
        self.served = SqliteStore(self.path)
        return self.services.client(self.services.serve(self.served))

    def find_store_files(self) -> list[Store]:
        return [self.served]


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    with services_on_port() as services:
        yield services


def run_machine(machine: type[StoreMachine], examples: int) -> None:
    options = settings(max_examples=examples, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(machine, settings=options)


class PostgresMachine(StoreMachine):
    """A store in PostgreSQL with packs in a folder. A crash is that of a client in a transaction."""

    server: PostgresServer

    def open(self) -> Store:
        self.url = getattr(self, "url", "") or self.server.address(packs=f"file://{self.folder}/p")
        return PostgresStore(self.url, max_inline_bytes=2000)

    def crash(self) -> Store:
        # The process is gone, its connections are still open.
        self.lost = [*getattr(self, "lost", []), self.store]
        return self.open()

    def teardown(self) -> None:
        for store in getattr(self, "lost", []):
            store.close()
        super().teardown()


@pytest.mark.req("D-01", "S2-02", "S2-03")
@pytest.mark.parametrize("machine", [MemoryMachine, SqliteMachine, TieredMachine])
def test_store_equals_the_model(machine: type[StoreMachine]) -> None:
    run_machine(machine, 12)


@pytest.mark.req("D-01", "S2-02", "S2-03")
def test_remote_store_equals_the_model(services: Services) -> None:
    RemoteMachine.services = services
    run_machine(RemoteMachine, 5)


@pytest.mark.req("D-01", "S2-02", "S2-03")
def test_postgres_store_equals_the_model(postgres: PostgresServer) -> None:
    PostgresMachine.server = postgres
    run_machine(PostgresMachine, 5)


@pytest.mark.full
def test_postgres_store_equals_the_model_in_many_runs(postgres: PostgresServer) -> None:
    PostgresMachine.server = postgres
    run_machine(PostgresMachine, 60)


@pytest.mark.full
@pytest.mark.parametrize("machine", [MemoryMachine, SqliteMachine, TieredMachine])
def test_store_equals_the_model_in_many_runs(machine: type[StoreMachine]) -> None:
    run_machine(machine, 300)


@pytest.mark.full
def test_remote_store_equals_the_model_in_many_runs(services: Services) -> None:
    RemoteMachine.services = services
    run_machine(RemoteMachine, 60)
