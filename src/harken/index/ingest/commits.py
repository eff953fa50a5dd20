"""Write commits and their messages to the index.

Each message has one row that counts, however many commits and files contain it. A repeat is
recognized by three keys: by the native ids of its runtime, by its position in the history (a file
that grew has the same messages in a longer commit), and, in a compaction or a snapshot, by its
content since the beginning of that history.

Source: docs/formats/facts.md, "Repeats".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from blake3 import blake3

from harken.context.checkpoint import SEPARATOR
from harken.core.commits import CommitId, DeltaEntry
from harken.index.ingest.messages import MessageRow, Messages
from harken.index.ingest.new_commits import CommitText
from harken.index.ingest.responses import ResponseIngest, ResponseRow
from harken.index.ingest.row_writer import RowWriter, time_us
from harken.index.ingest.usage import TokenCounts, parse_usage, reported_cost, reported_provider
from harken.index.message_text import MessageText, to_utf8
from harken.store.base import StoredCommit

HARKEN_RUNTIME = "harken"
"""Name of Harken itself among the runtimes."""
_MIN_GLOBAL_ID_CHARS = 16
"""Minimum length of a response id that is unique over all sessions.

A shorter one, as Pi assigns them, is unique in its session only.
"""
_RUNTIMES_WITHOUT_STATUS = frozenset({"codex"})
"""Runtimes whose results do not report success, except for the exit code of a command."""
_SUMMARY_PREFIX_CHARS = 100
_HASH_MULTIPLIER, _MASK_64_BITS = 0x9E3779B97F4A7C15, (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class CommitAuthor:
    """The runtime, session and agent of a commit."""

    runtime: str
    native: str
    """The runtime's id of the session."""
    agent: str
    """Name of the agent; empty for the main conversation."""

    @property
    def session(self) -> str:
        """The unique name of the session over all runtimes."""
        return self.native if self.runtime == HARKEN_RUNTIME else f"{self.runtime}:{self.native}"


def parse_author(principal: str, session_id: str) -> CommitAuthor:
    """Parse the principal `NAME/AGENT` and the session `RUNTIME:ID` of a commit.

    A session without a runtime belongs to Harken.

    >>> parse_author("alice/ann", "codex:0f1e")
    CommitAuthor(runtime='codex', native='0f1e', agent='ann')
    >>> parse_author("demo/Jack", "demo")
    CommitAuthor(runtime='harken', native='demo', agent='Jack')
    """
    agent = to_utf8(principal.partition(SEPARATOR)[2])
    runtime, colon, native = session_id.partition(":")
    if colon and runtime:
        return CommitAuthor(to_utf8(runtime), to_utf8(native), agent)
    return CommitAuthor(HARKEN_RUNTIME, to_utf8(session_id or principal), agent)


@dataclass(frozen=True, slots=True)
class _CommitRow:
    """A commit and the ids of its rows."""

    row: int
    root: int
    """Row id of the first commit of its history."""
    session: int
    agent: int
    origin: CommitAuthor
    text: CommitText
    is_logged: bool
    """Whether the session's log is indexed, which has all messages of this commit."""


class _CommitMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a commit, and its deduplication keys."""

    position: int
    entry: DeltaEntry
    said: MessageText
    content: int
    """Key of its content and the root of its history."""
    others: tuple[int, ...]
    """Keys of its native ids and of its position."""
    response: str | None
    """Key of the response that it belongs to."""
    usage: Mapping[str, Any]

    @property
    def source(self) -> Mapping[str, Any]:
        """The runtime's metadata of the message."""
        return self.entry.source or {}


