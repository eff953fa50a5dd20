"""`ThreadWriter`: write the interactions of one thread as events of its session.

Only new messages are read and written, each once and in full; a request refers to the messages of
its context. A row that a caller logs explicitly is written as the event from which the same row is
derived. A row that cannot be derived from an event is written as a `thread_noted` event. So every
row is read back unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from harken.core import events as ev
from harken.core import structs
from harken.core.clock import Clock, format_rfc3339, parse_rfc3339
from harken.core.event_types.message_parser import redact_message
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ContentPart, Message, TextPart, ToolCall, ToolCallSlot
from harken.core.stream import Finish
from harken.core.structs import replace
from harken.interactions.call import MessageLike
from harken.interactions.records import (
    LoggedMessage,
    MemoryOperationRecord,
    MessageRole,
    ThreadEntry,
    ThreadEventType,
)
from harken.interactions.thread import ThreadReader
from harken.interactions.unit import to_message
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.item import Item
from harken.recording.writer.message_items import MessageItems
from harken.recording.writer.request import RequestSettings
from harken.session.fold import fold
from harken.session.log.reader import iter_events
from harken.session.session import Session
from harken.session.state import AgentState, SessionState

Kind = ThreadEventType
ROW_MISSING: tuple[ev.RequestPart, ...] = ("tools", "parameters")
"""The parts of a request that its rows do not have."""


class SettableClock(msgspec.Struct):
    """A clock that can be set to the time of a row."""

    clock: Clock
    fixed_us: int | None = None

    def __call__(self) -> int:
        """Return the time that was set, or the time of the underlying clock."""
        return self.clock() if self.fixed_us is None else self.fixed_us

    def set(self, time: str = "") -> None:
        """Set the time (RFC 3339). An empty string resets to the underlying clock."""
        self.fixed_us = parse_rfc3339(time) if time else None


class ThreadWriter:
    """Writes one thread of an open session."""

    def __init__(
        self, session: Session, agent_id: str, moment: SettableClock, *, contexts: bool
    ) -> None:
        """Continue a thread. `contexts` tells whether requests refer to their context."""
        self.session, self.agent_id, self.clock = session, AgentId(agent_id), moment
        self.contexts = contexts
        self.recorder = AgentRecorder.from_log(session, agent_id)
        self._reader: ThreadReader | None = None
        self._items = MessageItems(self._create_item)

    def log_request(
        self, messages: Sequence[MessageLike], settings: RequestSettings
    ) -> MessageId | None:
        """Log a request. Return its event id, or None if requests do not refer to their context."""
        items = self._items.find_items(messages)
        self._flush_pending()
        if self.contexts:
            return self.recorder.log_request(items, settings)
        self.recorder.set_context(items)
        snapshot = self._live_reader.snapshot(self._agent, settings.model)
        entry = ThreadEntry(event_type=Kind.LLM_REQUEST, context_snapshot=snapshot)
        self._write_explicit_row(entry)
        return None

    def log_response(
        self, answers: Sequence[Message], finish: Finish, *, latency_s: float, error: str = ""
    ) -> None:
        """Log the response to the last request, and how the call ended."""
        items = [self._create_item(message) for message in answers]
        if self.recorder.open_request is not None:
            request = self.recorder.open_request
            self.recorder.log_response(
                request, items, finish=finish, latency_s=latency_s, error=error
            )
        elif items:
            self._add_messages_as(items, Kind.LLM_RESPONSE)

    def log_context(
        self, messages: Sequence[MessageLike], kind: ThreadEventType, settings: RequestSettings
    ) -> None:
        """Log a context that was assembled, requested, answered or compacted."""
        if kind is Kind.LLM_REQUEST:
            self.log_request(messages, settings)
            return
        items = self._items.find_items(messages)
        self._flush_pending()
        common = self.recorder.count_common(items)
        if kind is Kind.LLM_RESPONSE:
            if common < len(self.recorder.items):
                self.recorder.set_context(items[:common])
            self._write_response(items[common:])
            return
        if kind is Kind.CONTEXT_COMPACTED:
            self.recorder.set_context(
                items, reason="compaction", summary=_summary_index(common, items)
            )
        else:
            self.recorder.set_context(items)
        if self.contexts:
            self.log_full_context(kind)

    def log_full_context(self, kind: ThreadEventType) -> None:
        """Write that the context was assembled in its current form."""
        self.session.append(
            ev.ThreadNoted(agent_id=self.agent_id, entry_type=kind.value, whole=True)
        )

    def _create_item(self, message: Message) -> Item:
        return Item.from_message(redact_message(message, self.session.options.redact))

    def log_row(self, entry: ThreadEntry, logged: LoggedMessage | None) -> None:
        """Log a row unchanged. `logged` is the message that it refers to."""
        _ = self._live_reader  # Starts the reader, so that rows are read as they are logged.
        if not entry.timestamp:
            entry = replace(entry, timestamp=format_rfc3339(self.clock()))
        self.clock.set(entry.timestamp)
        try:
            self._add_row(entry, logged)
        finally:
            self.clock.set("")

    def _add_row(self, entry: ThreadEntry, logged: LoggedMessage | None) -> None:
        adds_message = entry.event_type in (Kind.MESSAGE_ADDED, Kind.LLM_RESPONSE)
        if logged is not None and not adds_message and not self._live_reader.has_seen(logged.id):
            # The log must contain every message that a row refers to.
            self._note_if_different(self._add_message(logged), entry)
            return
        match entry.event_type:
            case Kind.MEMORY_READ | Kind.MEMORY_WRITE | Kind.MEMORY_QUERY:
                self._add_memory_row(entry)
            case Kind.LLM_REQUEST:
                self._add_request_row(entry)
            case Kind.LLM_RESPONSE:
                self._add_response_row(entry, logged)
            case Kind.MESSAGE_ADDED if logged is not None:
                self._note_if_different(self._add_message(logged), entry)
            case _:
                self._write_explicit_row(entry)

    def log_memory(self, operation: MemoryOperationRecord) -> None:
        """Log a memory operation."""
        members: dict[str, Any] = msgspec.structs.asdict(operation)
        self.session.append(ev.MemoryOperation(agent_id=self.agent_id, **members))

    def _add_memory_row(self, entry: ThreadEntry) -> None:
        operation = entry.memory_operation
        if operation is None:
            self._write_explicit_row(entry)
            return
        self.log_memory(operation)
        self._note_if_different(self.session.state.last_id, entry)

    def _add_request_row(self, entry: ThreadEntry) -> None:
        """Log a request event, if its derived rows equal the rows that were logged explicitly.

        Otherwise the row is noted: a request event would add rows that were not logged.
        """
        reader = self._live_reader
        waiting = [items.entry for pending in reader.waiting for items in pending.rows]
        is_derivable = reader.has_explicit_rows or waiting == [
            items.entry for items in reader.full_context(self._agent, "")
        ]
        if self.recorder.open_request is not None or not is_derivable:
            self._write_explicit_row(entry)
            return
        snapshot = entry.context_snapshot
        model = "" if snapshot is None else snapshot.model_used or ""
        settings = RequestSettings(model=model, evidence=entry.evidence, missing=ROW_MISSING)
        request_id = self.recorder.log_request_for_context(settings)
        self._note_if_different(request_id, entry)

    def _add_response_row(self, entry: ThreadEntry, logged: LoggedMessage | None) -> None:
        snapshot = entry.context_snapshot
        finish = Finish(stop_reason="end_turn" if logged is not None else "error")
        if snapshot is not None:
            finish = Finish(stop_reason=finish.stop_reason, model=snapshot.model_used)
        if self.recorder.open_request is not None:
            items = [] if logged is None else [Item.from_message(self._to_message(logged))]
            self.recorder.log_response(self.recorder.open_request, items, finish=finish)
            self._note_if_different(self.session.state.last_id, entry)
        elif logged is None or self._live_reader.has_seen(logged.id):
            self._write_explicit_row(entry)
        else:
            self._note_if_different(self._add_message(logged), entry)

    def _write_response(self, items: Sequence[Item]) -> None:
        if self.recorder.open_request is not None:
            self.recorder.log_response(
                self.recorder.open_request, items, finish=Finish(stop_reason="end_turn")
            )
        else:
            self._add_messages_as(items, Kind.LLM_RESPONSE)

    def _add_messages_as(self, items: Sequence[Item], kind: ThreadEventType) -> None:
        """Add messages to the context, with rows of the given type."""
        reader = self._live_reader
        for item in items:
            (id_,) = self.recorder.append_item(item).ids
            pending = next(
                pending_rows for pending_rows in reversed(reader.waiting) if pending_rows.of == id_
            )
            first, *other_entries = [replace(row.entry, event_type=kind) for row in pending.rows]
            self._write_explicit_row(first, of=id_)
            for other_entry in other_entries:
                self._write_explicit_row(other_entry)

    def _add_message(self, logged: LoggedMessage) -> MessageId:
        """Add a logged message to the context; return its entry id."""
        return self.recorder.append_item(Item.from_message(self._to_message(logged))).ids[-1]

    def join_units(self, logged: Sequence[LoggedMessage]) -> Message:
        """Combine units into the message that they are parts of, in order."""
        units = [self._to_message(record) for record in logged]
        if len(units) == 1:
            return units[0]
        prefix = f"call_{self.session.next_id().removeprefix('msg_')}"
        parts: list[ContentPart] = []
        calls: list[ToolCall] = []
        for unit in units:
            content = [TextPart(unit.content)] if isinstance(unit.content, str) else unit.content
            parts += content or []
            for call in unit.tool_calls or ():
                calls.append(structs.replace(call, id=f"{prefix}_{len(calls)}"))
                parts.append(ToolCallSlot(calls[-1].id))
        content_parts = [part for part in parts if not isinstance(part, ToolCallSlot)]
        # Calls after all other parts need no slots.
        if parts[: len(content_parts)] == content_parts:
            parts = list(content_parts)
        text = parts[0] if len(parts) == 1 else None
        is_plain = isinstance(text, TextPart) and not text.extra
        content_ = text.text if isinstance(text, TextPart) and is_plain else parts or None
        return Message("assistant", content_, calls or None)

    def _to_message(self, logged: LoggedMessage) -> Message:
        """Return a message with generated ids: calls are answered in their order."""
        message = redact_message(to_message(logged), self.session.options.redact)
        if logged.role is MessageRole.TOOL_CALL:
            call = (message.tool_calls or [])[0]
            id_ = f"call_{self.session.next_id().removeprefix('msg_')}"
            return Message("assistant", None, [structs.replace(call, id=id_)])
        if logged.role is MessageRole.TOOL_RESULT:
            open_call = next(iter(self._agent.open_calls.values()), None)
            id_ = "unnamed" if open_call is None else open_call.id
            name = message.name or ("unnamed" if open_call is None else open_call.name)
            return Message("tool", message.content, None, id_, name, message.is_error)
        return message

    def _note_if_different(self, id_: MessageId, entry: ThreadEntry) -> None:
        """Note a row in place of the derived row of an event, if they differ."""
        pending = next(
            (
                pending_rows
                for pending_rows in reversed(self._live_reader.waiting)
                if pending_rows.of == id_
            ),
            None,
        )
        if pending is None or [row.entry for row in pending.rows] != [entry]:
            self._write_explicit_row(entry, of=id_)

    def _write_explicit_row(self, entry: ThreadEntry, of: MessageId | None = None) -> None:
        """Write a row as a `thread_noted` event."""
        message, position = entry.message_id, entry.position_in_context
        if position is not None:
            unit_and_key = self._live_reader.unit_at(self._agent, position)
            message = (
                None
                if unit_and_key is not None and unit_and_key[0].id == message
                else message or ""
            )
        snapshot, operation = (
            None if record is None else cast("dict[str, Any]", msgspec.to_builtins(record))
            for record in (entry.context_snapshot, entry.memory_operation)
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
                evidence=entry.evidence,
            )
        )

    def _flush_pending(self) -> None:
        """Write pending explicit rows before a full context replaces them."""
        if self._reader is None:
            return
        for pending in [pending for pending in self._reader.waiting if pending.is_entry]:
            for row in pending.rows:
                self._write_explicit_row(row.entry, of=cast("MessageId", pending.of))

    @property
    def _agent(self) -> AgentState:
        return self.session.agent(self.agent_id)

    @property
    def _live_reader(self) -> ThreadReader:
        """The reader of this thread. It is created on first use, and then receives all events."""
        if self._reader is None:
            state, reader = SessionState(), ThreadReader(self.agent_id)
            for event in iter_events(self.session.path):
                fold(state, event, self.session.options.resolver)
                _feed(reader, state, event)
            self._reader = reader
            self.session.add_listener(lambda event: _feed(reader, self.session.state, event))
        return self._reader


def _feed(reader: ThreadReader, state: SessionState, event: ev.Event) -> None:
    for _ in reader.add(state, event):
        pass


def _summary_index(common: int, items: Sequence[Item]) -> int | None:
    """Return the index of the item that summarizes the removed messages: the first new item."""
    return common if common < len(items) else None
