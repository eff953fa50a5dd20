"""Retelling: the rows of an exported thread become the events from which they are read again.

One idea: rows that stand together say what happened: a whole context and a request are a request,
the rows of an answer are one message. What does not stand so is written row by row. Whether the
log then gives the very rows is seen by whoever reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harken.core.ids import MessageId
from harken.core.stream import Finish
from harken.interactions.records import (
    LoggedMessage,
    MessageRole,
    ThreadEntry,
    ThreadEventType,
)
from harken.interactions.writer import ThreadWriter
from harken.recording.item import Item

Kind = ThreadEventType
_CONTEXT = (Kind.MESSAGE_ADDED, Kind.CONTEXT_REPLAYED)


@dataclass(slots=True, eq=False)
class _Told:
    """An item that was heard, and the logged messages that it is."""

    ids: tuple[str, ...]
    item: Item
    time: str
    is_shown: bool = False
    """Whether a whole context had it."""


@dataclass(slots=True)
class Retelling:
    """Writes one thread from its rows."""

    writer: ThreadWriter
    rows: Sequence[ThreadEntry]
    messages: Mapping[str, LoggedMessage]
    """All that the rows name."""
    _heard: dict[str, list[_Told]] = field(default_factory=dict)
    """By the first of their ids, oldest first."""
    _last: list[_Told] = field(default_factory=list)
    """What the last whole context had."""
    _row: list[_Told] = field(default_factory=list)
    """What is in the context now."""
    _compaction: ThreadEntry | None = None
    """A compaction that waits for the context that it led to."""
    _is_assembled: bool = False
    """Whether a whole context was written since the last request."""
    _model: str = ""
    """The one that was asked last."""

    def tell(self) -> None:
        """Write all rows. Raises InvalidEvent, LogError."""
        at = 0
        while at < len(self.rows):
            at = self._tell_from(at)
        self.writer.moment.set()

    def _tell_from(self, at: int) -> int:
        """Write what begins at a row; return where the next begins."""
        row, voice = self.rows[at], self.writer.voice
        is_plain = row.context_snapshot is None and row.message_id is not None
        if (stop := self._whole(at)) > at:
            return self._context(at, stop)
        if row.event_type is Kind.LLM_RESPONSE and voice.open is not None:
            return self._answer(at, voice.open)
        if row.event_type is Kind.CONTEXT_COMPACTED and self._follows_whole(at):
            self._compaction = row
            return self._run(at)
        if row.event_type is Kind.MESSAGE_ADDED and is_plain:
            self._cut(row.position_in_context)
            stop = self._group(at, len(self.rows))
            self._hear(self.rows[at:stop])
            return stop
        if row.event_type is Kind.LLM_REQUEST and voice.open is None:
            if _of_nothing(row):
                self._row = []
            if self._is_assembled or not self._row:
                self._ask([one.item for one in self._row], row)
                self._last = []
                self._show(self._row)
                return at + 1
        if row.memory_operation is not None and row.message_id is None:
            self.writer.moment.set(row.timestamp)
            self.writer.memory(row.memory_operation)
            return at + 1
        self.writer.add(row, None if row.message_id is None else self.messages[row.message_id])
        return at + 1

    def _whole(self, at: int) -> int:
        """Return where a whole context ends that begins here; here, where none does."""
        stop = at
        while stop < len(self.rows):
            row = self.rows[stop]
            is_next = row.event_type in _CONTEXT and row.position_in_context == stop - at
            if not is_next or row.context_snapshot is not None or row.message_id is None:
                break
            stop += 1
        kinds = {row.event_type for row in self.rows[at:stop]}
        return stop if self._asked(stop) or Kind.CONTEXT_REPLAYED in kinds else at

    def _asked(self, at: int) -> ThreadEntry | None:
        """Return the request that stands here; None: none does."""
        row = self.rows[at] if at < len(self.rows) else None
        return row if row is not None and row.event_type is Kind.LLM_REQUEST else None

    def _follows_whole(self, at: int) -> bool:
        later = (n for n in range(at + 1, len(self.rows)) if self._whole(n) > n)
        return self.rows[at].context_snapshot is not None and next(later, None) is not None

    def _run(self, at: int) -> int:
        """Return where rows of the same type and time end."""
        first, stop = self.rows[at], at + 1
        while stop < len(self.rows):
            row = self.rows[stop]
            if (row.event_type, row.timestamp) != (first.event_type, first.timestamp):
                break
            stop += 1
        return stop

    def _context(self, at: int, stop: int) -> int:
        """Write a context, and the request that follows it."""
        rows, asked = self.rows[at:stop], self._asked(stop)
        times = [row.timestamp for row in rows if row.event_type is Kind.CONTEXT_REPLAYED]
        if times and (asked is None or asked.timestamp != times[0]):
            asked = None  # it was assembled before it was asked, and may have grown since
            while rows[-1].timestamp > times[0]:
                rows, stop = rows[:-1], stop - 1
        time = asked.timestamp if asked is not None else times[0]
        told = self._told(rows, time)
        items = [one.item for one in told]
        self._row = list(told)
        self.writer.moment.set(time)
        if asked is None:
            self.writer.voice.bring(items)
            self.writer.whole(Kind.CONTEXT_REPLAYED)
            self._is_assembled = True
            return stop
        self._ask(items, asked)
        return stop + 1

    def _ask(self, items: Sequence[Item], asked: ThreadEntry) -> None:
        """Write a request for the context as it is."""
        snapshot = asked.context_snapshot
        self._model = "" if snapshot is None else snapshot.model_used or ""
        self._is_assembled = False
        self.writer.moment.set(asked.timestamp)
        self.writer.voice.ask(items, model=self._model)

    def _told(self, rows: Sequence[ThreadEntry], time: str) -> list[_Told]:
        """Return what is in a context; what is new of it is heard now."""
        left = list(self._last)
        told: list[_Told] = []
        at = 0
        while at < len(rows):
            self._sum_up(told, at)
            found = self._known(rows[at:], left, told, time)
            if found is None:
                stop = self._group_of(rows, at)
                found = self._hear(rows[at:stop])
            at += len(found.ids)
            told.append(found)
        self._sum_up(told, at)
        self._last = []
        self._show(told)
        return told

    def _show(self, told: Sequence[_Told]) -> None:
        """Note what the last context has."""
        for one in told:
            one.is_shown = True
        self._last += told

    def _known(
        self, rows: Sequence[ThreadEntry], left: list[_Told], told: list[_Told], time: str
    ) -> _Told | None:
        """Return what was heard before and stands at the first row; None: it is new.

        left: what of the last context has no row yet; told: what has one.
        """
        row = rows[0]

        def fits(one: _Told) -> bool:
            return one not in told and all(
                id_ == other.message_id for id_, other in zip(one.ids, rows, strict=False)
            )

        if row.event_type is Kind.CONTEXT_REPLAYED:
            found = next(filter(fits, left), None)
            if found is not None:
                left.remove(found)
            return found
        heard = list(filter(fits, self._heard.get(row.message_id or "", [])))
        fresh = [one for one in heard if not one.is_shown and one.time == row.timestamp]
        returned = [one for one in heard if one not in self._last and row.timestamp == time]
        return next(iter(fresh or returned[-1:]), None)

    def _sum_up(self, told: Sequence[_Told], size: int) -> None:
        """Write the compaction that led to this context, as soon as all is there that it had."""
        row = self._compaction
        if row is None or row.context_snapshot is None:
            return
        if size < row.context_snapshot.total_messages:
            return
        self._compaction = None
        sums_up = [at for at, one in enumerate(told) if row.message_id in one.ids]
        self.writer.moment.set(row.timestamp)
        self.writer.voice.bring(
            [one.item for one in told],
            reason="compaction",
            summary=sums_up[-1] if sums_up else None,
        )
        self._row = list(told)

    def _answer(self, at: int, request: MessageId) -> int:
        """Write an answer, all rows of it as one message."""
        row = self.rows[at]
        stop = at + 1 if row.message_id is None else self._run(at)
        model = None if row.context_snapshot is None else row.context_snapshot.model_used
        other = model if model != self._model else None
        if row.message_id is None:
            self.writer.moment.set(row.timestamp)
            self.writer.voice.answer(request, finish=Finish(stop_reason="error", model=other))
            return stop
        rows = self.rows[at:stop]
        told = self._note(rows)
        self._row.append(told)
        self.writer.moment.set(row.timestamp)
        self.writer.voice.answer(
            request, [told.item], finish=Finish(stop_reason="end_turn", model=other)
        )
        return stop

    def _cut(self, position: int | None) -> None:
        """Let the context end before a position, where it was cut there without a request."""
        size = 0
        for at, one in enumerate(self._row):
            if size == position:
                self.writer.voice.bring([kept.item for kept in self._row[:at]])
                self._row = self._row[:at]
                return
            size += len(one.ids)

    def _group(self, at: int, end: int) -> int:
        """As `_group_of`, for all rows."""
        return at + self._group_of(self.rows[at:end], 0)

    def _group_of(self, rows: Sequence[ThreadEntry], at: int) -> int:
        """Return where the rows end that are of one message: a text, and the calls after it."""
        first, stop = rows[at], at + 1
        if self._role(first) not in (MessageRole.ASSISTANT, MessageRole.TOOL_CALL):
            return stop
        while stop < len(rows):
            row = rows[stop]
            same = (row.event_type, row.timestamp) == (first.event_type, first.timestamp)
            if not same or self._role(row) is not MessageRole.TOOL_CALL:
                break
            stop += 1
        return stop

    def _role(self, row: ThreadEntry) -> MessageRole | None:
        return None if row.message_id is None else self.messages[row.message_id].role

    def _hear(self, rows: Sequence[ThreadEntry]) -> _Told:
        """Add a new message to the context."""
        self.writer.moment.set(rows[0].timestamp)
        told = self._note(rows)
        self.writer.voice.hear(told.item)
        self._row.append(told)
        return told

    def _note(self, rows: Sequence[ThreadEntry]) -> _Told:
        """Make the item of a message, which is known from now on."""
        logged = [self.messages[row.message_id or ""] for row in rows]
        ids = tuple(row.message_id or "" for row in rows)
        told = _Told(ids, Item.of(self.writer.joined(logged)), rows[0].timestamp)
        self._heard.setdefault(ids[0], []).append(told)
        return told


def _of_nothing(row: ThreadEntry) -> bool:
    """Whether a request saw an empty context."""
    snapshot = row.context_snapshot
    return row.message_id is None and snapshot is not None and not snapshot.total_messages
