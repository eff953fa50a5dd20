"""Harken's own stores do what every store must do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.store.sqlite import SqliteStore
from harken.testing.store import StoreSuite
from tests.service_kit import Services, services_at_a_port, services_at_a_socket

pytestmark = pytest.mark.req("S2-02", "S2-03", "S2-04", "S2-06", "S2-08", "S2-11", "S2-18")


class TestMemoryStore(StoreSuite):
    def store(self) -> Store:
        return MemoryStore()


class TestSqliteStore(StoreSuite):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> Iterator[None]:
        self._paths = (tmp_path / f"{n}.db" for n in count())
        self._opened: list[SqliteStore] = []
        yield
        for store in self._opened:
            store.close()

    def store(self) -> Store:
        return self._open(next(self._paths))

    def again(self, store: Store) -> Store:
        assert isinstance(store, SqliteStore)
        return self._open(store.path)

    def _open(self, path: Path) -> SqliteStore:
        self._opened.append(SqliteStore(path))
        return self._opened[-1]


class RemoteStores(StoreSuite):
    """Through a real server, over stores in files; another reader is another client."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, services: Services) -> Iterator[None]:
        self._paths = (tmp_path / f"{n}.db" for n in count())
        self._services = services
        self._urls: dict[Store, str] = {}
        self._files: list[SqliteStore] = []
        yield
        for store in (*self._urls, *self._files):
            store.close()

    def store(self) -> Store:
        self._files.append(SqliteStore(next(self._paths)))
        return self._open(self._services.serve(self._files[-1]))

    def again(self, store: Store) -> Store:
        return self._open(self._urls[store])

    def _open(self, url: str) -> Store:
        store = self._services.client(url)
        self._urls[store] = url
        return store


@pytest.fixture(scope="module")
def at_a_port() -> Iterator[Services]:
    with services_at_a_port() as services:
        yield services


@pytest.fixture(scope="module")
def at_a_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with services_at_a_socket(tmp_path_factory.mktemp("s") / "s") as services:
        yield services


class TestRemoteStoreAtAPort(RemoteStores):
    @pytest.fixture
    def services(self, at_a_port: Services) -> Services:
        return at_a_port


class TestRemoteStoreAtASocket(RemoteStores):
    @pytest.fixture
    def services(self, at_a_socket: Services) -> Services:
        return at_a_socket
