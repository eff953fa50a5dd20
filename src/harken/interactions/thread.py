"""A thread: the rows that describe the context of one agent, derived from the session log.

Rows are not stored. A request event names the entries in its context, so its rows are computed on
demand: messages of the previous request are replayed, all others are added. Messages that are in no
request yet are reported with the next request or at the end. Only rows that a caller logs
explicitly, and that do not follow from other events, are stored as events (`thread_noted`) and
returned unchanged.

Source: docs/formats/interactions.md, "Threads".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import msgspec

from harken.core import events as ev
from harken.core import structs
from harken.core.clock import normalize_rfc3339
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message
from harken.interactions.records import (
    ContextSnapshot,
    MemoryOperationRecord,
    MemoryOpType,
    MemoryType,
    ThreadEntry,
    ThreadEventType,
)
from harken.interactions.unit import MessageUnit, split_message
from harken.session.fold import Resolver, current_messages, fold
from harken.session.state import AgentState, SessionState

Key: TypeAlias = str | int
"""Identifies a message of a context: its entry id, or the `id()` of a message from a commit."""


class FirstSeen(msgspec.Struct, frozen=True):
    """The time at which a message entered the context, and the model that wrote a response."""

    time: str = ""
    model: str | None = None


NEVER_SEEN = FirstSeen()
_NO_RESPONSE = frozenset({None, "cancelled", "error", "interrupted"})
"""Stop reasons of a call that ended without a response."""


class ThreadRow(msgspec.Struct, frozen=True):
    """A thread row and the log events that it refers to."""

    entry: ThreadEntry
    unit: MessageUnit | None = None
    """The message of the row, if any."""
    source_id: MessageId | None = None
    """The entry or event that the row is about, or None for a message of a commit."""
    request: MessageId | None = None
    """The request whose context contained the message."""
    first_seen: FirstSeen = NEVER_SEEN
    """Time and model of the first occurrence of the message."""


def _unchanged(unit: MessageUnit) -> MessageUnit:
    return unit


class _PendingRows(msgspec.Struct):
    """Rows that are known, but not yielded yet."""

    of: Key
    rows: list[ThreadRow]
    is_entry: bool = False
    """Whether a row of the next full context replaces these rows."""


class ThreadReader(msgspec.Struct):
    """Computes the rows of one agent from events; each event must be folded first."""

    agent_id: AgentId
    estimates: bool = True
    """Whether snapshots contain token estimates."""
    on_unit: Callable[[MessageUnit], MessageUnit] = _unchanged
    """Returns the unit to report in place of a unit, for redaction."""
    has_explicit_rows: bool = False
    """Whether rows of the context were logged explicitly since the last request."""
    waiting: list[_PendingRows] = msgspec.field(default_factory=list)
    _units_by_key: dict[Key, tuple[MessageUnit, ...]] = msgspec.field(default_factory=dict)
    _positions: dict[Key, int] = msgspec.field(default_factory=dict)
    """Message -> position of its first unit in the current context, as far as it was measured."""
    _size: int = 0
    """Number of positions in the context."""
    _measured_count: int = 0
    """Number of messages that were measured."""
    _seen: set[Key] = msgspec.field(default_factory=set)
    """Messages of the last reported context."""
    _seen_before: set[Key] = msgspec.field(default_factory=set)
    _by_id: dict[str, tuple[MessageUnit, Key]] = msgspec.field(default_factory=dict)
    """Unit id -> unit and the first message that contained it, for all past contexts."""
    _first_seen: dict[Key, FirstSeen] = msgspec.field(default_factory=dict)
    _models: dict[MessageId, str] = msgspec.field(default_factory=dict)
    _open_model: str | None = None
    """The model of the open request."""

    def add(self, state: SessionState, event: ev.Event) -> Iterator[ThreadRow]:
        """Yield the rows that are final after this event."""
        agent = state.agents.get(self.agent_id)
        if event.agent_id != self.agent_id or agent is None:
            return
        match event:
            case ev.TranscriptEntry():
                self._add_entry(agent, event)
            case ev.LlmRequest():
                yield from self._add_request(agent, event)
            case ev.LlmResponse():
                self._add_response(agent, event)
            case ev.TranscriptEdited():
                self._apply_edit(agent, event)
            case ev.ContextLoaded():
                self._measure_all(agent)
                self._first_seen |= {
                    _message_key(message): FirstSeen(_normalize_time(event.time))
                    for message in current_messages(agent)
                    if _message_key(message) not in self._first_seen
                }
            case ev.MemoryOperation():
                self.waiting.append(_PendingRows(event.message_id, [_memory_row(event)]))
            case ev.ThreadNoted():
                yield from self._add_explicit(agent, event)
            case _:
                pass

    def flush(self) -> Iterator[ThreadRow]:
        """Yield the rows that no request has reported yet."""
        for pending in self.waiting:
            yield from pending.rows
            if pending.is_entry:
                self._mark_seen(pending.of)
        self.waiting = []

    def full_context(
        self, agent: AgentState, time: str, request: MessageId | None = None
    ) -> list[ThreadRow]:
        """Return a row for each position of the context: replayed or added."""
        rows: list[ThreadRow] = []
        for message in current_messages(agent):
            key = _message_key(message)
            is_replayed = key in self._seen
            kind = (
                ThreadEventType.CONTEXT_REPLAYED if is_replayed else ThreadEventType.MESSAGE_ADDED
            )
            first_time = (
                "" if key in self._seen_before else self._first_seen.get(key, NEVER_SEEN).time
            )
            for unit in self._get_units(message):
                entry = ThreadEntry(
                    timestamp=_normalize_time(first_time or time),
                    message_id=unit.id,
                    position_in_context=len(rows),
                    event_type=kind,
                )
                entry_id = key if isinstance(key, str) else None
                first_seen = self._first_seen.get(key, NEVER_SEEN)
                message_id = None if entry_id is None else MessageId(entry_id)
                rows.append(ThreadRow(entry, unit, message_id, request, first_seen))
        return rows

    def snapshot(self, agent: AgentState, model: str | None) -> ContextSnapshot:
        """Return the size of the context."""
        units = [unit for message in current_messages(agent) for unit in self._get_units(message)]
        return ContextSnapshot(
            total_messages=len(units),
            estimated_tokens=sum(unit.tokens for unit in units) if self.estimates else None,
            model_used=model or None,
        )

    def unit_at(self, agent: AgentState, position: int) -> tuple[MessageUnit, Key] | None:
        """Return the unit at a position of the context and the message that it belongs to."""
        start = 0
        for message in current_messages(agent):
            units = self._get_units(message)
            if start <= position < start + len(units):
                return units[position - start], _message_key(message)
            start += len(units)
        return None

    def has_seen(self, id_: str) -> bool:
        """Whether a logged message is, or was, in the context."""
        return id_ in self._by_id

    @property
    def size(self) -> int:
        """Number of positions in the context."""
        return self._size

    def _add_entry(self, agent: AgentState, event: ev.TranscriptEntry) -> None:
        self._measure_new(agent)
        position = self._positions[event.message_id]
        model = self._open_model if event.role == "assistant" else None
        first_seen = self._first_seen[event.message_id] = FirstSeen(
            _normalize_time(event.time), model
        )
        rows = [
            _build_row(
                event, ThreadEventType.MESSAGE_ADDED, (unit, position + index), of=event.message_id
            )
            for index, unit in enumerate(self._units_by_key[event.message_id])
        ]
        rows = [structs.replace(row, first_seen=first_seen) for row in rows]
        self.waiting.append(_PendingRows(event.message_id, rows, is_entry=True))

    def _add_request(self, agent: AgentState, event: ev.LlmRequest) -> Iterator[ThreadRow]:
        self._models[event.message_id] = self._open_model = event.model
        self._measure_new(agent)
        if self.has_explicit_rows:
            yield from self.flush()
        else:
            yield from self._report_context(agent, event.time, event.message_id)
        self.has_explicit_rows = False
        last = self.unit_at(agent, self._size - 1) if self._size else None
        entry = ThreadEntry(
            timestamp=_normalize_time(event.time),
            message_id=None if last is None else last[0].id,
            position_in_context=None if last is None else self._size - 1,
            event_type=ThreadEventType.LLM_REQUEST,
            context_snapshot=self.snapshot(agent, event.model),
            evidence=event.evidence,
        )
        unit = None if last is None else last[0]
        row = ThreadRow(entry, unit, event.message_id, event.message_id)
        self.waiting.append(_PendingRows(event.message_id, [row]))

    def _report_context(
        self, agent: AgentState, time: str, request: MessageId | None
    ) -> Iterator[ThreadRow]:
        """Yield a row for each position, after the pending rows that are not entries."""
        rows = self.full_context(agent, time, request)
        waiting, self.waiting = self.waiting, []
        for pending in waiting:
            if not pending.is_entry:
                yield from pending.rows
        yield from rows
        self._seen = {_message_key(message) for message in current_messages(agent)}
        self._seen_before |= self._seen

    def _add_response(self, agent: AgentState, event: ev.LlmResponse) -> None:
        """Replace the rows of the response's entry by those of the response, if there was one."""
        self._open_model = None
        if event.entry is None and (event.error or event.stop_reason in _NO_RESPONSE):
            return
        model = event.model or self._models.get(event.request)
        first_seen = self._first_seen.get(event.entry or "", NEVER_SEEN)
        pending = next(
            (item for item in self.waiting if item.of == event.entry and item.is_entry), None
        )
        units: Sequence[MessageUnit | None] = self._units_by_key.get(event.entry or "", ()) or [
            None
        ]
        position = self._positions.get(event.entry or "", 0)
        snapshot = self.snapshot(agent, model)
        rows = [
            _build_row(
                event,
                ThreadEventType.LLM_RESPONSE,
                (unit, position + index),
                of=event.entry,
                snapshot=snapshot,
            )
            for index, unit in enumerate(units)
        ]
        rows = [
            structs.replace(
                row,
                entry=structs.replace(row.entry, timestamp=first_seen.time or row.entry.timestamp),
                request=event.request,
                first_seen=first_seen,
            )
            for row in rows
        ]
        if pending is None:
            self.waiting.append(_PendingRows(event.message_id, rows))
        else:
            pending.rows, pending.is_entry, pending.of = rows, False, event.message_id

    def _apply_edit(self, agent: AgentState, event: ev.TranscriptEdited) -> None:
        self._measure_all(agent)
        self.has_explicit_rows = False  # Explicit rows do not describe the edited context.
        self._update_positions()
        if event.summary is None and event.reason != "compaction":
            return
        units: Sequence[MessageUnit | None] = self._units_by_key.get(event.summary or "", ()) or [
            None
        ]
        position = self._positions.get(event.summary or "", 0)
        kind, snapshot = ThreadEventType.CONTEXT_COMPACTED, self.snapshot(agent, None)
        rows = [
            _build_row(event, kind, (unit, position + index), of=event.summary, snapshot=snapshot)
            for index, unit in enumerate(units)
        ]
        self.waiting.append(_PendingRows(event.message_id, rows))

    def _update_positions(self) -> None:
        """Update positions of pending entries.

        Entries that were removed from the context are dropped.
        """
        waiting = [
            pending
            for pending in self.waiting
            if not pending.is_entry or pending.of in self._positions
        ]
        for pending in waiting:
            if pending.is_entry:
                position = self._positions[pending.of]
                pending.rows = [
                    structs.replace(
                        row,
                        entry=structs.replace(row.entry, position_in_context=position + index),
                    )
                    for index, row in enumerate(pending.rows)
                ]
        self.waiting = waiting

    def _add_explicit(self, agent: AgentState, event: ev.ThreadNoted) -> Iterator[ThreadRow]:
        if event.whole:
            yield from self._report_context(agent, event.time, None)
            self.has_explicit_rows = True
            return
        row = self._explicit_row(agent, event)
        if row is None:
            return
        for pending in self.waiting:
            if pending.of == event.of:
                if pending.is_entry:
                    self._mark_seen(pending.of)
                pending.rows, pending.is_entry, pending.of = [row], False, event.message_id
                return
        yield from self.flush()
        self.waiting.append(_PendingRows(event.message_id, [row]))
        self.has_explicit_rows = True

    def _explicit_row(self, agent: AgentState, event: ev.ThreadNoted) -> ThreadRow | None:
        """Return an explicitly logged row, or None if it is invalid."""
        if event.entry_type not in ThreadEventType.__members__:
            return None
        match = self._by_id.get(event.message or "")
        if event.message is None and event.position is not None:
            match = self.unit_at(agent, event.position)
        entry = ThreadEntry(
            timestamp=_normalize_time(event.time),
            message_id=event.message or None if match is None else match[0].id,
            position_in_context=event.position,
            event_type=ThreadEventType(event.entry_type),
            context_snapshot=_convert(event.snapshot, ContextSnapshot),
            memory_operation=_convert(event.operation, MemoryOperationRecord),
            evidence=event.evidence,
        )
        if match is None:
            return ThreadRow(entry, source_id=event.of)
        unit, key = match
        entry_id = MessageId(key) if isinstance(key, str) else event.of
        return ThreadRow(entry, unit, entry_id, first_seen=self._first_seen.get(key, NEVER_SEEN))

    def _mark_seen(self, key: Key) -> None:
        self._seen.add(key)
        self._seen_before.add(key)

    def _measure_new(self, agent: AgentState) -> None:
        """Measure the messages that were appended to the context."""
        context = current_messages(agent)
        if len(context) < self._measured_count:
            self._measure_all(agent)
            return
        for message in context[self._measured_count :]:
            self._positions[_message_key(message)] = self._size
            self._size += len(self._get_units(message))
        self._measured_count = len(context)

    def _measure_all(self, agent: AgentState) -> None:
        self._positions, self._size, self._measured_count = {}, 0, 0
        self._measure_new(agent)

    def _get_units(self, message: ChatMessage) -> tuple[MessageUnit, ...]:
        key = _message_key(message)
        units = self._units_by_key.get(key)
        if units is None:
            units = _units_by_key(message)
            exported = tuple(map(self.on_unit, units))
            for unit_, unit in zip(units, exported, strict=True):
                self._by_id.setdefault(unit_.id, (unit, key))
            units = self._units_by_key[key] = exported
        return units