@dataclass(slots=True)
class CommitIngest:
    """Write rows of commits."""

    ledger: RowWriter
    messages: Messages
    requests: ResponseIngest
    logged: set[int]
    """Row ids of sessions with an indexed log."""
    _roots: dict[CommitId, tuple[int, int, int]] = field(default_factory=dict)
    """Commit -> row ids of the commit, its root and its agent."""
    _continued: set[int] = field(default_factory=set)
    """Commits that have a `next` child."""
    _links: dict[CommitId, int] = field(default_factory=dict)
    """Commit -> its agent according to the log."""
    superseded: list[tuple[int]] = field(default_factory=list)
    """Messages that a newer version replaced, to be removed from the index."""
    _tips: list[tuple[int, int]] = field(default_factory=list)

    def add(self, texts: Sequence[CommitText]) -> None:
        """Add commits, parents first, and write them."""
        self._load_existing(texts)
        rows = [self._add_commit(row) for row in texts]
        items = [(row, item) for row in rows if not row.is_logged for item in _iter_messages(row)]
        keys = {key for _, item in items for key in (item.content, *item.others)}
        existing_keys = self.ledger.find_existing_keys(keys)
        self.requests.load_existing(
            {item.response for _, item in items if item.response is not None}
        )
        for row, item in items:
            self._add_message(row, item, existing_keys)
        self._write()

    def _write(self) -> None:
        self.messages.write()
        self.requests.write()
        database = self.ledger.database
        database.executemany("UPDATE messages SET is_repeat = 1 WHERE id = ?", self.superseded)
        database.executemany("DELETE FROM tool_calls WHERE message_id = ?", self.superseded)
        database.executemany(_TIP_SQL, self._tips)
        self._tips.clear()

    def _load_existing(self, texts: Sequence[CommitText]) -> None:
        """Load the rows of parents that were indexed before."""
        new_ids = {text.stored.id for text in texts}
        parents = {text.stored.commit.parent for text in texts} - new_ids - {None}
        names = [bytes.fromhex(name[4:]) for name in parents if name is not None]
        query = (
            "SELECT name, c.id, r.root, agent_id, EXISTS (SELECT 1 FROM edges e "
            "WHERE e.parent_id = c.id AND kind = 'next') "
            "FROM commits c JOIN roots r ON r.commit_id = c.id WHERE name IN"
        )
        for name, row, root, agent, is_continued in self.ledger.rows(query, names):
            self._roots[CommitId(f"ctx-{name.hex()}")] = row, root, agent
            if is_continued:
                self._continued.add(row)
        names = [bytes.fromhex(text.stored.id[4:]) for text in texts]
        for name, agent in self.ledger.rows("SELECT ctx, agent_id FROM links WHERE ctx IN", names):
            self._links[CommitId(f"ctx-{name.hex()}")] = agent

    def _add_commit(self, text: CommitText) -> _CommitRow:
        """Add a commit and its edge from the parent."""
        stored, commit, ledger = text.stored, text.stored.commit, self.ledger
        origin = parse_author(commit.principal, commit.session_id)
        parent = self._roots.get(commit.parent) if commit.parent is not None else None
        session = ledger.session(origin.session, origin.runtime, origin.native)
        is_logged = session in self.logged
        agent = self._links.get(stored.id) if is_logged else None
        if agent is None:
            is_spawn = commit.checkpoint == "spawn" and parent is not None
            agent = ledger.agent(
                session,
                to_utf8(commit.principal),
                origin.agent,
                template=to_utf8(commit.template),
                parent=parent[2] if is_spawn and parent is not None else None,
            )
        row = ledger.number("commits")
        root = row if parent is None else parent[1]
        self._roots[stored.id] = row, root, agent
        ledger.add(
            "commits",
            row,
            bytes.fromhex(stored.id[4:]),
            None if parent is None else parent[0],
            session,
            agent,
            commit.type,
            commit.checkpoint,
            time_us(commit.created_at),
            commit.message_count,
            commit.token_count,
        )
        ledger.add("roots", row, root)
        self._tips.append((row, agent))
        if text.outcome and not is_logged:
            end_us = time_us(commit.created_at)
            ledger.database.execute(_OUTCOME_SQL, (to_utf8(text.outcome), end_us, session))
        if parent is not None:
            ledger.add("edges", parent[0], row, self._edge_kind(stored, parent[0]))
        return _CommitRow(row, root, session, agent, origin, text, is_logged)

    def _edge_kind(self, stored: StoredCommit, parent: int) -> str:
        if stored.commit.checkpoint == "spawn":
            return "spawn"
        if stored.commit.type == "compaction":
            return "compaction"
        kind = "fork" if parent in self._continued else "next"
        self._continued.add(parent)
        return kind

    def _add_message(
        self, row: _CommitRow, message: _CommitMessage, existing_keys: set[int]
    ) -> None:
        """Add a message of a commit, and the response that it belongs to."""
        is_same_content = (
            row.text.stored.commit.type != "delta" and message.content in existing_keys
        )
        is_repeat = is_same_content or not existing_keys.isdisjoint(message.others)
        existing_keys.update((message.content, *message.others))
        self.ledger.keys.update((message.content, *message.others))
        entry, counts = message.entry, parse_usage(message.usage) if message.usage else _NO_TOKENS
        if not is_repeat:
            is_repeat = self._is_superseded(message, counts)
        commit, time = row.text.stored.commit, time_us(entry.time)
        new_row = MessageRow(
            commit=row.row,
            position=message.position,
            session=row.session,
            agent=row.agent,
            kind=_message_kind(row, message, is_repeat=is_repeat),
            time_us=time,
            commit_time_us=time_us(commit.created_at) if time is None else None,
            hash=bytes.fromhex(entry.message),
            text=message.said,
            calls=[_get_text(call, "id") for call in entry.occurrence.calls],
            answered_call_id=entry.occurrence.tool_call_id if message.said.role == "tool" else None,
            is_failed=_is_failed(row, message),
            is_repeat=is_repeat,
        )
        message_row = self.messages.add(new_row)
        if not is_repeat and (new_row.kind == "response" or counts.is_nonzero):
            self._add_response(row, message, counts, (message_row, new_row.time_us))

    def _is_superseded(self, item: _CommitMessage, counts: TokenCounts) -> bool:
        """Whether a later version of the same response, with more output, was read before.

        If the earlier version has less output, it is marked as superseded.
        """
        earlier = None if item.response is None else self.requests.by_id.get(item.response)
        if earlier is None or earlier.message is None or item.said.role != "assistant":
            return False
        if (counts.output or 0) < earlier.output:
            return True
        self.superseded.append((earlier.message,))
        return False

    def _add_response(
        self,
        row: _CommitRow,
        message: _CommitMessage,
        counts: TokenCounts,
        message_row: tuple[int, int | None],
    ) -> None:
        """Add a response. `message_row` is the row id of its message, and its time."""
        message_id, time = message_row
        self.requests.add(
            ResponseRow(
                id=message.response,
                session=row.session,
                agent=row.agent,
                message=message_id if message.said.role == "assistant" else None,
                model=_get_text(message.source, "model"),
                provider=reported_provider(message.source) or row.origin.runtime,
                time_us=time,
                stop_reason=_get_text(message.source, "stop_reason") or None,
                counts=counts,
                cost_usd=reported_cost(message.source),
            )
        )


