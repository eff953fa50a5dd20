"""Names of sessions and commits for shell completion, read without loading the rest of Harken.

The databases are opened read-only and queried directly: opening them as commands do takes several
times as long as a user waits for a completion. Names that a terminal cannot show are left out.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from harken.config.home import LATEST, Home

MAX_COMMITS = 50
MAX_TICKETS = 1000
_LOG_ENDINGS = (".jsonl", ".jsonl.zst", ".jsonl.gz")
_COMMIT_PREFIX = "ctx-"
_MIN_DIGITS = 12


def names_for(type_name: str, home: str | None, incomplete: str) -> list[str]:
    """Return the names of a parameter type with this prefix, newest first."""
    place = Home(home)
    if type_name == "ticket":
        return ticket_names(place, incomplete)
    names: list[str] = []
    if not incomplete.startswith(_COMMIT_PREFIX):
        names += [LATEST, *recorded_names(place)]
        names += [] if type_name == "log" else imported_names(place)
    if type_name == "commit":
        names += label_names(place)
    if type_name == "commit" or (type_name == "session" and incomplete.startswith("c")):
        names += commit_names(place, incomplete)
    matches = (name for name in dict.fromkeys(names) if name.startswith(incomplete))
    return [name for name in matches if _is_usable(name)]


def recorded_names(home: Home) -> list[str]:
    """Return the ids of the recorded sessions, the last written first."""
    try:
        with os.scandir(home.sessions_folder) as entries:
            logs = [
                (entry.stat().st_mtime_ns, entry.name)
                for entry in entries
                if entry.name.endswith(_LOG_ENDINGS) and not entry.name.startswith(".")
            ]
    except OSError:
        return []
    return [name[: name.index(".jsonl")] for _, name in sorted(logs, reverse=True)]


def imported_names(home: Home) -> list[str]:
    """Return the names of the imported sessions, the last ended first."""
    ended_at: dict[str, str] = {}
    for path, data in _rows(home.index_file, "SELECT path, record FROM source"):
        try:
            record = json.loads(data)
            if record.get("format") is None or not record.get("tips"):
                continue
            runtime = record.get("runtime") or record["format"]
            session = record.get("session") or Path(os.fsdecode(path)).stem
            name = f"{runtime}:{session}"
            ended_at[name] = max(ended_at.get(name, ""), str(record.get("ended", "")))
        except (ValueError, AttributeError):
            continue  # A record of another version; the next import replaces it.
    return sorted(ended_at, key=lambda name: ended_at[name], reverse=True)


def label_names(home: Home) -> list[str]:
    """Return the labels of commits in the store of the home folder."""
    rows = _rows(home.store_file, "SELECT DISTINCT name FROM label ORDER BY 1")
    return [os.fsdecode(name) for (name,) in rows]


def commit_names(home: Home, incomplete: str) -> list[str]:
    """Return the names of the newest commits with this prefix."""
    digits = incomplete.removeprefix(_COMMIT_PREFIX) if len(incomplete) > len("ctx-") else ""
    if not all(letter in "0123456789abcdef" for letter in digits):
        return []
    rows = _rows(
        home.store_file,
        "SELECT hex(name) FROM history WHERE hex(name) LIKE ? ORDER BY id DESC LIMIT ?",
        [f"{digits}%", MAX_COMMITS],
    )
    length = max(len(digits), _MIN_DIGITS)
    return [_COMMIT_PREFIX + name.lower()[:length] for (name,) in rows]


def ticket_names(home: Home, incomplete: str) -> list[str]:
    """Return the short ids of tickets with this prefix."""
    names = [
        os.fsdecode(name)
        for (name,) in _rows(
            home.store_file,
            "SELECT name FROM branch WHERE name BETWEEN ? AND ? ORDER BY name LIMIT ?",
            [b"tkt-", b"tkt-g", MAX_TICKETS],
        )
    ]
    short_names = (name[: max(len("tkt-") + _MIN_DIGITS, len(incomplete))] for name in names)
    return [name for name in short_names if name.startswith(incomplete)]


def _rows(file: Path, query: str, parameters: Iterable[object] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query; none if the file is missing, corrupted or of another version."""
    if not file.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
            yield from database.execute(query, list(parameters))
    except sqlite3.Error:
        return


def _is_usable(name: str) -> bool:
    """Whether a name can be shown in a terminal and is not taken for an option."""
    return bool(name) and name.isprintable() and not name.startswith("-")