def thread_rows(
    events: Iterable[ev.Event],
    agent_id: str,
    *,
    resolver: Resolver | None = None,
    estimates: bool = True,
    written: Callable[[MessageUnit], MessageUnit] | None = None,
) -> Iterator[ThreadRow]:
    """Yield the rows of an agent's thread from all events of its session, oldest first.

    `resolver` returns the messages of commits that agents started from; by default they are
    placeholders. `written` returns the unit to report in place of a unit.
    """
    state = SessionState()
    reader = ThreadReader(AgentId(agent_id), estimates, written or _unchanged)
    for event in events:
        fold(state, event, resolver or placeholder_messages)
        yield from reader.add(state, event)
    yield from reader.flush()


def placeholder_messages(event: ev.ContextLoaded) -> list[Message]:
    """Return placeholders for the messages of a commit, for use without a store."""
    text = f"[message {{}} of {event.ctx}, which is in a store that is not open]"
    return [Message("system", text.format(index)) for index in range(event.count)]


def _units_by_key(message: ChatMessage) -> tuple[MessageUnit, ...]:
    """Return the units of a message; an inconsistent message becomes a single text."""
    try:
        return split_message(message)
    except ValueError:
        return split_message(Message(message.role, str(message.content), tool_call_id="", name=""))


def _message_key(message: ChatMessage) -> Key:
    return message.message_id if isinstance(message, ev.TranscriptEntry) else id(message)


