"""Harken's own stores do what every store must do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered import TieredStore
from harken.testing.store import StoreSuite
from harken.testing.store_lifecycle import LifecycleSuite
from tests.service_kit import Services, services_on_port, services_on_socket

pytestmark = pytest.mark.req("S2-02", "S2-03", "S2-04", "S2-06", "S2-08", "S2-11", "S2-18")


class TestMemoryStore(StoreSuite):
    def store(self) -> Store:
        return MemoryStore()


class _InFiles:
    """Makes stores in files of a test's folder, and closes them."""

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


class TestSqliteStore(_InFiles, StoreSuite):
    """One file, as one person has it."""


class TestMemoryLifecycle(LifecycleSuite):
    def store(self) -> Store:
        return MemoryStore()


class TestSqliteLifecycle(_InFiles, LifecycleSuite):
    def files(self, store: Store) -> Sequence[Path]:
        assert isinstance(store, SqliteStore)
        return list(store.path.parent.iterdir())


class _Tiered(_InFiles):
    """Stores in two tiers; each has a backing store in memory of its own."""

    @pytest.fixture(autouse=True)
    def behind(self) -> None:
        self._behind: dict[Path, Store] = {}

    def store(self) -> Store:
        return self._tiered(next(self._paths))

    def again(self, store: Store) -> Store:
        assert isinstance(store, TieredStore)
        return self._tiered(store.local.path)

    def files(self, store: Store) -> Sequence[Path]:
        assert isinstance(store, TieredStore)
        return list(store.local.path.parent.iterdir())

    def _tiered(self, path: Path) -> TieredStore:
        behind = self._behind.setdefault(path, self._backing(path))
        return TieredStore(self._open(path), behind)

    def _backing(self, path: Path) -> Store:
        return MemoryStore()


class TestTieredStore(_Tiered, StoreSuite):
    """A file before memory."""


class TestTieredLifecycle(_Tiered, LifecycleSuite):
    """A file before memory."""


class _TieredFiles(_Tiered):
    def _backing(self, path: Path) -> Store:
        behind = path.parent / "behind"
        behind.mkdir(exist_ok=True)
        return self._open(behind / path.name)

    def files(self, store: Store) -> Sequence[Path]:
        assert isinstance(store, TieredStore)
        return [path for path in store.local.path.parent.rglob("*") if path.is_file()]


class TestTieredFiles(_TieredFiles, StoreSuite):
    """A file before another one."""

    many = 1000
    large_bytes = 1_000_000


class TestTieredFilesLifecycle(_TieredFiles, LifecycleSuite):
    """A file before another one."""


class _FarAway:
    """Asks a real server for stores in files; another reader is another client."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, services: Services) -> Iterator[None]:
        self._folder = tmp_path
        self._paths = (tmp_path / f"{n}.db" for n in count())
        self._services = services
        self._urls: dict[RemoteStore, str] = {}
        self._kept: list[SqliteStore] = []
        yield
        opened: list[Store] = [*self._urls, *self._kept]
        for store in opened:
            store.close()

    def store(self) -> Store:
        self._kept.append(SqliteStore(next(self._paths)))
        return self._open(self._services.serve(self._kept[-1]))

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
def at_a_port() -> Iterator[Services]:
    with services_on_port() as services:
        yield services


@pytest.fixture(scope="module")
def at_a_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with services_on_socket(tmp_path_factory.mktemp("s") / "s") as services:
        yield services


class TestRemoteStoreAtAPort(_FarAway, StoreSuite):
    @pytest.fixture
    def services(self, at_a_port: Services) -> Services:
        return at_a_port


class TestRemoteStoreAtASocket(_FarAway, StoreSuite):
    many, large_bytes = 1000, 1_000_000

    @pytest.fixture
    def services(self, at_a_socket: Services) -> Services:
        return at_a_socket


class TestRemoteLifecycle(_FarAway, LifecycleSuite):
    @pytest.fixture
    def services(self, at_a_port: Services) -> Services:
        return at_a_port
