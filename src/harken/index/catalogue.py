"""The catalogue: which files were imported, how far, and which commits they became.

One idea: all of it can be found out again by importing once more. So a file that is damaged, or of
another version, is put aside and begun anew, and nothing here is ever the only copy of anything.

Source: docs/how-to/import.md, "Again".
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.core.commits import CommitId
from harken.errors import ConfigError

APPLICATION = 0x48726B69  # "Hrki"
VERSION = 1
_TABLES = """
CREATE TABLE source (
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, tail BLOB NOT NULL,
    record BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE lineage (key BLOB PRIMARY KEY, ctx TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE spawned (
    runtime TEXT, session TEXT, agent TEXT, ctx TEXT NOT NULL,
    PRIMARY KEY (runtime, session, agent)
) STRICT, WITHOUT ROWID;
"""
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Mark:
    """By what it is seen that a file has changed."""

    size: int
    mtime_ns: int
    tail: bytes
    """A hash of its last bytes."""


@dataclass(frozen=True, slots=True)
class Known:
    """A file that was read, and what was told of it."""

    mark: Mark
    record: bytes


class Catalogue:
    """The catalogue of a home. What is noted counts from `commit` on."""

    def __init__(self, path: Path | None) -> None:
        """Open the file, or make it; None: keep it in memory. Raises ConfigError."""
        self.path = path
        try:
            self._database = _opened(path)
        except (sqlite3.Error, OSError) as error:
            raise ConfigError(f"{path}: the catalogue cannot be used ({error})") from None

    def known(self, paths: Iterable[str]) -> dict[str, Known]:
        """Return what is known of files."""
        rows = self._select("SELECT path, size, mtime_ns, tail, record FROM source", "path", paths)
        return {row[0]: Known(Mark(*row[1:4]), row[4]) for row in rows}

    def note(self, path: str, mark: Mark, record: bytes) -> None:
        """Note a file that was read."""
        row = (path, mark.size, mark.mtime_ns, mark.tail, record)
        self._database.execute("INSERT OR REPLACE INTO source VALUES (?, ?, ?, ?, ?)", row)

    def lineage(self, keys: Iterable[bytes]) -> dict[bytes, CommitId]:
        """Return the commits that histories became, by what is in them."""
        rows = self._select("SELECT key, ctx FROM lineage", "key", keys)
        return {key: CommitId(ctx) for key, ctx in rows}

    def note_lineage(self, found: Mapping[bytes, CommitId]) -> None:
        """Note what histories became."""
        self._database.executemany("INSERT OR REPLACE INTO lineage VALUES (?, ?)", found.items())

    def spawner(self, runtime: str, session: str, agent: str) -> CommitId | None:
        """Return the commit that spawned an agent; None: nothing is known of that."""
        where = "SELECT ctx FROM spawned WHERE runtime = ? AND session = ? AND agent = ?"
        row = self._database.execute(where, (runtime, session, agent)).fetchone()
        return None if row is None else CommitId(row[0])

    def note_spawner(self, runtime: str, session: str, agent: str, ctx: CommitId) -> None:
        """Note which commit spawned an agent whose conversation is in another file."""
        row = (runtime, session, agent, ctx)
        self._database.execute("INSERT OR REPLACE INTO spawned VALUES (?, ?, ?, ?)", row)

    def commit(self) -> None:
        """Let what was noted count."""
        self._database.execute("COMMIT")
        self._database.execute("BEGIN")

    def close(self) -> None:
        """Let go of it; what was noted since the last `commit` is forgotten."""
        self._database.close()

    def _select(self, query: str, column: str, values: Iterable[object]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        listed = list(values)
        for at in range(0, len(listed), _AT_ONCE):
            some = listed[at : at + _AT_ONCE]
            marks = ",".join("?" * len(some))
            where = f"{query} WHERE {column} IN ({marks})"
            found += self._database.execute(where, some).fetchall()
        return found


def _opened(path: Path | None) -> sqlite3.Connection:
    """Open a catalogue; one that cannot be read is begun anew.

    Raises ConfigError, OSError, sqlite3.Error.
    """
    database = _connected(path)
    if path is not None:
        try:
            is_ours = _number(database, "application_id") in (0, APPLICATION)
            is_usable = is_ours and _number(database, "user_version") in (0, VERSION)
        except sqlite3.DatabaseError:
            is_ours, is_usable = True, False
        if not is_ours:
            database.close()
            raise ConfigError(f"{path}: this is another program's database; move it away")
        if not is_usable:
            database.close()
            for end in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    path.with_name(path.name + end).unlink()
            database = _connected(path)
    if not _number(database, "user_version"):
        database.executescript(
            f"BEGIN;{_TABLES}PRAGMA application_id={APPLICATION};"
            f"PRAGMA user_version={VERSION};COMMIT"
        )
    database.execute("BEGIN")
    return database


def _connected(path: Path | None) -> sqlite3.Connection:
    if path is not None:  # readable by its owner only, from the beginning
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    database = sqlite3.connect(path or ":memory:", isolation_level=None, timeout=30)
    # Not more: what a power cut takes from here is found out again.
    database.execute("PRAGMA synchronous=NORMAL")
    return database


def _number(database: sqlite3.Connection, pragma: str) -> int:
    number: int = database.execute(f"PRAGMA {pragma}").fetchone()[0]
    return number
