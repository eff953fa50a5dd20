"""Full-text search for messages over the sessions of all runtimes.

Results are ordered by time, newest first. Users mostly look for the latest occurrence, and
additional words narrow a search down better than a rank; an index without ranks is smaller and
faster. The index is read from its end, where the newest messages are, so old messages cost nothing.

Source: docs/how-to/search.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice, takewhile
from typing import Any

import apsw
import msgspec

from harken.core.commits import CommitId, Hash
from harken.index.database import iter_rows_in
from harken.index.query import TextQuery, parse_query
from harken.index.row_ids import find_end_id, first_id, get_stretch
from harken.index.session_index import SessionIndex
from harken.index.snippet import Snippet
from harken.index.snippet import build_excerpt as excerpt
from harken.index.stored_text import read_texts
from harken.store.base import Store

_MAX_WORDS = 500
"""A prefix of more words than this is not expanded."""
_BATCH_ROWS = 500


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The words and filters of a search. A filter that is None matches everything."""

    text: str
    agent: str | None = None
    """Name of the agent; `main` is the main conversation."""
    role: str | None = None
    kind: str | None = None
    tool: str | None = None
    """Match calls of this tool and their results."""
    projects: Sequence[str] | None = None
    """Folders of projects."""
    runtime: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    limit: int | None = 20
    """Maximum number of hits to return. None means all."""
    min_counted: int = 10_000
    """Minimum number of hits to count before counting stops."""


