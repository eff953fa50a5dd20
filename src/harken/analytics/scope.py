"""Scope: what is counted. A query says `{scope}` where the condition on its rows belongs.

One idea: a row counts by its own time. A session that was at work before and after a day counts
on that day with what it did then.

Find sessions, projects and runtimes in the index by the names that a command line has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apsw

from harken.errors import NameNotFound

_NEWEST = "SELECT name, id FROM sessions ORDER BY ended DESC, id DESC"


_MAX_NAMES = 10


_PROJECTS = "SELECT DISTINCT project FROM sessions WHERE project <> '' ORDER BY 1"


_SEPARATOR = re.compile(r"[/\\]")


def session_id(database: apsw.Connection, name: str) -> int:
    """Return the row id of the session with this full name. Raises NameNotFound."""
    # The comparison is in Python: a name on the command line may contain bytes that are not UTF-8.
    ids = {str(full): int(str(id_)) for full, id_ in database.execute(_NEWEST)}
    if name not in ids:
        raise NameNotFound("session with statistics", name, [*ids][:_MAX_NAMES])
    return ids[name]


def session_names(database: apsw.Connection) -> list[str]:
    """Return the full names of all sessions, the last ended first."""
    return [str(full) for full, _ in database.execute(_NEWEST)]


def projects(database: apsw.Connection, name: str) -> tuple[str, ...]:
    """Return which folders are meant: this one and all below, else those whose last part it is.

    Raises NameNotFound.
    """
    known = [row[0] for row in database.execute(_PROJECTS)]
    parts = _parts(name)
    inside = tuple(one for one in known if _parts(one)[: len(parts)] == parts)
    found = inside or tuple(one for one in known if _parts(one)[-len(parts) :] == parts)
    if not name or not found:
        raise NameNotFound("project", name, known)
    return found


def runtimes(database: apsw.Connection) -> Iterator[str]:
    """Yield which runtimes' sessions there are."""
    for row in database.execute("SELECT DISTINCT runtime FROM sessions ORDER BY 1"):
        yield row[0]


def _parts(path: str) -> list[str]:
    r"""Return the parts of a path of any system; what begins with "" is absolute.

    >>> _parts("/srv/cafe/"), _parts("C:\\cafe"), _parts("/")
    (['', 'srv', 'cafe'], ['C:', 'cafe'], [''])
    """
    return _SEPARATOR.split(path.rstrip("/\\"))


_SESSIONS = "sessions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which rows count: those for which all of this holds. Nothing is said: all rows."""

    since_us: int | None = None
    """From then on, in microseconds since 1970, UTC."""
    until_us: int | None = None
    """Before then."""
    projects: tuple[str, ...] | None = None
    """Of sessions that worked in one of these folders, as the facts name them."""
    runtime: str | None = None
    session_id: int | None = None
    """Of this session alone."""

    @property
    def is_span(self) -> bool:
        """Whether only a span of time counts."""
        return self.since_us is not None or self.until_us is not None

    def rows(
        self,
        database: apsw.Connection,
        query: str,
        table: str = "messages",
        *,
        values: Mapping[str, object] | None = None,
    ) -> Iterator[tuple[Any, ...]]:
        """Yield what a query finds.

        `table`: which of its tables is limited to this scope; `values`: what else it names.
        Sessions count that were there at the time. Where a time is asked for, a row that has
        none does not count.
        """
        whole = query.replace("{scope}", " AND ".join(self._conditions(table)) or "TRUE")
        yield from database.execute(whole, {**self._values, **(values or {})})

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
            yield from self._of_sessions()
            return
        if self.session_id is not None:
            yield f"{table}.session_id = :session"
            if table == "commits":  # which have no index by session, but one by agent
                yield "commits.agent_id IN (SELECT id FROM agents WHERE session_id = :session)"
        elif sessions := " AND ".join(self._of_sessions()):
            # They are found by an index: a part of a long history is not all of it read.
            yield f"{table}.session_id IN (SELECT id FROM sessions WHERE {sessions})"  # noqa: S608
        if self.since_us is not None:
            yield f"{table}.time >= :since"
        if self.until_us is not None:
            yield f"{table}.time < :until"

    def _of_sessions(self) -> Iterator[str]:
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
"""Everything."""
