"""The interface of a remote: a store with logs, as `harken serve` offers it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from harken.context.shipping.shipper import RemoteLogStore
from harken.store.remote.wire import ListedLog, LogEndBody


class RemoteHome(RemoteLogStore, Protocol):
    """A store of another home, with its logs: `RemoteStore`. All methods raise StoreError."""

    def iter_logs(self) -> Iterator[ListedLog]:
        """Yield all logs, sorted by name."""
        ...

    def log_end(self, name: str, limit_bytes: int | None = None) -> LogEndBody:
        """Return the end of a log, or of its first bytes."""
        ...

    def read_log(self, name: str, start: int, stop: int) -> bytes:
        """Return complete lines of a log between two offsets, the first ones if there are many."""
        ...

    def notes_digests(self) -> list[str]:
        """Return the digests of the notes of all commits: see `harken.store.notes`."""
        ...
