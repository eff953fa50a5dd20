"""Run the conformance suite for stores on all built-in stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore
from harken.testing.store import StoreSuite
from harken.testing.store_lifecycle import LifecycleSuite
from tests.service_kit import Services, services_on_port, services_on_socket

pytestmark = pytest.mark.req("S2-02", "S2-03", "S2-04", "S2-06", "S2-08", "S2-11", "S2-18")
lifecycle = pytest.mark.req("S2-67", "S2-69")


class TestMemoryStore(StoreSuite):
    def store(self) -> Store:
        return MemoryStore()


class _FileStores:
    """Create SQLite stores in the test's folder and close them."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> Iterator[None]:
        self._paths = (tmp_path / f"{n}.db" for n in count())
        self._open_stores: list[SqliteStore] = []
        yield
        for store in self._open_stores:
            store.close()

    def store(self) -> Store:
        return self._open(next(self._paths))

    def again(self, store: Store) -> Store:
        assert isinstance(store, SqliteStore)
        return self._open(store.path)

    def _open(self, path: Path) -> SqliteStore:
        self._open_stores.append(SqliteStore(path))
        return self._open_stores[-1]


class TestSqliteStore(_FileStores, StoreSuite):
    """One file with one user."""


@lifecycle
class TestMemoryLifecycle(LifecycleSuite):
    def store(self) -> Store:
        return MemoryStore()


@lifecycle
class TestSqliteLifecycle(_FileStores, LifecycleSuite):
    def files(self, store: Store) -> Sequence[Path]:
        assert isinstance(store, SqliteStore)
        return list(store.path.parent.iterdir())


class _TieredStores(_FileStores):
    """Two-tiered stores, each with its own backing store in memory."""

    @pytest.fixture(autouse=True)
    def backing(self) -> None:
        self._backing_stores: dict[Path, Store] = {}

    def store(self) -> Store:
        return self._tiered(next(self._paths))

    def again(self, store: Store) -> Store:
        assert isinstance(store, TieredStore)
        return self._tiered(store.local.path)

    def files(self, store: Store) -> Sequence[Path]:
        assert isinstance(store, TieredStore)
        return list(store.local.path.parent.iterdir())

    def _tiered(self, path: Path) -> TieredStore:
        backing = self._backing_stores.setdefault(path, self._backing(path))
        return TieredStore(self._open(path), backing)

    def _backing(self, path: Path) -> Store:
        return MemoryStore()


class TestTieredStore(_TieredStores, StoreSuite):
    """A file in front of a memory store."""


@lifecycle
class TestTieredLifecycle(_TieredStores, LifecycleSuite):
    """A file in front of a memory store."""


class _TieredFiles(_TieredStores):
    def _backing(self, path: Path) -> Store:
        backing = path.parent / "behind"
        backing.mkdir(exist_ok=True)
        return self._open(backing / path.name)

    def files(self, store: Store) -> Sequence[Path]:
        assert isinstance(store, TieredStore)
        return [path for path in store.local.path.parent.rglob("*") if path.is_file()]


class TestTieredFiles(_TieredFiles, StoreSuite):
    """A file in front of another file."""

    many = 1000
    large_bytes = 1_000_000


@lifecycle
class TestTieredFilesLifecycle(_TieredFiles, LifecycleSuite):
    """A file in front of another file."""


class _RemoteStores:
    """Remote stores of a real server. A second reader is a second client."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, services: Services) -> Iterator[None]:
        self._folder = tmp_path
        self._paths = (tmp_path / f"{n}.db" for n in count())
        self._services = services
        self._urls: dict[RemoteStore, str] = {}
        self._served_stores: list[SqliteStore] = []
        yield
        stores: list[Store] = [*self._urls, *self._served_stores]
        for store in stores:
            store.close()

    def store(self) -> Store:
        self._served_stores.append(SqliteStore(next(self._paths)))
        return self._open(self._services.serve(self._served_stores[-1]))

    def again(self, store: Store) -> Store:
        assert isinstance(store, RemoteStore)
        return self._open(self._urls[store])

    def files(self, store: Store) -> Sequence[Path]:
        return list(self._folder.iterdir())

    def _open(self, url: str) -> RemoteStore:
        store = self._services.client(url)
        self._urls[store] = url
        return store


@pytest.fixture(scope="module")
def port_services() -> Iterator[Services]:
    with services_on_port() as services:
        yield services


@pytest.fixture(scope="module")
def socket_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with services_on_socket(tmp_path_factory.mktemp("s") / "s") as services:
        yield services


class TestRemoteStoreAtAPort(_RemoteStores, StoreSuite):
    @pytest.fixture
    def services(self, port_services: Services) -> Services:
        return port_services


class TestRemoteStoreAtASocket(_RemoteStores, StoreSuite):
    many, large_bytes = 1000, 1_000_000

    @pytest.fixture
    def services(self, socket_services: Services) -> Services:
        return socket_services


@lifecycle
class TestRemoteLifecycle(_RemoteStores, LifecycleSuite):
    @pytest.fixture
    def services(self, port_services: Services) -> Services:
        return port_services
