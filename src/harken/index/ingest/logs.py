"""Write the logs of Harken's own sessions to the index.

The log is the complete record of a run. It has what commits lack: usage, errors, and messages that
are in no commit yet. So if a session has a log, all its messages are read from the log, and its
commits only serve as points to resume from. A message from one agent to another is in both
transcripts and counts once.

Source: docs/formats/session-log.md; docs/formats/facts.md, "Sessions of Harken".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harken.core.commits import encode_entry
from harken.core.events import (
    AgentCreated,
    AgentMoved,
    ContextCommitted,
    Event,
    HookVerdict,
    LlmRequest,
    LlmResponse,
    SessionEnded,
    TranscriptEdited,
    TranscriptEntry,
    decode_event,
)
from harken.core.ids import USER, Origin, parse_id_number, reference_message_id
from harken.formats.runtimes.user_text import extract_typed_text
from harken.index.ingest.messages import MessageLinks, MessageRow, Messages
from harken.index.ingest.responses import ResponseIngest, ResponseRow
from harken.index.ingest.row_writer import RowWriter, time_us
from harken.index.ingest.usage import TokenCounts, counts_from_log
from harken.index.message_text import MessageText, decode_shape, extract_text, to_utf8
from harken.session.log.checksum import has_more, has_sum, seems_sealed
from harken.session.log.compressed import stat_log
from harken.session.log.reader import iter_events as events_of
from harken.session.log.reader import open_log

CHUNK_BYTES = 4 * 1024 * 1024
"""Maximum number of bytes that are read and written in one transaction."""
_TAIL_BYTES = 64


class LogChanged(Exception):
    """A log was replaced or truncated: the bytes that were read are no longer in it."""


@dataclass(slots=True)
class LogOffset:
    """The offset up to which a log has been read."""

    session: str = ""
    """Empty if the log has no session id; then nothing of it is indexed."""
    size: int = 0
    tail: bytes = b""
    """The last bytes before the offset, to detect a replaced log."""


@dataclass(frozen=True, slots=True)
class IndexedLine:
    """An event and the start and end offsets of its line."""

    event: Event
    start: int
    end: int


def has_grown(path: Path, mark: LogOffset) -> bool:
    """Whether a log is longer than what was read. Raises LogChanged, OSError."""
    size = stat_log(path).size_bytes
    if size < mark.size:
        raise LogChanged
    return size > mark.size


def iter_chunks(path: Path, mark: LogOffset) -> Iterator[list[IndexedLine]]:
    """Yield new events of a log in chunks, and advance `mark` after each chunk.

    Invalid lines are skipped. A line without a line end and an incomplete group are read next
    time. A log in the older format without checksums is read in one chunk. Raises LogChanged,
    LogError, OSError.
    """
    with open_log(path) as file:
        if mark.size:
            file.seek(mark.size - len(mark.tail))
            if file.read(len(mark.tail)) != mark.tail:
                raise LogChanged
        elif not seems_sealed(file.readline()):
            yield _read_unsealed_log(path, mark)
            return
        else:
            file.seek(0)
        unread: list[bytes] = []
        while lines := file.readlines(CHUNK_BYTES):
            complete, unread = _split_at_group_end([*unread, *lines])
            if chunk := _decode_chunk(complete, mark):
                yield chunk


def _read_unsealed_log(path: Path, mark: LogOffset) -> list[IndexedLine]:
    lines = [IndexedLine(event, 0, 0) for event in events_of(path)]
    mark.size, mark.tail = stat_log(path).size_bytes, b""
    return lines


def _split_at_group_end(lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return the lines of complete groups, and the lines after them."""
    end = len(lines)
    while end and not _ends_group(lines[end - 1]):
        end -= 1
    return lines[:end], lines[end:]


def _ends_group(line: bytes) -> bool:
    return line.endswith(b"\n") and not (has_sum(line) and has_more(line))


