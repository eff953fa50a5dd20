"""Pair the messages of a recording with those of the session's file, so that each counts once.

The recording counts; the file's message becomes a repeat, and gives its better knowledge. Answers
with the provider's id are paired when they are read. Here the others are paired: by the ids of
calls, then by text. Equal texts of one agent are paired in their order. Each source only grows at
its end and a pair is never undone, so the pairs do not depend on the order of arrival.

Source: docs/design/006-what-the-model-saw.md, "One session from several sources".
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import apsw
import msgspec
from blake3 import blake3

from harken.formats.runtimes.user_text import extract_typed_text
from harken.index.database import iter_rows_in
from harken.index.message_text import MessageText

ReadTexts: TypeAlias = Callable[[Sequence[dict[str, Any]]], list[MessageText]]
"""Returns the texts of messages, which have `hash`, `session_id` and `position`."""
_ID_KIND_PATTERN = re.compile(r"[a-z]+(?=[_-])")
"""Matches the kind of id at the beginning of a provider's response id, such as `msg`."""
_RUNTIMES_WITH_OWN_IDS = frozenset({"opencode", "gemini", "copilot"})
"""Runtimes whose files have ids of their own for responses, not those of the provider."""


def pair_messages(database: apsw.Connection, read: ReadTexts) -> list[int]:
    """Pair the new messages of recorded sessions.

    Return the new repeats, whose words are still to be removed from the full-text index. The caller
    has begun a transaction.
    """
    pairs = _Pairs(database)
    for message, original in database.execute("SELECT message_id, original_id FROM repeats"):
        pairs.add(message, original)
    database.execute("DELETE FROM repeats")
    unpaired: list[tuple[Any, ...]] = database.execute("SELECT session_id FROM unpaired").fetchall()
    for (session,) in unpaired:
        _SessionPairing(database, session, pairs, read).run()
        database.execute(_COMPACTIONS_SQL, (session,))
    database.execute("DELETE FROM unpaired")
    return pairs.repeats


class _Pairs(msgspec.Struct):
    """Write pairs, and what the file of a session knows better."""

    database: apsw.Connection
    repeats: list[int] = msgspec.field(default_factory=list)

    def add(self, message: int, original: int) -> None:
        """Make a message a repeat of the original, if it is none yet."""
        database = self.database
        is_new = "SELECT 1 FROM messages WHERE id = ? AND NOT is_repeat"
        if message == original or database.execute(is_new, (message,)).fetchone() is None:
            return
        self.repeats.append(message)
        database.execute("INSERT OR REPLACE INTO pairs VALUES (?, ?)", (message, original))
        database.execute("UPDATE messages SET is_repeat = 1 WHERE id = ?", (message,))
        database.execute("DELETE FROM tool_calls WHERE message_id = ?", (message,))
        for statement in (_KIND_SQL, _ERROR_SQL, _RESULT_SQL):
            database.execute(statement, (message, original))
        self._merge_responses(message, original)

    def _merge_responses(self, message: int, original: int) -> None:
        """Give the original the response of the message, or the values that only that has."""
        database = self.database
        last = "SELECT ifnull(part_of, id), session_id, agent_id FROM messages WHERE id = ?"
        answer, *owner = self._row(last, original) or ()
        existing, other = self._row(_RESPONSE_SQL, answer), self._row(_RESPONSE_SQL, message)
        if other is not None and existing is None:
            database.execute(_MOVE_RESPONSE_SQL, (answer, *owner, other[0]))
        elif other is not None and existing is not None:
            if not existing[1] and other[1]:
                database.execute(_COPY_RESPONSE_SQL, (other[0], existing[0]))
            database.execute(_COPY_COST_SQL, (other[0], existing[0]))
            database.execute("DELETE FROM requests WHERE id = ?", (other[0],))
            key = "UPDATE requests SET response = ifnull(?, response) WHERE id = ?"
            database.execute(key, (other[2], existing[0]))

    def _row(self, query: str, id_: int) -> tuple[Any, ...] | None:
        return self.database.execute(query, (id_,)).fetchone()


class _Message(msgspec.Struct, frozen=True):
    """An unpaired message."""

    id: int
    agent: int
    role: str
    call: str | None
    """For a result: the id of its call."""
    response: str | None
    """For an answer: the key of its response."""
    location: dict[str, Any]


