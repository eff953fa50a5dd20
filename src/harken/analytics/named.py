"""Find sessions, projects and runtimes in the index by the names that a command line has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw

from harken.errors import UnknownName

_NEWEST = "SELECT name, id FROM sessions ORDER BY ended DESC, id DESC"
_MAX_NAMES = 10
_PROJECTS = "SELECT DISTINCT project FROM sessions WHERE project <> '' ORDER BY 1"
_SEPARATOR = re.compile(r"[/\\]")


def session_id(database: apsw.Connection, name: str) -> int:
    """Return the row id of the session with this full name. Raises UnknownName."""
    # The comparison is in Python: a name on the command line may contain bytes that are not UTF-8.
    ids = {str(full): int(str(id_)) for full, id_ in database.execute(_NEWEST)}
    if name not in ids:
        raise UnknownName("session with statistics", name, [*ids][:_MAX_NAMES])
    return ids[name]


def session_names(database: apsw.Connection) -> list[str]:
    """Return the full names of all sessions, the last ended first."""
    return [str(full) for full, _ in database.execute(_NEWEST)]


def projects(database: apsw.Connection, name: str) -> tuple[str, ...]:
    """Return which folders are meant: this one and all below, else those whose last part it is.

    Raises UnknownName.
    """
    known = [row[0] for row in database.execute(_PROJECTS)]
    parts = _parts(name)
    inside = tuple(one for one in known if _parts(one)[: len(parts)] == parts)
    found = inside or tuple(one for one in known if _parts(one)[-len(parts) :] == parts)
    if not name or not found:
        raise UnknownName("project", name, known)
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
