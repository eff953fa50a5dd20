"""`SessionFacts`: the sessions of an index as a list of sessions needs them.

The rows of sessions and logs are read once. Counts and filters are queries of their own, which run
when they are needed and are then cached. One object shows the index at one time; `is_current` tells
when the file has changed since.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from harken.index.database import iter_rows_in, open_read_only

T = TypeVar("T")
COST_SQL = """CASE WHEN NOT count(*) FILTER (WHERE requests.cost_usd IS NULL
        AND requests.output_tokens > 0) THEN sum(requests.cost_usd) END"""
"""The cost of some requests. NULL unless it is known of every response."""
MAX_NAMES = 200
"""The number of names of each kind that `names` returns."""
MAIN = "main"
"""The name by which users call the main conversation of a session."""

_SESSIONS_SQL = """
    SELECT name, id, runtime, title, project, began, ifnull(ended, 0), outcome FROM sessions
"""
_LOGS_SQL = "SELECT path, size, (SELECT name FROM sessions WHERE id = session_id) FROM logs"
_COUNTS_SQL = f"""
    SELECT sessions.id,
        (SELECT count(*) FROM agents WHERE agents.session_id = sessions.id),
        (SELECT count(*) FROM messages WHERE messages.session_id = sessions.id
            AND NOT is_repeat AND part_of IS NULL),
        (SELECT {COST_SQL} FROM requests WHERE requests.session_id = sessions.id)
    FROM sessions WHERE sessions.id IN
"""  # noqa: S608 - the text is ours
_COSTS_SQL = f"SELECT session_id, {COST_SQL} FROM requests GROUP BY session_id"  # noqa: S608 - ours
_AGENT_SQL = """
    SELECT session_id FROM agents WHERE name = ?1
    UNION SELECT session_id FROM agents JOIN main_names ON agent_id = agents.id
        WHERE main_names.name = ?2
