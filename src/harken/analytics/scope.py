"""`Scope`: the filter of statistics. A query has `{scope}` in place of the condition.

Rows are filtered by their own time. A session that was active before and after a day counts on that
day with its messages of that day.

Also resolves the names of sessions, projects and runtimes on the command line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import apsw
import msgspec

from harken.analytics.times import to_datetime
from harken.errors import NameNotFound

_NEWEST_SQL = "SELECT name, id FROM sessions ORDER BY ended DESC, id DESC"
_MAX_NAMES = 10
_PROJECTS_SQL = "SELECT DISTINCT project FROM sessions WHERE project <> '' ORDER BY 1"
_SEPARATOR_PATTERN = re.compile(r"[/\\]")


def session_id(database: apsw.Connection, name: str) -> int:
    """Return the row id of the session with this full name. Raises NameNotFound."""
    # The comparison is in Python: a name on the command line may contain bytes that are not UTF-8.
    ids = {str(full): int(str(id_)) for full, id_ in database.execute(_NEWEST_SQL)}
    if name not in ids:
        raise NameNotFound("session", name, [*ids][:_MAX_NAMES])
    return ids[name]


def session_names(database: apsw.Connection) -> list[str]:
    """Return the full names of all sessions, the most recently ended first."""
    return [str(full) for full, _ in database.execute(_NEWEST_SQL)]


def projects(database: apsw.Connection, name: str) -> tuple[str, ...]:
    """Resolve a project: this folder and all below, else folders whose last part has this name.

    Raises NameNotFound.
    """
    folders = [row[0] for row in database.execute(_PROJECTS_SQL)]
    parts = _split_path(name)
    subfolders = tuple(folder for folder in folders if _split_path(folder)[: len(parts)] == parts)
    matches = subfolders or tuple(
        folder for folder in folders if _split_path(folder)[-len(parts) :] == parts
    )
    if not name or not matches:
        raise NameNotFound("project", name, folders)
    return matches


def runtimes(database: apsw.Connection) -> Iterator[str]:
    """Yield the runtimes of all sessions."""
    for row in database.execute("SELECT DISTINCT runtime FROM sessions ORDER BY 1"):
        yield row[0]


def _split_path(path: str) -> list[str]:
    r"""Split a path of any operating system; a first part of "" means an absolute path.

    >>> _split_path("/srv/cafe/"), _split_path("C:\\cafe"), _split_path("/")
    (['', 'srv', 'cafe'], ['C:', 'cafe'], [''])
    """
    return _SEPARATOR_PATTERN.split(path.rstrip("/\\"))


_SESSIONS = "sessions"


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for rows. All conditions must match; by default all rows match."""

    since_us: int | None = None
    """Start of the time range, in microseconds since 1970, UTC."""
    until_us: int | None = None
    """End of the time range, exclusive."""
    projects: tuple[str, ...] | None = None
    """Match sessions in one of these folders, as named in the index."""
    runtime: str | None = None
    session_id: int | None = None
    """Match this session only."""

    def as_json(self) -> dict[str, Any]:
        """Return the conditions on times, projects and the runtime as JSON members."""
        since, until = to_datetime(self.since_us), to_datetime(self.until_us)
        return {
            "since": None if since is None else since.isoformat(),
            "until": None if until is None else until.isoformat(),
            "folders": None if self.projects is None else list(self.projects),
            "runtime": self.runtime,
        }

    @property
    def is_span(self) -> bool:
        """Whether the scope has a time range."""
        return self.since_us is not None or self.until_us is not None

    def rows(
        self,
        database: apsw.Connection,
        query: str,
        table: str = "messages",
        *,
        values: Mapping[str, object] | None = None,
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query.

        `table` is the table that is filtered; `values` are further parameters of the query.
        Sessions match if they overlap the time range. Rows without a time do not match a time
        range.
        """
        full_query = query.replace("{scope}", " AND ".join(self._conditions(table)) or "TRUE")
        yield from database.execute(full_query, {**self._values, **(values or {})})

    @property
    def _values(self) -> dict[str, object]:
        return {
            "since": self.since_us,
            "until": self.until_us,
            "projects": json.dumps(self.projects),
            "runtime": self.runtime,
            "session": self.session_id,
        }

    def _conditions(self, table: str) -> Iterator[str]:
        if table == _SESSIONS:
            yield from self._session_conditions()
            return
        if self.session_id is not None:
            yield f"{table}.session_id = :session"
            if table == "commits":  # This table has an index by agent, not by session.
                yield "commits.agent_id IN (SELECT id FROM agents WHERE session_id = :session)"
        elif sessions := " AND ".join(self._session_conditions()):
            # Sessions are found by an index, so that only a part of a long history is read.
            yield f"{table}.session_id IN (SELECT id FROM sessions WHERE {sessions})"  # noqa: S608
        if self.since_us is not None:
            yield f"{table}.time >= :since"
        if self.until_us is not None:
            yield f"{table}.time < :until"

    def _session_conditions(self) -> Iterator[str]:
        if self.session_id is not None:
            yield "sessions.id = :session"
            return
        if self.runtime is not None:
            yield "sessions.runtime = :runtime"
        if self.projects is not None:
            yield "sessions.project IN (SELECT value FROM json_each(:projects))"
        if self.since_us is not None:
            yield "sessions.ended >= :since"
        if self.until_us is not None:
            yield "sessions.began < :until"


ALL = Scope()
"""The scope of all rows."""