class _SessionPairing:
    """The pairing of one session."""

    def __init__(
        self, database: apsw.Connection, session: int, pairs: _Pairs, read: ReadTexts
    ) -> None:
        self._database, self._session, self._pairs, self._read = database, session, pairs, read
        ((self._runtime,),) = self._rows("SELECT runtime FROM sessions WHERE id = ?")
        self._agents: dict[int, int] = dict(self._rows(_AGENTS_SQL))
        """Agent of a file -> agent of the recording, where they differ."""
        self._originals = {row.id: row for row in self._load(_ORIGINALS_SQL)}
        self._others = {row.id: row for row in self._load(_OTHERS_SQL)}

    def run(self) -> None:
        """Pair all messages that can be paired, and complete the calls of the recording."""
        self._pair_results()
        self._pair_calls()
        self._pair_texts()
        self._find_results()

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query about the session."""
        yield from self._database.execute(query, (self._session,))

    def _load(self, query: str) -> Iterator[_Message]:
        for id_, agent, role, call, response, *place in self._rows(query):
            names = ("hash", "session_id", "position")
            location = dict(zip(names, place, strict=True))
            yield _Message(id_, agent, role, call, response, location)

    def _pair(self, other: int, original: int) -> None:
        message = self._others.pop(other)
        recorded = self._originals.pop(original)
        if message.agent != recorded.agent:
            self._agents.setdefault(message.agent, recorded.agent)
        self._pairs.add(other, original)

    def _pair_results(self) -> None:
        originals = {row.call: row.id for row in self._originals.values() if row.call}
        for row in [*self._others.values()]:
            if row.call and row.call in originals:
                self._pair(row.id, originals.pop(row.call))

    def _pair_calls(self) -> None:
        originals = {
            call: message
            for message, call in self._iter_calls(self._originals)
            if message in self._originals
        }
        for message, call in [*self._iter_calls(self._others)]:
            if message in self._others and originals.get(call) in self._originals:
                self._pair(message, originals[call])

    def _iter_calls(self, messages: Iterable[int]) -> Iterator[tuple[int, str]]:
        query = "SELECT message_id, call_id FROM tool_calls WHERE call_id <> '' AND message_id IN"
        yield from iter_rows_in(self._database, query, list(messages))

    def _pair_texts(self) -> None:
        keys = self._find_text_keys([*self._originals.values(), *self._others.values()])
        originals: dict[tuple[int, bytes], deque[_Message]] = defaultdict(deque)
        for row in self._originals.values():
            if row.id in keys:
                originals[row.agent, keys[row.id]].append(row)
        for row in [*self._others.values()]:
            agent = self._agents.get(row.agent, row.agent)
            candidates = originals.get((agent, keys[row.id])) if row.id in keys else None
            original = next((c for c in candidates or () if self._may_be_equal(row, c)), None)
            if candidates is not None and original is not None:
                candidates.remove(original)
                self._pair(row.id, original.id)

    def _may_be_equal(self, message: _Message, original: _Message) -> bool:
        """Whether two messages with equal text may be one: not if their responses are two."""
        if self._runtime in _RUNTIMES_WITH_OWN_IDS or not (message.response and original.response):
            return True
        kinds = [_ID_KIND_PATTERN.match(key) for key in (message.response, original.response)]
        names = [None if kind is None else kind[0] for kind in kinds]
        return None in names or names[0] != names[1]

    def _find_text_keys(self, messages: Sequence[_Message]) -> dict[int, bytes]:
        """Return a key of the text of each message, without the text that clients add."""
        query = "SELECT message_id, key FROM text_keys WHERE message_id IN"
        ids = [row.id for row in messages]
        keys: dict[int, bytes] = dict(iter_rows_in(self._database, query, ids))
        missing = [row for row in messages if row.id not in keys]
        texts = self._read([row.location for row in missing])
        new = {row.id: _text_key(row, text) for row, text in zip(missing, texts, strict=True)}
        self._database.executemany("INSERT INTO text_keys VALUES (?, ?)", new.items())
        return keys | new

    def _find_results(self) -> None:
        """Complete the calls of the recording whose results were read for calls of the file."""
        calls = list(self._rows(_OPEN_CALLS_SQL))
        results = self._rows(_RESULTS_SQL) if calls else ()
        by_call = {(agent, call): (id_, error, time) for id_, agent, call, error, time in results}
        for row, agent, call, called_at in calls:
            id_, is_error, time = by_call.get((agent, call), (None, None, None))
            duration = None if time is None or called_at is None else time - called_at
            if id_ is not None:
                is_known = duration is not None and duration >= 0
                values = id_, is_error, duration if is_known else None, row
                self._database.execute(_COMPLETE_CALL_SQL, values)


def _text_key(message: _Message, text: MessageText) -> bytes:
    joined = "\n".join(text.texts)
    role = message.role if message.role in ("assistant", "tool") else "other"
    if message.role == "user":
        joined = extract_typed_text(joined) or joined
    content = " ".join(joined.split()).encode("utf-8", "surrogatepass")
    return blake3(role.encode() + b"\n" + (content or message.location["hash"])).digest(16)


_MESSAGE_COLUMNS = """
m.id, m.agent_id, m.role, CASE m.role WHEN 'tool' THEN m.call_id END, r.response, m.hash,
m.session_id, m.position FROM messages m LEFT JOIN requests r ON r.message_id = m.id
"""
_ORIGINALS_SQL = f"""
SELECT {_MESSAGE_COLUMNS} WHERE m.session_id = ? AND NOT m.is_repeat
AND (m.event IS NOT NULL OR m.id IN (SELECT message_id FROM recorded))
AND NOT EXISTS (SELECT 1 FROM pairs WHERE recorded_id = m.id)
ORDER BY ifnull(m.time, 0), m.position, m.id
"""  # noqa: S608 - columns of ours
_OTHERS_SQL = f"""
SELECT {_MESSAGE_COLUMNS} WHERE m.session_id IN (SELECT ?1 UNION ALL SELECT child.id
FROM native_agents n JOIN sessions s ON s.id = n.session_id
JOIN sessions child ON child.name = s.runtime || ':' || n.native
WHERE n.session_id = ?1 AND child.id <> ?1) AND NOT m.is_repeat AND m.event IS NULL
AND m.id NOT IN (SELECT message_id FROM recorded)
ORDER BY m.commit_id, m.position
"""  # noqa: S608 - columns of ours
_AGENTS_SQL = """
SELECT m.agent_id, original.agent_id FROM messages original
JOIN pairs p ON original.id = p.recorded_id JOIN messages m ON m.id = p.message_id
WHERE original.session_id = ?1 AND m.agent_id <> original.agent_id
UNION SELECT a.id, n.agent_id FROM native_agents n JOIN sessions s ON s.id = n.session_id
JOIN sessions child ON child.name = s.runtime || ':' || n.native
JOIN agents a ON a.session_id = child.id AND a.name IN (n.native, '')
WHERE n.session_id = ?1 AND child.id <> ?1
"""
_KIND_SQL = """
UPDATE messages SET kind = (SELECT kind FROM messages WHERE id = ?1) WHERE id = ?2
AND role = 'user' AND (SELECT role FROM messages WHERE id = ?1) = 'user'
"""
_ERROR_SQL = """
UPDATE messages SET is_error = ifnull((SELECT is_error FROM messages WHERE id = ?1), is_error)
WHERE id = ?2 AND role = 'tool'
"""
_RESULT_SQL = """
UPDATE tool_calls SET result_id = ?2, is_error = (SELECT is_error FROM messages WHERE id = ?2),
duration = CASE WHEN (SELECT time FROM messages WHERE id = ?2) >= time
THEN (SELECT time FROM messages WHERE id = ?2) - time END
WHERE result_id IN (?1, ?2)
"""
_RESPONSE_SQL = """
SELECT id, input_tokens IS NOT NULL OR output_tokens IS NOT NULL, response FROM requests
WHERE message_id = ?
"""
_MOVE_RESPONSE_SQL = """
UPDATE requests SET message_id = ?, session_id = ?, agent_id = ? WHERE id = ?
"""
_COPY_RESPONSE_SQL = """
UPDATE requests SET (model, stop_reason, input_tokens, cache_read_tokens, cache_write_tokens,
output_tokens, reasoning_tokens, cost_usd, is_cost_told) = (SELECT model, stop_reason, input_tokens,
cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_usd, is_cost_told
FROM requests WHERE id = ?1) WHERE id = ?2
"""
_COPY_COST_SQL = """
UPDATE requests SET (cost_usd, is_cost_told) = (SELECT cost_usd, is_cost_told FROM requests
WHERE id = ?1) WHERE id = ?2 AND cost_usd IS NULL
"""
_OPEN_CALLS_SQL = """
SELECT t.id, t.agent_id, t.call_id, t.time FROM tool_calls t JOIN messages m ON m.id = t.message_id
WHERE t.session_id = ? AND t.result_id IS NULL AND t.call_id <> '' AND m.event IS NOT NULL
"""
_RESULTS_SQL = """
SELECT id, agent_id, call_id, is_error, time FROM messages
WHERE session_id = ? AND role = 'tool' AND NOT is_repeat
"""
_COMPLETE_CALL_SQL = """
UPDATE tool_calls SET result_id = ?, is_error = ?, duration = ? WHERE id = ?
"""
_COMPACTIONS_SQL = """
UPDATE commits SET is_repeat = 1 WHERE type = 'compaction' AND NOT is_repeat
AND agent_id IN (SELECT id FROM agents WHERE session_id = ?1) AND session_id = ?1
AND EXISTS (SELECT 1 FROM messages m JOIN pairs p ON p.message_id = m.id
JOIN messages original ON original.id = p.recorded_id
JOIN commits c ON c.id = original.commit_id AND c.type = 'compaction'
WHERE m.commit_id = commits.id AND m.kind = 'summary')
"""
