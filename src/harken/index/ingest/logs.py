"""Write session logs to the index: of Harken's own sessions, and of recorded ones.

The log is the complete record of a run. It has what commits lack: usage, errors, and messages that
are in no commit yet. So if a session has a log, all its messages are read from the log, and the
commits that were made from it only serve as points to resume from. A message from one agent to
another is in both transcripts and counts once.

A log that records a session of another runtime is a source of that session, beside its file.

Source: docs/formats/session-log.md; docs/formats/facts.md, "Sessions of Harken" and "Recordings".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from harken.core.commits import encode_entry
from harken.core.events import (
    AgentCreated,
    AgentMoved,
    Cause,
    ContextCommitted,
    Event,
    HookVerdict,
    InterlocutorsSet,
    LlmRequest,
    LlmResponse,
    SessionEnded,
    TranscriptEdited,
    TranscriptEntry,
    decode_event,
)
from harken.core.ids import USER, Origin, parse_id_number, reference_message_id
from harken.formats.providers.openai_responses import find_item_id
from harken.formats.runtimes.client_sessions import ClientSession
from harken.formats.runtimes.user_text import extract_typed_text
from harken.index.ingest.log_offset import LogChanged, LogOffset
from harken.index.ingest.messages import MessageLinks, MessageRow, Messages
from harken.index.ingest.outcomes import OutcomeSource, note_outcome
from harken.index.ingest.responses import ResponseIngest, ResponseRow, format_response_key
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


class IndexedLine(msgspec.Struct, frozen=True):
    """An event and the start and end offsets of its line."""

    event: Event
    start: int
    end: int


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


class LogRows(msgspec.Struct):
    """Write the events of one session's log to the index."""

    ledger: RowWriter
    messages: Messages
    requests: ResponseIngest
    log: int
    """Row id of the log."""
    name: str
    """The id of the session in the log."""
    session: int
    recorded: ClientSession | None = None
    """The session of another runtime that the log records."""
    origin: Origin | None = None
    """For a branch: the end of the events that count for another session."""
    _agents: dict[str, int] = msgspec.field(default_factory=dict)
    """Agent id -> row id."""
    _agents_by_birth: dict[int, int] = msgspec.field(default_factory=dict)
    """Number of the event that created an agent -> row id of the agent."""
    _models: dict[str, str] = msgspec.field(default_factory=dict)
    """Request id -> requested model."""
    _message_rows: dict[int, tuple[int, int]] = msgspec.field(default_factory=dict)
    """Message number of an entry -> row ids of its message and agent."""
    _linked_ctxs: set[bytes] = msgspec.field(default_factory=set)
    """Commits named in the log so far."""
    _summaries: list[tuple[int]] = msgspec.field(default_factory=list)
    _response_keys: dict[str, str] = msgspec.field(default_factory=dict)
    """Event id of a response -> its key."""
    _answer_parts: list[tuple[int, int, int, int, int]] = msgspec.field(default_factory=list)
    """For each answer of several messages: the last one, and the range of the others."""

    def add(self, lines: list[IndexedLine]) -> None:
        """Add new events and write them."""
        self._response_keys = self._find_response_keys([line.event for line in lines])
        self.requests.load_existing(self._response_keys.values())
        for line in lines:
            self._add_event(line)
        self.messages.write()
        self.requests.write()
        database = self.ledger.database
        summary = "UPDATE messages SET kind = 'summary' WHERE id = ?"
        database.executemany(summary, self._summaries)
        database.executemany(_PARTS_SQL, self._answer_parts)
        self._summaries.clear()
        self._answer_parts.clear()
        if self.recorded is not None:
            self.ledger.mark_unpaired(self.session)

    def _find_response_keys(self, events: Iterable[Event]) -> dict[str, str]:
        """Return the key of each response by the id of its event.

        It is the one of an import, if the provider gave an id. Codex files have the id of the first
        item of an answer.
        """
        keys: dict[str, str] = {}
        item_ids: dict[str | None, str] = {}
        for event in events:
            match event:
                case LlmRequest():
                    item_ids.pop(event.agent_id, None)
                case TranscriptEntry(role="assistant") if not item_ids.get(event.agent_id):
                    item_ids[event.agent_id] = find_item_id(event)
                case LlmResponse():
                    item_id = item_ids.pop(event.agent_id, "") if event.response_id else ""
                    id_ = to_utf8(item_id or event.response_id or "")
                    own_key = f"{self.name}/{to_utf8(event.request)}"
                    session = self.name if self.recorded is None else self.recorded.name
                    keys[event.message_id] = format_response_key(id_, session) if id_ else own_key
        return keys

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
            case InterlocutorsSet() as event if not self._is_copied(event):
                self._add_interlocutors(event)
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
                time, source = time_us(event.time), OutcomeSource.FILE
                note_outcome(self.ledger.database, self.session, source, reason, time)
            case _:
                pass

    def _is_copied(self, event: Event) -> bool:
        """Whether the event counts for the session of which this is a branch."""
        return self.origin is not None and self.origin.has_event(event.message_id)

    def _add_agent(self, event: AgentCreated) -> None:
        """Add an agent. Its principal is the one of its commits, unless that name is in use.

        The client's name of a recorded agent is that in the session file, so both are one agent.
        """
        id_, name = to_utf8(event.agent_id or ""), to_utf8(event.name or event.agent_id or "")
        is_main, parent = self._is_first_agent(), self._find_parent(event)
        session = self.name if self.recorded is None else self.recorded.name
        foreign = None if event.spec is None else event.spec.foreign
        is_named = self.recorded is not None and foreign is not None and not is_main
        native = to_utf8(foreign.agent or "") if is_named and foreign is not None else ""
        principal = session if is_main else f"{session}/{native or name}"
        own_name = "" if is_main else name
        if self.recorded is not None and (is_main or native):
            row = self.ledger.native_agent(self.session, native, principal, own_name, parent=parent)
        else:
            if self.ledger.query_value(_AGENT_SQL, self.session, principal) is not None:
                principal = f"{session}/{id_}"
            row = self.ledger.agent(
                self.session, principal, own_name, template=_template_name(event), parent=parent
            )
        self._agents[id_] = row
        if is_main and event.name:
            self.ledger.database.execute(_MAIN_NAME_SQL, (row, name))
        if event.spec is not None and event.spec.folder:
            folder = to_utf8(event.spec.folder)
            self.ledger.database.execute(_PROJECT_SQL, (folder, self.session))
        relation = event.relation or ("primary" if is_main else "subagent")
        self.ledger.database.execute(_NEW_AGENT_SQL, (own_name, parent, relation, row))
        birth = _number(event.message_id)
        self._agents_by_birth[birth] = row
        self.ledger.add("log_agents", self.log, id_, row, birth)

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

    def _add_interlocutors(self, event: InterlocutorsSet) -> None:
        agent, time = self._get_agent(event.agent_id or ""), time_us(event.time)
        for role, ids in (("speaker", event.speakers), ("listener", event.listeners)):
            for id_ in ids:
                row, other = self.ledger.number("interlocutors"), self._get_agent(id_)
                links = to_utf8(event.message_id), _join_causes(event.cause), time
                self.ledger.add("interlocutors", row, self.session, agent, other, role, *links)

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
        query = "SELECT agent_id FROM log_agents WHERE log_id = ? AND birth = ?"
        parent: int | None = self.ledger.query_value(query, self.log, number)
        return parent

    def _add_message(self, event: TranscriptEntry, start: int) -> None:
        entry, objects = encode_entry(event)
        text = extract_text(decode_shape(objects[entry.message]), objects)
        number, agent = _number(event.message_id), self._get_agent(event.agent_id or "")
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
        self.ledger.add("places", self.log, number, row, start)

    def _add_response(self, event: LlmResponse) -> None:
        if self._is_copied(event):
            return
        rows = None if event.entry is None else self._find_rows(event.entry)
        model = event.model or self._models.pop(event.request, "")
        message = None if rows is None else rows[0]
        if message is not None:
            self._note_answer_parts(event, message)
        repeat = self.requests.add(
            ResponseRow(
                id=self._response_keys[event.message_id],
                session=self.session,
                agent=self._get_agent(event.agent_id or ""),
                message=message,
                model=model,
                provider="",
                time_us=time_us(event.time),
                stop_reason=event.stop_reason,
                counts=TokenCounts() if event.usage is None else counts_from_log(event.usage),
                cost_usd=event.cost_usd,
                is_recorded=True,
            )
        )
        if repeat is not None:
            self.ledger.add("repeats", *repeat)
            self.ledger.mark_unpaired(self.session)

    def _note_answer_parts(self, event: LlmResponse, message: int) -> None:
        """Note the messages before the last one of an answer."""
        first, last = _number(event.request), _number(event.entry or "")
        if last - first > 1:
            agent = self._get_agent(event.agent_id or "")
            self._answer_parts.append((message, self.log, first, last, agent))

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
        self.ledger.add("links", ctx, self.log, agent, upto)

    def _is_ctx_indexed(self, ctx: bytes) -> bool:
        return ctx in self._linked_ctxs or self.ledger.query_value(_IS_INDEXED_SQL, ctx) is not None

    def _find_rows(self, id_: str) -> tuple[int, int] | None:
        """Return the row ids of a message and its agent, by the id of its event."""
        number = parse_id_number(id_, "msg_")
        if number is None or number in self._message_rows:
            return None if number is None else self._message_rows[number]
        row = self.ledger.database.execute(_PLACE_SQL, (self.log, number)).fetchone()
        return None if row is None else (row[0], row[1])

    def _get_agent(self, id_: str) -> int:
        """Return the row id of an agent. Create one if its creation event was not read."""
        id_ = to_utf8(id_)
        if id_ not in self._agents:
            query = "SELECT agent_id FROM log_agents WHERE log_id = ? AND id = ?"
            row = self.ledger.query_value(query, self.log, id_)
            if row is None:
                principal = f"{self.name}/{id_}"
                row = self.ledger.agent(self.session, principal, id_, parent=None)
            self._agents[id_] = row
        return self._agents[id_]

    def _is_first_agent(self) -> bool:
        """Whether no agent of the log was added yet."""
        query = "SELECT 1 FROM log_agents WHERE log_id = ?"
        return not self._agents_by_birth and self.ledger.query_value(query, self.log) is None


