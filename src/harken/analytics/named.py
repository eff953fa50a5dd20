"""What a person names: a session by its id or the beginning of it, a project by its folder."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator

from harken.errors import AmbiguousName, UnknownName

LATEST = "latest"
_SESSIONS = "SELECT id, name, native FROM sessions ORDER BY ended DESC, id DESC"
_PROJECTS = "SELECT DISTINCT project FROM sessions WHERE project <> '' ORDER BY 1"
_SEPARATOR = re.compile(r"[/\\]")


def session_id(database: sqlite3.Connection, name: str) -> int:
    """Return which session of the facts is meant: its name, what its runtime calls it, `latest`.

    A unique beginning of either will do. Raises UnknownName, AmbiguousName.
    """
    known = database.execute(_SESSIONS).fetchall()
    if name == LATEST and known:
        return int(known[0][0])
    fits: tuple[Callable[[str, str], bool], ...] = (str.__eq__, str.startswith)
    for fit in fits:
        found = {
            full: int(id_)
            for id_, full, native in known
            if name and (fit(full, name) or fit(native, name))
        }
        if len(found) > 1:
            raise AmbiguousName("session", name, sorted(found))
        if found:
            return next(iter(found.values()))
    raise UnknownName("session", name, [LATEST, *(full for _, full, _ in known)] if known else ())


def projects(database: sqlite3.Connection, name: str) -> tuple[str, ...]:
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


def runtimes(database: sqlite3.Connection) -> Iterator[str]:
    """Yield which runtimes' sessions there are."""
    for row in database.execute("SELECT DISTINCT runtime FROM sessions ORDER BY 1"):
        yield row[0]


def _parts(path: str) -> list[str]:
    r"""Return the parts of a path of any system; what begins with "" is absolute.

    >>> _parts("/srv/cafe/"), _parts("C:\\cafe"), _parts("/")
    (['', 'srv', 'cafe'], ['C:', 'cafe'], [''])
    """
    return _SEPARATOR.split(path.rstrip("/\\"))
