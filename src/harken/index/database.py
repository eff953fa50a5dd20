"""Derived SQLite databases, with a checksum on every page.

Nothing in such a file is the only copy of anything: damage is repaired by deleting the file and
deriving it again. So damage must be found. SQLite itself trusts what it reads, and a single changed
byte may change a sum, hide a row or end a search early. SQLite's checksum VFS (`cksumvfs`, which
apsw ships) keeps eight bytes at the end of each page and compares them whenever a page is read,
from the file or from its write-ahead log. A checksum is written with its page, so neither a power
cut nor a second writer can part them.

Source: docs/design/008-derived-data.md; https://www.sqlite.org/cksumvfs.html.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from harken.errors import ConfigError, StoreLocked, StoreWriteError

T = TypeVar("T")
SUFFIXES = ("", "-journal", "-wal", "-shm")
"""The names of a database and of the files that SQLite keeps beside it, after the path."""
RESERVED_BYTES = 8
"""Length of the checksum at the end of a page; `cksumvfs` checks files with this number only."""
_TIMEOUT_S = 30.0
_POLL_S = 0.05
_BATCH = 500
_MAX_PROBLEMS = 20
_EXTENSION, _VFS = "cksumvfs", "cksmvfs"

Repair = Callable[[Path], None]
"""Make a damaged database usable again: delete it, or keep its readable records."""


class DatabaseSchema(msgspec.Struct, frozen=True):
    """The tables of a derived database, and the numbers in the file header that identify them."""

    name: str
    """For messages: "the facts"."""
    application_id: int
    version: int
    sql: str


class Database(apsw.Connection):
    """A connection that holds a shared lock, so that the file is not deleted while it is open."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises StoreLocked, OSError, apsw.Error."""
        lock = _lock(path, fcntl.LOCK_SH)
        self._unlock = weakref.finalize(self, os.close, lock)
        try:
            if not path.exists():  # Readable by its owner only, from the beginning.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            super().__init__(str(path), vfs=_checksum_vfs())
            self.set_busy_timeout(int(_TIMEOUT_S * 1000))
        except BaseException:
            self._unlock()
            raise

    def close(self, force: bool = False) -> None:  # noqa: FBT001, FBT002 - the signature of apsw
        """Close the connection, then release the lock."""
        super().close(force)
        self._unlock()


def open_database(
    path: Path | None, schema: DatabaseSchema, repair: Repair | None = None
) -> apsw.Connection:
    """Open a derived database, or create it. A damaged one is repaired first.

    A path of None means a database in memory. Where the folder cannot be written, the result is a
    copy in memory too, or empty (see `is_temporary`). `repair` defaults to `reset_database`. The
    caller begins and commits transactions. Raises ConfigError if the file belongs to another
    program or cannot be used, and StoreLocked if it is damaged while another process uses it.
    """
    try:
        if path is None or not _is_writable(path):
            copy = None if path is None else _open_copy(path, schema)
            return copy or _create_tables(apsw.Connection(":memory:"), schema)
        return _open_file(path, schema, repair or reset_database)
    except (apsw.Error, OSError, UnicodeError) as error:
        raise ConfigError(f"{path}: {schema.name} cannot be used ({error})") from None


def is_temporary(connection: apsw.Connection) -> bool:
    """Whether a database is in memory, so that what is written to it is lost when it is closed."""
    return not isinstance(connection, Database)


def open_read_only(path: Path) -> apsw.Connection:
    """Open a database without changing it. Raises apsw.Error."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    # SQLite cannot use a write-ahead log in a folder where it cannot create a file.
    is_fixed = not _is_writable(path) and not _has_unfinished_log(path)
    uri = path.absolute().as_uri() + ("?immutable=1" if is_fixed else "")
    database = apsw.Connection(uri, flags, vfs=_checksum_vfs())
    database.set_busy_timeout(int(_TIMEOUT_S * 1000))
    return database


def delete_database(path: Path) -> None:
    """Delete a database and the files that SQLite keeps beside it. Raises OSError."""
    for suffix in SUFFIXES:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def reset_database(path: Path, successor: Path | None = None) -> None:
    """Delete a database when no process has it open; another file may take its place.

    SQLite deletes a write-ahead log by its name. So a process that still had the deleted file open
    could delete the log of the next one. Raises StoreLocked, StoreWriteError.
    """
    try:
        lock = _lock(path, fcntl.LOCK_EX)
        try:
            delete_database(path)
            if successor is not None:
                successor.replace(path)
        finally:
            os.close(lock)
    except OSError as error:
        raise StoreWriteError(path, reason=error.strerror or str(error)) from None


def iter_rows_in(
    database: apsw.Connection, query: str, values: Iterable[object]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query that ends in `... IN`, for a list of values of any length."""
    remaining = iter(values)
    while batch := list(islice(remaining, _BATCH)):
        marks = ",".join("?" * len(batch))
        yield from database.execute(f"{query} ({marks})", batch)


