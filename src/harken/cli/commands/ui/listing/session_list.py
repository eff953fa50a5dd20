"""`SessionList`: the sessions of a home for a page that asks for them often.

The names, times and sources come from the folder of logs and the catalogue; all facts from the
index, as far as it is up to date. A `Listing` is a snapshot of both: it never changes, so requests
use it without a lock. One request at a time reads the folder again; the others get the listing
before that meanwhile.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from harken.cli.commands.sessions.listing import HARKEN, ListedSession, list_sessions
from harken.config.home import Home
from harken.core.clock import parse_rfc3339
from harken.formats.runtimes.client_sessions import ClientSession, read_recorded_session
from harken.index.session_facts import FactRow, SessionFacts
from harken.session.log.compressed import LogStat

_MIN_AGE_S = 1.0
"""The list is read again after this time at the earliest."""
_AGE_PER_READING = 20.0
"""The list is read again after this multiple of the time that reading it took."""


class SourceState(NamedTuple):
    """The state of the sources of a session, which changes when one is written."""

    last_message_time: str | None
    logs: tuple[LogStat, ...]


class IndexedRow(NamedTuple):
    """The row of a session in the index. It is None if the index does not have the session."""

    row: FactRow | None
    is_current: bool
    """Whether the index has all of the session."""


class Listing:
    """The sessions at one time, the newest first, and the index at that time."""

    def __init__(
        self,
        sessions: Sequence[ListedSession],
        states: Mapping[str, SourceState],
        facts: SessionFacts,
    ) -> None:
        self.sessions, self.states, self.facts = sessions, states, facts
        self.by_name = {session.name: session for session in sessions}
        self._indexed: dict[str, IndexedRow] = {}

    def index_name(self, session: ListedSession) -> str:
        """Return the name of a session in the index, if it has the session."""
        if session.runtime != HARKEN or not session.logs:
            return session.name
        return self.facts.log_sessions.get(os.fsencode(session.logs[0]), session.name)

    def find_indexed(self, session: ListedSession) -> IndexedRow:
        """Return the row of a session in the index."""
        indexed = self._indexed.get(session.name)
        if indexed is None:
            indexed = self._indexed[session.name] = self._find_indexed(session)
        return indexed

    def find_unindexed(self) -> dict[str, SourceState]:
        """Return the sessions that the index lacks a part of, with the states of their sources."""
        return {
            session.name: self.states[session.name]
            for session in self.sessions
            if not self.find_indexed(session).is_current
        }

    def count_unindexed_bytes(self) -> int:
        """Return the size of the content that the index lacks."""
        sizes, count = self.facts.log_sizes, 0
        for name, state in self.find_unindexed().items():
            session = self.by_name[name]
            if session.imported is not None:
                count += session.imported.size_bytes
            for path, stat in zip(session.logs, state.logs, strict=True):
                count += max(0, stat.size_bytes - sizes.get(os.fsencode(path), 0))
        return count

    def known_project(self, session: ListedSession) -> str:
        """Return the working folder, as far as it is known without reading a log."""
        row = self.find_indexed(session).row
        return (session.imported.project if session.imported else "") or (
            row.project if row else ""
        )

    def _find_indexed(self, session: ListedSession) -> IndexedRow:
        row = self.facts.sessions.get(self.index_name(session))
        if row is None:
            return IndexedRow(None, is_current=False)
        state, sizes = self.states[session.name], self.facts.log_sizes
        time_ = state.last_message_time
        is_current = (time_ is None or row.ended_us >= parse_rfc3339(time_)) and all(
            sizes.get(os.fsencode(path)) == stat.size_bytes
            for path, stat in zip(session.logs, state.logs, strict=True)
        )
        return IndexedRow(row, is_current)


class SessionList:
    """The current listing of a home. Methods are called by several threads at a time."""

    def __init__(self, home: Home) -> None:
        """Nothing is read yet."""
        self._home = home
        self._reading = threading.Lock()
        """Held by the thread that reads."""
        self._listing: Listing | None = None
        self._expires_at = self._facts_expire_at = 0.0
        self._clients: dict[Path, tuple[LogStat, ClientSession | None]] = {}

    def current(self) -> Listing:
        """Return the listing. A new session may be missing for some seconds.

        Only the first call waits for another thread that reads.
        """
        listing = self._listing
        if listing is not None and time.monotonic() < self._expires_at and self._has_facts(listing):
            return listing
        if self._reading.acquire(blocking=listing is None):
            try:
                listing = self._read_expired()
            finally:
                self._reading.release()
        assert listing is not None  # The first call has waited for it.
        return listing

    def find(self, name: str) -> ListedSession | None:
        """Return the session with exactly this name. Return None if there is none."""
        session = self.current().by_name.get(name)
        if session is None and self._is_new_log(name):
            with self._reading:
                self._expires_at = 0.0
                session = self._read_expired().by_name.get(name)
        return session

    def find_by_index_name(self, name: str) -> str:
        """Return the name in the list of a session in the index."""
        listing = self.current()
        if name in listing.by_name:
            return name
        log_sessions = listing.facts.log_sessions.items()
        paths = (path for path, index_name in log_sessions if index_name == name)
        stems = (Path(os.fsdecode(path)).stem for path in paths)
        return next((stem for stem in stems if stem in listing.by_name), name)

    def _is_new_log(self, name: str) -> bool:
        """Whether a log of this name exists, which the list does not have yet."""
        try:
            return "/" not in name and (self._home.sessions_folder / f"{name}.jsonl").is_file()
        except OSError:  # The name is too long for a file.
            return False

    def _has_facts(self, listing: Listing) -> bool:
        """Whether the index is as the listing shows it, or was read just now."""
        return time.monotonic() < self._facts_expire_at or listing.facts.is_current

    def _read_expired(self) -> Listing:
        """Read the folder if that was long ago, and the index if it has changed."""
        listing, started_at = self._listing, time.monotonic()
        if listing is not None and listing.facts.is_current:
            facts = listing.facts
        else:
            facts = SessionFacts(self._home.facts_file)
            self._facts_expire_at = time.monotonic() + _MIN_AGE_S
        if listing is None or started_at >= self._expires_at:
            listing = self._listing = self._read(facts)
            read_at = time.monotonic()
            age_s = max(_MIN_AGE_S, _AGE_PER_READING * (read_at - started_at))
            self._expires_at = read_at + age_s
        elif facts is not listing.facts:
            listing = self._listing = Listing(listing.sessions, listing.states, facts)
        return listing

    def _read(self, facts: SessionFacts) -> Listing:
        """Read the folder of logs and the catalogue. A session that has not changed is reused."""
        before = self._listing
        sessions: list[ListedSession] = []
        states: dict[str, SourceState] = {}

        def identify(path: Path, stat: LogStat) -> ClientSession | None:
            return self._identify_log(path, stat, facts)

        for session in list_sessions(self._home, identify):
            state = _read_state(session)
            if before is not None and before.states.get(session.name) == state:
                session = before.by_name[session.name]
            sessions.append(session)
            states[session.name] = state
        return Listing(sessions, states, facts)

    def _identify_log(self, path: Path, stat: LogStat, facts: SessionFacts) -> ClientSession | None:
        """Return the session of another runtime that a log records, from the index if it can."""
        indexed = facts.sessions.get(facts.log_sessions.get(os.fsencode(path), ""))
        if indexed is not None and indexed.runtime == HARKEN:
            return None
        entry = self._clients.get(path)
        if entry is None or entry[0] != stat:
            entry = self._clients[path] = stat, read_recorded_session(path)
        return entry[1]


def _read_state(session: ListedSession) -> SourceState:
    imported = session.imported
    time_ = None if imported is None else imported.last_message_time
    return SourceState(time_, tuple(session.log_stats))