"""
_TOOL_SQL = "SELECT DISTINCT session_id FROM tool_calls WHERE name = ?"
_MODEL_SQL = "SELECT DISTINCT session_id FROM requests WHERE model = ?"
_NAMES_SQL = {
    "agents": """
        SELECT CASE agents.name WHEN '' THEN ifnull(main_names.name, 'main') ELSE agents.name END
        FROM agents LEFT JOIN main_names ON agent_id = agents.id
        GROUP BY 1 ORDER BY count(DISTINCT session_id) DESC, 1 LIMIT ?
    """,
    "tools": "SELECT name FROM tool_calls GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT ?",
    "models": """
        SELECT model FROM requests WHERE model <> '' GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT ?
    """,
    "outcomes": """
        SELECT outcome FROM sessions WHERE outcome IS NOT NULL
        GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT ?
    """,
}


class FactRow(NamedTuple):
    """A session in the index."""

    id: int
    runtime: str
    title: str
    project: str
    began_us: int | None
    ended_us: int
    outcome: str | None


class SessionCounts(NamedTuple):
    """The counts of a session in the index."""

    agents: int
    messages: int
    cost_usd: float | None


class SessionFacts:
    """The sessions of an index at one time. Methods are called by several threads at a time."""

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        """Read the rows of all sessions, or of those with these names, and of all logs.

        A missing or damaged index has none.
        """
        self.read_at = time.monotonic()
        """The time at which the reading began."""
        self._path, self._version = path, _find_version(path)
        rows = self._query_rows(_SESSIONS_SQL) if names is None else self._find_rows(names)
        logs = self._query_rows(_LOGS_SQL)
        self.sessions: Mapping[str, FactRow] = {name: FactRow(*row) for name, *row in rows}
        """Session -> its row."""
        self.log_sizes: Mapping[bytes, int] = {path: size for path, size, _ in logs}
        """Log -> the size up to which it was read."""
        self.log_sessions: Mapping[bytes, str] = {
            path: name for path, _, name in logs if name is not None
        }
        """Log -> the name of its session in the index."""
        self._lock = threading.Lock()
        self._counts: dict[int, SessionCounts] = {}
        self._cache: dict[object, Any] = {}

    @property
    def is_current(self) -> bool:
        """Whether the index is still as it was read."""
        return _find_version(self._path) == self._version

    def counts(self, ids: Iterable[int]) -> Mapping[int, SessionCounts]:
        """Return the counts of sessions by their row ids."""
        with self._lock:
            missing = [id_ for id_ in ids if id_ not in self._counts]

            def read(database: apsw.Connection) -> list[tuple[Any, ...]]:
                return [*iter_rows_in(database, _COUNTS_SQL, missing)]

            if missing:
                rows: list[tuple[Any, ...]] = self._query(read, [])
                self._counts |= {id_: SessionCounts(*counts) for id_, *counts in rows}
            return dict(self._counts)

    def costs(self) -> Mapping[int, float | None]:
        """Return the costs of all sessions with model calls, by their row ids."""
        return self._read("costs", lambda database: dict(database.execute(_COSTS_SQL)), {})

    def find_costs(self, ids: Iterable[int]) -> Mapping[int, float | None]:
        """Return the costs of sessions by their row ids. One without model calls has none.

        Only the model calls of these sessions are read.
        """
        query = f"SELECT session_id, {COST_SQL} FROM requests WHERE session_id = ?"  # noqa: S608 - ours

        def read(database: apsw.Connection) -> dict[int, float | None]:
            rows = (row for id_ in ids for row in database.execute(query, [id_]))
            return {id_: cost_usd for id_, cost_usd in rows if id_ is not None}

        return self._query(read, {})

    def find_sessions_of_agent(self, name: str) -> frozenset[int]:
        """Return the row ids of the sessions with an agent of this name.

        The main conversation of every session is also called `main`.
        """
        return self._find_ids(_AGENT_SQL, "" if name == MAIN else name, name)

    def find_sessions_of_tool(self, name: str) -> frozenset[int]:
        """Return the row ids of the sessions in which a tool was called."""
        return self._find_ids(_TOOL_SQL, name)

    def find_sessions_of_model(self, name: str) -> frozenset[int]:
        """Return the row ids of the sessions with a response of a model."""
        return self._find_ids(_MODEL_SQL, name)

    def names(self) -> Mapping[str, list[str]]:
        """Return the most frequent names of agents, tools, models and outcomes."""

        def read(database: apsw.Connection) -> Mapping[str, list[str]]:
            return {
                kind: [name for (name,) in database.execute(statement, [MAX_NAMES])]
                for kind, statement in _NAMES_SQL.items()
            }

        return self._read("names", read, {kind: [] for kind in _NAMES_SQL})

    def _find_rows(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        def read(database: apsw.Connection) -> list[tuple[Any, ...]]:
            return [*iter_rows_in(database, f"{_SESSIONS_SQL} WHERE name IN", names)]

        return self._query(read, [])

    def _query_rows(self, statement: str) -> list[tuple[Any, ...]]:
        def read(database: apsw.Connection) -> list[tuple[Any, ...]]:
            return [*database.execute(statement)]

        return self._query(read, [])

    def _find_ids(self, statement: str, *values: str) -> frozenset[int]:
        def read(database: apsw.Connection) -> frozenset[int]:
            return frozenset(id_ for (id_,) in database.execute(statement, values))

        return self._read((statement, values), read, frozenset())

    def _read(self, key: object, read: Callable[[apsw.Connection], T], missing: T) -> T:
        """Return the cached result of a query."""
        with self._lock:
            if key not in self._cache:
                self._cache[key] = self._query(read, missing)
            result: T = self._cache[key]
            return result

    def _query(self, read: Callable[[apsw.Connection], T], missing: T) -> T:
        """Return the result of a query. Return `missing` if the index cannot be read.

        Commands that need the index repair it. One that was deleted since has other row ids.
        """
        if self._version.inode != _find_version(self._path).inode or not self._version.inode:
            return missing
        try:
            with closing(open_read_only(self._path)) as database:
                return read(database)
        except (apsw.Error, OSError):
            return missing


class _Version(NamedTuple):
    """Values that change when a database is written, or replaced."""

    inode: int
    """0 if the file does not exist."""
    stats: Sequence[tuple[int, int]]


def _find_version(file: Path) -> _Version:
    inode, stats = 0, []
    for path in (file, file.with_name(f"{file.name}-wal")):
        try:
            stat = path.stat()
        except OSError:
            continue
        inode = inode or stat.st_ino
        stats.append((stat.st_size, stat.st_mtime_ns))
    return _Version(inode, stats)
