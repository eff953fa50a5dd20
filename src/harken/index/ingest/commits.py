"""Write commits and their messages to the index.

Each message has one row that counts, however many commits and files contain it. A repeat is
recognized by three keys: by the native ids of its runtime, by its position in the history (a file
that grew has the same messages in a longer commit), and, in a compaction or a snapshot, by its
content since the beginning of that history.

A session of another runtime may have a log, too, and commits that were made from it. The messages
of these commits are those of the log, and so are the answers of a file that the log has. All other
messages of the file are added, and compared with those of the log later: see `message_pairs`.

Source: docs/formats/facts.md, "Repeats".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from blake3 import blake3

from harken.context.checkpoint import SEPARATOR
from harken.core.commits import Commit, CommitId, DeltaEntry
from harken.formats.runtimes.steps import REPEATS
from harken.index.ingest.messages import MessageRow, Messages
from harken.index.ingest.new_commits import CommitText
from harken.index.ingest.outcomes import OutcomeSource, note_outcome
from harken.index.ingest.responses import (
    ResponseIngest,
    ResponseRow,
    StoredResponse,
    format_response_key,
)
from harken.index.ingest.row_writer import RowWriter, time_us
from harken.index.ingest.usage import TokenCounts, parse_usage, reported_cost, reported_provider
from harken.index.message_text import MessageText, to_utf8
from harken.index.schema import HARKEN_RUNTIME
from harken.store.base import StoredCommit

_RUNTIMES_WITHOUT_STATUS = frozenset({"codex"})
"""Runtimes whose results do not report success, except for the exit code of a command."""
_SUMMARY_PREFIX_CHARS = 100
_HASH_MULTIPLIER, _MASK_64_BITS = 0x9E3779B97F4A7C15, (1 << 64) - 1


class CommitAuthor(msgspec.Struct, frozen=True):
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


class _CommitRow(msgspec.Struct, frozen=True):
    """A commit and the ids of its rows."""

    row: int
    root: int
    """Row id of the first commit of its history."""
    session: int
    agent: int
    origin: CommitAuthor
    text: CommitText
    is_logged: bool
    """Whether an indexed log has all messages of this commit."""
    is_recorded: bool
    """Whether it was made from a log that is not indexed: no message has a native source."""


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


class CommitIngest(msgspec.Struct):
    """Write rows of commits."""

    ledger: RowWriter
    messages: Messages
    requests: ResponseIngest
    _roots: dict[CommitId, tuple[int, int, int]] = msgspec.field(default_factory=dict)
    """Commit -> row ids of the commit, its root and its agent."""
    _continued: set[int] = msgspec.field(default_factory=set)
    """Commits that have a `next` child."""
    _links: dict[tuple[CommitId, int], int] = msgspec.field(default_factory=dict)
    """Commit, and the session of a log that names it -> its agent according to the log."""
    _logged: dict[int, bool] = msgspec.field(default_factory=dict)
    """Whether a session has an indexed log, by its row id."""
    _recorded: dict[int, bool] = msgspec.field(default_factory=dict)
    """Whether a session of another runtime has messages of a recording."""
    superseded: list[tuple[int]] = msgspec.field(default_factory=list)
    """Messages that a newer version replaced, to be removed from the index."""
    _tips: list[tuple[int, int, str | None]] = msgspec.field(default_factory=list)
    """Commit, agent, and the principal of an agent of another runtime."""
    _unrecorded: set[int] = msgspec.field(default_factory=set)
    """Sessions of other runtimes without a recording."""

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
        for name, agent, session in self.ledger.rows(_LOG_LINKS_SQL, names):
            self._links[CommitId(f"ctx-{name.hex()}"), session] = agent

    def _add_commit(self, text: CommitText) -> _CommitRow:
        """Add a commit and its edge from the parent."""
        stored, commit, ledger = text.stored, text.stored.commit, self.ledger
        origin = parse_author(commit.principal, commit.session_id)
        parent = self._roots.get(commit.parent) if commit.parent is not None else None
        session = ledger.session(origin.session, origin.runtime, origin.native)
        is_own = origin.runtime == HARKEN_RUNTIME
        link = self._links.get((stored.id, session))
        is_logged = link is not None or (is_own and self._is_logged(session))
        is_recorded = not (is_own or is_logged) and _is_without_source(text)
        agent = link or self._find_agent(session, origin, commit, parent)
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
            False,
        )
        ledger.add("roots", row, root)
        self._tips.append((row, agent, None if is_own else to_utf8(commit.principal)))
        if not is_own:
            self._mark_unpaired(session, origin, is_recorded=is_recorded)
        if text.outcome:
            source = OutcomeSource.RECORDING if is_logged else OutcomeSource.OUTPUT
            time = time_us(commit.created_at)
            note_outcome(ledger.database, session, source, text.outcome, time)
        if parent is not None:
            ledger.add("edges", parent[0], row, self._edge_kind(stored, parent[0]))
        return _CommitRow(row, root, session, agent, origin, text, is_logged, is_recorded)

    def _find_agent(
        self,
        session: int,
        origin: CommitAuthor,
        commit: Commit,
        parent: tuple[int, int, int] | None,
    ) -> int:
        """Return the agent of a commit by its principal, or by the runtime's name of it."""
        is_spawn = commit.checkpoint == "spawn" and parent is not None
        spawner = parent[2] if is_spawn and parent is not None else None
        principal, template = to_utf8(commit.principal), to_utf8(commit.template)
        if origin.runtime == HARKEN_RUNTIME:
            return self.ledger.agent(
                session, principal, origin.agent, template=template, parent=spawner
            )
        agent = self.ledger.native_agent(
            session, origin.agent, principal, origin.agent, parent=spawner
        )
        if template:
            self.ledger.database.execute(_TEMPLATE_SQL, (template, agent))
        return agent

    def _mark_unpaired(self, session: int, origin: CommitAuthor, *, is_recorded: bool) -> None:
        """Note new messages of a session that has a recording, also of its parent session.

        Codex stores a subagent as a session, which a recording has as an agent.
        """
        if is_recorded:
            self._recorded[session] = True
        if self._is_recorded(session):
            self.ledger.mark_unpaired(session)
        elif session not in self._unrecorded:
            self._unrecorded.add(session)
            for (parent,) in self.ledger.database.execute(
                _PARENT_SESSIONS_SQL, (origin.native, origin.runtime)
            ):
                self.ledger.mark_unpaired(parent)

    def _is_logged(self, session: int) -> bool:
        if session not in self._logged:
            self._logged[session] = self.ledger.query_value(_LOGGED_SQL, session) is not None
        return self._logged[session]

    def _is_recorded(self, session: int) -> bool:
        if session not in self._recorded:
            value = self.ledger.query_value(_RECORDED_SQL, session)
            self._recorded[session] = value is not None
        return self._recorded[session]

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
        entry, counts = message.entry, parse_usage(message.usage) if message.usage else _NO_TOKENS
        answer = self.requests.by_id.get(message.response or "")
        is_new_answer = message.response is not None and answer is None and counts.is_nonzero
        is_same_content = (
            row.text.stored.commit.type != "delta"
            and message.content in existing_keys
            and not is_new_answer
        )
        repeats = message.source.get(REPEATS)
        is_repeat = is_same_content or not existing_keys.isdisjoint(message.others)
        if isinstance(repeats, bool):  # Its reader knows it: agents may have equal messages.
            is_repeat = repeats
        keys = message.others if repeats is True else (message.content, *message.others)
        existing_keys.update(keys)
        self.ledger.keys.update(keys)
        logged_answer = None if is_repeat else _find_logged_answer(message, answer)
        is_counted = not is_repeat
        if not is_repeat:
            is_repeat = logged_answer is not None or self._is_superseded(message, counts)
            is_counted = logged_answer is not None or not is_repeat
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
            is_failed=(
                has_failed(row.origin.runtime, message.source, is_error=message.said.is_error)
                if message.said.role == "tool"
                else message.said.is_error
            ),
            is_repeat=is_repeat,
        )
        message_row = self.messages.add(new_row)
        if row.is_recorded:
            self.ledger.add("recorded", message_row)
        if logged_answer is not None:
            self.ledger.add("pairs", message_row, logged_answer)
        if is_counted and (new_row.kind == "response" or counts.is_nonzero):
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
_LOG_LINKS_SQL = """
SELECT ctx, agent_id, session_id FROM links JOIN logs ON logs.id = log_id WHERE ctx IN"""
_TEMPLATE_SQL = "UPDATE agents SET template = ?1 WHERE id = ?2 AND template = ''"
_LOGGED_SQL = "SELECT 1 FROM logs WHERE session_id = ? LIMIT 1"
_RECORDED_SQL = f"""
SELECT 1 FROM sessions WHERE id = ?1 AND log <> '' AND runtime <> '{HARKEN_RUNTIME}'
UNION ALL
SELECT 1 FROM messages CROSS JOIN recorded ON message_id = messages.id WHERE session_id = ?1
LIMIT 1
"""  # noqa: S608 - a name of ours
_PARENT_SESSIONS_SQL = """
SELECT session_id FROM native_agents JOIN sessions s ON s.id = session_id
WHERE native_agents.native = ?1 AND s.runtime = ?2 AND native_agents.native <> s.native
"""
_TIP_SQL = """
UPDATE agents SET tip_id = ?1, principal = CASE WHEN ?3 IS NULL OR EXISTS (SELECT 1 FROM agents a
WHERE a.session_id = agents.session_id AND a.principal = ?3) THEN principal ELSE ?3 END
WHERE id = ?2 AND (tip_id IS NULL OR
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


def has_failed(runtime: str, source: Mapping[str, Any], *, is_error: bool) -> bool | None:
    """Whether the call of a result failed. Return None if that is unknown.

    `source` is that of the result, in a session of the runtime.
    """
    exit_code = source.get("exit_code")
    if is_error:
        return True
    if isinstance(exit_code, int):
        return exit_code != 0
    return None if runtime in _RUNTIMES_WITHOUT_STATUS else False


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
    return format_response_key(id_, origin.session)


def _find_logged_answer(message: _CommitMessage, answer: StoredResponse | None) -> int | None:
    """Return the message of a log that is the same response. Return None if no log has it."""
    is_logged = answer is not None and answer.is_recorded and message.said.role == "assistant"
    return answer.message if answer is not None and is_logged else None


def _is_without_source(text: CommitText) -> bool:
    """Whether no message has a native source. Each commit of an import has one."""
    return bool(text.messages) and all(entry.source is None for entry, _ in text.messages)


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
