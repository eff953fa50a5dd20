"""Databases that can be made again: what is damaged, or of another version, is begun anew.

One idea: nothing in such a file is the only copy of anything, so no damage to it is worth an error.
Only a file of another program is left alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.errors import ConfigError, StoreError

ENDS = ("", "-journal", "-wal", "-shm")
"""What SQLite may have beside a database, and itself."""
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Kind:
    """What a database is for: all that is checked when it is opened."""

    what: str
    """As people call it."""
    application: int
    version: int
    tables: str
    """The SQL that makes them."""


def opened(path: Path | None, kind: Kind) -> sqlite3.Connection:
    """Open a database of a kind, or make it; None: in memory. Transactions are the caller's.

    Raises ConfigError where the file is another program's, or cannot be used.
    """
    try:
        return _opened(path, kind)
    except (sqlite3.Error, OSError) as error:
        raise ConfigError(f"{path}: {kind.what} cannot be used ({error})") from None


def forget(path: Path) -> None:
    """Delete a database, and what SQLite has beside it. Raises OSError."""
    for end in ENDS:
        path.with_name(path.name + end).unlink(missing_ok=True)


def rows_in(
    database: sqlite3.Connection, query: str, values: Iterable[object]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query that ends where a list of values stands: `... IN`."""
    listed = list(values)
    for at in range(0, len(listed), _AT_ONCE):
        some = listed[at : at + _AT_ONCE]
        yield from database.execute(f"{query} ({','.join('?' * len(some))})", some)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether a database is damaged: not in use, or on a disk that is full."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without what SQLite adds to it
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def begun_anew(*paths: Path) -> Iterator[None]:
    """Delete those of these databases that are found to be damaged meanwhile.

    That not all of it can be read may be seen late, when a part of the answer was given. Raises
    StoreError then, in place of the database's own error; OSError.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        damaged = [path for path in paths if not _is_whole(path)] or paths
        for path in damaged:
            forget(path)
        raise StoreError(damaged[0], "was damaged, and is begun anew: do this again") from None


def _is_whole(path: Path) -> bool:
    if not path.exists():
        return True
    try:
        with closing(sqlite3.connect(path)) as database:
            found: list[tuple[str]] = database.execute("PRAGMA quick_check(1)").fetchall()
            return found == [("ok",)]
    except sqlite3.DatabaseError:
        return False


def _opened(path: Path | None, kind: Kind) -> sqlite3.Connection:
    """As `opened`. Raises ConfigError, OSError, sqlite3.Error."""
    database = _connected(path)
    if path is not None:
        try:
            is_ours = _number(database, "application_id") in (0, kind.application)
            is_usable = _number(database, "user_version") in (0, kind.version)
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError:
            is_ours, is_usable = True, False
        if not is_ours or not is_usable:
            database.close()
            if not is_ours:
                raise ConfigError(f"{path}: this is another program's database; move it away")
            forget(path)
            database = _connected(path)
    # Not more: what a power cut takes from here is found out again.
    database.execute("PRAGMA synchronous=NORMAL")
    if not _number(database, "user_version"):
        _fill(database, kind)
    return database


def _fill(database: sqlite3.Connection, kind: Kind) -> None:
    """Make the tables, unless another process is faster."""
    database.execute("BEGIN IMMEDIATE")
    if not _number(database, "user_version"):
        for statement in _statements(kind.tables):
            database.execute(statement)
        database.execute(f"PRAGMA application_id={kind.application}")
        database.execute(f"PRAGMA user_version={kind.version}")
    database.execute("COMMIT")


def _statements(tables: str) -> list[str]:
    """Return the statements of a script: none of them has a `;` inside, comments aside."""
    lines = (line.partition("--")[0] for line in tables.splitlines())
    return [one for one in "\n".join(lines).split(";") if one.strip()]


def _connected(path: Path | None) -> sqlite3.Connection:
    if path is not None:  # readable by its owner only, from the beginning
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    return sqlite3.connect(path or ":memory:", isolation_level=None, timeout=30)


def _number(database: sqlite3.Connection, pragma: str) -> int:
    number: int = database.execute(f"PRAGMA {pragma}").fetchone()[0]
    return number
