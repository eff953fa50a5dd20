"""The store of each test."""

import pytest

from tests.unit.context.watched_store import WatchedStore


@pytest.fixture
def store() -> WatchedStore:
    """An empty store."""
    return WatchedStore()
