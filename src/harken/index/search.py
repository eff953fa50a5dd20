"""Search: where something was said, over all sessions of all runtimes.

One idea: what was said last is shown first. Whoever looks for something in what they did knows
roughly what was said, and mostly means the last time; several words narrow it down better than any
rank, and an index without ranks is smaller and quicker. The index has what was said last at its
end, and is read from there, so what was said long before costs nothing.

Source: docs/how-to/search.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, takewhile
from typing import Any

import apsw

from harken.core.commits import CommitId, Hash
from harken.index.database import query_in
from harken.index.query import TextQuery, query_of
from harken.index.row_ids import end_of_numbers, first_number, stretch_of
from harken.index.session_index import SessionIndex
from harken.index.snippet import Snippet, excerpt
from harken.index.stored_text import said_of
from harken.store.base import Store

_MOST_WORDS = 500
"""A beginning of more words is looked for as a beginning."""
_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
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
    counted: int = 10_000
    """How many hits are counted, at least; with so many, one looks for more words."""


@dataclass(frozen=True, slots=True)
class MessageLocation:
    """Where a message can be read whole."""

    message: Hash
    session_id: int
    """A row of the facts."""
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
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
    excerpt: Snippet
    place: MessageLocation


@dataclass(frozen=True, slots=True)
class SearchResults:
    """What was found."""

    total: int
    """How many messages have it, as far as they were counted."""
    hits: Iterator[SearchHit]
    """So many of them as were asked for, newest first; read while one looks at them."""
    is_more: bool = False
    """Whether there are more than `total`."""


@dataclass(frozen=True, slots=True)
class _Matching:
    """The messages that have it."""

    newest: Sequence[int]
    """So many of them as were asked for, newest first."""
    total: int
    is_more: bool


def search(facts: SessionIndex, store: Store | None, asked: SearchQuery) -> SearchResults:
    """Find what is asked for. Raises ConfigError for a query without a word, StoreError.

    What a commit said that is no longer there is not found; the facts forget it.
    """
    query = query_of(asked.words)
    found = _matching(facts, query, asked)
    while gone := _gone(facts.database, store, found.newest):
        facts.forget(gone)
        found = _matching(facts, query, asked)
    hits = _hits(facts.database, store, query, found.newest)
    return SearchResults(found.total, hits, found.is_more)


def _matching(facts: SessionIndex, query: TextQuery, asked: SearchQuery) -> _Matching:
    """Return the messages that fit.

    The index tells them by their numbers, the greatest first, and no more than are read: what was
    said last comes first, but for what is of the same stretch of time.
    """
    statement, values = _statement(facts, asked)
    spelled = query.spelled_out(partial(_words, facts.database))
    cursor = facts.database.execute(statement, [str(spelled), *values])
    limit = asked.limit
    counted = list(cursor if limit is None else islice(cursor, max(limit, asked.counted)))
    after = next(cursor, None)
    total, is_more = len(counted), after is not None
    if limit is not None and 0 < limit <= total:
        others = chain(counted[limit:], filter(None, (after,)), cursor)
        counted = [*counted[:limit], *takewhile(partial(_is_with, counted[limit - 1]), others)]
    return _Matching(_by_time(facts.database, counted)[:limit], total, is_more)


def _words(database: apsw.Connection, beginning: str) -> list[str]:
    """Return the words that begin so; none where they are too many to be looked for one by one.

    The index puts all hits of a beginning together before it tells the first; those of words it
    tells as they are read.
    """
    last = beginning + chr(sys.maxunicode)
    values = (beginning, last, _MOST_WORDS + 1)
    found: list[tuple[Any, ...]] = database.execute(_VOCABULARY, values).fetchall()
    return [word for (word,) in found] if len(found) <= _MOST_WORDS else []


def _statement(facts: SessionIndex, asked: SearchQuery) -> tuple[str, list[object]]:
    """Return what asks for numbers, and the values in it but for the words.

    The index alone knows them, where nothing else is asked for and all that it has is there.
    """
    conditions, values = _conditions(asked)
    if not conditions and not facts.has_forgotten:
        return _OF_INDEX, []
    if asked.since_us is not None:
        conditions += " AND words.rowid >= ?"
        values.append(first_number(asked.since_us))
    if asked.until_us is not None:
        conditions += " AND words.rowid < ?"
        values.append(end_of_numbers(facts.database, asked.until_us))
    return _OF_MESSAGES.format(conditions), values


def _is_with(one: tuple[int], other: tuple[int]) -> bool:
    """Whether two messages are of the same stretch of time."""
    return stretch_of(one[0]) == stretch_of(other[0])


def _by_time(database: apsw.Connection, rows: Sequence[tuple[int]]) -> list[int]:
    """Return the numbers of messages, newest first; those without any time last."""
    numbers = [number for (number,) in rows]
    times = dict(query_in(database, _TIMES, numbers))
    return sorted(numbers, key=lambda one: (times.get(one) or 0, one), reverse=True)


def _gone(database: apsw.Connection, store: Store | None, rows: Sequence[int]) -> list[CommitId]:
    """Return the commits of messages that are no longer in the store."""
    if store is None:
        return []
    names = {CommitId(f"ctx-{name.hex()}") for (name,) in query_in(database, _COMMITS, rows)}
    there = store.commits(names) if names else {}
    return [name for name in names if name not in there]


def _hits(
    database: apsw.Connection, store: Store | None, query: TextQuery, rows: Sequence[int]
) -> Iterator[SearchHit]:
    for some in _slices(rows):
        cursor = database.execute(_DETAILS.format(_marks(some)), some)
        found = {row[0]: dict(zip(_DETAIL_NAMES, row, strict=True)) for row in cursor}
        details = [found[row] for row in some if row in found]
        for one, said in zip(details, said_of(database, store, details), strict=True):
            yield _hit(one, excerpt(said.texts, query))


def _conditions(asked: SearchQuery) -> tuple[str, list[object]]:
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


def _hit(row: dict[str, Any], found: Snippet) -> SearchHit:
    return SearchHit(
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
        place=MessageLocation(Hash(row["hash"].hex()), row["session_id"], row["position"]),
    )


def _slices(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    for at in range(0, len(rows), _AT_ONCE):
        yield rows[at : at + _AT_ONCE]


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


_TIME = "ifnull(m.time, (SELECT time FROM commits WHERE id = m.commit_id))"
"""When it was said; where nobody said it, when its commit was made."""
_VOCABULARY = """
WITH RECURSIVE found (word) AS (
SELECT (SELECT term FROM vocabulary WHERE term >= ?1 LIMIT 1)
UNION ALL
SELECT (SELECT term FROM vocabulary WHERE term >= word || char(0) LIMIT 1)
FROM found WHERE word <= ?2
) SELECT word FROM found WHERE word <= ?2 LIMIT ?3
"""
"""Each word is asked for by the one before it, so that none of their places is read."""
_OF_INDEX = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC"
_OF_MESSAGES = (
    "SELECT words.rowid FROM words CROSS JOIN messages m ON m.id = words.rowid "
    "WHERE words MATCH ? AND NOT m.is_repeat{} ORDER BY words.rowid DESC"
)
"""A cross join, since it must be the index that leads: it has the order, and is asked once."""
_TIMES = f"SELECT m.id, {_TIME} FROM messages m WHERE m.id IN"  # noqa: S608 - of ours
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
_DETAIL_NAMES = (
    *("id", "time", "session", "title", "project", "runtime"),
    *("agent", "role", "kind", "ctx", "hash", "session_id", "position"),
    "tool",
)
_DETAILS = """
SELECT m.id, ifnull(m.time, c.time) AS time, s.name AS session, s.title, s.project, s.runtime,
a.name AS agent, m.role, m.kind, c.name AS ctx, m.hash, m.session_id, m.position,
(SELECT name FROM tool_calls t WHERE t.result_id = m.id) AS tool
FROM messages m JOIN sessions s ON s.id = m.session_id JOIN agents a ON a.id = m.agent_id
LEFT JOIN commits c ON c.id = m.commit_id WHERE m.id IN ({})
"""
