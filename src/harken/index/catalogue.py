"""The import catalogue: imported files, how far they were read, and the resulting commits.

All records can be derived again by another import. So a damaged file, or one of another version, is
moved away and recreated; the catalogue is never the only copy of anything.

Source: docs/how-to/import-sessions.md, "Import again".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec

from harken.core.commits import ArtifactRef, CommitId
from harken.errors import StoreWriteError
from harken.index.database import (
    DatabaseSchema,
    Repair,
    delete_database,
    is_damage,
    is_temporary,
    iter_rows_in,
    open_database,
    open_read_only,
    reset_database,
)
from harken.index.message_text import to_utf8

APPLICATION_ID = 0x48726B69  # "Hrki"
SCHEMA_VERSION = 4
_TABLES = """
CREATE TABLE source (
    path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, tail BLOB NOT NULL,
    record BLOB NOT NULL, head BLOB
) STRICT, WITHOUT ROWID;
CREATE TABLE lineage (key BLOB PRIMARY KEY, ctx TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE spawned (
    runtime TEXT, session TEXT, agent TEXT, ctx TEXT NOT NULL,
    PRIMARY KEY (runtime, session, agent)
) STRICT, WITHOUT ROWID;
CREATE TABLE reading (path BLOB PRIMARY KEY, state BLOB NOT NULL) STRICT;
CREATE TABLE lost (what TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE restored (what TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
"""
"""`lost` has a row after a repair, until sources are imported again. `restored` has a row since the
files in the store were added: a new catalogue has none. A row of `reading` only saves time: it may
be deleted at any time."""
_SCHEMA = DatabaseSchema("the catalogue", APPLICATION_ID, SCHEMA_VERSION, _TABLES)
_KEYS = {"source": "path", "lineage": "key", "spawned": "runtime, session, agent"}
"""The tables that a repair copies, and their keys."""
_COLUMNS = "path, size, mtime_ns, tail, record, head"
MAX_READINGS = 256
"""The number of files whose reading is saved: those imported last."""


class FileFingerprint(msgspec.Struct, frozen=True):
    """The values by which a change of a file is detected."""

    size: int
    mtime_ns: int
    tail: bytes
    """Hash of its last bytes."""


class CatalogueEntry(msgspec.Struct, frozen=True):
    """The fingerprint and import report of a file that was imported."""

    fingerprint: FileFingerprint
    record: bytes
    head: ArtifactRef | None = None
    """The head of the file in the store. None if its bytes are not stored."""


class Catalogue:
    """The import catalogue of a home. Notes are visible at once and durable after `commit`."""

    def __init__(self, path: Path | None, *, repair: Repair | None = None) -> None:
        """Open or create the file. With a path of None, or in a read-only folder, use memory.

        `repair` is called if the file is damaged, in place of `repair_catalogue`. Raises
        ConfigError, StoreError.
        """
        self.path = path
        self._sources: dict[str, CatalogueEntry] = {}
        self._lineage: dict[bytes, CommitId] = {}
        self._spawned: dict[tuple[str, str, str], CommitId] = {}
        self._readings: dict[str, bytes | None] = {}
        self._database = open_database(path, _SCHEMA, repair or repair_catalogue)

    @property
    def is_incomplete(self) -> bool:
        """Whether records were lost by damage, and nothing was imported since."""
        return self._database.execute("SELECT 1 FROM lost").fetchone() is not None

    def mark_complete(self) -> None:
        """Note that sources were imported again after a repair."""
        if self.is_incomplete:
            self._database.execute("DELETE FROM lost")

    @property
    def is_restored(self) -> bool:
        """Whether the imported files of the store were added to this catalogue."""
        return self._database.execute("SELECT 1 FROM restored").fetchone() is not None

    def complete_restoration(self) -> None:
        """Write the notes of the files in the store, and that these are all, in one transaction.

        In a read-only folder they are written to memory. Raises StoreWriteError.
        """
        self._write(is_restored=True)

    def find_entries(self, paths: Iterable[str]) -> dict[str, CatalogueEntry]:
        """Return the entries of those files that were imported."""
        path_list = list(paths)
        names = [os.fsencode(path) for path in path_list]
        query = f"SELECT {_COLUMNS} FROM source WHERE path IN"  # noqa: S608 - columns of ours
        rows = iter_rows_in(self._database, query, names)
        entries = {os.fsdecode(row[0]): _decode_entry(row) for row in rows}
        return entries | {path: self._sources[path] for path in path_list if path in self._sources}

    def iter_entries(self, text: str = "") -> Iterator[tuple[str, CatalogueEntry]]:
        """Yield the imported files that have a text in their paths or records, with their entries.

        SQLite compares the bytes: a hundredth of the time that decoding the records takes.
        """
        query = f"SELECT {_COLUMNS} FROM source"  # noqa: S608 - columns of ours
        values: list[bytes] = []
        if text:
            query += " WHERE instr(record, ?) OR instr(path, ?)"
            try:
                values = [msgspec.json.encode(to_utf8(text))[1:-1], os.fsencode(text)]
            except UnicodeEncodeError:
                return  # No path has such a text, and no record.
        for row in self._database.execute(query, values):
            yield os.fsdecode(row[0]), _decode_entry(row)

    def note(
        self, path: str, mark: FileFingerprint, record: bytes, head: ArtifactRef | None = None
    ) -> None:
        """Record an imported file."""
        self._sources[path] = CatalogueEntry(mark, record, head)

    def find_readings(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the saved readings of files."""
        path_list = list(paths)
        names = [os.fsencode(path) for path in path_list]
        query = "SELECT path, state FROM reading WHERE path IN"
        rows = iter_rows_in(self._database, query, names)
        readings: dict[str, bytes | None] = {os.fsdecode(name): state for name, state in rows}
        readings |= {path: self._readings[path] for path in path_list if path in self._readings}
        return {path: state for path, state in readings.items() if state is not None}

    def note_reading(self, path: str, state: bytes | None) -> None:
        """Record the reading of a file, for continuing when it has grown; or delete the record."""
        self._readings[path] = state

    def records(self) -> Iterator[bytes]:
        """Yield the import reports of all files, the oldest file first."""
        query = "SELECT record FROM source ORDER BY mtime_ns, path"
        for (record,) in self._database.execute(query):
            yield record

    def lineage(self, keys: Iterable[bytes]) -> dict[bytes, CommitId]:
        """Return the commits of histories by the keys of their content."""
        key_list = list(keys)
        cached = {key: self._lineage[key] for key in key_list if key in self._lineage}
        query = "SELECT key, ctx FROM lineage WHERE key IN"
        missing = (key for key in key_list if key not in cached)
        return cached | {
            key: CommitId(ctx) for key, ctx in iter_rows_in(self._database, query, missing)
        }

    def find_lineage_commit(self, key: bytes, *, is_new: bool) -> CommitId | None:
        """Return the commit of a history.

        `is_new` means that the key is not in the database yet.
        """
        ctx = self._lineage.get(key)
        if ctx is not None or is_new:
            return ctx
        row = self._database.execute("SELECT ctx FROM lineage WHERE key = ?", [key]).fetchone()
        return None if row is None else CommitId(row[0])

    def note_lineage(self, commits: Mapping[bytes, CommitId]) -> None:
        """Record the commits of histories."""
        self._lineage |= commits

    def spawner(self, runtime: str, session: str, agent: str) -> CommitId | None:
        """Return the commit that spawned an agent, or None if it is unknown."""
        key = (runtime, session, agent)
        if key in self._spawned:
            return self._spawned[key]
        query = "SELECT ctx FROM spawned WHERE runtime = ? AND session = ? AND agent = ?"
        row = self._database.execute(query, key).fetchone()
        return None if row is None else CommitId(row[0])

    def spawned(self, runtime: str, session: str) -> list[str]:
        """Return the agents of a session that have their conversations in separate files."""
        query = "SELECT agent FROM spawned WHERE runtime = ? AND session = ? ORDER BY agent"
        return [agent for (agent,) in self._database.execute(query, (runtime, session))]

    def note_spawner(self, runtime: str, session: str, agent: str, ctx: CommitId) -> None:
        """Record the commit that spawned an agent with a conversation in a separate file."""
        self._spawned[runtime, session, agent] = ctx

    def commit(self) -> None:
        """Write the recorded notes to the file. Raises StoreWriteError."""
        if self.path is not None and is_temporary(self._database):
            raise StoreWriteError(self.path, reason="it is read-only")
        self._write()

    def discard(self) -> None:
        """Forget the notes that were recorded since the last commit."""
        self._sources, self._lineage, self._spawned, self._readings = {}, {}, {}, {}

    def _write(self, *, is_restored: bool = False) -> None:
        """Write the recorded notes in one transaction. Raises StoreWriteError."""
        sources = [
            (
                os.fsencode(path),
                *msgspec.structs.astuple(entry.fingerprint),
                entry.record,
                _encode_head(entry.head),
            )
            for path, entry in self._sources.items()
        ]
        spawned = [(*key, ctx) for key, ctx in self._spawned.items()]
        insert = "INSERT OR REPLACE INTO"
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(f"{insert} source VALUES (?, ?, ?, ?, ?, ?)", sources)
            self._database.executemany(f"{insert} lineage VALUES (?, ?)", self._lineage.items())
            self._database.executemany(f"{insert} spawned VALUES (?, ?, ?, ?)", spawned)
            self._write_readings()
            if is_restored:
                self._database.execute(f"{insert} restored VALUES ('files')")
            self._database.execute("COMMIT")
        except apsw.Error as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if is_damage(error):
                raise
            raise StoreWriteError(self.path or "(memory)", reason=str(error)) from None
        self.discard()

    def _write_readings(self) -> None:
        """Write the readings, and delete those of files that were imported long ago."""
        names = [(os.fsencode(path),) for path in self._readings]
        self._database.executemany("DELETE FROM reading WHERE path = ?", names)
        states = [
            (os.fsencode(path), state)
            for path, state in self._readings.items()
            if state is not None
        ]
        self._database.executemany("INSERT INTO reading VALUES (?, ?)", states)
        oldest = "(SELECT max(rowid) FROM reading) - ?"
        self._database.execute(f"DELETE FROM reading WHERE rowid <= {oldest}", [MAX_READINGS])  # noqa: S608 - a query of ours

    def write_replaced(self, path: Path, replace: Callable[[bytes], bytes]) -> None:
        """Write a copy of the catalogue with replaced texts. Raises StoreWriteError.

        Records whose key contains a replaced text are omitted, and so are readings.
        """
        with closing(Catalogue(path)) as catalogue:
            for name, entry in self.iter_entries():
                if replace(os.fsencode(name)) == os.fsencode(name):
                    catalogue.note(name, entry.fingerprint, replace(entry.record), entry.head)
            lineage = self._database.execute("SELECT key, ctx FROM lineage")
            catalogue.note_lineage({key: CommitId(ctx) for key, ctx in lineage})
            query = "SELECT runtime, session, agent, ctx FROM spawned"
            for runtime, session, agent, ctx in self._database.execute(query):
                text = f"{session}\n{agent}".encode()
                if replace(text) == text:
                    catalogue.note_spawner(runtime, session, agent, CommitId(ctx))
            catalogue._write(is_restored=self.is_restored)  # noqa: SLF001 - of the same class

    def close(self) -> None:
        """Close the database; notes since the last `commit` are lost."""
        self._database.close()


def _decode_entry(row: Sequence[Any]) -> CatalogueEntry:
    """Return the entry of a row with the columns of `_COLUMNS`."""
    _, size, mtime_ns, tail, record, digest = row
    head = None if digest is None else ArtifactRef(f"art-{digest.hex()}")
    return CatalogueEntry(FileFingerprint(size, mtime_ns, tail), record, head)


def _encode_head(head: ArtifactRef | None) -> bytes | None:
    return None if head is None else bytes.fromhex(head.removeprefix("art-"))


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
            for table, table_rows in rows.items():
                for row in table_rows:
                    placeholders = ",".join("?" * len(row))
                    database.execute(f"INSERT INTO {table} VALUES ({placeholders})", row)  # noqa: S608 - names of ours
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
