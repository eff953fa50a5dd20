"""Assign row ids, buffer rows, and write them in one transaction.

Rows get their ids before they are written, so that many rows are inserted at once and related rows
can refer to each other. Ids of existing rows are looked up once and cached.

Times are whole microseconds since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, TypeAlias

import apsw

from harken.core.clock import parse_rfc3339
from harken.index.database import iter_rows_in
from harken.index.row_ids import MessageIdAllocator


def time_us(text: str | None) -> int | None:
    """Parse an RFC 3339 time. Return None if it is missing or invalid.

    >>> time_us("1970-01-01T00:00:01Z"), time_us("noon"), time_us(None)
    (1000000, None, None)
    """
    try:
        return None if text is None else parse_rfc3339(text)
    except (ValueError, OverflowError):
        return None


Row: TypeAlias = tuple[Any, ...]
_COLUMN_COUNTS = {
    "messages": 21,
    "tool_calls": 11,
    "verdicts": 11,
    "interlocutors": 8,
    "requests": 16,
    "commits": 11,
    "edges": 3,
    "roots": 2,
    "pairs": 2,
    "recorded": 1,
    "repeats": 2,
    "links": 4,
    "places": 4,
    "log_agents": 4,
    "words": 2,
}
"""Table -> number of its columns."""
_NUMBERED_TABLES = (
    *("sessions", "agents", "commits", "tool_calls", "verdicts", "interlocutors", "requests"),
)
_SORTED_TABLES = frozenset({"messages", "words"})
"""Tables whose rows are added out of order, but are written much faster when sorted by id."""


class RowWriter:
    """A buffer of new rows. The caller begins and ends the transaction."""

    def __init__(self, database: apsw.Connection) -> None:
        """Continue after the existing rows."""
        self.database = database
        self._next = {name: _next_id(database, name) for name in _NUMBERED_TABLES}
        self._numbers = MessageIdAllocator(database)
        self._rows: dict[str, list[Row]] = {name: [] for name in _COLUMN_COUNTS}
        self._sessions: dict[str, int] = {}
        self._agents: dict[tuple[int, str], int] = {}
        self._native_agents: dict[tuple[int, str], int] = {}
        self.keys: set[int] = set()
        """New deduplication keys of messages."""

    def number(self, table: str) -> int:
        """Return the next free row id of a table."""
        number = self._next[table]
        self._next[table] += 1
        return number

    def message_number(self, time_us: int) -> int:
        """Return the next message id for a time. Pass 0 if the time is unknown."""
        return self._numbers.next(time_us)

    def add(self, table: str, *row: object) -> None:
        """Buffer a row; values are in the order of the columns."""
        self._rows[table].append(row)

    def session(self, name: str, runtime: str, native: str) -> int:
        """Return the row id of a session. Create the row if it does not exist."""
        if name not in self._sessions:
            row = self.query_value("SELECT id FROM sessions WHERE name = ?", name)
            if row is None:
                row = self.number("sessions")
                self.database.execute(_NEW_SESSION_SQL, (row, name, runtime, native))
            self._sessions[name] = row
        return self._sessions[name]

    def agent(
        self, session: int, principal: str, name: str, *, template: str = "", parent: int | None
    ) -> int:
        """Return the row id of an agent. Create the row if it does not exist."""
        key = (session, principal)
        if key not in self._agents:
            query = "SELECT id FROM agents WHERE session_id = ? AND principal = ?"
            row = self.query_value(query, *key)
            if row is None:
                row = self.number("agents")
                self.database.execute(
                    "INSERT INTO agents VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
                    (row, session, name, principal, template, parent),
                )
            self._agents[key] = row
        return self._agents[key]

    def native_agent(
        self, session: int, native: str, principal: str, name: str, *, parent: int | None
    ) -> int:
        """Return the row id of an agent of another runtime, by the runtime's name of it.

        native: empty for the main conversation. Create the row if it does not exist.
        """
        key = (session, native)
        if key not in self._native_agents:
            query = "SELECT agent_id FROM native_agents WHERE session_id = ? AND native = ?"
            row = self.query_value(query, *key)
            if row is None:
                row = self.agent(session, principal, name, parent=parent)
                insert = "INSERT INTO native_agents VALUES (?, ?, ?)"
                self.database.execute(insert, (*key, row))
            self._native_agents[key] = row
        return self._native_agents[key]

    def mark_unpaired(self, session: int) -> None:
        """Note that a session with a recording has new messages, which its file may repeat."""
        self.database.execute("INSERT OR IGNORE INTO unpaired VALUES (?)", (session,))

    def query_value(self, query: str, *values: object) -> Any:
        """Return the first value of the first row, or None if there are no rows."""
        row = self.database.execute(query, values).fetchone()
        return None if row is None else row[0]

    def rows(self, query: str, values: Iterable[object]) -> Iterator[Row]:
        """Yield the rows of a query that ends in `... IN`, for a list of values."""
        return iter_rows_in(self.database, query, values)

    def find_existing_keys(self, keys: Iterable[int]) -> set[int]:
        """Return those keys that already exist."""
        return {key for (key,) in self.rows("SELECT key FROM said WHERE key IN", keys)}

    def write(self) -> None:
        """Write the buffered rows."""
        for table, rows in self._rows.items():
            self._write(table, rows)
            rows.clear()
        new = [(key,) for key in self.keys]
        self.database.executemany("INSERT OR IGNORE INTO said VALUES (?)", new)
        self.keys.clear()

    def _write(self, table: str, rows: list[Row]) -> None:
        if table in _SORTED_TABLES:
            rows.sort(key=itemgetter(0))
        placeholders = ",".join("?" * _COLUMN_COUNTS[table])
        target = "words (rowid, text)" if table == "words" else table
        self.database.executemany(f"INSERT INTO {target} VALUES ({placeholders})", rows)  # noqa: S608 - names of ours


_NEW_SESSION_SQL = """
INSERT INTO sessions VALUES (?, ?, ?, ?, '', '', '', '', NULL, NULL, NULL, '')
"""


def _next_id(database: apsw.Connection, table: str) -> int:
    query = f"SELECT ifnull(max(id), 0) + 1 FROM {table}"  # noqa: S608 - names of ours
    rows: list[tuple[Any, ...]] = database.execute(query).fetchall()
    return int(rows[0][0])
