"""The file of a store: how it is made, opened and told apart, and what SQLite's errors mean here.

One connection a thread, one writer at a time; readers see the last whole batch and wait for nobody.

The tables of a store's file, and the number of their version.

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


MADE, VERSION = 2, 3
"""The version that a file is made in, and the newest that can be read. A file has version 3 from
the first pack on that has raw bytes behind the rest; nothing else is new in it."""


HISTORY = """
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


LIFECYCLE = """
CREATE TABLE keeping (name TEXT PRIMARY KEY, policy TEXT NOT NULL, until TEXT)
    STRICT, WITHOUT ROWID;
CREATE TABLE tombstone (name TEXT PRIMARY KEY, record BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE derived (key BLOB PRIMARY KEY, artifact BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE mark (time_us INTEGER PRIMARY KEY, pack INTEGER NOT NULL) STRICT;
CREATE TABLE again (name TEXT PRIMARY KEY, pack INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE used (pack INTEGER PRIMARY KEY, time_us INTEGER NOT NULL) STRICT;
CREATE TABLE evicted (name TEXT PRIMARY KEY, kind INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE state (generation INTEGER NOT NULL) STRICT;
INSERT INTO state (generation) VALUES (1);
"""


_THINGS = """
CREATE TABLE pack (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE object (key BLOB NOT NULL, pack INTEGER NOT NULL, PRIMARY KEY (key, pack))
    STRICT, WITHOUT ROWID;
CREATE TABLE artifact (key BLOB NOT NULL, pack INTEGER NOT NULL, PRIMARY KEY (key, pack))
    STRICT, WITHOUT ROWID;
CREATE TABLE principal (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE) STRICT;
CREATE TABLE label (name BLOB NOT NULL, history INTEGER NOT NULL, PRIMARY KEY (name, history))
    STRICT, WITHOUT ROWID;
"""


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version that a file says it has; 0: it was not made yet."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def statements(text: str) -> list[str]:
    """Take a script apart: SQLite would commit what is open before it runs one whole."""
    return text.split(";\n")[:-1]


WHOLE = _THINGS + HISTORY + LIFECYCLE


_HEADER_BYTES = 100
_TO_WRITE = "mode=rw"
_ONLY_TO_READ = "mode=ro&immutable=1"
_REFUSED = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}


class SqliteConnection(sqlite3.Connection):
    """A connection, and what of the file it has seen (see `opened`)."""

    version = -1
    """SQLite's number for the last change by somebody else."""
    generation = -1
    takes_away = False
    """Whether it is taking things away: what it reads now may never be true."""


