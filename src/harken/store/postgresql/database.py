"""Connections, transactions and errors of a store in PostgreSQL.

A read is a statement of its own. A write is one transaction that holds a weak lock on the table
`state`, so that a step of a collection, which holds a strong one, sees all of it or nothing.
Statements are sent together (pipeline mode), so a transaction has as many round trips as it has
answers to wait for.

A connection that is lost is replaced, and its work is done again: a read has no effect, and content
has its name. A write with an effect of its own (a move of a branch) leaves a receipt in its
transaction, so that the repetition knows whether it was done.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeAlias, TypeVar

import psycopg
from psycopg import conninfo, errors
from psycopg.rows import TupleRow

from harken.errors import (
    ConfigError,
    HarkenError,
    InvalidStore,
    StoreError,
    StoreLocked,
    StoreUnavailable,
    StoreVersionUnsupported,
    StoreWriteError,
)
from harken.store.postgresql import schema
from harken.store.postgresql.address import PostgresAddress

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[TupleRow]
_MAX_CONNECTIONS = 8
_IDLE_TRANSACTION_S = 60
"""A writer that stops in a transaction for longer is ended: it holds up a collection."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.05, 1.0
_MAX_CONFLICTS = 100
_DEFAULTS = {
    "application_name": "harken",
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 40_000,
}
_RECEIPT = "INSERT INTO receipt (id) VALUES (%s) ON CONFLICT DO NOTHING RETURNING 1"
_SETTINGS = """
SELECT set_config('search_path', %s, false),
    set_config('lock_timeout', %s, false),
    set_config('idle_in_transaction_session_timeout', %s, false),
    set_config('synchronous_commit', 'on', false)
WHERE current_setting('server_version_num')::int >= 120000
"""
_LOST_STATES = ("08", "57P01", "57P02", "57P03", "53300", "25P03")
"""The first characters of the SQL states after which a new connection may succeed."""
_FULL_STATES = ("53", "54")
_CONFLICT_STATES = ("40001", "40P01", "23505")


class RetryTransaction(Exception):
    """The transaction has to be done again from its beginning."""


class _AlreadyDone(Exception):
    """An earlier attempt was committed."""


class Transaction:
    """An open transaction. Statements are queued until rows are fetched."""

    def __init__(self, connection: Connection, state: psycopg.Cursor[TupleRow]) -> None:
        self.connection, self._state = connection, state
        self._row: TupleRow | None = None

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> psycopg.Cursor[TupleRow]:
        """Send a statement. Fetching its rows waits for it and for all earlier ones."""
        return self.connection.execute(sql, parameters)

    @property
    def generation(self) -> int:
        """A number that changes with each change of the tombstones."""
        return int(self._read_state()[0])

    @property
    def collection(self) -> int | None:
        """The collection that is running: it has to spare all that is written or named."""
        value = self._read_state()[1]
        return None if value is None else int(value)

    def _read_state(self) -> TupleRow:
        if self._row is None:
            self._row = self._state.fetchone()
        assert self._row is not None
        return self._row


class Fetcher(Protocol):
    """Runs statements that only read."""

    place: str
    """The address of the store, without secrets."""

    def fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[TupleRow]:
        """Return the rows of a statement."""
        ...


class SingleConnection:
    """Reads by one connection, also in its transaction."""

    def __init__(self, place: str, connection: Connection) -> None:
        self.place, self._connection = place, connection

    def fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[TupleRow]:
        """Return the rows of a statement."""
        return self._connection.execute(sql, parameters).fetchall()


