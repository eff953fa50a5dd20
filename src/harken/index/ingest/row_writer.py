"""The ledger: rows of facts as they are entered, in one transaction.

One idea: rows get their numbers here, before they are written, so that many are written at once and
those that belong together know each other. What was written before is asked for once.

Times as the facts have them: whole microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, TypeAlias

import apsw

from harken.core.clock import parse_rfc3339
from harken.index.database import query_in
from harken.index.row_ids import Numbers


def time_us(text: str | None) -> int | None:
    """Return the time that a text says; None: it says none.

    >>> time_us("1970-01-01T00:00:01Z"), time_us("noon"), time_us(None)
    (1000000, None, None)
    """
    try:
        return None if text is None else parse_rfc3339(text)
    except (ValueError, OverflowError):
        return None


Row: TypeAlias = tuple[Any, ...]
_WIDTHS = {
    "messages": 15,
    "tool_calls": 11,
    "requests": 15,
    "commits": 10,
    "edges": 3,
    "roots": 2,
    "links": 4,
    "places": 4,
    "log_agents": 4,
    "words": 2,
}
"""Table -> how many columns it has."""
_BY_NUMBER = frozenset({"messages", "words"})
"""Whose rows are not added in their order, and written much faster in it."""


class RowWriter:
    """Rows that are being entered. Whoever makes one has begun a transaction, and ends it."""

    def __init__(self, database: apsw.Connection) -> None:
        """Go on after the rows that are there."""
        self.database = database
        self._next = {
            name: _next_id(database, name)
            for name in ("sessions", "agents", "commits", "tool_calls", "requests")
        }
        self._numbers = Numbers(database)
        self._rows: dict[str, list[Row]] = {name: [] for name in _WIDTHS}
        self._sessions: dict[str, int] = {}
        self._agents: dict[tuple[int, str], int] = {}
        self.keys: set[int] = set()
        """Keys of what was said that are new."""

    def number(self, table: str) -> int:
        """Return the number of the next row of a table."""
        found = self._next[table]
        self._next[table] += 1
        return found

    def message_number(self, time_us: int) -> int:
        """Return the number of the next message that was said at a time; 0: it is not known."""
        return self._numbers.next(time_us)

    def add(self, table: str, *row: object) -> None:
        """Enter a row; all of its columns, in their order."""
        self._rows[table].append(row)

    def session(self, name: str, runtime: str, native: str) -> int:
        """Return the row of a session, which is made where there is none."""
        if name not in self._sessions:
            found = self.one("SELECT id FROM sessions WHERE name = ?", name)
            if found is None:
                found = self.number("sessions")
                self.database.execute(
                    "INSERT INTO sessions VALUES (?, ?, ?, ?, '', '', '', '', NULL, NULL, NULL)",
                    (found, name, runtime, native),
                )
            self._sessions[name] = found
        return self._sessions[name]

    def agent(
        self, session: int, principal: str, name: str, *, template: str = "", parent: int | None
    ) -> int:
        """Return the row of an agent, which is made where there is none."""
        key = (session, principal)
        if key not in self._agents:
            query = "SELECT id FROM agents WHERE session_id = ? AND principal = ?"
            found = self.one(query, *key)
            if found is None:
                found = self.number("agents")
                self.database.execute(
                    "INSERT INTO agents VALUES (?, ?, ?, ?, ?, ?, NULL)",
                    (found, session, name, principal, template, parent),
                )
            self._agents[key] = found
        return self._agents[key]

    def one(self, query: str, *values: object) -> Any:
        """Return the first value of the first row; None: there is none."""
        row = self.database.execute(query, values).fetchone()
        return None if row is None else row[0]

    def rows(self, query: str, values: Iterable[object]) -> Iterator[Row]:
        """Return the rows of a query that ends where a list of values stands: `... IN`."""
        return query_in(self.database, query, values)

    def known(self, keys: Iterable[int]) -> set[int]:
        """Return the keys that were entered before."""
        return {key for (key,) in self.rows("SELECT key FROM said WHERE key IN", keys)}

    def write(self) -> None:
        """Write the rows that were entered."""
        for table, rows in self._rows.items():
            self._write(table, rows)
            rows.clear()
        new = [(key,) for key in self.keys]
        self.database.executemany("INSERT OR IGNORE INTO said VALUES (?)", new)
        self.keys.clear()

    def _write(self, table: str, rows: list[Row]) -> None:
        if table in _BY_NUMBER:
            rows.sort(key=itemgetter(0))
        marks = ",".join("?" * _WIDTHS[table])
        into = "words (rowid, text)" if table == "words" else table
        self.database.executemany(f"INSERT INTO {into} VALUES ({marks})", rows)  # noqa: S608 - names of ours


def _next_id(database: apsw.Connection, table: str) -> int:
    query = f"SELECT ifnull(max(id), 0) + 1 FROM {table}"  # noqa: S608 - names of ours
    rows: list[tuple[Any, ...]] = database.execute(query).fetchall()
    return int(rows[0][0])
