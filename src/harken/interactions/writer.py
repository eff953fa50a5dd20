"""`ThreadWriter`: what is logged about one thread becomes events of its session.

One idea: whatever is logged, the log gets what is new of it: messages once, in full, and a request
as what it saw. A row that is given by hand is written as the event from which the same row is read;
only what no event would say so is noted as it is. So every row comes back as it was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from harken.core import events as ev
from harken.core.clock import Clock, format_rfc3339, parse_rfc3339
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ContentPart, Message, TextPart, ToolCall, ToolCallSlot
from harken.core.stream import Finish
from harken.interactions.records import (
    LoggedMessage,
    MemoryOperationRecord,
    MessageRole,
    ThreadEntry,
    ThreadEventType,
)
from harken.interactions.thread import ThreadReader
from harken.interactions.unit import message_of
from harken.recording.agent_recorder import AgentRecorder
from harken.recording.context_diff import shared
from harken.recording.item import Item
from harken.session.fold import fold
from harken.session.log.reader import events
from harken.session.session import Session
from harken.session.state import AgentState, SessionState

Kind = ThreadEventType


@dataclass(slots=True)
class SettableClock:
    """A clock that can be set: rows that are given say themselves when they were."""

    clock: Clock
    given_us: int | None = None

    def __call__(self) -> int:
        """Return the time that was given, else that of the clock."""
        return self.clock() if self.given_us is None else self.given_us

    def set(self, time: str = "") -> None:
        """Let it be this time (RFC 3339) from now on; empty: the time of the clock."""
        self.given_us = parse_rfc3339(time) if time else None


@dataclass(slots=True, kw_only=True)
class RequestSettings:
    """What a model is asked, beside the context."""

    model: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Mapping[str, Any]] = ()


class ThreadWriter:
    """One thread of a session that this process writes."""

    def __init__(
        self, session: Session, agent_id: str, moment: SettableClock, *, contexts: bool
    ) -> None:
        """Go on with a thread. contexts: whether requests say what they saw."""
        self.session, self.agent_id, self.moment = session, AgentId(agent_id), moment
        self.contexts = contexts
        self.voice = AgentRecorder.resumed(session, agent_id)
        self._reader: ThreadReader | None = None
        self._last: list[tuple[Message, Item]] = []
        """What the last context was made of."""

    def ask(self, messages: Sequence[Message], asking: RequestSettings) -> MessageId | None:
        """Log a request; return its event. None: requests do not say what they saw here."""
        items = self._items(messages)
        self._confirm()
        if self.contexts:
            return self.voice.ask(
                items, model=asking.model, parameters=asking.parameters, tools=asking.tools
            )
        self.voice.bring(items)
        snapshot = self._now.snapshot(self._agent, asking.model)
        entry = ThreadEntry(event_type=Kind.LLM_REQUEST, context_snapshot=snapshot)
        self._note(entry)
        return None

    def answer(
        self, answers: Sequence[Message], finish: Finish, *, latency_s: float, error: str = ""
    ) -> None:
        """Log what was answered to the last request, and how the call ended."""
        items = [Item.of(message) for message in answers]
        if self.voice.open is not None:
            request = self.voice.open
            self.voice.answer(request, items, finish=finish, latency_s=latency_s, error=error)
        elif items:
            self._heard_as(items, Kind.LLM_RESPONSE)
        else:
            self._note(ThreadEntry(event_type=Kind.LLM_RESPONSE))

    def context(
        self, messages: Sequence[Message], kind: ThreadEventType, asking: RequestSettings
    ) -> None:
        """Log a context as it was assembled, asked, answered or compacted."""
        if kind is Kind.LLM_REQUEST:
            self.ask(messages, asking)
            return
        items = self._items(messages)
        self._confirm()
        common = shared(items, self.voice.row)
        if kind is Kind.LLM_RESPONSE:
            if common < len(self.voice.row):
                self.voice.bring(items[:common])
            self._answered(items[common:])
            return
        if kind is Kind.CONTEXT_COMPACTED:
            self.voice.bring(items, reason="compaction", summary=_summary(common, items))
        else:
            self.voice.bring(items)
        if self.contexts:
            self.whole(kind)

    def whole(self, kind: ThreadEventType) -> None:
        """Note that the context was assembled as it is now."""
        self.session.append(
            ev.ThreadNoted(agent_id=self.agent_id, entry_type=kind.value, whole=True)
        )

    def _items(self, messages: Sequence[Message]) -> list[Item]:
        """Return messages as items; one that stood there the last time is not hashed again."""
        items: list[Item] = []
        for message, (before, known) in zip(messages, self._last, strict=False):
            items.append(known if before == message else Item.of(message))
        items += [Item.of(message) for message in messages[len(items) :]]
        self._last = list(zip(messages, items, strict=True))
        return items

    def add(self, entry: ThreadEntry, logged: LoggedMessage | None) -> None:
        """Log a row as it is given. logged: the message that it names."""
        _ = self._now  # from here on rows are read as they are logged
        if not entry.timestamp:
            entry = replace(entry, timestamp=format_rfc3339(self.moment()))
        self.moment.set(entry.timestamp)
        try:
            self._add(entry, logged)
        finally:
            self.moment.set("")

    def _add(self, entry: ThreadEntry, logged: LoggedMessage | None) -> None:
        hears = entry.event_type in (Kind.MESSAGE_ADDED, Kind.LLM_RESPONSE)
        if logged is not None and not hears and not self._now.knows(logged.id):
            self._say_of(self._hear(logged), entry)  # the log has every message that it names
            return
        match entry.event_type:
            case Kind.MEMORY_READ | Kind.MEMORY_WRITE | Kind.MEMORY_QUERY:
                self._remembered(entry)
            case Kind.LLM_REQUEST:
                self._requested(entry)
            case Kind.LLM_RESPONSE:
                self._responded(entry, logged)
            case Kind.MESSAGE_ADDED if logged is not None:
                self._say_of(self._hear(logged), entry)
            case _:
                self._note(entry)

    def memory(self, operation: MemoryOperationRecord) -> None:
        """Log a use of memory."""
        told: dict[str, Any] = msgspec.structs.asdict(operation)
        self.session.append(ev.MemoryOperation(agent_id=self.agent_id, **told))

    def _remembered(self, entry: ThreadEntry) -> None:
        operation = entry.memory_operation
        if operation is None:
            self._note(entry)
            return
        self.memory(operation)
        self._say_of(self.session.state.last_id, entry)

    def _requested(self, entry: ThreadEntry) -> None:
        """Log a request, if the rows that were given are those of a request.

        Else it is noted: a request event would say more rows than were given.
        """
        now = self._now
        waiting = [row.entry for one in now.waiting for row in one.rows]
        is_said = now.is_told or waiting == [row.entry for row in now.whole(self._agent, "")]
        if self.voice.open is not None or not is_said:
            self._note(entry)
            return
        snapshot = entry.context_snapshot
        model = "" if snapshot is None else snapshot.model_used or ""
        row = [Item(heard.key, []) for heard in self.voice.row]
        self._say_of(self.voice.ask(row, model=model), entry)

    def _responded(self, entry: ThreadEntry, logged: LoggedMessage | None) -> None:
        snapshot = entry.context_snapshot
        finish = Finish(stop_reason="end_turn" if logged is not None else "error")
        if snapshot is not None:
            finish = Finish(stop_reason=finish.stop_reason, model=snapshot.model_used)
        if self.voice.open is not None:
            items = [] if logged is None else [Item.of(self._message(logged))]
            self.voice.answer(self.voice.open, items, finish=finish)
            self._say_of(self.session.state.last_id, entry)
        elif logged is None or self._now.knows(logged.id):
            self._note(entry)
        else:
            self._say_of(self._hear(logged), entry)

    def _answered(self, items: Sequence[Item]) -> None:
        if self.voice.open is not None:
            self.voice.answer(self.voice.open, items, finish=Finish(stop_reason="end_turn"))
        else:
            self._heard_as(items, Kind.LLM_RESPONSE)

    def _heard_as(self, items: Sequence[Item], kind: ThreadEventType) -> None:
        """Add messages to the context, and have their rows be of a kind."""
        now = self._now
        for item in items:
            (id_,) = self.voice.hear(item).ids
            own = next(one for one in reversed(now.waiting) if one.of == id_)
            first, *others = [replace(r.entry, event_type=kind) for r in own.rows]
            self._note(first, of=id_)
            for other in others:
                self._note(other)

    def _hear(self, logged: LoggedMessage) -> MessageId:
        """Add a logged message to the context; return its entry."""
        return self.voice.hear(Item.of(self._message(logged))).ids[-1]

    def joined(self, logged: Sequence[LoggedMessage]) -> Message:
        """Return logged messages as the one that they are units of, in their order."""
        units = [self._message(one) for one in logged]
        if len(units) == 1:
            return units[0]
        prefix = f"call_{self.session.next_id().removeprefix('msg_')}"
        parts: list[ContentPart] = []
        calls: list[ToolCall] = []
        for unit in units:
            content = [TextPart(unit.content)] if isinstance(unit.content, str) else unit.content
            parts += content or []
            for call in unit.tool_calls or ():
                calls.append(ToolCall(f"{prefix}_{len(calls)}", call.function, call.type))
                parts.append(ToolCallSlot(calls[-1].id))
        said = [part for part in parts if not isinstance(part, ToolCallSlot)]
        if parts[: len(said)] == said:  # the calls stand after all else, as they do without places
            parts = list(said)
        text = parts[0] if len(parts) == 1 else None
        plain = text.text if isinstance(text, TextPart) else parts or None
        return Message("assistant", plain, calls or None)

    def _message(self, logged: LoggedMessage) -> Message:
        """Return a message with the ids that a log wants: calls are answered in their order."""
        message = message_of(logged)
        if logged.role is MessageRole.TOOL_CALL:
            call = (message.tool_calls or [])[0]
            id_ = f"call_{self.session.next_id().removeprefix('msg_')}"
            return Message("assistant", None, [ToolCall(id_, call.function, call.type)])
        if logged.role is MessageRole.TOOL_RESULT:
            waiting = next(iter(self._agent.open_calls.values()), None)
            id_ = "unnamed" if waiting is None else waiting.id
            name = message.name or ("unnamed" if waiting is None else waiting.name)
            return Message("tool", message.content, None, id_, name, message.is_error)
        return message

    def _say_of(self, id_: MessageId, entry: ThreadEntry) -> None:
        """Note a row in place of that of an event, where it is another one."""
        own = next((one for one in reversed(self._now.waiting) if one.of == id_), None)
        if own is None or [row.entry for row in own.rows] != [entry]:
            self._note(entry, of=id_)

    def _note(self, entry: ThreadEntry, of: MessageId | None = None) -> None:
        """Write a row as it is."""
        message, position = entry.message_id, entry.position_in_context
        if position is not None:
            found = self._now.unit_at(self._agent, position)
            message = None if found is not None and found[0].id == message else message or ""
        snapshot, operation = (
            None if one is None else cast("dict[str, Any]", msgspec.to_builtins(one))
            for one in (entry.context_snapshot, entry.memory_operation)
        )
        self.session.append(
            ev.ThreadNoted(
                agent_id=self.agent_id,
                entry_type=entry.event_type.value,
                of=of,
                message=message,
                position=position,
                snapshot=snapshot,
                operation=operation,
            )
        )

    def _confirm(self) -> None:
        """Have rows that were given by hand told before a whole context takes their place."""
        if self._reader is None:
            return
        for one in [one for one in self._reader.waiting if one.is_entry]:
            for row in one.rows:
                self._note(row.entry, of=cast("MessageId", one.of))

    @property
    def _agent(self) -> AgentState:
        return self.session.agent(self.agent_id)

    @property
    def _now(self) -> ThreadReader:
        """What is read of the thread now; from the first time that it is asked for, it listens."""
        if self._reader is None:
            state, reader = SessionState(), ThreadReader(self.agent_id)
            for event in events(self.session.path):
                fold(state, event, self.session.options.resolver)
                _exhaust(reader, state, event)
            self._reader = reader
            self.session.add_listener(lambda event: _exhaust(reader, self.session.state, event))
        return self._reader


def _exhaust(reader: ThreadReader, state: SessionState, event: ev.Event) -> None:
    for _ in reader.take(state, event):
        pass


def _summary(common: int, items: Sequence[Item]) -> int | None:
    """Return the item that sums up what was left out: the first one that is not as before."""
    return common if common < len(items) else None