def _build_row(
    event: ev.EventBase,
    kind: ThreadEventType,
    location: tuple[MessageUnit | None, int],
    *,
    of: MessageId | None,
    snapshot: ContextSnapshot | None = None,
) -> ThreadRow:
    unit, position = location
    entry = ThreadEntry(
        timestamp=_normalize_time(event.time),
        message_id=None if unit is None else unit.id,
        position_in_context=None if unit is None else position,
        event_type=kind,
        context_snapshot=snapshot,
    )
    return ThreadRow(entry, unit, of)


Record = TypeVar("Record", ContextSnapshot, MemoryOperationRecord)


def _convert(value: Any, kind: type[Record]) -> Record | None:
    """Convert a record of an event. Return None if it is invalid."""
    try:
        return None if value is None else msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


@lru_cache(maxsize=1024)
def _normalize_time(text: str) -> str:
    """Normalize a time. Return an empty string if it is invalid, as in an older log."""
    try:
        return normalize_rfc3339(text)
    except (ValueError, OverflowError):
        return ""


def _memory_row(event: ev.MemoryOperation) -> ThreadRow:
    """Return the row of a memory operation."""
    operation = MemoryOperationRecord(
        memory_type=MemoryType(event.memory_type),
        operation=MemoryOpType(event.operation),
        file_path=event.file_path,
        query=event.query,
        result_count=event.result_count,
        content_preview=event.content_preview,
    )
    kind = ThreadEventType(f"MEMORY_{event.operation}")
    entry = ThreadEntry(
        timestamp=_normalize_time(event.time), event_type=kind, memory_operation=operation
    )
    return ThreadRow(entry, source_id=event.message_id)
