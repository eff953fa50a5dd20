"""Giving back what is free: small packs are put together, and the file is written anew."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass

from harken.errors import StoreLocked
from harken.store import packs
from harken.store.database import Database, speaking
from harken.store.graph import opened

SMALL_BYTES = 5 * 1024
_TOGETHER_BYTES = 64 * 1024
_LEAST_RUN = 4
"""So few small packs side by side are not worth writing them again."""
_LEAST_FREE = 0.25
_LEAST_FREE_BYTES = 1024 * 1024
_WAIT_S = 0.05


def runs(connection: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """Yield where small packs stand side by side: the number of the first and of the last.

    The very last pack is in no run: see `packs`.
    """
    last = packs.last_number(connection)
    run: list[int] = []
    size = 0
    sizes = "SELECT id, length(data) FROM pack WHERE id < ? ORDER BY id"
    for first, size_bytes in connection.execute(sizes, [last]).fetchall():
        if size_bytes > SMALL_BYTES or size + size_bytes > _TOGETHER_BYTES:
            if len(run) >= _LEAST_RUN:
                yield run[0], run[-1]
            run, size = [], 0
        if size_bytes <= SMALL_BYTES:
            run.append(first)
            size += size_bytes
    if len(run) >= _LEAST_RUN:
        yield run[0], run[-1]


def put_together(store: str, connection: sqlite3.Connection, first: int, last: int) -> None:
    """Make one pack of those from the first to the last, as far as they are still small.

    Numbers stay what they are, so nobody who read them need forget anything.
    """
    run: list[packs.Held] = []
    size = 0
    for row in packs.rows(connection, first):
        size += len(row.data)
        is_over = row.first > last or row.first == packs.last_number(connection)
        if is_over or size > 2 * _TOGETHER_BYTES:
            break
        run.append(packs.Held(row.first, opened(store, row)))
    packs.put_together(connection, run)


@dataclass(frozen=True, slots=True)
class Unused:
    """The part of a file that holds nothing."""

    size_bytes: int
    """0 where it is too little for the file to be written anew."""
    room_bytes: int
    """How much must be free on the disk for the file to be written anew: SQLite makes two copies
    of what is used, one of them in its log."""


def unused(connection: sqlite3.Connection) -> Unused:
    """Return how much of the file is unused."""
    pragmas = ("freelist_count", "page_count", "page_size")
    free, pages, size = (connection.execute(f"PRAGMA {p}").fetchone()[0] for p in pragmas)
    is_much = free >= pages * _LEAST_FREE and free * size >= _LEAST_FREE_BYTES
    return Unused(free * size if is_much else 0, 2 * (pages - free) * size)


def write_anew(database: Database, patience_s: float) -> None:
    """Write the file anew without what is free, and empty the log beside it.

    Then no byte is left of what was taken out. Raises StoreLocked where others read or write for
    longer than one waits.
    """
    end = time.monotonic() + patience_s
    with speaking(database.path):
        connection = database.connection()
        connection.execute(f"PRAGMA busy_timeout={int(patience_s * 1000)}")
        try:
            connection.execute("VACUUM")
            # A reader that looks at an older state keeps what that is made of in the log.
            while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > end:
                    raise StoreLocked(database.path)
                time.sleep(_WAIT_S)
        finally:
            connection.execute(f"PRAGMA busy_timeout={int(database.patience_s * 1000)}")
