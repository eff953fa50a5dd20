"""The store of each test, and folders for sockets."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.unit.context.watched_store import WatchedStore


@pytest.fixture
def store() -> WatchedStore:
    """An empty store."""
    return WatchedStore()


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with TemporaryDirectory(prefix="h", dir="/tmp") as folder:
        yield Path(folder)
