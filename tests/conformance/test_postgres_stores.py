"""Run the conformance suites for stores on a real PostgreSQL, with and without a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harken.store.base import Store
from harken.store.postgresql.address import parse_address
from harken.store.postgresql.packs.packing import MAX_INLINE_BYTES
from harken.store.postgresql.store import PostgresStore
from harken.testing.store import StoreSuite
from harken.testing.store_lifecycle import LifecycleSuite
from tests.postgres_kit import PostgresServer, S3Server

pytestmark = pytest.mark.req("S2-02", "S2-03", "S2-04", "S2-06", "S2-08", "S2-11", "S2-18")
lifecycle = pytest.mark.req("S2-67", "S2-69")


class _PostgresStores:
    """Stores in schemas of one server."""

    many, large_bytes = 1000, 1_000_000
    max_inline_bytes = MAX_INLINE_BYTES

    @pytest.fixture(autouse=True)
    def server(self, postgres: PostgresServer) -> Iterator[None]:
        self._postgres = postgres
        self._urls: dict[PostgresStore, str] = {}
        yield
        for store in self._urls:
            store.close()
        # A test finds no text of another one in the files of the server.
        schemas = {parse_address(url).schema for url in self._urls.values()}
        postgres.execute("".join(f"DROP SCHEMA {schema} CASCADE;" for schema in schemas))

    def store(self) -> Store:
        return self._open(self._postgres.address(packs=self._packs()))

    def reopen_store(self, store: Store) -> Store:
        assert isinstance(store, PostgresStore)
        return self._open(self._urls[store])

    again = reopen_store

    def files(self, store: Store) -> Sequence[Path]:
        """Return the files of the tables. The server's log of writes is beyond a store's reach."""
        self._postgres.execute("CHECKPOINT")
        return [path for path in (self._postgres.data / "base").rglob("*") if path.is_file()]

    def _packs(self) -> str:
        return ""

    def _open(self, url: str) -> PostgresStore:
        store = PostgresStore(url, max_inline_bytes=self.max_inline_bytes)
        self._urls[store] = url
        return store


class TestPostgresStore(_PostgresStores, StoreSuite):
    """All packs are in a table."""


@lifecycle
class TestPostgresLifecycle(_PostgresStores, LifecycleSuite):
    """All packs are in a table."""


class _BucketStores(_PostgresStores):
    """All packs are in a bucket."""

    max_inline_bytes = 0

    @pytest.fixture(autouse=True)
    def bucket(self, s3: S3Server) -> None:
        self._s3, self._bucket = s3, s3.create_bucket()

    def _packs(self) -> str:
        return f"s3://{self._bucket}/packs"


@pytest.mark.full
class TestPostgresAndS3(_BucketStores, StoreSuite):
    """All packs are in a bucket."""


@lifecycle
@pytest.mark.full
class TestPostgresAndS3Lifecycle(_BucketStores, LifecycleSuite):
    """All packs are in a bucket."""
