"""The list of sessions of a home for a page that asks for it often.

The names, times and sources come from the folder of logs and the catalogue; titles, counts and
costs from the index of facts, as far as it is up to date. A log is only read for a row that is
shown, and for a filter by text if the index does not know the session. All of this is cached as
long as the files have the same size and time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from harken.analytics.times import to_datetime
from harken.cli.commands.sessions.cost import COST_SQL, cost_of_log
from harken.cli.commands.sessions.listing import (
    BEING_WRITTEN,
    HARKEN,
    ListedSession,
    describe_subject,
    list_sessions,
    read_last_event,
)
from harken.config.home import Home
from harken.core import structs
from harken.core.clock import parse_rfc3339
from harken.core.events import ContentPurged
from harken.errors import HarkenError, LogError
from harken.formats.runtimes.client_sessions import ClientSession, read_recorded_session
from harken.service.viewer.library import SessionSummary
from harken.session.log.compressed import LogStat, stat_log
from harken.session.log.file import is_being_written
from harken.session.log.reader import iter_events

_MIN_AGE_S = 1.0
"""The list is read again after this time at the earliest."""
_AGE_PER_READING = 20.0
"""The list is read again after this multiple of the time that reading it took."""
_MAX_COST_LOG_BYTES = 4 << 20
"""The size up to which the cost of a log that is not indexed is read from it."""
_SESSIONS_SQL = """
    SELECT name, id, runtime, title, project, began, ifnull(ended, 0), outcome FROM sessions
"""
_COUNTS_SQL = f"""
    SELECT sessions.id,
        (SELECT count(*) FROM agents WHERE agents.session_id = sessions.id),
        (SELECT count(*) FROM messages WHERE messages.session_id = sessions.id
            AND NOT is_repeat AND part_of IS NULL),
        {COST_SQL}
    FROM sessions LEFT JOIN requests ON requests.session_id = sessions.id
    WHERE sessions.id IN ({{}}) GROUP BY sessions.id
