"""From a file of format version 1 to one of this version, in one transaction.

A durable copy of the file as it was is kept beside it first. So whoever is interrupted finds the
old file or the new one, and a copy that the old Harken can read.

Source: docs/formats/store.md, "Versions".
"""

from __future__ import annotations

import filecmp
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path

from harken.store.index import key_of
from harken.store.pack import Damaged, unpacked
from harken.store.packs import compact, last_number
from harken.store.schema import HISTORY, LIFECYCLE, statements


def migrate(connection: sqlite3.Connection, path: Path, now_us: int) -> None:
    """Convert a file of version 1, in the transaction that writes, which is open."""
    keep_copy(path)
    for index in ("history_key", "history_parent", "history_time"):
        connection.execute(f"DROP INDEX {index}")
    connection.execute("ALTER TABLE history RENAME TO history_1")
    for statement in statements(HISTORY + LIFECYCLE):
        connection.execute(statement)
    for id_, name in _names(connection):
        connection.execute(
            "INSERT INTO history SELECT id, ?, pack, parent, principal, time_us, notes"
            " FROM history_1 WHERE id = ?",
            [name, id_],
        )
    connection.execute("DROP TABLE history_1")
    last = last_number(connection)
    compact(connection, 0, last)
    connection.execute("INSERT INTO mark (time_us, pack) VALUES (?, ?)", [now_us, last])


def keep_copy(path: Path) -> Path:
    """Write what the file holds to a new file beside it, durably; return its path.

    A copy that is there is never changed; where it is the same, it will do.
    """
    partial = path.with_name(f"{path.name}.v1.partial")
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(partial)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode=DELETE")
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    for number in count(1):
        copy = path.with_name(f"{path.name}.v1" if number == 1 else f"{path.name}.v1.{number}")
        if not copy.exists():
            partial.rename(copy)
            break
        if filecmp.cmp(partial, copy, shallow=False):
            partial.unlink()
            break
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return copy


def _names(connection: sqlite3.Connection) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of the history and the names of their commits, as far as these are known.

    A pack that is damaged does not say them: there the 6 bytes of the old row must do.
    """
    rows = connection.execute("SELECT pack, key, id FROM history_1 ORDER BY pack, id").fetchall()
    for pack, several in groupby(rows, itemgetter(0)):
        names = _commits(connection, pack)
        for _, key, id_ in several:
            alike = names.get(key)
            yield id_, alike.pop(0) if alike else key


def _commits(connection: sqlite3.Connection, pack: int) -> dict[bytes, list[bytes]]:
    """Return the names of the commits in a pack, in their order, by their beginnings."""
    row = connection.execute("SELECT data FROM pack WHERE id = ?", [pack]).fetchone()
    found: dict[bytes, list[bytes]] = {}
    with suppress(Damaged):
        for name in unpacked(row[0] if row else b""):
            if name.startswith("ctx-"):
                found.setdefault(key_of(name), []).append(bytes.fromhex(name[4:]))
    return found
