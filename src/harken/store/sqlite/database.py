"""The SQLite file of a store: creation, connections, identification and error conversion.

There is one connection per thread and one writer at a time. Readers see the last complete batch
and do not wait. The schema of the tables and its version are here too.

Source: docs/formats/store.md, "The file".
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from harken.errors import (
    InvalidStore,
    StoreError,
    StoreLocked,
    StoreVersionUnsupported,
    StoreWriteError,
)

APPLICATION = 0x4861726B  # "Hark"
NEW_FILE_VERSION, VERSION = 4, 5
"""The version of new files, and the newest that can be read. A file gets the newest with its first
pack that has raw bytes in a separate block; nothing else is new in it.
"""
HISTORY_SQL = """
CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    name BLOB NOT NULL,
    pack INTEGER NOT NULL,
    parent INTEGER,
    principal INTEGER NOT NULL,
    time_us INTEGER NOT NULL,
    notes BLOB NOT NULL
) STRICT;
CREATE INDEX history_key ON history (substr(name, 1, 6));
CREATE INDEX history_parent ON history (parent) WHERE parent IS NOT NULL;
CREATE INDEX history_time ON history (principal, time_us);
"""
LIFECYCLE_SQL = """
CREATE TABLE keeping (name TEXT PRIMARY KEY, policy TEXT NOT NULL, until TEXT)
    STRICT, WITHOUT ROWID;