class PostgresDatabase:
    """The database of a store. Threads may share it."""

    def __init__(self, address: PostgresAddress, patience_s: float) -> None:
        """Connect, and create the tables if there are none. Raises StoreError, ConfigError."""
        self.address, self.patience_s = address, patience_s
        self.place = address.text
        self._parameters = self._read_parameters()
        self._places = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._is_closed = False
        connection = self.connect()
        try:
            with self.converting_errors():
                self._ensure_tables(connection)
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._is_closed = True
        self._drop_idle()

    def connect(self) -> Connection:
        """Return a connection of its own. Raises StoreUnavailable, StoreError."""
        with self.converting_errors():
            connection: Connection = psycopg.connect(**self._parameters, autocommit=True)
            try:
                patience_ms = str(max(int(self.patience_s * 1000), 1))
                parameters = [self.address.schema, patience_ms, f"{_IDLE_TRANSACTION_S}s"]
                row = connection.execute(_SETTINGS, parameters).fetchone()
            except BaseException:
                connection.close()
                raise
        if row is None:
            connection.close()
            raise StoreError(self.place, "the server is older than PostgreSQL 12; upgrade it")
        return connection

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return the result of a function of a connection, called again if that is lost.

        Raises StoreUnavailable if the server does not return in time.
        """

        def attempt() -> T:
            with self._borrow() as connection:
                return work(connection)

        return self._repeat(attempt)

    def fetch(self, sql: str, parameters: Sequence[object] = ()) -> list[TupleRow]:
        """Return the rows of a statement that only reads."""
        return self.read(lambda connection: connection.execute(sql, parameters).fetchall())

    def write(
        self,
        work: Callable[[Transaction], T],
        *,
        once: bool = False,
        alone: bool = False,
    ) -> T:
        """Run a function in a transaction, again if the connection is lost.

        `once`: it is not run again if it was committed. `alone`: no other writer runs meanwhile.
        """
        receipt = uuid.uuid4() if once else None
        results: list[T] = []

        def attempt() -> T:
            with self._borrow() as connection:
                return self._run(connection, work, results, receipt=receipt, alone=alone)

        return self._repeat(attempt)

    def write_on(
        self, connection: Connection, work: Callable[[Transaction], T], *, alone: bool = True
    ) -> T:
        """Run a function in a transaction of this connection. It is not run again."""
        with self.converting_errors():
            return self._run(connection, work, [], receipt=None, alone=alone)

    @contextmanager
    def converting_errors(self) -> Iterator[None]:
        """Convert errors of PostgreSQL to errors of a store."""
        try:
            yield
        except psycopg.Error as error:
            raise self._convert(error) from None

    def _run(
        self,
        connection: Connection,
        work: Callable[[Transaction], T],
        results: list[T],
        *,
        receipt: uuid.UUID | None,
        alone: bool,
    ) -> T:
        try:
            with connection.pipeline():
                connection.execute("BEGIN")
                mode = "EXCLUSIVE" if alone else "ROW SHARE"
                connection.execute(f"LOCK TABLE state IN {mode} MODE")
                if receipt is not None:
                    entry = connection.execute(_RECEIPT, [receipt])
                    # An earlier attempt that is still being committed is waited for.
                    if results and entry.fetchone() is None:
                        raise _AlreadyDone
                state = connection.execute("SELECT generation, collection FROM state")
                result = work(Transaction(connection, state))
                results[:] = [result]
                connection.execute("COMMIT")
        except _AlreadyDone:
            self._roll_back(connection)
            return results[0]
        except BaseException:
            self._roll_back(connection)
            raise
        return result

    @staticmethod
    def _roll_back(connection: Connection) -> None:
        with suppress(psycopg.Error):
            connection.rollback()

    def _repeat(self, attempt: Callable[[], T]) -> T:
        """Return the result of the first attempt that succeeds. Raises StoreError."""
        deadline_s = time.monotonic() + self.patience_s
        pause_s, conflicts = _FIRST_PAUSE_S, 0
        while True:
            try:
                return attempt()
            except RetryTransaction:
                conflicts += 1
                if conflicts > _MAX_CONFLICTS:
                    raise StoreLocked(self.place) from None
            except psycopg.Error as error:
                is_conflict = error.sqlstate in _CONFLICT_STATES and conflicts < _MAX_CONFLICTS
                if not is_conflict and (not _is_lost(error) or time.monotonic() > deadline_s):
                    raise self._convert(error) from None
                conflicts += is_conflict
                if not is_conflict:
                    self._drop_idle()
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    @contextmanager
    def _borrow(self) -> Iterator[Connection]:
        """Borrow a connection of the pool. Raises psycopg.Error, StoreLocked."""
        if not self._places.acquire(timeout=max(self.patience_s, 0.1)):
            raise StoreLocked(self.place)
        try:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect_again()
            try:
                yield connection
            finally:
                self._return(connection)
        finally:
            self._places.release()

    def _connect_again(self) -> Connection:
        with self._lock:
            if self._is_closed:
                raise StoreError(self.place, "the store is closed")
        try:
            return self.connect()
        except StoreUnavailable as error:
            raise psycopg.OperationalError(str(error).removeprefix(f"{self.place}: ")) from None

    def _return(self, connection: Connection) -> None:
        is_usable = not connection.closed and (
            connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        )
        with self._lock:
            if is_usable and not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    def _drop_idle(self) -> None:
        with self._lock:
            connections, self._idle = self._idle, []
        for connection in connections:
            connection.close()

    def _read_parameters(self) -> dict[str, Any]:
        try:
            parameters = conninfo.conninfo_to_dict(self.address.conninfo)
        except psycopg.Error:
            # The text of this error may have a part of a password.
            raise ConfigError(
                f"{self.place}: the address is no URL of PostgreSQL or has an unknown parameter; "
                "percent-encode special characters of the user and the password"
            ) from None
        return {**_DEFAULTS, **parameters}

    def _ensure_tables(self, connection: Connection) -> None:
        """Create the tables if there are none. Raises InvalidStore, StoreVersionUnsupported."""
        if not self._has_tables(connection):
            self._create_tables(connection)
        versions = connection.execute("SELECT version FROM state").fetchall()
        if len(versions) != 1:
            raise InvalidStore(self.place, "its table `state` has not one row; it was not changed")
        if versions[0][0] != schema.VERSION:
            raise StoreVersionUnsupported(self.place, found=versions[0][0], known=schema.VERSION)

    def _has_tables(self, connection: Connection) -> bool:
        # `to_regclass` may answer from a cache, after another process created the tables.
        query = """
            SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = %s AND c.relname = 'state'
        """
        return connection.execute(query, [self.address.schema]).fetchone() is not None

    def _create_tables(self, connection: Connection) -> None:
        name = self.address.schema
        key = int.from_bytes(hashlib.sha256(f"harken {name}".encode()).digest()[:8], signed=True)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [key])
            if not self._has_tables(connection):
                connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"')
                connection.execute(schema.TABLES)

    def _convert(self, error: psycopg.Error) -> HarkenError:
        text = self.address.hide(" ".join(str(error).split()))
        state = error.sqlstate or ""
        if isinstance(error, errors.LockNotAvailable):
            return StoreLocked(self.place)
        if isinstance(error, (errors.UndefinedTable, errors.UndefinedColumn)):
            return InvalidStore(self.place, f"it has not the tables of a store: {text}")
        if isinstance(error, errors.InsufficientPrivilege):
            return StoreError(self.place, f"{text}; grant it to the user of the address")
        if state == "25006" or state.startswith(_FULL_STATES):
            advice = "free room on the server, or use the primary server"
            return StoreWriteError(self.place, reason=text, advice=advice)
        if _is_lost(error):
            return StoreUnavailable(self.place, f"the database does not answer: {text}")
        return StoreError(self.place, text)


def _is_lost(error: psycopg.Error) -> bool:
    """Whether the connection was lost or refused, so that another one may succeed."""
    if error.sqlstate is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return error.sqlstate.startswith(_LOST_STATES)
