"""A thread: what one agent of a session saw, row by row, read from the log.

One idea: nothing of it is written down. A request says which entries it saw, so its rows are made
when somebody looks: what the request before it held is replayed, all else was added. What stands
in no request yet waits, and comes with the next one, or at the end. Only who logs rows by hand may
say what does not follow: those are events (`thread_noted`), and come back as they were given.

Source: docs/formats/interactions.md, "Threads".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import msgspec

from harken.core import events as ev
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
from harken.interactions.unit import MessageUnit, units_of
from harken.session.fold import Resolver, context_now, fold
from harken.session.state import AgentState, SessionState

Key: TypeAlias = str | int
"""A message of a context: its entry, or, where it came from a commit, the object itself."""


@dataclass(frozen=True, slots=True)
class FirstSeen:
    """When a message entered the context first, and, of an answer, which model was asked."""

    time: str = ""
    model: str | None = None


NEVER = FirstSeen()


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A row of a thread, and where the log has it."""

    entry: ThreadEntry
    unit: MessageUnit | None = None
    """The message, where there is one."""
    of: MessageId | None = None
    """The entry, or another event, that it is about; None: a message that a commit brought in."""
    request: MessageId | None = None
    """The request for which it stood in the context."""
    said: FirstSeen = NEVER
    """When the message was said, and by which model."""


def _as_it_is(unit: MessageUnit) -> MessageUnit:
    return unit


@dataclass(slots=True)
class _Waiting:
    """Rows that are known, and not told yet."""

    of: Key
    rows: list[ThreadRow]
    is_entry: bool = False
    """Whether a row of the next whole context stands for it."""