"""  # noqa: S608 - the text is ours
_COSTS_SQL = f"SELECT session_id, {COST_SQL} FROM requests GROUP BY session_id"  # noqa: S608 - ours
_MAX_IDS = 500


class IndexedRow(NamedTuple):
    """A session in the index of facts."""

    id: int
    runtime: str
    title: str
    project: str
    began_us: int | None
    ended_us: int
    outcome: str | None


class SessionCounts(NamedTuple):
    """The counts of a session in the index of facts."""

    agents: int
    messages: int
    cost_usd: float | None


class SessionIndexRows:
    """The rows of the index of facts, read again when the index changes."""

    def __init__(self, home: Home) -> None:
        self._file = home.facts_file
        self._version: object = None
        self.sessions: dict[str, IndexedRow] = {}
        """Session -> its row."""
        self.log_sizes: dict[bytes, int] = {}
        """Log -> the size up to which it was read."""
        self.log_sessions: dict[bytes, str] = {}
        """Log -> the name of its session in the index."""
        self._counts: dict[int, SessionCounts] = {}
        self._costs: dict[int, float | None] | None = None

    def update(self) -> None:
        """Read the rows if the index has changed. A missing or damaged index has none."""
        version = _find_version(self._file)
        if version == self._version:
            return
        self._version, self._counts, self._costs = version, {}, None
        try:
            rows = self._query(_SESSIONS_SQL)
            logs = self._query(
                "SELECT path, size, (SELECT name FROM sessions WHERE id = session_id) FROM logs"
            )
        except HarkenError:  # Commands that need the index repair it.
            rows, logs = [], []
        self.sessions = {name: IndexedRow(*row) for name, *row in rows}
        self.log_sizes = {path: size for path, size, _ in logs}
        self.log_sessions = {path: name for path, _, name in logs if name is not None}

    def counts(self, ids: Iterable[int]) -> Mapping[int, SessionCounts]:
        """Return the counts of sessions by their row ids."""
        missing = [id_ for id_ in ids if id_ not in self._counts]
        for start in range(0, len(missing), _MAX_IDS):
            batch = missing[start : start + _MAX_IDS]
            statement = _COUNTS_SQL.format(",".join("?" * len(batch)))
            for id_, *counts in self._query(statement, batch):
                self._counts[id_] = SessionCounts(*counts)
        return self._counts

    def costs(self) -> Mapping[int, float | None]:
        """Return the costs of all sessions with model calls, by their row ids."""
        if self._costs is None:
            self._costs = dict(self._query(_COSTS_SQL))
        return self._costs

    def find_sessions_of_agent(self, agent: str) -> set[int]:
        """Return the row ids of the sessions with an agent of this name."""
        statement = "SELECT DISTINCT session_id FROM agents WHERE name = ?"
        return {row[0] for row in self._query(statement, ["" if agent == "main" else agent])}

    def _query(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        if not self._file.exists():
            return []
        from harken.index.session_index import SessionIndex

        with closing(SessionIndex(self._file)) as facts:
            return list(facts.database.execute(statement, values))


class SessionList:
    """The sessions of a home, newest first. Methods are called by several threads at a time."""

    def __init__(self, home: Home) -> None:
        """Nothing is read yet."""
        self._home = home
        self._lock = threading.RLock()
        self._expires_at = 0.0
        self.index = SessionIndexRows(home)
        self._sessions: list[ListedSession] = []
        self._by_name: dict[str, ListedSession] = {}
        self._states: dict[str, object] = {}
        self._clients: dict[Path, tuple[LogStat, ClientSession | None]] = {}
        self._costs: dict[Path, tuple[LogStat, float | None]] = {}

    def sessions(self) -> list[ListedSession]:
        """Return all sessions, newest first. A new session may be missing for some seconds."""
        with self._lock:
            started_at = time.monotonic()
            if started_at >= self._expires_at:
                self._read()
                read_at = time.monotonic()
                age_s = max(_MIN_AGE_S, _AGE_PER_READING * (read_at - started_at))
                self._expires_at = read_at + age_s
            return self._sessions

    def find(self, name: str) -> ListedSession | None:
        """Return the session with exactly this name. Return None if there is none."""
        with self._lock:
            self.sessions()
            if name not in self._by_name and self._is_new_log(name):
                self._expires_at = 0.0
                self.sessions()
            return self._by_name.get(name)

    def _is_new_log(self, name: str) -> bool:
        """Whether a log of this name exists, which the list does not have yet."""
        try:
            return "/" not in name and (self._home.sessions_folder / f"{name}.jsonl").is_file()
        except OSError:  # The name is too long for a file.
            return False

    def find_indexed(self, session: ListedSession) -> IndexedRow | None:
        """Return the row of a session in the index. Return None if it lacks newer content."""
        row = self.index.sessions.get(self.index_name(session))
        imported = session.imported
        if row is None:
            return None
        if imported is not None and row.ended_us < parse_rfc3339(imported.last_message_time):
            return None
        sizes = self.index.log_sizes
        is_read = all(
            sizes.get(os.fsencode(path)) == stat_log(path).size_bytes for path in session.logs
        )
        return row if is_read else None

    def find_by_index_name(self, name: str) -> str:
        """Return the name in the list of a session in the index."""
        with self._lock:
            self.sessions()
            if name in self._by_name:
                return name
            paths = (
                path for path, index_name in self.index.log_sessions.items() if index_name == name
            )
            stems = (Path(os.fsdecode(path)).stem for path in paths)
            return next((stem for stem in stems if stem in self._by_name), name)

    def title_and_project(self, session: ListedSession) -> tuple[str, str]:
        """Return the title and the working folder, from the index if it has them."""
        row = self.find_indexed(session)
        if row is not None and row.title:
            return row.title, row.project
        if session.imported is not None:
            return session.imported.title, session.imported.project
        try:
            return describe_subject(session.row), session.row["project"] or ""
        except (LogError, OSError):
            return "", ""

    def known_project(self, session: ListedSession) -> str:
        """Return the working folder, as far as it is known without reading a log."""
        row = self.index.sessions.get(self.index_name(session))
        return (session.imported.project if session.imported else "") or (
            row.project if row else ""
        )

    def summarize(self, sessions: Sequence[ListedSession]) -> list[SessionSummary]:
        """Return the summaries of sessions that are shown."""
        with self._lock:
            rows = [self.find_indexed(session) for session in sessions]
            try:
                counts = self.index.counts(row.id for row in rows if row is not None)
            except HarkenError:  # The index was damaged or replaced since its rows were read.
                counts = {}
        return [
            self._summarize(session, row, None if row is None else counts.get(row.id))
            for session, row in zip(sessions, rows, strict=True)
        ]

    def is_live(self, session: ListedSession) -> bool:
        """Whether a process writes a log of the session now."""
        return any(is_being_written(path) for path in session.logs[:1])

    def _summarize(
        self, session: ListedSession, indexed: IndexedRow | None, counts: SessionCounts | None
    ) -> SessionSummary:
        if self.is_live(session) != (session.row["state"] == BEING_WRITTEN):
            session = structs.replace(session)  # A process has opened or closed the log since.
        row = session.row
        began_us = None if indexed is None else indexed.began_us
        began = None if began_us is None else to_datetime(began_us).isoformat()
        if began is None and session.logs:
            began = _read_start_time(session.logs[0])
        cost_usd = None if counts is None else counts.cost_usd
        if counts is None and session.imported is None and len(session.logs) == 1:
            cost_usd = self._read_cost(session.logs[0])
        title = describe_subject(row) if row.get("title") or row["began"] else None
        if indexed is not None and indexed.title:
            title = indexed.title
        state = row["state"]
        return SessionSummary(
            name=session.name,
            title=title,
            runtime=session.runtime,
            project=row["project"] or (indexed.project if indexed else "") or None,
            began=began,
            ended=_read_end_time(session) or row["written"],
            state=state,
            outcome=None if indexed is None else indexed.outcome,
            is_live=state == BEING_WRITTEN,
            is_imported=session.imported is not None,
            agents=None if counts is None else counts.agents,
            messages=None if counts is None else counts.messages,
            cost_usd=cost_usd,
            error=row.get("error"),
        )

    def _read(self) -> None:
        self.index.update()
        sessions: list[ListedSession] = []
        states: dict[str, object] = {}
        for session in list_sessions(self._home, self._identify_log):
            state = (session.imported, [stat_log(path) for path in session.logs])
            before = self._by_name.get(session.name)
            is_same = before is not None and self._states.get(session.name) == state
            sessions.append(before if before is not None and is_same else session)
            states[session.name] = state
        self._sessions, self._states = sessions, states
        self._by_name = {session.name: session for session in sessions}

    def _identify_log(self, path: Path) -> ClientSession | None:
        """Return the session of another runtime that a log records, from the index if it can."""
        indexed = self.index.sessions.get(self.index.log_sessions.get(os.fsencode(path), ""))
        if indexed is not None and indexed.runtime == HARKEN:
            return None
        stat = stat_log(path)
        entry = self._clients.get(path)
        if entry is None or entry[0] != stat:
            entry = self._clients[path] = stat, read_recorded_session(path)
        return entry[1]

    def index_name(self, session: ListedSession) -> str:
        """Return the name of a session in the index, if it has the session."""
        if session.runtime != HARKEN or not session.logs:
            return session.name
        return self.index.log_sessions.get(os.fsencode(session.logs[0]), session.name)

    def _read_cost(self, path: Path) -> float | None:
        stat = stat_log(path)
        if stat.size_bytes > _MAX_COST_LOG_BYTES:
            return None
        entry = self._costs.get(path)
        if entry is None or entry[0] != stat:
            entry = self._costs[path] = stat, cost_of_log(path)
        return entry[1]


def _find_version(file: Path) -> object:
    """Return a value that changes when a database is written."""
    stats = []
    for path in (file, file.with_name(f"{file.name}-wal")):
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue
        stats.append((stat.st_size, stat.st_mtime_ns))
    return stats


def _read_end_time(session: ListedSession) -> str | None:
    """Return the time of the last event of a log. Return None if its tail does not tell.

    The file may have been written later: by a copy, a restoration or a purge.
    """
    if session.imported is not None or not session.logs:
        return None
    try:
        event = read_last_event(session.logs[0])
    except OSError:  # It is compressed.
        return None
    return None if event is None or isinstance(event, ContentPurged) else event.time


def _read_start_time(path: Path) -> str | None:
    """Return the time of the first event of a log. Return None if it cannot be read."""
    try:
        first = next(iter(iter_events(path)), None)
    except (LogError, OSError):
        return None
    return None if first is None else first.time
