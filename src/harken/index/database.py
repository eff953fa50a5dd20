"""Databases that can be made again: what is damaged, or of another version, is begun anew.

One idea: nothing in such a file is the only copy of anything, so no damage to it is worth an error.
Only a file of another program is left alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harken.errors import ConfigError

_OF_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
ENDS = ("", "-journal", "-wal", "-shm")
"""What SQLite may have beside a database, and itself."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a database is for: all that is checked when it is opened."""

    what: str
    """As people call it."""
    application: int
    version: int
    tables: str
    """The SQL that makes them."""
    pragmas: tuple[str, ...] = ()
    """What else is said to SQLite, each time."""


def opened(path: Path | None, kind: Kind) -> sqlite3.Connection:
    """Open a database of a kind, or make it; None: in memory. Transactions are the caller's.

    Raises ConfigError where the file is another program's, or cannot be used.
    """
    try:
        try:
            return _opened(path, kind)
        except Damaged:
            if path is not None:
                forget(path)
            return _opened(path, kind)
    except (sqlite3.Error, OSError) as error:
        raise ConfigError(f"{path}: {kind.what} cannot be used ({error})") from None


class Damaged(Exception):
    """A database turned out to be damaged, after it was opened."""


@contextmanager
def watched() -> Iterator[None]:
    """Raise Damaged in place of SQLite's errors that say so."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_DAMAGE:
            raise Damaged(str(error)) from None
        raise


def forget(path: Path) -> None:
    """Delete a database, and what SQLite has beside it. Raises OSError."""
    for end in ENDS:
        path.with_name(path.name + end).unlink(missing_ok=True)


def _opened(path: Path | None, kind: Kind) -> sqlite3.Connection:
    """As `opened`. Raises Damaged for what must be begun anew, ConfigError, OSError, Error."""
    database = _connected(path)
    try:
        with watched():
            if _number(database, "application_id") not in (0, kind.application):
                raise ConfigError(f"{path}: this is another program's database; move it away")
            if _number(database, "user_version") not in (0, kind.version):
                raise Damaged("it is of another version")
            # Not more: what a power cut takes from here is found out again.
            database.execute("PRAGMA synchronous=NORMAL")
            for pragma in kind.pragmas:
                database.execute(f"PRAGMA {pragma}")
            if not _number(database, "user_version"):
                _fill(database, kind)
            database.execute("SELECT count(*) FROM sqlite_master")
    except BaseException:
        database.close()
        raise
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