@dataclass(slots=True)
class ThreadReader:
    """Makes the rows of one agent from events, each taken after it was folded."""

    agent_id: AgentId
    estimates: bool = True
    """Whether snapshots say how many tokens a context takes."""
    written: Callable[[MessageUnit], MessageUnit] = _as_it_is
    """Returns what stands in a unit's place where the rows leave the machine."""
    is_told: bool = False
    """Whether somebody logged rows of the context since the last request."""
    waiting: list[_Waiting] = field(default_factory=list)
    _units: dict[Key, tuple[MessageUnit, ...]] = field(default_factory=dict)
    _places: dict[Key, int] = field(default_factory=dict)
    """Where the messages of the context now begin, as far as it was measured."""
    _size: int = 0
    """How many positions the context has."""
    _measured: int = 0
    """So many of its messages."""
    _seen: set[Key] = field(default_factory=set)
    """What the last context held that was told."""
    _ever: set[Key] = field(default_factory=set)
    _by_id: dict[str, tuple[MessageUnit, Key]] = field(default_factory=dict)
    """All that ever stood in the context, with the first message that it is of."""
    _said: dict[Key, FirstSeen] = field(default_factory=dict)
    _models: dict[MessageId, str] = field(default_factory=dict)
    _asking: str | None = None
    """The model whose answer is waited for."""

    def take(self, state: SessionState, event: ev.Event) -> Iterator[ThreadRow]:
        """Yield the rows that are certain with this event."""
        agent = state.agents.get(self.agent_id)
        if event.agent_id != self.agent_id or agent is None:
            return
        match event:
            case ev.TranscriptEntry():
                self._entered(agent, event)
            case ev.LlmRequest():
                yield from self._asked(agent, event)
            case ev.LlmResponse():
                self._answered(agent, event)
            case ev.TranscriptEdited():
                self._edited(agent, event)
            case ev.ContextLoaded():
                self._measure_anew(agent)
                self._said |= {
                    _key(message): FirstSeen(_time(event.time))
                    for message in context_now(agent)
                    if _key(message) not in self._said
                }
            case ev.MemoryOperation():
                self.waiting.append(_Waiting(event.message_id, [_memory(event)]))
            case ev.ThreadNoted():
                yield from self._noted(agent, event)
            case _:
                pass

    def rest(self) -> Iterator[ThreadRow]:
        """Yield what no request has seen yet."""
        for one in self.waiting:
            yield from one.rows
            if one.is_entry:
                self._told(one.of)
        self.waiting = []

    def whole(
        self, agent: AgentState, time: str, request: MessageId | None = None
    ) -> list[ThreadRow]:
        """Return a row for each position of the context: replayed, or added."""
        rows: list[ThreadRow] = []
        for message in context_now(agent):
            key = _key(message)
            is_known = key in self._seen
            kind = ThreadEventType.CONTEXT_REPLAYED if is_known else ThreadEventType.MESSAGE_ADDED
            own = "" if key in self._ever else self._said.get(key, NEVER).time
            for unit in self._units_of(message):
                entry = ThreadEntry(
                    timestamp=_time(own or time),
                    message_id=unit.id,
                    position_in_context=len(rows),
                    event_type=kind,
                )
                of = key if isinstance(key, str) else None
                said = self._said.get(key, NEVER)
                own_id = None if of is None else MessageId(of)
                rows.append(ThreadRow(entry, unit, own_id, request, said))
        return rows

    def snapshot(self, agent: AgentState, model: str | None) -> ContextSnapshot:
        """Return how large the context is."""
        units = [unit for message in context_now(agent) for unit in self._units_of(message)]
        return ContextSnapshot(
            total_messages=len(units),
            estimated_tokens=sum(unit.tokens for unit in units) if self.estimates else None,
            model_used=model or None,
        )

    def unit_at(self, agent: AgentState, position: int) -> tuple[MessageUnit, Key] | None:
        """Return what stands at a position of the context, and the message it belongs to."""
        at = 0
        for message in context_now(agent):
            units = self._units_of(message)
            if at <= position < at + len(units):
                return units[position - at], _key(message)
            at += len(units)
        return None

    def knows(self, id_: str) -> bool:
        """Whether a logged message stands, or stood, in the context."""
        return id_ in self._by_id

    @property
    def size(self) -> int:
        """How many positions the context has, all that was taken included."""
        return self._size

    def _entered(self, agent: AgentState, event: ev.TranscriptEntry) -> None:
        self._measure(agent)
        at = self._places[event.message_id]
        model = self._asking if event.role == "assistant" else None
        said = self._said[event.message_id] = FirstSeen(_time(event.time), model)
        rows = [
            _row(event, ThreadEventType.MESSAGE_ADDED, (unit, at + n), of=event.message_id)
            for n, unit in enumerate(self._units[event.message_id])
        ]
        rows = [replace(row, said=said) for row in rows]
        self.waiting.append(_Waiting(event.message_id, rows, is_entry=True))

    def _asked(self, agent: AgentState, event: ev.LlmRequest) -> Iterator[ThreadRow]:
        self._models[event.message_id] = self._asking = event.model
        self._measure(agent)
        if self.is_told:
            yield from self.rest()
        else:
            yield from self._assembled(agent, event.time, event.message_id)
        self.is_told = False
        last = self.unit_at(agent, self._size - 1) if self._size else None
        entry = ThreadEntry(
            timestamp=_time(event.time),
            message_id=None if last is None else last[0].id,
            position_in_context=None if last is None else self._size - 1,
            event_type=ThreadEventType.LLM_REQUEST,
            context_snapshot=self.snapshot(agent, event.model),
        )
        unit = None if last is None else last[0]
        row = ThreadRow(entry, unit, event.message_id, event.message_id)
        self.waiting.append(_Waiting(event.message_id, [row]))

    def _assembled(
        self, agent: AgentState, time: str, request: MessageId | None
    ) -> Iterator[ThreadRow]:
        """Yield a row for each position; what waits and is no entry comes first."""
        rows = self.whole(agent, time, request)
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            if not one.is_entry:
                yield from one.rows
        yield from rows
        self._seen = {_key(message) for message in context_now(agent)}
        self._ever |= self._seen

    def _answered(self, agent: AgentState, event: ev.LlmResponse) -> None:
        """Have the rows of an answer stand for those of its entry."""
        self._asking = None
        model = event.model or self._models.get(event.request)
        said = self._said.get(event.entry or "", NEVER)
        own = next((one for one in self.waiting if one.of == event.entry and one.is_entry), None)
        units: Sequence[MessageUnit | None] = self._units.get(event.entry or "", ()) or [None]
        at = self._places.get(event.entry or "", 0)
        snapshot = self.snapshot(agent, model)
        rows = [
            _row(event, ThreadEventType.LLM_RESPONSE, (unit, at + n), of=event.entry, told=snapshot)
            for n, unit in enumerate(units)
        ]
        rows = [
            replace(
                row,
                entry=msgspec.structs.replace(
                    row.entry, timestamp=said.time or row.entry.timestamp
                ),
                request=event.request,
                said=said,
            )
            for row in rows
        ]
        if own is None:
            self.waiting.append(_Waiting(event.message_id, rows))
        else:
            own.rows, own.is_entry, own.of = rows, False, event.message_id

    def _edited(self, agent: AgentState, event: ev.TranscriptEdited) -> None:
        self._measure_anew(agent)
        self.is_told = False  # what was told is not the context any more
        self._place_anew()
        if event.summary is None and event.reason != "compaction":
            return
        units: Sequence[MessageUnit | None] = self._units.get(event.summary or "", ()) or [None]
        at = self._places.get(event.summary or "", 0)
        kind, snapshot = ThreadEventType.CONTEXT_COMPACTED, self.snapshot(agent, None)
        rows = [
            _row(event, kind, (unit, at + n), of=event.summary, told=snapshot)
            for n, unit in enumerate(units)
        ]
        self.waiting.append(_Waiting(event.message_id, rows))

    def _place_anew(self) -> None:
        """Have what waits stand where the context has it now; what it has not was never seen."""
        waiting = [one for one in self.waiting if not one.is_entry or one.of in self._places]
        for one in waiting:
            if one.is_entry:
                at = self._places[one.of]
                one.rows = [
                    replace(
                        row,
                        entry=msgspec.structs.replace(row.entry, position_in_context=at + n),
                    )
                    for n, row in enumerate(one.rows)
                ]
        self.waiting = waiting

    def _noted(self, agent: AgentState, event: ev.ThreadNoted) -> Iterator[ThreadRow]:
        if event.whole:
            yield from self._assembled(agent, event.time, None)
            self.is_told = True
            return
        row = self._given(agent, event)
        if row is None:
            return
        for one in self.waiting:
            if one.of == event.of:
                if one.is_entry:
                    self._told(one.of)
                one.rows, one.is_entry, one.of = [row], False, event.message_id
                return
        yield from self.rest()
        self.waiting.append(_Waiting(event.message_id, [row]))
        self.is_told = True

    def _given(self, agent: AgentState, event: ev.ThreadNoted) -> ThreadRow | None:
        """Return a row as it was given; None for one that no logger would write."""
        if event.entry_type not in ThreadEventType.__members__:
            return None
        found = self._by_id.get(event.message or "")
        if event.message is None and event.position is not None:
            found = self.unit_at(agent, event.position)
        entry = ThreadEntry(
            timestamp=_time(event.time),
            message_id=event.message or None if found is None else found[0].id,
            position_in_context=event.position,
            event_type=ThreadEventType(event.entry_type),
            context_snapshot=_read(event.snapshot, ContextSnapshot),
            memory_operation=_read(event.operation, MemoryOperationRecord),
        )
        if found is None:
            return ThreadRow(entry, of=event.of)
        unit, key = found
        of = MessageId(key) if isinstance(key, str) else event.of
        return ThreadRow(entry, unit, of, said=self._said.get(key, NEVER))

    def _told(self, key: Key) -> None:
        self._seen.add(key)
        self._ever.add(key)

    def _measure(self, agent: AgentState) -> None:
        """Measure what is new at the end of the context."""
        context = context_now(agent)
        if len(context) < self._measured:
            self._measure_anew(agent)
            return
        for message in context[self._measured :]:
            self._places[_key(message)] = self._size
            self._size += len(self._units_of(message))
        self._measured = len(context)

    def _measure_anew(self, agent: AgentState) -> None:
        self._places, self._size, self._measured = {}, 0, 0
        self._measure(agent)

    def _units_of(self, message: ChatMessage) -> tuple[MessageUnit, ...]:
        key = _key(message)
        found = self._units.get(key)
        if found is None:
            found = _units(message)
            written = tuple(map(self.written, found))
            for own, unit in zip(found, written, strict=True):
                self._by_id.setdefault(own.id, (unit, key))
            found = self._units[key] = written
        return found


