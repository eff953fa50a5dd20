"""The catalogue: which files were imported, how far, and which commits they became.

One idea: all of it can be found out again by importing once more. So a file that is damaged, or of
another version, is put aside and begun anew, and nothing here is ever the only copy of anything.

Source: docs/how-to/import.md, "Again".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import apsw

from harken.core.commits import CommitId
from harken.errors import StoreWriteError
from harken.index.database import (
    DatabaseSchema,
    Repair,
    delete_database,
    is_damage,
    is_temporary,
    open_database,
    open_read_only,
    query_in,
    reset_database,
)

APPLICATION = 0x48726B69  # "Hrki"
VERSION = 2
_TABLES = """
CREATE TABLE source (
    path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, tail BLOB NOT NULL,
    record BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE lineage (key BLOB PRIMARY KEY, ctx TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE spawned (
    runtime TEXT, session TEXT, agent TEXT, ctx TEXT NOT NULL,
    PRIMARY KEY (runtime, session, agent)
) STRICT, WITHOUT ROWID;
CREATE TABLE lost (what TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
"""
"""`lost` has a row after a repair, until sources are imported again."""
_SCHEMA = DatabaseSchema("the catalogue", APPLICATION, VERSION, _TABLES)
_KEYS = {"source": "path", "lineage": "key", "spawned": "runtime, session, agent"}
"""The tables and their keys."""


@dataclass(frozen=True, slots=True)
class FileFingerprint:
    """By what it is seen that a file has changed."""

    size: int
    mtime_ns: int
    tail: bytes
    """A hash of its last bytes."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A file that was read, and what was told of it."""

    mark: FileFingerprint
    record: bytes


class Catalogue:
    """The catalogue of a home. What is noted is known at once, and kept from `commit` on."""

    def __init__(self, path: Path | None, *, repair: Repair | None = None) -> None:
        """Open or create the file. With a path of None, or in a read-only folder, use memory.

        `repair` is called if the file is damaged, in place of `repair_catalogue`. Raises
        ConfigError, StoreError.
        """
        self.path = path
        self._sources: dict[str, CatalogueEntry] = {}
        self._lineage: dict[bytes, CommitId] = {}
        self._spawned: dict[tuple[str, str, str], CommitId] = {}
        self._database = open_database(path, _SCHEMA, repair or repair_catalogue)

    @property
    def is_incomplete(self) -> bool:
        """Whether records were lost by damage, and nothing was imported since."""
        return self._database.execute("SELECT 1 FROM lost").fetchone() is not None

    def mark_complete(self) -> None:
        """Note that sources were imported again after a repair."""
        if self.is_incomplete:
            self._database.execute("DELETE FROM lost")

    def known(self, paths: Iterable[str]) -> dict[str, CatalogueEntry]:
        """Return what is known of files."""
        listed = list(paths)
        names = [os.fsencode(path) for path in listed]
        query = "SELECT path, size, mtime_ns, tail, record FROM source WHERE path IN"
        rows = query_in(self._database, query, names)
        found = {
            os.fsdecode(row[0]): CatalogueEntry(FileFingerprint(*row[1:4]), row[4]) for row in rows
        }
        return found | {path: self._sources[path] for path in listed if path in self._sources}

    def every(self) -> Iterator[tuple[str, CatalogueEntry]]:
        """Yield all files that were read, and what was told of each."""
        query = "SELECT path, size, mtime_ns, tail, record FROM source"
        for path, *mark, record in self._database.execute(query):
            yield os.fsdecode(path), CatalogueEntry(FileFingerprint(*mark), record)

    def note(self, path: str, mark: FileFingerprint, record: bytes) -> None:
        """Note a file that was read."""
        self._sources[path] = CatalogueEntry(mark, record)

    def records(self) -> Iterator[bytes]:
        """Yield what was told of all files, those that were read."""
        query = "SELECT record FROM source ORDER BY mtime_ns, path"
        for (record,) in self._database.execute(query):
            yield record

    def lineage(self, keys: Iterable[bytes]) -> dict[bytes, CommitId]:
        """Return the commits that histories became, by what is in them."""
        listed = list(keys)
        found = {key: self._lineage[key] for key in listed if key in self._lineage}
        query = "SELECT key, ctx FROM lineage WHERE key IN"
        others = (key for key in listed if key not in found)
        return found | {key: CommitId(ctx) for key, ctx in query_in(self._database, query, others)}

    def lineage_of(self, key: bytes, *, is_new: bool) -> CommitId | None:
        """Return the commit that a history became; `is_new`: it is known not to be kept yet."""
        found = self._lineage.get(key)
        if found is not None or is_new:
            return found
        row = self._database.execute("SELECT ctx FROM lineage WHERE key = ?", [key]).fetchone()
        return None if row is None else CommitId(row[0])

    def note_lineage(self, found: Mapping[bytes, CommitId]) -> None:
        """Note what histories became."""
        self._lineage |= found

    def spawner(self, runtime: str, session: str, agent: str) -> CommitId | None:
        """Return the commit that spawned an agent; None: nothing is known of that."""
        key = (runtime, session, agent)
        if key in self._spawned:
            return self._spawned[key]
        where = "SELECT ctx FROM spawned WHERE runtime = ? AND session = ? AND agent = ?"
        row = self._database.execute(where, key).fetchone()
        return None if row is None else CommitId(row[0])

    def spawned(self, runtime: str, session: str) -> list[str]:
        """Return the agents of a session whose conversations are in other files."""
        where = "SELECT agent FROM spawned WHERE runtime = ? AND session = ? ORDER BY agent"
        return [agent for (agent,) in self._database.execute(where, (runtime, session))]

    def note_spawner(self, runtime: str, session: str, agent: str, ctx: CommitId) -> None:
        """Note which commit spawned an agent whose conversation is in another file."""
        self._spawned[runtime, session, agent] = ctx

    def commit(self) -> None:
        """Keep what was noted. Raises StoreWriteError."""
        sources = [
            (os.fsencode(path), *astuple(one.mark), one.record)
            for path, one in self._sources.items()
        ]
        spawned = [(*key, ctx) for key, ctx in self._spawned.items()]
        put = "INSERT OR REPLACE INTO"
        if self.path is not None and is_temporary(self._database):
            raise StoreWriteError(self.path, reason="it cannot be written")
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(f"{put} source VALUES (?, ?, ?, ?, ?)", sources)
            self._database.executemany(f"{put} lineage VALUES (?, ?)", self._lineage.items())
            self._database.executemany(f"{put} spawned VALUES (?, ?, ?, ?)", spawned)
            self._database.execute("COMMIT")
        except apsw.Error as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if is_damage(error):
                raise
            raise StoreWriteError(self.path or "(memory)", reason=str(error)) from None
        self._sources, self._lineage, self._spawned = {}, {}, {}

    def changed(self, path: Path, replace: Callable[[bytes], bytes]) -> None:
        """Write what is kept into another catalogue, with other texts. Raises StoreWriteError.

        What is named by such a text is left out.
        """
        with closing(Catalogue(path)) as other:
            for name, known in self.every():
                if replace(os.fsencode(name)) == os.fsencode(name):
                    other.note(name, known.mark, replace(known.record))
            lineage = self._database.execute("SELECT key, ctx FROM lineage")
            other.note_lineage({key: CommitId(ctx) for key, ctx in lineage})
            query = "SELECT runtime, session, agent, ctx FROM spawned"
            for runtime, session, agent, ctx in self._database.execute(query):
                said = f"{session}\n{agent}".encode()
                if replace(said) == said:
                    other.note_spawner(runtime, session, agent, CommitId(ctx))
            other.commit()

    def close(self) -> None:
        """Let go of it; what was noted since the last `commit` is forgotten."""
        self._database.close()


def repair_catalogue(path: Path) -> None:
    """Replace a damaged catalogue by one with the records that can still be read.

    Deleting it would lose the records of sources that exist no longer. Raises ConfigError,
    StoreError.
    """
    successor = path.with_name(f".{path.name}.repaired")
    rows = {table: _readable_rows(path, table, key) for table, key in _KEYS.items()}
    try:
        delete_database(successor)
        with closing(open_database(successor, _SCHEMA)) as database:
            database.execute("BEGIN IMMEDIATE")
            for table, kept in rows.items():
                for row in kept:
                    marks = ",".join("?" * len(row))
                    database.execute(f"INSERT INTO {table} VALUES ({marks})", row)  # noqa: S608 - names of ours
            database.execute("INSERT INTO lost VALUES ('records')")
            database.execute("COMMIT")
    except OSError as error:
        raise StoreWriteError(successor, reason=error.strerror or str(error)) from None
    reset_database(path, successor)


def _readable_rows(path: Path, table: str, key: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table before the first damaged page, and those after the last one."""
    rows: dict[tuple[Any, ...], None] = {}
    for order in ("ASC", "DESC"):
        columns = ", ".join(f"{column} {order}" for column in key.split(", "))
        query = f"SELECT * FROM {table} ORDER BY {columns}"  # noqa: S608 - names of ours
        try:
            with closing(open_read_only(path)) as database:
                for row in database.execute(query):
                    rows[row] = None
        except apsw.Error:
            continue
    return list(rows)