CREATE TABLE tombstone (name TEXT PRIMARY KEY, record BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE derived (key BLOB PRIMARY KEY, artifact BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE mark (time_us INTEGER PRIMARY KEY, pack INTEGER NOT NULL) STRICT;
CREATE TABLE again (name TEXT PRIMARY KEY, pack INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE used (pack INTEGER PRIMARY KEY, time_us INTEGER NOT NULL) STRICT;
CREATE TABLE evicted (name TEXT PRIMARY KEY, kind INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE branch (name BLOB PRIMARY KEY, head BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE state (generation INTEGER NOT NULL) STRICT;
CREATE TABLE total (name TEXT PRIMARY KEY, rows_sum INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO state (generation) VALUES (1);
INSERT INTO total (name, rows_sum)
    VALUES ('again', 0), ('branch', 0), ('evicted', 0), ('keeping', 0), ('mark', 0),
        ('tombstone', 0);
"""
_OBJECT_TABLES = """
CREATE TABLE pack (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE object (key BLOB NOT NULL, pack INTEGER NOT NULL, PRIMARY KEY (key, pack))
    STRICT, WITHOUT ROWID;
CREATE TABLE artifact (key BLOB NOT NULL, pack INTEGER NOT NULL, PRIMARY KEY (key, pack))
    STRICT, WITHOUT ROWID;
CREATE TABLE principal (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE) STRICT;
CREATE TABLE label (name BLOB NOT NULL, history INTEGER NOT NULL, PRIMARY KEY (name, history))
    STRICT, WITHOUT ROWID;
"""


def read_version(connection: sqlite3.Connection) -> int:
    """Return the format version of a file, which is 0 if it was not initialized yet."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def split_script(text: str) -> list[str]:
    """Split a script into statements: `executescript` would commit an open transaction."""
    return text.split(";\n")[:-1]


SCHEMA_SQL = _OBJECT_TABLES + HISTORY_SQL + LIFECYCLE_SQL
_HEADER_BYTES = 100
PAGE_BYTES = 1024
"""The page size of a new file: a small write changes ten pages, each by some bytes."""
_CHECKPOINT_PAGES = 4096
"""The length of the WAL at which its pages are copied to the file."""
_READ_WRITE = "mode=rw"
_READ_ONLY = "mode=ro&immutable=1"
_REFUSED_CODES = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}


class SqliteConnection(sqlite3.Connection):
    """A connection, and the state of the file that it has seen (see `opened`)."""

    version = -1
    """SQLite's number of the last change by another connection."""
    generation = -1
    is_removing = False
    """Whether its transaction removes objects: its reads may be rolled back."""


class SqliteDatabase:
    """The connections of one process to one file."""

    def __init__(self, path: Path, patience_s: float) -> None:
        self.path, self.patience_s = path, patience_s
        self._local = threading.local()
        self._open: list[tuple[threading.Thread, SqliteConnection]] = []
        self._open_lock = threading.Lock()
        self._is_closed = False
        self._process = os.getpid()
        self._write_lock = threading.Lock()
        with convert_errors(path):
            _create_file(path)
            try:
                self._mode = _find_mode(path)
                self._file = _find_file_id(path)
                self._check()
            except OSError as error:
                raise StoreError(path, f"cannot be read: {error.strerror}") from None
            if self._mode != _READ_ONLY:
                try:
                    self._create_tables()
                except BaseException:
                    self.close()
                    raise

    def connection(self) -> SqliteConnection:
        """Return this thread's connection."""
        if self._is_closed:
            raise StoreError(self.path, "is closed")
        if os.getpid() != self._process:  # SQLite's locks do not survive a fork.
            raise StoreError(self.path, "was opened before a fork: open it again in this process")
        connection: SqliteConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            with self._open_lock:
                dead = [pair for pair in self._open if not pair[0].is_alive()]
                self._open = [pair for pair in self._open if pair[0].is_alive()]
                self._open.append((threading.current_thread(), connection))
            for _, ended_connection in dead:
                ended_connection.close()
        return connection

    @contextmanager
    def reading(self) -> Iterator[SqliteConnection]:
        """Read a consistent snapshot of the file, unaffected by concurrent writes."""
        with convert_errors(self.path):
            connection = self.connection()
            if connection.in_transaction:
                yield connection
                return
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                # The store was closed by another thread, or the disk failed.
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[SqliteConnection]:
        """Hold the only write transaction. It is durable on exit, or rolled back on an error."""
        with self._write_lock, convert_errors(self.path):
            connection = self.connection()
            if _find_file_id(self.path) != self._file:  # A write to a removed file would be lost.
                raise StoreError(self.path, "was removed or replaced: open it again")
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # A full disk may have ended the transaction already.
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the connections of all threads."""
        self._is_closed = True
        if os.getpid() != self._process:
            return  # The connections belong to the parent process.
        with self._write_lock, self._open_lock:
            while self._open:
                self._open.pop()[1].close()

    def _connect(self, mode: str = "") -> SqliteConnection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{mode or self._mode}",
            uri=True,
            timeout=self.patience_s,
            isolation_level=None,
            check_same_thread=False,
            factory=SqliteConnection,
        )
        try:
            self._set_pragmas(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @staticmethod
    def _set_pragmas(connection: SqliteConnection) -> None:
        for pragma in (
            "trusted_schema=OFF",
            "cell_size_check=ON",
            "synchronous=FULL",
            "fullfsync=ON",  # On macOS a plain fsync does not reach the disk.
            "checkpoint_fullfsync=ON",
            "cache_size=-16000",
            f"wal_autocheckpoint={_CHECKPOINT_PAGES}",
            "secure_delete=OFF",  # Some builds zero each freed page; `purge` does it itself.
        ):
            connection.execute(f"PRAGMA {pragma}")

    def _check(self) -> None:
        """Raise if the file is not a store, before a byte of it is changed."""
        # The header is not read as a file: closing it would release the locks that SQLite has in
        # this process. A writable connection would recover the journals of other programs, also in
        # a file that is not a store.
        if 0 < self.path.stat().st_size < _HEADER_BYTES:  # SQLite would treat it as an empty file.
            raise InvalidStore(self.path, "not a store of Harken; nothing was changed")
        try:
            header = self._read_header("mode=ro" if self._mode == _READ_WRITE else self._mode)
        except sqlite3.OperationalError as error:
            # Power failed when the file was created: the first writer rolls back.
            journal = self.path.with_name(self.path.name + "-journal")
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY or not journal.exists():
                raise
            header = self._read_header(_READ_ONLY)
        application, version, tables = header
        if application != APPLICATION and (application or version or tables):
            raise InvalidStore(self.path, "is a database of another program; nothing was changed")
        if version and not NEW_FILE_VERSION <= version <= VERSION:
            raise StoreVersionUnsupported(self.path, found=version, known=VERSION)

    def _read_header(self, mode: str) -> tuple[int, int, int]:
        """Return the application id, the version and the number of tables."""
        with closing(self._connect(mode)) as connection:
            connection.execute("BEGIN")  # One snapshot, while another process creates the tables.
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            version = read_version(connection)
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        return application, version, tables

    def _create_tables(self) -> None:
        connection = self.connection()
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")  # Ignored unless the file is empty.
        end = time.monotonic() + self.patience_s
        while True:  # Another process may be creating the same store; SQLite does not wait here.
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)
        if read_version(connection) >= NEW_FILE_VERSION:
            return
        with self.writing():
            if read_version(connection) == 0:  # Otherwise another process has created the tables.
                for statement in split_script(SCHEMA_SQL):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id={APPLICATION}")
                connection.execute(f"PRAGMA user_version={NEW_FILE_VERSION}")


@contextmanager
def convert_errors(path: Path) -> Iterator[None]:
    """Convert SQLite errors to Harken errors."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # Error messages may contain damaged text.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if _is_busy(error):
            raise StoreLocked(path) from error
        if code == sqlite3.SQLITE_NOTADB:
            raise InvalidStore(path, "not a store of Harken; nothing was changed") from error
        if code in _REFUSED_CODES:
            raise StoreWriteError(path, reason=str(error)) from error
        raise StoreError(path, f"cannot be used: {error}; nothing was changed") from error


def _is_busy(error: Exception) -> bool:
    busy = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in busy


def _create_file(path: Path) -> None:
    """Create the file, readable by its owner only, and make its name durable."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except FileNotFoundError:
        raise StoreWriteError(path, reason=f"the folder {path.parent} does not exist") from None
    except OSError as error:
        raise StoreWriteError(path, reason=error.strerror or str(error)) from error
    except ValueError as error:
        raise StoreError(repr(str(path)), f"not a valid path: {error}") from None
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _find_mode(path: Path) -> str:
    """Return the URI parameters to open the file: read-only if the folder is not writable.

    Raises StoreError if the last writes are in a WAL file, which cannot be read that way.
    """
    wal, shm = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    if os.access(path.parent, os.W_OK) or shm.exists():
        return _READ_WRITE
    if wal.exists() and wal.stat().st_size:
        reason = (
            "was not closed, and its folder may not be written: copy all of its files to another"
        )
        raise StoreError(path, reason)
    return _READ_ONLY


def _find_file_id(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file, or None if it does not exist."""
    try:
        stat = os.stat(path)  # noqa: PTH116 - twice as fast, in each transaction
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