def thread_rows(
    events: Iterable[ev.Event],
    agent_id: str,
    *,
    resolver: Resolver | None = None,
    estimates: bool = True,
    written: Callable[[MessageUnit], MessageUnit] | None = None,
) -> Iterator[ThreadRow]:
    """Yield the rows of an agent's thread, from all events of its session, oldest first.

    resolver: gives the messages of commits that agents started from; None: one that says so
    stands in for each. written: returns what stands in a unit's place.
    """
    state = SessionState()
    reader = ThreadReader(AgentId(agent_id), estimates, written or _as_it_is)
    for event in events:
        fold(state, event, resolver or stand_ins)
        yield from reader.take(state, event)
    yield from reader.rest()


def stand_ins(event: ev.ContextLoaded) -> list[Message]:
    """Stand in for the messages of a commit where no store is at hand: one says so for each."""
    text = f"[message {{}} of {event.ctx}, which is in a store that is not open]"
    return [Message("system", text.format(n)) for n in range(event.count)]


def _units(message: ChatMessage) -> tuple[MessageUnit, ...]:
    """Return the units of a message; one that an odd log has in pieces is the text that it says."""
    try:
        return units_of(message)
    except ValueError:
        return units_of(Message(message.role, str(message.content), tool_call_id="", name=""))


