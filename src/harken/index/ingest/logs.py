"""Logs of Harken's own sessions as rows of facts.

One idea: the log is the truth of a run, and has what commits lack: usage, errors, what is in no
commit yet. So of a session with a log here, everything that was said is read from the log, as far
as it has grown; its commits only say where one can go on from. What an agent tells another one
stands in both their transcripts, and counts once.

Source: docs/formats/session-log.md; docs/formats/facts.md, "Sessions of Harken".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harken.core.commits import encode_entry
from harken.core.events import (
    AgentCreated,
    ContextCommitted,
    Event,
    LlmRequest,
    LlmResponse,
    SessionEnded,
    TranscriptEdited,
    TranscriptEntry,
    decode_event,
)
from harken.core.ids import USER, parse_id_number, reference_message_id
from harken.formats.runtimes.user_text import typed
from harken.index.ingest.messages import MessageRow, Messages
from harken.index.ingest.responses import ResponseIngest, ResponseRow
from harken.index.ingest.row_writer import RowWriter, time_us
from harken.index.ingest.usage import TokenCounts, of_log
from harken.index.message_text import MessageText, extract_text, shape_of, utf8
from harken.session.log.checksum import seems_sealed
from harken.session.log.compressed import stat_log
from harken.session.log.reader import events as events_of
from harken.session.log.reader import open_log

CHUNK_BYTES = 4 * 1024 * 1024
"""So much of a log is entered at once."""
_TAIL_BYTES = 64


class LogChanged(Exception):
    """A log is not a longer one than it was: what was read of it no longer stands there."""


@dataclass(slots=True)
class LogOffset:
    """How far a log was read."""

    session: str = ""
    """Empty: it says none, and nothing is read of it."""
    size: int = 0
    tail: bytes = b""
    """The last bytes that were read."""


@dataclass(frozen=True, slots=True)
class IndexedLine:
    """An event, and where its line begins and ends."""

    event: Event
    start: int
    end: int


def grown(path: Path, mark: LogOffset) -> bool:
    """Whether there is more of a log than was read. Raises LogChanged, OSError."""
    size = stat_log(path).size_bytes
    if size < mark.size:
        raise LogChanged
    return size > mark.size


def chunks(path: Path, mark: LogOffset) -> Iterator[list[IndexedLine]]:
    """Yield what is new of a log, and set its mark to the end of it, each time.

    A line that cannot be read is passed over, one without its end is read the next time. A log of
    an older dialect is read at once. Raises LogChanged, LogError, OSError.
    """
    with open_log(path) as file:
        if mark.size:
            file.seek(mark.size - len(mark.tail))
            if file.read(len(mark.tail)) != mark.tail:
                raise LogChanged
        elif not seems_sealed(file.readline()):
            yield _older(path, mark)
            return
        else:
            file.seek(0)
        while found := _chunk(file.readlines(CHUNK_BYTES), mark):
            yield found


def _older(path: Path, mark: LogOffset) -> list[IndexedLine]:
    found = [IndexedLine(event, 0, 0) for event in events_of(path)]
    mark.size, mark.tail = stat_log(path).size_bytes, b""
    return found


def _chunk(lines: list[bytes], mark: LogOffset) -> list[IndexedLine]:
    found: list[IndexedLine] = []
    for line in lines:
        if not line.endswith(b"\n"):
            break
        start, mark.size = mark.size, mark.size + len(line)
        mark.tail = line[-_TAIL_BYTES:]
        try:
            found.append(IndexedLine(decode_event(line), start, mark.size))
        except (ValueError, RecursionError):
            continue
    return found


@dataclass(slots=True)
class LogRows:
    """Enters what the log of one session says."""

    ledger: RowWriter
    messages: Messages
    requests: ResponseIngest
    native: str
    """The id of the session."""
    session: int
    _agents: dict[str, int] = field(default_factory=dict)
    """The id of an agent -> its row."""
    _births: dict[int, int] = field(default_factory=dict)
    """The number of a birth -> the row of the agent."""
    _models: dict[str, str] = field(default_factory=dict)
    """Request -> the model that was asked."""
    _rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The number of an entry -> the row of its message, and of its agent."""
    _named: set[bytes] = field(default_factory=set)
    """Commits that the log named."""
    _summaries: list[tuple[int]] = field(default_factory=list)

    def take(self, lines: list[IndexedLine]) -> None:
        """Enter what is new, and write it."""
        ids = (line.event.request for line in lines if isinstance(line.event, LlmResponse))
        self.requests.learn(self._response(id_) for id_ in ids)
        for line in lines:
            self._take(line)
        self.messages.write()
        self.requests.write()
        summary = "UPDATE messages SET kind = 'summary' WHERE id = ?"
        self.ledger.database.executemany(summary, self._summaries)
        self._summaries.clear()

    def _take(self, line: IndexedLine) -> None:
        match line.event:
            case AgentCreated() as event:
                self._born(event)
            case TranscriptEntry() as event if event.agent_id not in (None, USER):
                self._heard(event, line.start)
            case LlmRequest() as event:
                self._models[event.message_id] = event.model
            case LlmResponse() as event:
                self._answered(event)
            case TranscriptEdited(summary=str(summary)):
                found = self._row(summary)
                if found is not None:
                    self._summaries.append((found[0],))
            case ContextCommitted() as event:
                self._committed(event)
            case SessionEnded(reason=str(reason)):
                outcome = "UPDATE sessions SET outcome = ? WHERE id = ?"
                self.ledger.database.execute(outcome, (utf8(reason), self.session))
            case _:
                pass

    def _born(self, event: AgentCreated) -> None:
        """Enter an agent, under the name that its commits have where nobody chose another one."""
        id_, name = utf8(event.agent_id or ""), utf8(event.name or event.agent_id or "")
        principal, is_main = f"{self.native}/{name}", self._main() is None
        if is_main:
            principal, name = self.native, ""
        elif self.ledger.one(_NAMED, self.session, principal) is not None:
            principal = f"{self.native}/{id_}"
        self._agents[id_] = self.ledger.agent(
            self.session,
            principal,
            name,
            template=_template(event),
            parent=self._parent(event),
        )
        birth = parse_id_number(event.message_id, "msg_") or 0
        self._births[birth] = self._agents[id_]
        self.ledger.add("log_agents", self.native, id_, self._agents[id_], birth)

    def _parent(self, event: AgentCreated) -> int | None:
        """Return the agent of the call, or the birth, that is the cause of a birth."""
        causes = event.cause if isinstance(event.cause, list) else [event.cause]
        cause = next(filter(None, causes), None)
        number = None if cause is None else parse_id_number(reference_message_id(cause), "msg_")
        if cause is None or number is None:
            return None
        if number in self._births:
            return self._births[number]
        found = self._row(reference_message_id(cause))
        if found is not None:
            return found[1]
        query = "SELECT agent_id FROM log_agents WHERE session = ? AND birth = ?"
        parent: int | None = self.ledger.one(query, self.native, number)
        return parent

    def _heard(self, event: TranscriptEntry, start: int) -> None:
        entry, objects = encode_entry(event)
        said = extract_text(shape_of(objects[entry.message]), objects)
        number, agent = (
            parse_id_number(event.message_id, "msg_") or 0,
            self._agent(event.agent_id or ""),
        )
        is_told = event.role == "user" and event.substance is not None
        row = self.messages.add(
            MessageRow(
                commit=None,
                position=number,
                session=self.session,
                agent=agent,
                kind=_kind(event, said),
                time_us=time_us(event.time),
                hash=bytes.fromhex(entry.message),
                said=said,
                calls=[call.id for call in event.tool_calls or ()],
                answers=event.tool_call_id if event.role == "tool" else None,
                failed=said.is_error,
                is_repeat=is_told,
            )
        )
        self._rows[number] = row, agent
        self.ledger.add("places", self.session, number, row, start)

    def _answered(self, event: LlmResponse) -> None:
        found = None if event.entry is None else self._row(event.entry)
        model = event.model or self._models.pop(event.request, "")
        self.requests.add(
            ResponseRow(
                id=self._response(event.request),
                session=self.session,
                agent=self._agent(event.agent_id or ""),
                message=None if found is None else found[0],
                model=model,
                provider="",
                time_us=time_us(event.time),
                stop_reason=event.stop_reason,
                took=TokenCounts() if event.usage is None else of_log(event.usage),
                cost_usd=event.cost_usd,
            )
        )

    def _committed(self, event: ContextCommitted) -> None:
        """Note up to where an agent's messages are in a commit, which may come later.

        One before it that nobody named was made with it: where an agent was spawned, or compacted.
        """
        upto, agent = parse_id_number(event.upto or "", "msg_"), self._agent(event.agent_id or "")
        before, own = _name(event.parent_ctx), _name(event.ctx)
        if before is not None and not self._is_named(before):
            self._link(before, agent, _NOTHING)
        if own is not None:
            self._link(own, agent, _NOTHING if upto is None else upto)

    def _link(self, ctx: bytes, agent: int, upto: int) -> None:
        self._named.add(ctx)
        self.ledger.add("links", ctx, self.session, agent, upto)

    def _is_named(self, ctx: bytes) -> bool:
        return ctx in self._named or self.ledger.one(_IS_NAMED, ctx) is not None

    def _response(self, request: str) -> str:
        return f"{self.native}/{utf8(request)}"

    def _row(self, id_: str) -> tuple[int, int] | None:
        """Return the rows of a message and of its agent, by the id of its event."""
        number = parse_id_number(id_, "msg_")
        if number is None or number in self._rows:
            return None if number is None else self._rows[number]
        row = self.ledger.database.execute(_PLACE, (self.session, number)).fetchone()
        return None if row is None else (row[0], row[1])

    def _agent(self, id_: str) -> int:
        """Return the row of an agent; one without a birth is given one."""
        id_ = utf8(id_)
        if id_ not in self._agents:
            query = "SELECT agent_id FROM log_agents WHERE session = ? AND id = ?"
            found = self.ledger.one(query, self.native, id_)
            if found is None:
                principal = f"{self.native}/{id_}"
                found = self.ledger.agent(self.session, principal, id_, parent=None)
            self._agents[id_] = found
        return self._agents[id_]

    def _main(self) -> int | None:
        """Return the row of the first agent."""
        found: int | None = self.ledger.one(_NAMED, self.session, self.native)
        return found


def _kind(event: TranscriptEntry, said: MessageText) -> str:
    """Return who says a message: a person has no reason that is in the log, and typed something."""
    if event.role == "user":
        is_told = event.substance is not None or event.cause is not None
        is_clients = bool(said.texts) and not typed("\n".join(said.texts))
        return "system" if is_told or is_clients else "prompt"
    return {"tool": "tool_result", "assistant": "response"}.get(said.role, "system")


def _name(ctx: str | None) -> bytes | None:
    try:
        return None if ctx is None else bytes.fromhex(ctx.removeprefix("ctx-"))
    except ValueError:
        return None


def _template(event: AgentCreated) -> str:
    template = (event.spec or {}).get("template")
    name = template.get("name") if isinstance(template, dict) else None
    return utf8(name) if isinstance(name, str) else ""


_NOTHING = -1
"""The number of no message."""
_IS_NAMED = "SELECT 1 FROM commits WHERE name = ?1 UNION ALL SELECT 1 FROM links WHERE ctx = ?1"
_NAMED = "SELECT id FROM agents WHERE session_id = ? AND principal = ?"
_PLACE = (
    "SELECT message_id, agent_id FROM places JOIN messages ON messages.id = message_id "
    "WHERE places.session_id = ? AND number = ?"
)