_NO_TOKENS = TokenCounts()
_OUTCOME_SQL = "UPDATE sessions SET outcome = ?1, ended = max(ifnull(ended, ?2), ?2) WHERE id = ?3"
_TIP_SQL = """
UPDATE agents SET tip_id = ?1 WHERE id = ?2 AND (tip_id IS NULL OR
(SELECT time FROM commits WHERE id = tip_id) <= (SELECT time FROM commits WHERE id = ?1))
"""


def _iter_messages(row: _CommitRow) -> Iterator[_CommitMessage]:
    """Yield the messages of a commit with their deduplication keys."""
    parent = row.text.stored.commit.parent or row.origin.session
    for position, (entry, text) in enumerate(row.text.messages):
        source = entry.source or {}
        call_id = entry.occurrence.tool_call_id or ""
        keys = [_hash_key("place", parent, str(position), entry.message, entry.time or "", call_id)]
        native_id = next(filter(None, (source.get(name) for name in ("uuid", "uuids", "id"))), None)
        if native_id is not None:
            keys.append(_hash_key("id", row.origin.runtime, str(native_id), entry.message, call_id))
        usage = source.get("usage")
        yield _CommitMessage(
            position=position,
            entry=entry,
            said=text,
            content=_content_key(row.root, entry.message),
            others=tuple(keys),
            response=_response_key(row.origin, entry),
            usage=usage if isinstance(usage, dict) else {},
        )


def _is_failed(row: _CommitRow, message: _CommitMessage) -> bool | None:
    """Whether a result belongs to a call that failed. Return None if that is unknown."""
    exit_code = message.source.get("exit_code")
    if message.said.is_error or message.said.role != "tool":
        return message.said.is_error
    if isinstance(exit_code, int):
        return exit_code != 0
    return None if row.origin.runtime in _RUNTIMES_WITHOUT_STATUS else False


def _message_kind(row: _CommitRow, message: _CommitMessage, *, is_repeat: bool) -> str:
    """Return the kind of a message for the `kind` column."""
    kind = message.source.get("kind")
    match message.said.role:
        case "tool":
            return "tool_result"
        case "assistant":
            if kind == "error" or message.source.get("error"):
                return "error"
            is_summary = row.text.stored.commit.type == "compaction" and not is_repeat
            return "summary" if is_summary else "system" if kind == "client" else "response"
        case "user":
            return _user_message_kind(row, message, is_repeat=is_repeat)
    return "system"


def _user_message_kind(row: _CommitRow, message: _CommitMessage, *, is_repeat: bool) -> str:
    """Classify a user message: a prompt, a summary, or text inserted by the runtime."""
    stored, kind = row.text.stored, message.source.get("kind")
    if message.source.get("summary") is True:
        return "summary"
    if stored.commit.type == "compaction" and not is_repeat:
        prefix = stored.notes.summary[:_SUMMARY_PREFIX_CHARS]
        is_summary = prefix and any(prefix in text for text in message.said.texts)
        return "summary" if is_summary or kind != "system" else "system"
    return "system" if kind == "system" or row.origin.agent else "prompt"


def _response_key(origin: CommitAuthor, entry: DeltaEntry) -> str | None:
    """Return a unique key of the response, or None if it has no id."""
    source = entry.source or {}
    pi_metadata = source.get("pi")
    id_ = _get_text(pi_metadata, "responseId") if isinstance(pi_metadata, dict) else ""
    id_ = to_utf8(id_ or _get_text(source, "id"))
    if not id_:
        return None
    if origin.runtime == "opencode":  # OpenCode has one id for all steps of a response.
        return f"{id_}/{entry.message[:16]}"
    return id_ if len(id_) >= _MIN_GLOBAL_ID_CHARS else f"{origin.session}/{id_}"


def _get_text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


def _content_key(root: int, message: str) -> int:
    """Return a key of a content and a history root. Message hashes are uniformly distributed."""
    mixed = (int(message[:16], 16) + root * _HASH_MULTIPLIER) & _MASK_64_BITS
    return mixed - (1 << 63)


def _hash_key(*parts: str) -> int:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake3(data).digest(8), "big", signed=True)
