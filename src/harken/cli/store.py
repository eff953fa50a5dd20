"""The store of a home, as commands open it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harken.cli.home import Home
from harken.errors import ConfigError
from harken.store.sqlite import SqliteStore


@contextmanager
def store_of(home: Home) -> Iterator[SqliteStore]:
    """Open the store of a home, where there is one. Raises ConfigError, StoreError."""
    if not home.store_file.exists():
        raise ConfigError(f"{home.store_file}: there is no store yet; a chat makes one")
    store = SqliteStore(home.store_file)
    try:
        yield store
    finally:
        store.close()
