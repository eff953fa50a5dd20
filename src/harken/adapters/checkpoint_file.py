"""`CheckpointFile`: the checkpoints of an agent framework in one SQLite file.

The file has an index of checkpoints and their small data, and for each thread the *head*, its
latest checkpoint. New items of lists stand in the file until they are folded: then they are an
artifact of the store, and the file has its name. A row never changes, except that it is hidden when
its checkpoint is deleted and other rows still refer to it.

Threads and processes may share the file. A write is durable when the method returns.

Source: docs/formats/checkpoints.md.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from harken.adapters.records import (
    REPLACED_MARK,
    CheckpointBody,
    Fold,
    T,
    ThreadListing,
    TypedBytes,
    decode_id,
    encode_id,
    pack,
    seal,
    unpack,
    unseal,
)
from harken.errors import (
    InvalidStore,
    ObjectCorrupted,
    ObjectNotFound,
    StoreVersionUnsupported,
)
from harken.store.sqlite.database import convert_errors, split_script

CHECKPOINTS_NAME = "checkpoints.db"
"""The name of the file in a home folder."""
APPLICATION_ID = 0x4861726D  # "Harm"
VERSION = 1
_SCHEMA = f"""
CREATE TABLE thread (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, namespace TEXT NOT NULL, head INTEGER NOT NULL,
    changes INTEGER NOT NULL DEFAULT 0, UNIQUE (name, namespace)
) STRICT;
CREATE TABLE listing (
    thread INTEGER PRIMARY KEY, changes INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE TABLE checkpoint (
    number INTEGER PRIMARY KEY, thread INTEGER NOT NULL, id BLOB NOT NULL, parent BLOB, run TEXT,
    hidden INTEGER NOT NULL, depth INTEGER NOT NULL, fold INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX checkpoint_id ON checkpoint (thread, id);
CREATE TABLE item (number INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE fold (number INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE pending (
    thread INTEGER, id BLOB, task BLOB, position INTEGER, body BLOB NOT NULL,
    PRIMARY KEY (thread, id, task, position)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER checkpoint_added AFTER INSERT ON checkpoint
BEGIN UPDATE thread SET changes = changes + 1 WHERE id = NEW.thread; END;
CREATE TRIGGER checkpoint_changed AFTER UPDATE ON checkpoint
BEGIN UPDATE thread SET changes = changes + 1 WHERE id = NEW.thread; END;
CREATE TRIGGER checkpoint_deleted AFTER DELETE ON checkpoint
BEGIN UPDATE thread SET changes = changes + 1 WHERE id = OLD.thread; END;
CREATE TRIGGER thread_deleted AFTER DELETE ON thread
BEGIN DELETE FROM listing WHERE thread = OLD.id; END;
PRAGMA application_id={APPLICATION_ID};
PRAGMA user_version={VERSION};
"""  # noqa: S608 - ours
_THREAD_COLUMNS = "id, name, namespace, head, changes"
_COLUMNS = "number, thread, id, parent, hidden, depth, fold, body"


class CheckpointThread(msgspec.Struct, frozen=True):
    """A thread of a framework, or one namespace of it."""

    id: int
    name: str
    namespace: str
    head: int
    """The number of the latest checkpoint. 0 if there is none."""
    changes: int = 0
    """The number of changes of its rows of checkpoints so far."""


class CheckpointRow(msgspec.Struct, frozen=True):
    """A checkpoint in the file."""

    number: int
    thread: int
    id: str
    parent: str
    """The id of the checkpoint before it. Empty if there is none."""
    is_hidden: bool
    """Whether it was deleted, and only other rows need it."""
    depth: int
    """The number of checkpoints up to this one whose new items are not folded."""
    fold: int
    """The number of the fold that has its new items. 0 if the file has them."""
    body: CheckpointBody


class NewCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint to be written."""

    id: str
    parent: CheckpointRow | None
    parent_id: str
    body: CheckpointBody
    items: dict[str, TypedBytes]
    """The new items of lists, by channel."""
    run: str = ""


class PendingWrite(msgspec.Struct, frozen=True, array_like=True):
    """A value that a task has written to a channel."""

    path: str
    channel: str
    kind: str
    data: bytes


class CheckpointFile:
    """A file of checkpoints."""

    def __init__(self, path: Path, *, patience_s: float = 30.0) -> None:
        """Open or create the file. Raises StoreError, InvalidStore, StoreVersionUnsupported."""
        self.path = path
        self._lock = threading.RLock()
        with convert_errors(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):  # Only the owner may read it.
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(
                path, timeout=patience_s, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION_ID and (version or application or self._has_tables()):
            raise InvalidStore(self.path, "is a database of another program; nothing was changed")
        if version > VERSION:
            raise StoreVersionUnsupported(self.path, found=version, known=VERSION)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "fullfsync=ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        with self.writing() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if not version:
                for statement in split_script(_SCHEMA):
                    connection.execute(statement)

    def _has_tables(self) -> bool:
        (count,) = self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        return bool(count)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection of the file."""
        with self._lock, convert_errors(self.path):
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the only write transaction. It is durable on exit, or rolled back on an error."""
        with self.reading() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # A full disk may have ended it already.
                    connection.execute("ROLLBACK")
                raise

    def find_thread(self, name: str, namespace: str) -> CheckpointThread | None:
        """Return a thread, or None if it has no checkpoint."""
        query = f"SELECT {_THREAD_COLUMNS} FROM thread WHERE name = ? AND namespace = ?"  # noqa: S608
        with self.reading() as connection:
            row = connection.execute(query, (name, namespace)).fetchone()
        return None if row is None else CheckpointThread(*row)

    def list_threads(
        self, name: str | None = None, namespace: str | None = None
    ) -> list[CheckpointThread]:
        """Return all threads, or those with a name and a namespace."""
        query = (
            f"SELECT {_THREAD_COLUMNS} FROM thread WHERE (?1 IS NULL OR name = ?1)"  # noqa: S608
            " AND (?2 IS NULL OR namespace = ?2) ORDER BY id"
        )
        with self.reading() as connection:
            rows = connection.execute(query, (name, namespace)).fetchall()
        return [CheckpointThread(*row) for row in rows]

    def find(self, thread: int, checkpoint_id: str) -> CheckpointRow | None:
        """Return a checkpoint by its id, also a hidden one. Raises ObjectCorrupted."""
        query = f"SELECT {_COLUMNS} FROM checkpoint WHERE thread = ? AND id = ?"  # noqa: S608
        with self.reading() as connection:
            row = connection.execute(query, (thread, encode_id(checkpoint_id))).fetchone()
        return None if row is None else self._decode(row)

    def get(self, number: int) -> CheckpointRow:
        """Return a checkpoint by its number. Raises ObjectNotFound, ObjectCorrupted."""
        query = f"SELECT {_COLUMNS} FROM checkpoint WHERE number = ?"  # noqa: S608
        with self.reading() as connection:
            row = connection.execute(query, (number,)).fetchone()
        if row is None:
            raise ObjectNotFound(self.path, f"checkpoint {number}")
        return self._decode(row)

    def list_numbers(
        self, threads: Iterable[int], *, before: str | None = None, include_hidden: bool = False
    ) -> list[int]:
        """Return the numbers of the checkpoints of threads, by descending id."""
        query = "SELECT id, number FROM checkpoint WHERE thread = ? AND hidden <= ?"
        rows: list[tuple[bytes, int]] = []
        with self.reading() as connection:
            for thread in threads:
                rows += connection.execute(query, (thread, include_hidden)).fetchall()
        limit = None if before is None else encode_id(before)
        return [
            number for id_, number in sorted(rows, reverse=True) if limit is None or id_ < limit
        ]

    def find_numbers_of_runs(self, runs: Iterable[str]) -> dict[int, list[int]]:
        """Return the checkpoints that were written by runs, by thread."""
        numbers: dict[int, list[int]] = {}
        with self.reading() as connection:
            for run in runs:
                query = "SELECT thread, number FROM checkpoint WHERE run = ? AND hidden = 0"
                for thread, number in connection.execute(query, (run,)).fetchall():
                    numbers.setdefault(thread, []).append(number)
        return numbers

    def list_leaves(self, thread: int) -> list[int]:
        """Return the checkpoints of a thread that are the parent of no other one, oldest first."""
        query = (
            "SELECT number FROM checkpoint c WHERE thread = ?1 AND hidden = 0 AND NOT EXISTS"
            " (SELECT 1 FROM checkpoint d WHERE d.thread = ?1 AND d.hidden = 0"
            " AND d.parent = c.id) ORDER BY number"
        )
        with self.reading() as connection:
            return [number for (number,) in connection.execute(query, (thread,)).fetchall()]

    def measure(self, thread: int) -> int:
        """Return the number of bytes of a thread's rows."""
        query = (
            "SELECT (SELECT sum(length(body)) FROM checkpoint WHERE thread = ?1),"
            " (SELECT sum(length(body)) FROM pending WHERE thread = ?1)"
        )
        with self.reading() as connection:
            sizes = connection.execute(query, (thread,)).fetchone()
        return sum(filter(None, sizes))

    def read_listing(self, thread: CheckpointThread) -> ThreadListing | None:
        """Return the stored listing of a thread. Return None if the thread has changed since.

        Raises ObjectCorrupted.
        """
        query = "SELECT body FROM listing WHERE thread = ? AND changes = ?"
        with self.reading() as connection:
            row = connection.execute(query, (thread.id, thread.changes)).fetchone()
        return None if row is None else self._unpack(f"listing {thread.id}", row[0], ThreadListing)

    def write_listing(self, thread: CheckpointThread, listing: ThreadListing) -> None:
        """Store the listing of a thread, as it was read. Raises StoreError."""
        body = seal(f"listing {thread.id}".encode(), pack(listing))
        query = "INSERT OR REPLACE INTO listing SELECT id, ?, ? FROM thread WHERE id = ?"
        with self.writing() as connection:
            connection.execute(query, (thread.changes, body, thread.id))

    def read_items(self, number: int) -> dict[str, TypedBytes]:
        """Return the new items of a checkpoint that is not folded. Raises ObjectCorrupted."""
        with self.reading() as connection:
            row = connection.execute("SELECT body FROM item WHERE number = ?", (number,)).fetchone()
        return {} if row is None else self._unpack(f"item {number}", row[0], dict[str, TypedBytes])

    def get_fold(self, number: int) -> Fold:
        """Return a fold by its number. Raises ObjectNotFound, ObjectCorrupted."""
        with self.reading() as connection:
            row = connection.execute("SELECT body FROM fold WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise ObjectNotFound(self.path, f"fold {number}")
        return self._unpack(f"fold {number}", row[0], Fold)

    def list_folds(self) -> list[Fold]:
        """Return all folds. Raises ObjectCorrupted."""
        with self.reading() as connection:
            rows = connection.execute("SELECT number, body FROM fold ORDER BY number").fetchall()
        return [self._unpack(f"fold {number}", body, Fold) for number, body in rows]

    def read_pending(
        self, thread: int, checkpoint_id: str, channel: str | None = None
    ) -> list[tuple[str, int, PendingWrite]]:
        """Return the writes at a checkpoint: task, position and value, in the order of the tasks.

        channel: only those to this channel. Raises ObjectCorrupted.
        """
        query = "SELECT task, position, body FROM pending WHERE thread = ? AND id = ?"
        id_ = encode_id(checkpoint_id)
        with self.reading() as connection:
            rows = connection.execute(query, (thread, id_)).fetchall()
        writes = [
            (
                decode_id(task),
                position,
                self._unpack(pending_key(id_, task, position), body, PendingWrite),
            )
            for task, position, body in rows
        ]
        return sorted(
            (write for write in writes if channel in (None, write[2].channel)),
            key=lambda write: (write[2].path, write[0], write[1]),
        )

    def _decode(self, row: Sequence[object]) -> CheckpointRow:
        number, thread, id_, parent, hidden, depth, fold, body = row
        assert isinstance(number, int)
        assert isinstance(thread, int)
        assert isinstance(id_, bytes)
        assert isinstance(depth, int)
        assert isinstance(fold, int)
        return CheckpointRow(
            number,
            thread,
            decode_id(id_),
            decode_id(parent) if isinstance(parent, bytes) else "",
            bool(hidden),
            depth,
            fold,
            self._unpack(checkpoint_key(id_), body, CheckpointBody),
        )

    def _unpack(self, key: str, row: object, kind: type[T]) -> T:
        try:
            return unpack(unseal(key.encode(), row), kind)
        except (ValueError, msgspec.DecodeError) as error:
            raise ObjectCorrupted(self.path, key, reason=str(error)) from None


def checkpoint_key(id_: bytes) -> str:
    """Return the key of the seal of a checkpoint, by its encoded id."""
    original = id_[9:] if id_[:1] == REPLACED_MARK else id_
    return f"checkpoint {original.hex()}"


def pending_key(id_: bytes, task: bytes, position: int) -> str:
    """Return the key of the seal of a write, by the encoded ids of its checkpoint and task."""
    return f"write {id_.hex()} {task.hex()} {position}"