@contextmanager
def write_transaction(connection: apsw.Connection, path: Path | None) -> Iterator[None]:
    """Run a transaction, which is rolled back on errors.

    Raises StoreWriteError, or apsw.Error if the file is damaged.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except apsw.Error as error:
        if is_damage(error):
            raise
        raise StoreWriteError(path or "(memory)", reason=str(error)) from None
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def is_damage(error: apsw.Error) -> bool:
    """Whether an error means that the file is damaged, not that it is in use or the disk full."""
    is_checksum = getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA
    return is_checksum or isinstance(error, apsw.CorruptError | apsw.NotADBError)


def run_with_repair(run: Callable[[], T], repairs: Mapping[Path, Repair]) -> T:
    """Call a function; repair a database that it finds damaged, and call it again.

    `repairs` has the paths of the databases that the function reads. It must open and close them
    itself. Raises StoreError if a repair fails.
    """
    for _ in repairs:
        try:
            return run()
        except apsw.Error as error:
            if not is_damage(error):
                raise
            damaged = [path for path in repairs if next(find_damage(path), None) is not None]
            # An inconsistency that only its reader finds is in the first one: the search index.
            for path in damaged or list(repairs)[:1]:
                repairs[path](path)
    return run()


def find_damage(path: Path) -> Iterator[str]:
    """Yield the problems of a derived database, after reading every page in use. Changes nothing.

    A file that does not exist, or belongs to another version, has no problems.
    """
    if not path.exists():
        return
    problems: list[str] = []
    try:
        with closing(open_read_only(path)) as database:
            version = _pragma(database, "user_version")
            if version and _pragma(database, "reserve_bytes") != RESERVED_BYTES:
                yield "its header lacks the mark for page checksums"
            for (text,) in database.execute(f"PRAGMA integrity_check({_MAX_PROBLEMS})"):
                if text != "ok":
                    problems.append(" ".join(str(text).split()))
    except apsw.Error as error:
        problems.append(str(error))
        if not is_damage(error):
            yield from problems
            return
    pages = islice(_damaged_pages(path), _MAX_PROBLEMS) if problems else ()
    yield from list(pages) or problems


def _damaged_pages(path: Path) -> Iterator[str]:
    """Yield the pages of a file that do not match their checksum."""
    _checksum_vfs()  # Its extension adds `verify_checksum` to connections.
    with closing(apsw.Connection(":memory:")) as memory, path.open("rb") as file:
        header = file.read(100)
        size = int.from_bytes(header[16:18], "big")
        size = 65536 if size == 1 else size
        if not header.startswith(b"SQLite format 3\0") or size < 512 or size & (size - 1):
            yield "page 1: no SQLite header"
            return
        file.seek(0)
        for number, page in enumerate(iter(lambda: file.read(size), b""), start=1):
            (is_valid,) = memory.execute("SELECT verify_checksum(?)", (page,)).fetchall()[0]
            if not is_valid:
                yield f"page {number} (byte {(number - 1) * size}) does not match its checksum"


def _open_file(path: Path, schema: DatabaseSchema, repair: Repair) -> apsw.Connection:
    """Open or create a file. Raises ConfigError, StoreLocked, OSError, apsw.Error."""
    connection = Database(path)
    try:
        is_current = _is_current(connection, path, schema)
    except apsw.Error as error:
        connection.close()
        if not is_damage(error):
            raise
        repair(path)
        connection = Database(path)
    except BaseException:
        connection.close()
        raise
    else:
        if not is_current:
            connection.close()
            reset_database(path)
            connection = Database(path)
    try:
        # After a power cut the last commits may be missing. They are derived again.
        connection.execute("PRAGMA synchronous=NORMAL")
        return _create_tables(connection, schema)
    except BaseException:
        connection.close()
        raise


def _open_copy(path: Path, schema: DatabaseSchema) -> apsw.Connection | None:
    """Copy a file into memory. Return None if there is none that can be read without writing."""
    if not path.exists() or _has_unfinished_log(path):
        return None
    copy = apsw.Connection(":memory:")
    try:
        with closing(open_read_only(path)) as source:
            if _is_current(source, path, schema):
                with copy.backup("main", source, "main") as backup:
                    backup.step()
                return copy
    except apsw.Error:
        pass
    copy.close()
    return None


def _is_writable(path: Path) -> bool:
    """Whether a file and its folder can be written; True if the folder does not exist."""
    if not path.parent.exists():
        return True
    return os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def _has_unfinished_log(path: Path) -> bool:
    """Whether there are commits in a write-ahead log, or a journal of a commit that was cut off."""
    logs = [path.with_name(path.name + suffix) for suffix in ("-wal", "-journal")]
    return any(log.exists() and log.stat().st_size for log in logs)


def _is_current(database: apsw.Connection, path: Path, schema: DatabaseSchema) -> bool:
    """Whether a file has the tables of this schema, or nothing yet.

    Raises ConfigError if it belongs to another program, apsw.Error if it is damaged.
    """
    # One snapshot: between two reads another process may create the tables.
    with _transaction(database, "DEFERRED"):
        is_empty = _pragma(database, "page_count") == 0
        if not is_empty and _pragma(database, "application_id") != schema.application_id:
            raise ConfigError(f"{path}: this is another program's database; move it away")
        if not is_empty and _pragma(database, "user_version") != schema.version:
            return False
        if not is_empty and _pragma(database, "reserve_bytes") != RESERVED_BYTES:
            raise apsw.CorruptError(f"{path}: the pages have no checksums")
        database.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    return True


def _create_tables(database: apsw.Connection, schema: DatabaseSchema) -> apsw.Connection:
    """Create the tables, unless another process is faster."""
    if _pragma(database, "user_version"):
        return database
    database.reserve_bytes("main", RESERVED_BYTES)  # Before the first page is written.
    with _transaction(database, "IMMEDIATE"):
        if not _pragma(database, "user_version"):
            database.execute(schema.sql)
            database.execute(f"PRAGMA application_id={schema.application_id}")
            database.execute(f"PRAGMA user_version={schema.version}")
    return database


@contextmanager
def _transaction(database: apsw.Connection, mode: str) -> Iterator[None]:
    database.execute(f"BEGIN {mode}")
    try:
        yield
    except BaseException:
        if database.in_transaction:  # SQLite itself ends it after some errors.
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _pragma(database: apsw.Connection, name: str) -> int:
    """Return an integer from the database header."""
    if name == "reserve_bytes":
        return database.reserve_bytes("main", -1)
    rows: list[tuple[Any, ...]] = database.execute(f"PRAGMA {name}").fetchall()
    return int(rows[0][0])


def _lock(path: Path, mode: int) -> int:
    """Lock the file `.NAME.lock` beside a database; closing the descriptor releases it.

    Raises StoreLocked if another process holds the lock for too long, OSError.
    """
    descriptor = os.open(
        path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    end = time.monotonic() + _TIMEOUT_S
    try:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
                return descriptor
            if time.monotonic() > end:
                raise StoreLocked(path)
            time.sleep(_POLL_S)
    except BaseException:
        os.close(descriptor)
        raise


@cache
def _checksum_vfs() -> str:
    """Load SQLite's checksum VFS into the library of apsw, and return its name.

    Raises ConfigError if this build of apsw does not have it.
    """
    default = apsw.vfs_names()[0]
    with closing(apsw.Connection(":memory:")) as database:
        try:
            _load_extension(database)
        except (apsw.Error, ImportError, ValueError, OSError) as error:
            raise ConfigError(
                f"this apsw has no {_EXTENSION} ({error}): install a wheel of apsw from PyPI"
            ) from None
    # Loading makes it the default, also for connections of a program that uses Harken.
    apsw.set_default_vfs(default)
    return _VFS


def _load_extension(database: apsw.Connection) -> None:
    # `apsw.sqlite_extra` imports zipfile and tempfile, and takes longer than a short query.
    path = Path(apsw.__file__).parent / "sqlite_extra_binaries" / _EXTENSION
    database.enable_load_extension(True)
    try:
        database.load_extension(str(path))  # SQLite adds the suffix of the platform.
    except apsw.ExtensionLoadingError:
        from apsw import sqlite_extra  # noqa: PLC0415 - seldom needed

        sqlite_extra.load(database, _EXTENSION)
