"""`SessionSummaries`: the rows of the list of sessions, for the sessions that are shown.

A log is read only for a row that is shown, and for a filter by text if the index does not know the
session. Values are cached as long as the log has the same size and time. Several threads may
compute the same value at a time; each then stores the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harken.analytics.times import to_datetime
from harken.cli.commands.sessions.cost import cost_of_log
from harken.cli.commands.sessions.listing import (
    BEING_WRITTEN,
    ListedSession,
    describe_subject,
    read_last_event,
)
from harken.cli.commands.ui.listing.session_list import IndexedRow, Listing
from harken.core import structs
from harken.core.events import ContentPurged
from harken.errors import LogError
from harken.index.session_facts import SessionCounts
from harken.service.viewer.library import SessionSummary
from harken.session.log.compressed import LogStat, stat_log
from harken.session.log.file import is_being_written
from harken.session.log.reader import iter_events

T = TypeVar("T")
_MAX_COST_LOG_BYTES = 4 << 20
"""The size up to which the cost of a log that is not indexed is read from it."""


class SessionSummaries:
    """The summaries of sessions of listings."""

    def __init__(self) -> None:
        """Nothing is cached yet."""
        self._values: dict[tuple[str, Path], tuple[LogStat, Any]] = {}

    def summarize(
        self, listing: Listing, sessions: Sequence[ListedSession]
    ) -> list[SessionSummary]:
        """Return the summaries of sessions of a listing."""
        rows = [listing.find_indexed(session) for session in sessions]
        counts = listing.facts.counts(indexed.row.id for indexed in rows if indexed.row)
        return [
            self._summarize(session, indexed, counts.get(indexed.row.id) if indexed.row else None)
            for session, indexed in zip(sessions, rows, strict=True)
        ]

    def _summarize(
        self, session: ListedSession, indexed: IndexedRow, counts: SessionCounts | None
    ) -> SessionSummary:
        if is_live(session) != (session.row["state"] == BEING_WRITTEN):
            session = structs.replace(session)  # A process has opened or closed the log since.
        row, fact_row = session.row, indexed.row
        current = fact_row if indexed.is_current else None
        cost_usd = None if current is None or counts is None else counts.cost_usd
        if current is None and session.imported is None and len(session.logs) == 1:
            cost_usd = self._cached("cost", session.logs[0], _read_cost)
        title = describe_subject(row) if row.get("title") or row["began"] else None
        state = row["state"]
        return SessionSummary(
            name=session.name,
            title=(fact_row.title if fact_row else "") or title,
            runtime=session.runtime,
            project=row["project"] or (fact_row.project if fact_row else "") or None,
            began=self._find_start(session, fact_row.began_us if fact_row else None),
            ended=self._find_end(session) or row["written"],
            state=state,
            outcome=None if current is None else current.outcome,
            is_live=state == BEING_WRITTEN,
            is_imported=session.imported is not None,
            agents=None if counts is None else counts.agents,
            messages=None if counts is None else counts.messages,
            cost_usd=cost_usd,
            facts="current" if current else "none" if fact_row is None else "behind",
            error=row.get("error"),
        )

    def _find_start(self, session: ListedSession, began_us: int | None) -> str | None:
        if began_us is not None:
            return to_datetime(began_us).isoformat()
        return self._cached("start", session.logs[0], _read_start_time) if session.logs else None

    def _find_end(self, session: ListedSession) -> str | None:
        """Return the time of the last event of a log. Return None if its tail does not tell."""
        if session.imported is not None or not session.logs:
            return None
        return self._cached("end", session.logs[0], _read_end_time)

    def _cached(self, kind: str, path: Path, read: Callable[[Path], T]) -> T:
        """Return a value of a log, which is read again when the log has changed."""
        stat, key = stat_log(path), (kind, path)
        entry = self._values.get(key)
        if entry is None or entry[0] != stat:
            entry = self._values[key] = stat, read(path)
        value: T = entry[1]
        return value


def has_known_title(listing: Listing, session: ListedSession) -> bool:
    """Whether the title of a session is known without reading its log."""
    indexed = listing.find_indexed(session)
    is_indexed = indexed.is_current and indexed.row is not None and indexed.row.title
    return bool(is_indexed) or session.imported is not None or "row" in vars(session)


def find_title_and_project(listing: Listing, session: ListedSession) -> tuple[str, str]:
    """Return the title and the working folder of a session, from the index if it has them."""
    indexed = listing.find_indexed(session)
    if indexed.is_current and indexed.row is not None and indexed.row.title:
        return indexed.row.title, indexed.row.project
    if session.imported is not None:
        return session.imported.title, session.imported.project
    try:
        return describe_subject(session.row), session.row["project"] or ""
    except (LogError, OSError):
        return "", ""


def is_live(session: ListedSession) -> bool:
    """Whether a process writes a log of the session now."""
    return any(is_being_written(path) for path in session.logs[:1])


def _read_cost(path: Path) -> float | None:
    return None if stat_log(path).size_bytes > _MAX_COST_LOG_BYTES else cost_of_log(path)


def _read_end_time(path: Path) -> str | None:
    """Return the time of the last event of a log. Return None if its tail does not tell.

    The file may have been written later: by a copy, a restoration or a purge.
    """
    try:
        event = read_last_event(path)
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
