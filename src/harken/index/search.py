"""Search: where something was said, over all sessions of all runtimes.

One idea: what was said last is shown first. Whoever looks for something in what they did knows
roughly what was said, and mostly means the last time; several words narrow it down better than any
rank, and an index without ranks is smaller and quicker.

Source: docs/how-to/search.md.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harken.core.commits import CommitId, Hash
from harken.index.database import rows_in
from harken.index.excerpt import Excerpt, excerpt
from harken.index.facts import Facts
from harken.index.query import Query, query_of
from harken.index.said import said_of
from harken.store.base import Store

_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is looked for, and where; None: anywhere."""

    words: str
    agent: str | None = None
    """Its name; `main` is the main conversation."""
    role: str | None = None
    kind: str | None = None
    tool: str | None = None
    """In calls of this tool, and in what it gave."""
    projects: Sequence[str] | None = None
    """Folders."""
    runtime: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    limit: int | None = 20
    """How many hits are told; None: all there are."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message can be read whole."""

    message: Hash
    session_id: int
    """A row of the facts."""
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A message in which it stands."""

    time_us: int | None
    session: str
    title: str
    project: str
    runtime: str
    agent: str
    role: str
    kind: str
    tool: str | None
    """Whose result it is."""
    ctx: CommitId | None
    """The commit that holds it, from which one can go on; None: only its log has it so far."""
    excerpt: Excerpt
    place: Place


@dataclass(frozen=True, slots=True)
class Found:
    """What was found."""

    total: int
    """How many messages have it."""
    hits: Iterator[Hit]
    """So many of them as were asked for, newest first; read while one looks at them."""


def search(facts: Facts, store: Store | None, asked: Asked) -> Found:
    """Find what is asked for. Raises ConfigError for a query without a word, StoreError.

    What a commit said that is no longer there is not found; the facts forget it.
    """
    query = query_of(asked.words)
    rows = _newest(facts.database, query, asked)
    while gone := _gone(facts.database, store, rows):
        facts.forget(gone)
        rows = _newest(facts.database, query, asked)
    return Found(_total(facts, query, asked), _hits(facts.database, store, query, rows))


def _newest(database: sqlite3.Connection, query: Query, asked: Asked) -> list[int]:
    """Return the rows of the messages that fit, newest first."""
    conditions, values = _conditions(asked)
    limit = -1 if asked.limit is None else asked.limit
    found = database.execute(_NEWEST.format(conditions), [str(query), *values, limit])
    return [row for (row,) in found]


def _total(facts: Facts, query: Query, asked: Asked) -> int:
    """Return how many messages fit; the index alone knows, where there are no conditions."""
    conditions, values = _conditions(asked)
    count = _COUNT.format(conditions) if conditions or facts.has_forgotten else _COUNT_OF_INDEX
    found: int = facts.database.execute(count, [str(query), *values]).fetchone()[0]
    return found


def _gone(database: sqlite3.Connection, store: Store | None, rows: Sequence[int]) -> list[CommitId]:
    """Return the commits of messages that are no longer in the store."""
    if store is None:
        return []
    names = {CommitId(f"ctx-{name.hex()}") for (name,) in rows_in(database, _COMMITS, rows)}
    there = store.commits(names) if names else {}
    return [name for name in names if name not in there]


def _hits(
    database: sqlite3.Connection, store: Store | None, query: Query, rows: Sequence[int]
) -> Iterator[Hit]:
    for some in _slices(rows):
        cursor = database.execute(_DETAILS.format(_marks(some)), some)
        names = [column[0] for column in cursor.description]
        found = {row[0]: dict(zip(names, row, strict=True)) for row in cursor}
        details = [found[row] for row in some if row in found]
        for one, said in zip(details, said_of(database, store, details), strict=True):
            yield _hit(one, excerpt(said.texts, query))


def _conditions(asked: Asked) -> tuple[str, list[object]]:
    """Return what is asked of a message beside its words, and the values in it."""
    projects = asked.projects
    given: list[tuple[str, list[object]]] = [
        (_AGENT, [] if asked.agent is None else ["" if asked.agent == "main" else asked.agent]),
        ("m.role = ?", [] if asked.role is None else [asked.role]),
        ("m.kind = ?", [] if asked.kind is None else [asked.kind]),
        (_TOOL, [] if asked.tool is None else [asked.tool, asked.tool]),
        (_RUNTIME, [] if asked.runtime is None else [asked.runtime]),
        (f"{_TIME} >= ?", [] if asked.since_us is None else [asked.since_us]),
        (f"{_TIME} < ?", [] if asked.until_us is None else [asked.until_us]),
        (_PROJECT.format(_marks(projects or ())), [*(projects or ())]),
    ]
    wanted = [(condition, values) for condition, values in given if values]
    text = "".join(f" AND {condition}" for condition, _ in wanted)
    return text, [value for _, values in wanted for value in values]


def _hit(row: dict[str, Any], found: Excerpt) -> Hit:
    return Hit(
        time_us=row["time"],
        session=row["session"],
        title=row["title"],
        project=row["project"],
        runtime=row["runtime"],
        agent=row["agent"],
        role=row["role"],
        kind=row["kind"],
        tool=row["tool"],
        ctx=None if row["ctx"] is None else CommitId(f"ctx-{row['ctx'].hex()}"),
        excerpt=found,
        place=Place(Hash(row["hash"].hex()), row["session_id"], row["position"]),
    )


def _slices(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    for at in range(0, len(rows), _AT_ONCE):
        yield rows[at : at + _AT_ONCE]


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


_TIME = "ifnull(m.time, (SELECT time FROM commits WHERE id = m.commit_id))"
"""When it was said; where nobody said it, when its commit was made."""
_NEWEST = """
SELECT m.id FROM words JOIN messages m ON m.id = words.rowid
WHERE words MATCH ? AND NOT m.is_repeat{}
ORDER BY ifnull(m.time, ifnull((SELECT time FROM commits WHERE id = m.commit_id), 0)) DESC,
m.id DESC LIMIT ?
"""
_COUNT = (
    "SELECT count(*) FROM words JOIN messages m ON m.id = words.rowid "
    "WHERE words MATCH ? AND NOT m.is_repeat{}"
)
_COUNT_OF_INDEX = "SELECT count(*) FROM words WHERE words MATCH ?"
_COMMITS = (
    "SELECT DISTINCT c.name FROM messages m JOIN commits c ON c.id = m.commit_id WHERE m.id IN"
)
_AGENT = "m.agent_id IN (SELECT id FROM agents WHERE name = ?)"
_TOOL = (
    "(EXISTS (SELECT 1 FROM tool_calls t WHERE t.message_id = m.id AND t.name = ?) "
    "OR EXISTS (SELECT 1 FROM tool_calls t WHERE t.result_id = m.id AND t.name = ?))"
)
_PROJECT = "m.session_id IN (SELECT id FROM sessions WHERE project IN ({}))"
_RUNTIME = "m.session_id IN (SELECT id FROM sessions WHERE runtime = ?)"
_DETAILS = """
SELECT m.id, ifnull(m.time, c.time) AS time, s.name AS session, s.title, s.project, s.runtime,
a.name AS agent, m.role, m.kind, c.name AS ctx, m.hash, m.session_id, m.position,
(SELECT name FROM tool_calls t WHERE t.result_id = m.id) AS tool
FROM messages m JOIN sessions s ON s.id = m.session_id JOIN agents a ON a.id = m.agent_id
LEFT JOIN commits c ON c.id = m.commit_id WHERE m.id IN ({})
"""