class Database:
    """The connections of one process to one file."""

    def __init__(self, path: Path, patience_s: float) -> None:
        self.path, self.patience_s = path, patience_s
        self._local = threading.local()
        self._open: list[tuple[threading.Thread, SqliteConnection]] = []
        self._opening = threading.Lock()
        self._is_closed = False
        self._process = os.getpid()
        self._writing = threading.Lock()
        with speaking(path):
            _create(path)
            try:
                self._mode = _mode_for(path)
                self._file = _file_at(path)
                self._check()
            except OSError as error:
                raise StoreError(path, f"cannot be read: {error.strerror}") from None
            if self._mode != _ONLY_TO_READ:
                try:
                    self._make()
                except BaseException:
                    self.close()
                    raise

    def connection(self) -> SqliteConnection:
        """Return this thread's connection."""
        if self._is_closed:
            raise StoreError(self.path, "is closed")
        if os.getpid() != self._process:  # SQLite's locks do not survive a fork
            raise StoreError(self.path, "was opened before a fork: open it again in this process")
        found: SqliteConnection | None = getattr(self._local, "connection", None)
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
    def reading(self) -> Iterator[SqliteConnection]:
        """See the file as it is now, whatever others write meanwhile."""
        with speaking(self.path):
            connection = self.connection()
            if connection.in_transaction:
                yield connection
                return
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                with suppress(sqlite3.Error):  # somebody closed the store, or the disk failed
                    connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[SqliteConnection]:
        """Hold the only transaction that writes; it is durable on leaving, or it never was."""
        with self._writing, speaking(self.path):
            connection = self.connection()
            if _file_at(self.path) != self._file:  # what is written now would have no name
                raise StoreError(self.path, "was removed or replaced: open it again")
            try:
                connection.execute("BEGIN IMMEDIATE")
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
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @staticmethod
    def _set_up(connection: SqliteConnection) -> None:
        for pragma in (
            "trusted_schema=OFF",
            "cell_size_check=ON",
            "synchronous=FULL",
            "fullfsync=ON",  # on macOS a plain fsync does not reach the disk
            "checkpoint_fullfsync=ON",
            "cache_size=-16000",
            "secure_delete=OFF",  # some builds zero each freed page; `purge` sees to it itself
        ):
            connection.execute(f"PRAGMA {pragma}")

    def _check(self) -> None:
        """Raise for a file that is something else, before a byte of it is changed."""
        # Not read as a file: closing it would end the locks that SQLite has in this process. A
        # connection that may write would tidy up behind others, also in what is no store.
        if 0 < self.path.stat().st_size < _HEADER_BYTES:  # SQLite would take it for an empty one
            raise InvalidStore(self.path, "is no store of Harken; it was not touched")
        try:
            found = self._looked_at("mode=ro" if self._mode == _TO_WRITE else self._mode)
        except sqlite3.OperationalError as error:
            # Power went when the file was made: who writes it first takes back what was begun.
            journal = self.path.with_name(self.path.name + "-journal")
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY or not journal.exists():
                raise
            found = self._looked_at(_ONLY_TO_READ)
        application, version, tables = found
        if application != APPLICATION and (application or version or tables):
            raise InvalidStore(self.path, "is a database of something else; it was not touched")
        if version > VERSION:
            raise StoreVersionUnsupported(self.path, found=version, known=VERSION)
        if 0 < version < MADE:
            text = f"has format version {version}, which no release of Harken reads"
            raise StoreError(self.path, f"{text}; it was not touched")

    def _looked_at(self, mode: str) -> tuple[int, int, int]:
        """Return the application, the version and how many tables there are."""
        with closing(self._connect(mode)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            version = version_of(connection)
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        return application, version, tables

    def _make(self) -> None:
        connection = self.connection()
        end = time.monotonic() + self.patience_s
        while True:  # another process may be making the same store; SQLite does not wait here
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)
        if version_of(connection) >= MADE:
            return
        with self.writing():
            if version_of(connection) == 0:  # else another process was faster
                for statement in statements(WHOLE):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id={APPLICATION}")
                connection.execute(f"PRAGMA user_version={MADE}")


@contextmanager
def speaking(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into errors that a person understands."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:  # its messages may be of damaged text
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if _is_busy(error):
            raise StoreLocked(path) from error
        if code == sqlite3.SQLITE_NOTADB:
            raise InvalidStore(path, "is no store of Harken; it was not touched") from error
        if code in _REFUSED:
            raise StoreWriteError(path, reason=str(error)) from error
        raise StoreError(path, f"cannot be used: {error}; nothing was changed") from error


def _is_busy(error: Exception) -> bool:
    busy = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in busy


def _create(path: Path) -> None:
    """Make the file, readable by its owner only, and its name durable."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except FileNotFoundError:
        raise StoreWriteError(path, reason=f"there is no folder {path.parent}") from None
    except OSError as error:
        raise StoreWriteError(path, reason=error.strerror or str(error)) from error
    except ValueError as error:
        raise StoreError(repr(str(path)), f"is no path: {error}") from None
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _mode_for(path: Path) -> str:
    """Return how to open the file: where no file can stand beside it, only to read.

    Raises StoreError where what was written last stands in a file that could not be read so.
    """
    log, shared = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    if os.access(path.parent, os.W_OK) or shared.exists():
        return _TO_WRITE
    if log.exists() and log.stat().st_size:
        text = "was not closed, and its folder may not be written: copy all of its files to another"
        raise StoreError(path, text)
    return _ONLY_TO_READ


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return which file has this name now; None: none has."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