def _decode_chunk(lines: list[bytes], mark: LogOffset) -> list[IndexedLine]:
    indexed_lines: list[IndexedLine] = []
    for line in lines:
        start, mark.size = mark.size, mark.size + len(line)
        mark.tail = line[-_TAIL_BYTES:]
        try:
            indexed_lines.append(IndexedLine(decode_event(line), start, mark.size))
        except (ValueError, RecursionError):
            continue
    return indexed_lines


@dataclass(slots=True)
class LogRows:
    """Write the events of one session's log to the index."""

    ledger: RowWriter
    messages: Messages
    requests: ResponseIngest
    native: str
    """The id of the session."""
    session: int
    origin: Origin | None = None
    """For a branch: the end of the events that count for another session."""
    _agents: dict[str, int] = field(default_factory=dict)
    """Agent id -> row id."""
    _agents_by_birth: dict[int, int] = field(default_factory=dict)
    """Number of the event that created an agent -> row id of the agent."""
    _models: dict[str, str] = field(default_factory=dict)
    """Request id -> requested model."""
    _message_rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Message number of an entry -> row ids of its message and agent."""
    _linked_ctxs: set[bytes] = field(default_factory=set)
    """Commits named in the log so far."""
    _summaries: list[tuple[int]] = field(default_factory=list)

    def add(self, lines: list[IndexedLine]) -> None:
        """Add new events and write them."""
        ids = (line.event.request for line in lines if isinstance(line.event, LlmResponse))
        self.requests.load_existing(self._response_key(id_) for id_ in ids)
        for line in lines:
            self._add_event(line)
        self.messages.write()
        self.requests.write()
        summary = "UPDATE messages SET kind = 'summary' WHERE id = ?"
        self.ledger.database.executemany(summary, self._summaries)
        self._summaries.clear()

    def _add_event(self, line: IndexedLine) -> None:
        match line.event:
            case AgentCreated() as event:
                self._add_agent(event)
            case TranscriptEntry() as event if event.agent_id not in (None, USER):
                self._add_message(event, line.start)
            case AgentMoved() as event:
                self._move_agent(event)
            case HookVerdict() as event:
                self._add_verdict(event)
            case LlmRequest() as event:
                self._models[event.message_id] = event.model
            case LlmResponse() as event if event.stop_reason != "edited":
                self._add_response(event)
            case TranscriptEdited(summary=str(summary)):
                rows = self._find_rows(summary)
                if rows is not None:
                    self._summaries.append((rows[0],))
            case ContextCommitted() as event:
                self._add_commit_link(event)
            case SessionEnded(reason=str(reason)) as event if not self._is_copied(event):
                outcome = "UPDATE sessions SET outcome = ? WHERE id = ?"
                self.ledger.database.execute(outcome, (to_utf8(reason), self.session))
            case _:
                pass

    def _is_copied(self, event: Event) -> bool:
        """Whether the event counts for the session of which this is a branch."""
        return self.origin is not None and self.origin.has_event(event.message_id)

    def _add_agent(self, event: AgentCreated) -> None:
        """Add an agent. Its principal is the one of its commits, unless that name is in use."""
        id_, name = to_utf8(event.agent_id or ""), to_utf8(event.name or event.agent_id or "")
        principal, is_main = f"{self.native}/{name}", self._find_main_agent() is None
        if is_main:
            principal, name = self.native, ""
        elif self.ledger.query_value(_AGENT_SQL, self.session, principal) is not None:
            principal = f"{self.native}/{id_}"
        self._agents[id_] = self.ledger.agent(
            self.session,
            principal,
            name,
            template=_template_name(event),
            parent=self._find_parent(event),
        )
        place = "UPDATE agents SET relation = ?1, place = ?1 WHERE id = ?2"
        relation = event.relation or ("primary" if is_main else "subagent")
        self.ledger.database.execute(place, (relation, self._agents[id_]))
        birth = parse_id_number(event.message_id, "msg_") or 0
        self._agents_by_birth[birth] = self._agents[id_]
        self.ledger.add("log_agents", self.native, id_, self._agents[id_], birth)

    def _move_agent(self, event: AgentMoved) -> None:
        """Update the place of a moved agent, and of the agent that it replaces."""
        agent, place = self._get_agent(event.agent_id or ""), str(event.place)
        database = self.ledger.database
        update = "UPDATE agents SET place = ? WHERE id = ?"
        if event.replaces is not None:
            replaced = self._get_agent(event.replaces)
            query = "SELECT place FROM agents WHERE id = ?"
            place = self.ledger.query_value(query, replaced) or place
            database.execute(update, (event.replaced_as or "subagent", replaced))
        database.execute(update, (place, agent))

    def _add_verdict(self, event: HookVerdict) -> None:
        if self._is_copied(event):
            return
        rows = self._find_rows(reference_message_id(event.subject))
        self.ledger.add(
            "verdicts",
            self.ledger.number("verdicts"),
            self.session,
            self._get_agent(event.watched),
            self._get_agent(event.agent_id or ""),
            to_utf8(event.message_id),
            to_utf8(event.subject),
            None if rows is None else rows[0],
            event.point,
            event.verdict,
            event.failed is not None,
            time_us(event.time),
        )

    def _find_parent(self, event: AgentCreated) -> int | None:
        """Return the parent of an agent: the agent that caused its creation."""
        causes = event.cause if isinstance(event.cause, list) else [event.cause]
        cause = next(filter(None, causes), None)
        number = None if cause is None else parse_id_number(reference_message_id(cause), "msg_")
        if cause is None or number is None:
            return None
        if number in self._agents_by_birth:
            return self._agents_by_birth[number]
        rows = self._find_rows(reference_message_id(cause))
        if rows is not None:
            return rows[1]
        query = "SELECT agent_id FROM log_agents WHERE session = ? AND birth = ?"
        parent: int | None = self.ledger.query_value(query, self.native, number)
        return parent

    def _add_message(self, event: TranscriptEntry, start: int) -> None:
        entry, objects = encode_entry(event)
        text = extract_text(decode_shape(objects[entry.message]), objects)
        number, agent = (
            parse_id_number(event.message_id, "msg_") or 0,
            self._get_agent(event.agent_id or ""),
        )
        is_relayed = event.role == "user" and event.substance is not None
        is_copied = self._is_copied(event)
        row = self.messages.add(
            MessageRow(
                commit=None,
                position=number,
                session=self.session,
                agent=agent,
                kind=_message_kind(event, text),
                time_us=time_us(event.time),
                hash=bytes.fromhex(entry.message),
                text=text,
                calls=[call.id for call in event.tool_calls or ()],
                answered_call_id=event.tool_call_id if event.role == "tool" else None,
                is_failed=text.is_error,
                is_repeat=is_relayed or is_copied,
                is_copied=is_copied,
                links=_links(event),
            )
        )
        self._message_rows[number] = row, agent
        self.ledger.add("places", self.session, number, row, start)

    def _add_response(self, event: LlmResponse) -> None:
        if self._is_copied(event):
            return
        rows = None if event.entry is None else self._find_rows(event.entry)
        model = event.model or self._models.pop(event.request, "")
        self.requests.add(
            ResponseRow(
                id=self._response_key(event.request),
                session=self.session,
                agent=self._get_agent(event.agent_id or ""),
                message=None if rows is None else rows[0],
                model=model,
                provider="",
                time_us=time_us(event.time),
                stop_reason=event.stop_reason,
                counts=TokenCounts() if event.usage is None else counts_from_log(event.usage),
                cost_usd=event.cost_usd,
            )
        )

    def _add_commit_link(self, event: ContextCommitted) -> None:
        """Record the last message of the agent that is in a commit; the commit may be read later.

        The parent commit is linked as well if the log does not name it: it was created at the same
        time by a spawn or a compaction.
        """
        upto, agent = (
            parse_id_number(event.upto or "", "msg_"),
            self._get_agent(event.agent_id or ""),
        )
        parent_ctx, ctx = _parse_ctx(event.parent_ctx), _parse_ctx(event.ctx)
        if parent_ctx is not None and not self._is_ctx_indexed(parent_ctx):
            self._add_link(parent_ctx, agent, _NO_MESSAGE)
        if ctx is not None:
            self._add_link(ctx, agent, _NO_MESSAGE if upto is None else upto)

    def _add_link(self, ctx: bytes, agent: int, upto: int) -> None:
        self._linked_ctxs.add(ctx)
        self.ledger.add("links", ctx, self.session, agent, upto)

    def _is_ctx_indexed(self, ctx: bytes) -> bool:
        return ctx in self._linked_ctxs or self.ledger.query_value(_IS_INDEXED_SQL, ctx) is not None

    def _response_key(self, request: str) -> str:
        return f"{self.native}/{to_utf8(request)}"

    def _find_rows(self, id_: str) -> tuple[int, int] | None:
        """Return the row ids of a message and its agent, by the id of its event."""
        number = parse_id_number(id_, "msg_")
        if number is None or number in self._message_rows:
            return None if number is None else self._message_rows[number]
        row = self.ledger.database.execute(_PLACE_SQL, (self.session, number)).fetchone()
        return None if row is None else (row[0], row[1])

    def _get_agent(self, id_: str) -> int:
        """Return the row id of an agent. Create one if its creation event was not read."""
        id_ = to_utf8(id_)
        if id_ not in self._agents:
            query = "SELECT agent_id FROM log_agents WHERE session = ? AND id = ?"
            row = self.ledger.query_value(query, self.native, id_)
            if row is None:
                principal = f"{self.native}/{id_}"
                row = self.ledger.agent(self.session, principal, id_, parent=None)
            self._agents[id_] = row
        return self._agents[id_]

    def _find_main_agent(self) -> int | None:
        """Return the row id of the main agent, or None if it has none yet."""
        row: int | None = self.ledger.query_value(_AGENT_SQL, self.session, self.native)
        return row


def _message_kind(event: TranscriptEntry, text: MessageText) -> str:
    """Classify a message: a user's prompt has no cause in the log, and contains typed text."""
    if event.role == "user":
        is_caused = event.substance is not None or event.cause is not None
        is_client_text = bool(text.texts) and not extract_typed_text("\n".join(text.texts))
        return "system" if is_caused or is_client_text else "prompt"
    return {"tool": "tool_result", "assistant": "response"}.get(text.role, "system")


def _links(event: TranscriptEntry) -> MessageLinks:
    causes = event.cause if isinstance(event.cause, list) else [event.cause or ""]
    return MessageLinks(
        event=to_utf8(event.message_id),
        substance=None if event.substance is None else to_utf8(event.substance),
        cause=to_utf8(",".join(causes)) or None,
        purpose=event.purpose,
        closed=event.closed,
    )


def _parse_ctx(ctx: str | None) -> bytes | None:
    try:
        return None if ctx is None else bytes.fromhex(ctx.removeprefix("ctx-"))
    except ValueError:
        return None


def _template_name(event: AgentCreated) -> str:
    template = None if event.spec is None else event.spec.template
    return "" if template is None else to_utf8(template.name)


_NO_MESSAGE = -1
"""Message number that stands for no message."""
_IS_INDEXED_SQL = (
    "SELECT 1 FROM commits WHERE name = ?1 UNION ALL SELECT 1 FROM links WHERE ctx = ?1"
)
_AGENT_SQL = "SELECT id FROM agents WHERE session_id = ? AND principal = ?"
_PLACE_SQL = (
    "SELECT message_id, agent_id FROM places JOIN messages ON messages.id = message_id "
    "WHERE places.session_id = ? AND number = ?"
)