def _key(message: ChatMessage) -> Key:
    return message.message_id if isinstance(message, ev.TranscriptEntry) else id(message)


def _row(
    event: ev.EventBase,
    kind: ThreadEventType,
    at: tuple[MessageUnit | None, int],
    *,
    of: MessageId | None,
    told: ContextSnapshot | None = None,
) -> ThreadRow:
    unit, position = at
    entry = ThreadEntry(
        timestamp=_time(event.time),
        message_id=None if unit is None else unit.id,
        position_in_context=None if unit is None else position,
        event_type=kind,
        context_snapshot=told,
    )
    return ThreadRow(entry, unit, of)


Record = TypeVar("Record", ContextSnapshot, MemoryOperationRecord)


def _read(value: Any, kind: type[Record]) -> Record | None:
    """Return a record that an event holds; None for what is none."""
    try:
        return None if value is None else msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


@lru_cache(maxsize=1024)
def _time(text: str) -> str:
    """Return a time as rows have it; nothing for what is none, as an older log may have it."""
    try:
        return normalize_rfc3339(text)
    except (ValueError, OverflowError):
        return ""


def _memory(event: ev.MemoryOperation) -> ThreadRow:
    """Return the row of a use of memory."""
    operation = MemoryOperationRecord(
        memory_type=MemoryType(event.memory_type),
        operation=MemoryOpType(event.operation),
        file_path=event.file_path,
        query=event.query,
        result_count=event.result_count,
        content_preview=event.content_preview,
    )
    kind = ThreadEventType(f"MEMORY_{event.operation}")
    entry = ThreadEntry(timestamp=_time(event.time), event_type=kind, memory_operation=operation)
    return ThreadRow(entry, of=event.message_id)