def _number(id_: str) -> int:
    """Return the number of an event."""
    return parse_id_number(id_, "msg_") or 0


def _message_kind(event: TranscriptEntry, text: MessageText) -> str:
    """Classify a message: a user's prompt has no cause in the log, and contains typed text."""
    if event.role == "user":
        is_caused = event.substance is not None or event.cause is not None
        is_client_text = bool(text.texts) and not extract_typed_text("\n".join(text.texts))
        return "system" if is_caused or is_client_text else "prompt"
    return {"tool": "tool_result", "assistant": "response"}.get(text.role, "system")


def _join_causes(cause: Cause) -> str | None:
    return to_utf8(",".join(cause if isinstance(cause, list) else [cause or ""])) or None


def _links(event: TranscriptEntry) -> MessageLinks:
    return MessageLinks(
        event=to_utf8(event.message_id),
        substance=None if event.substance is None else to_utf8(event.substance),
        cause=_join_causes(event.cause),
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
_NEW_AGENT_SQL = """
UPDATE agents SET name = ?1, parent_id = ifnull(?2, parent_id), relation = ?3, place = ?3
WHERE id = ?4
"""
_PROJECT_SQL = "UPDATE sessions SET project = ? WHERE id = ? AND project = ''"
_MAIN_NAME_SQL = "INSERT OR REPLACE INTO main_names VALUES (?, ?)"
_PLACE_SQL = (
    "SELECT message_id, agent_id FROM places JOIN messages ON messages.id = message_id "
    "WHERE log_id = ? AND number = ?"
)
_PARTS_SQL = """
UPDATE messages SET part_of = ?1 WHERE agent_id = ?5 AND role = 'assistant' AND id IN
(SELECT message_id FROM places WHERE log_id = ?2 AND number > ?3 AND number < ?4)
"""