class MessageLocation(msgspec.Struct, frozen=True):
    """The position of a message, at which its full text can be read."""

    message: Hash
    session_id: int
    """Row id of the session in the index."""
    position: int


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A message that matches a search."""

    time_us: int | None
    session: str
    title: str
    project: str
    runtime: str
    agent: str
    role: str
    kind: str
    tool: str | None
    """The tool that returned this result."""
    ctx: CommitId | None
    """The commit that contains the message, or None if only the log contains it so far."""
    event: str | None
    """The id of the message in its log, or None if only a commit contains it."""
    excerpt: Snippet
    location: MessageLocation


class SearchResults(msgspec.Struct, frozen=True):
    """The hits of a search, and their number."""

    total: int
    """Number of matching messages, as far as they were counted."""
    hits: Iterator[SearchHit]
    """At most `limit` hits, newest first, read lazily."""
    is_more: bool = False
    """Whether there are more than `total`."""


class _Matches(msgspec.Struct, frozen=True):
    """The rows of the messages that match."""

    newest: Sequence[int]
    """At most `limit` row ids, newest first."""
    total: int
    is_more: bool


def search(facts: SessionIndex, store: Store | None, query: SearchQuery) -> SearchResults:
    """Find messages that match a query. Raises ConfigError if it has no word, StoreError.

    Messages of deleted commits are not returned; their rows are removed from the index.
    """
    text_query = parse_query(query.text)
    matches = _find_matches(facts, text_query, query)
    while deleted := _find_deleted_commits(facts.database, store, matches.newest):
        facts.forget(deleted)
        matches = _find_matches(facts, text_query, query)
    hits = _iter_hits(facts.database, store, text_query, matches.newest)
    return SearchResults(matches.total, hits, matches.is_more)


def _find_matches(facts: SessionIndex, text_query: TextQuery, query: SearchQuery) -> _Matches:
    """Return the messages that match.

    The index returns message ids in descending order and no more than are read. Ids are in the
    order of time, except within one stretch of time, so the last stretch is read completely and
    sorted.
    """
    statement, values = _build_statement(facts, query)
    expanded = text_query.expand_prefixes(partial(_find_words, facts.database))
    cursor = facts.database.execute(statement, [str(expanded), *values])
    limit = query.limit
    counted_rows = list(cursor if limit is None else islice(cursor, max(limit, query.min_counted)))
    next_row = next(cursor, None)
    total, is_more = len(counted_rows), next_row is not None
    if limit is not None and 0 < limit <= total:
        later_rows = chain(counted_rows[limit:], filter(None, (next_row,)), cursor)
        counted_rows = [
            *counted_rows[:limit],
            *takewhile(partial(_is_same_stretch, counted_rows[limit - 1]), later_rows),
        ]
    return _Matches(_sort_by_time(facts.database, counted_rows)[:limit], total, is_more)


def _find_words(database: apsw.Connection, prefix: str) -> list[str]:
    """Return the indexed words with a prefix, or nothing if there are too many to expand.

    For a prefix, FTS5 merges all hits before it returns the first; for words it returns them as
    they are read.
    """
    last = prefix + chr(sys.maxunicode)
    values = (prefix, last, _MAX_WORDS + 1)
    rows: list[tuple[Any, ...]] = database.execute(_VOCABULARY_SQL, values).fetchall()
    return [word for (word,) in rows] if len(rows) <= _MAX_WORDS else []


def _build_statement(facts: SessionIndex, query: SearchQuery) -> tuple[str, list[object]]:
    """Return the SQL statement for message ids, and its values except for the words.

    The index alone is enough if there are no filters and no messages were deleted.
    """
    conditions, values = _build_conditions(query)
    if not conditions and not facts.has_forgotten:
        return _INDEX_ONLY_SQL, []
    if query.since_us is not None:
        conditions += " AND words.rowid >= ?"
        values.append(first_id(query.since_us))
    if query.until_us is not None:
        conditions += " AND words.rowid < ?"
        values.append(find_end_id(facts.database, query.until_us))
    return _MESSAGES_SQL.format(conditions), values


def _is_same_stretch(left: tuple[int], right: tuple[int]) -> bool:
    """Whether two messages belong to the same stretch of time."""
    return get_stretch(left[0]) == get_stretch(right[0])


def _sort_by_time(database: apsw.Connection, rows: Sequence[tuple[int]]) -> list[int]:
    """Return message ids, newest first; messages without a time last."""
    numbers = [number for (number,) in rows]
    times = dict(iter_rows_in(database, _TIMES_SQL, numbers))
    return sorted(numbers, key=lambda id_: (times.get(id_) or 0, id_), reverse=True)


def _find_deleted_commits(
    database: apsw.Connection, store: Store | None, rows: Sequence[int]
) -> list[CommitId]:
    """Return the commits of messages that no longer exist in the store."""
    if store is None:
        return []
    names = {
        CommitId(f"ctx-{name.hex()}") for (name,) in iter_rows_in(database, _COMMITS_SQL, rows)
    }
    existing = store.commits(names) if names else {}
    return [name for name in names if name not in existing]


def _iter_hits(
    database: apsw.Connection, store: Store | None, query: TextQuery, rows: Sequence[int]
) -> Iterator[SearchHit]:
    for batch in _iter_slices(rows):
        cursor = database.execute(_DETAILS_SQL.format(_placeholders(batch)), batch)
        details_by_id = {row[0]: dict(zip(_DETAIL_COLUMNS, row, strict=True)) for row in cursor}
        details = [details_by_id[row] for row in batch if row in details_by_id]
        for row_details, text in zip(details, read_texts(database, store, details), strict=True):
            yield _build_hit(row_details, excerpt(text.texts, query))


def _agent_names(agent: str) -> list[object]:
    """Return the name of an agent in both tables: main conversations have none in `agents`."""
    return ["" if agent == "main" else agent, agent]


def _build_conditions(query: SearchQuery) -> tuple[str, list[object]]:
    """Return the SQL conditions for all filters except the words, and their values."""
    projects = query.projects
    clauses: list[tuple[str, list[object]]] = [
        (_AGENT_SQL, [] if query.agent is None else _agent_names(query.agent)),
        ("m.role = ?", [] if query.role is None else [query.role]),
        ("m.kind = ?", [] if query.kind is None else [query.kind]),
        (_TOOL_SQL, [] if query.tool is None else [query.tool, query.tool]),
        (_RUNTIME_SQL, [] if query.runtime is None else [query.runtime]),
        (f"{_TIME_SQL} >= ?", [] if query.since_us is None else [query.since_us]),
        (f"{_TIME_SQL} < ?", [] if query.until_us is None else [query.until_us]),
        (_PROJECT_SQL.format(_placeholders(projects or ())), [*(projects or ())]),
    ]
    active = [(condition, clause_values) for condition, clause_values in clauses if clause_values]
    text = "".join(f" AND {condition}" for condition, _ in active)
    return text, [value for _, clause_values in active for value in clause_values]


def _build_hit(row: dict[str, Any], snippet: Snippet) -> SearchHit:
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
        event=row["event"],
        excerpt=snippet,
        location=MessageLocation(Hash(row["hash"].hex()), row["session_id"], row["position"]),
    )


def _iter_slices(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(rows), _BATCH_ROWS):
        yield rows[start : start + _BATCH_ROWS]


def _placeholders(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


_TIME_SQL = "ifnull(m.time, (SELECT time FROM commits WHERE id = m.commit_id))"
"""The time of a message, or of its commit if the message has none."""
_VOCABULARY_SQL = """
WITH RECURSIVE found (word) AS (
SELECT (SELECT term FROM vocabulary WHERE term >= ?1 LIMIT 1)
UNION ALL
SELECT (SELECT term FROM vocabulary WHERE term >= word || char(0) LIMIT 1)
FROM found WHERE word <= ?2
) SELECT word FROM found WHERE word <= ?2 LIMIT ?3
"""
"""Each word is looked up from the word before it, so that the positions of words are not read."""
_INDEX_ONLY_SQL = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC"
_MESSAGES_SQL = (
    "SELECT words.rowid FROM words CROSS JOIN messages m ON m.id = words.rowid "
    "WHERE words MATCH ? AND NOT m.is_repeat{} ORDER BY words.rowid DESC"
)
"""A cross join, so that SQLite scans the index first: it has the order, and is read once."""
_TIMES_SQL = f"SELECT m.id, {_TIME_SQL} FROM messages m WHERE m.id IN"  # noqa: S608 - of ours
_COMMITS_SQL = (
    "SELECT DISTINCT c.name FROM messages m JOIN commits c ON c.id = m.commit_id WHERE m.id IN"
)
_AGENT_SQL = (
    "m.agent_id IN (SELECT id FROM agents WHERE name = ? "
    "UNION SELECT agent_id FROM main_names WHERE name = ?)"
)
_TOOL_SQL = (
    "(EXISTS (SELECT 1 FROM tool_calls t WHERE t.message_id = m.id AND t.name = ?) "
    "OR EXISTS (SELECT 1 FROM tool_calls t WHERE t.result_id = m.id AND t.name = ?))"
)
_PROJECT_SQL = "m.session_id IN (SELECT id FROM sessions WHERE project IN ({}))"
_RUNTIME_SQL = "m.session_id IN (SELECT id FROM sessions WHERE runtime = ?)"
_DETAIL_COLUMNS = (
    *("id", "time", "session", "title", "project", "runtime"),
    *("agent", "role", "kind", "ctx", "hash", "session_id", "position"),
    *("event", "tool"),
)
_DETAILS_SQL = """
SELECT m.id, ifnull(m.time, c.time) AS time, s.name AS session, s.title, s.project, s.runtime,
a.name AS agent, m.role, m.kind, c.name AS ctx, m.hash, m.session_id, m.position, m.event,
(SELECT name FROM tool_calls t WHERE t.result_id = m.id) AS tool
FROM messages m JOIN sessions s ON s.id = m.session_id JOIN agents a ON a.id = m.agent_id
LEFT JOIN commits c ON c.id = m.commit_id WHERE m.id IN ({})
"""
