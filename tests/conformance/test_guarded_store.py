"""The store as a user with all rights sees it: the contract of a store holds, but for caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.store.base import Store
from harken.store.sqlite.store import SqliteStore
from harken.teams.access_index import AccessIndex
from harken.teams.caller import Caller
from harken.teams.guard import GuardedStore
from harken.teams.scopes import RIGHTS, Grant, Rights
from harken.testing.store import StoreSuite

ALL = Rights(tuple(Grant(right) for right in RIGHTS))


class TestGuardedStore(StoreSuite):
    many = 500
    large_bytes = 100_000

    def test_what_is_derived_is_found_by_its_key(self) -> None:
        """It is not: see `test_derived_content_is_not_planted`."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folder, self.count = tmp_path, 0

    def store(self) -> Store:
        self.count += 1
        inner = SqliteStore(self.folder / f"{self.count}.db")
        caller = Caller("ann", "id", ALL)
        store: Store = GuardedStore(
            inner, AccessIndex(), caller, charge=lambda *_: None, is_writing=True
        )
        return store
