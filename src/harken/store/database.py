"""The file of a store: how it is made, opened and told apart, and what SQLite's errors mean here.

One connection a thread, one writer at a time; readers see the last whole batch and wait for nobody.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from harken.errors import NotAStore, StoreError, StoreLocked, StoreTooNew, StoreWriteError

APPLICATION = 0x4861726B  # "Hark"
VERSION = 1
_MAGIC = b"SQLite format 3\0"
_SCHEMA = """
CREATE TABLE pack (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE object (key BLOB NOT NULL, pack INTEGER NOT NULL, PRIMARY KEY (key, pack))
    STRICT, WITHOUT ROWID;
CREATE TABLE artifact (key BLOB NOT NULL, pack INTEGER NOT NULL, PRIMARY KEY (key, pack))
    STRICT, WITHOUT ROWID;
CREATE TABLE principal (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE) STRICT;
CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL,
    pack INTEGER NOT NULL,
    parent INTEGER,
    principal INTEGER NOT NULL,
    time_us INTEGER NOT NULL,
    notes BLOB NOT NULL
) STRICT;
CREATE INDEX history_key ON history (key);
CREATE INDEX history_parent ON history (parent) WHERE parent IS NOT NULL;
CREATE INDEX history_time ON history (principal, time_us);
CREATE TABLE label (name BLOB NOT NULL, history INTEGER NOT NULL, PRIMARY KEY (name, history))
    STRICT, WITHOUT ROWID;
"""
_REFUSED = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}


class Database:
    """The connections of one process to one file."""

    def __init__(self, path: Path, patience_s: float) -> None:
        self.path, self._patience_s = path, patience_s
        self._local = threading.local()
        self._open: list[tuple[threading.Thread, sqlite3.Connection]] = []
        self._opening = threading.Lock()
        self._is_closed = False
        self._process = os.getpid()
        self._writing = threading.Lock()
        with speaking(path):
            _create(path)
            try:
                self._check()
            except OSError as error:
                raise StoreError(path, f"cannot be read: {error.strerror}") from None
            self._make()

    def reading(self) -> sqlite3.Connection:
        """Return this thread's connection."""
        if self._is_closed:
            raise StoreError(self.path, "is closed")
        if os.getpid() != self._process:  # SQLite's locks do not survive a fork
            raise StoreError(self.path, "was opened before a fork: open it again in this process")
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = self._connect()
            with self._opening:
                ended = [pair for pair in self._open if not pair[0].is_alive()]
                self._open = [pair for pair in self._open if pair[0].is_alive()]
                self._open.append((threading.current_thread(), found))
            for _, connection in ended:
                connection.close()
        return found

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the only transaction that writes; it is durable on leaving, or it never was."""
        with self._writing, speaking(self.path):
            connection = self.reading()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk may have ended the transaction already
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the connections of all threads."""
        self._is_closed = True
        if os.getpid() != self._process:
            return  # they are the parent's
        with self._writing, self._opening:
            while self._open:
                self._open.pop()[1].close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._patience_s, isolation_level=None, check_same_thread=False
        )
        for pragma in (
            "trusted_schema=OFF",
            "cell_size_check=ON",
            "synchronous=FULL",
            "fullfsync=ON",  # on macOS a plain fsync does not reach the disk
            "checkpoint_fullfsync=ON",
            "cache_size=-16000",
        ):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _check(self) -> None:
        """Raise for a file that is something else, before a byte of it is changed."""
        with self.path.open("rb") as file:
            beginning = file.read(len(_MAGIC))
        if beginning not in (b"", _MAGIC):  # SQLite takes a very short file for an empty one
            raise NotAStore(self.path, "is no store of Harken; it was not touched")
        with closing(self._connect()) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if application != APPLICATION and (application or version or tables):
            raise NotAStore(self.path, "is a database of something else; it was not touched")
        if version > VERSION:
            raise StoreTooNew(self.path, found=version, known=VERSION)

    def _make(self) -> None:
        connection = self.reading()
        end = time.monotonic() + self._patience_s
        while True:  # another process may be making the same store; SQLite does not wait here
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)
        if connection.execute("PRAGMA user_version").fetchone()[0]:
            return
        with self.writing():
            if connection.execute("PRAGMA user_version").fetchone()[0]:
                return
            for statement in _SCHEMA.split(";\n")[:-1]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={VERSION}")


@contextmanager
def speaking(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into errors that a person understands."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if _is_busy(error):
            raise StoreLocked(path) from error
        if code == sqlite3.SQLITE_NOTADB:
            raise NotAStore(path, "is no store of Harken; it was not touched") from error
        if code in _REFUSED:
            raise StoreWriteError(path, reason=str(error)) from error
        raise StoreError(path, f"cannot be used: {error}; nothing was changed") from error


def _is_busy(error: sqlite3.Error) -> bool:
    busy = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in busy


def _create(path: Path) -> None:
    """Make the file, readable by its owner only, and its name durable."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreWriteError(path, reason=error.strerror or str(error)) from error
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
