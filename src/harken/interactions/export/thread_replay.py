"""Convert the rows of an exported thread to session events.

Consecutive rows are combined where they describe one event: a full context followed by a request is
one request, and the rows of a response are one message. Other rows are written one by one. The
caller verifies that the resulting log reproduces the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from harken.core.ids import MessageId
from harken.core.stream import Finish
from harken.interactions.records import LoggedMessage, MessageRole, ThreadEntry, ThreadEventType
from harken.interactions.writer import ROW_MISSING, ThreadWriter
from harken.recording.writer.item import Item
from harken.recording.writer.request import RequestSettings

Kind = ThreadEventType
_CONTEXT = (Kind.MESSAGE_ADDED, Kind.CONTEXT_REPLAYED)
_NEXT = frozenset({Kind.LLM_REQUEST, Kind.CONTEXT_COMPACTED})
"""Types of rows before which a call has ended."""


class _ReplayedItem(msgspec.Struct, eq=False):
    """An item that was written, and the ids of its logged messages."""

    ids: tuple[str, ...]
    item: Item
    time: str
    is_shown: bool = False
    """Whether a full context contained it."""


class ThreadReplay(msgspec.Struct):
    """Writes one thread from its exported rows."""

    writer: ThreadWriter
    rows: Sequence[ThreadEntry]
    messages: Mapping[str, LoggedMessage]
    """All messages that the rows refer to, by id."""
    _items_by_id: dict[str, list[_ReplayedItem]] = msgspec.field(default_factory=dict)
    """Items by their first message id, oldest first."""
    _last_context: list[_ReplayedItem] = msgspec.field(default_factory=list)
    """Items of the last full context."""
    _context_items: list[_ReplayedItem] = msgspec.field(default_factory=list)
    """Items of the current context."""
    _compaction: ThreadEntry | None = None
    """A compaction that is written when the context after it is complete."""
    _is_assembled: bool = False
    """Whether a full context was written since the last request."""
    _model: str = ""
    """Model of the last request."""

    def tell(self) -> None:
        """Write all rows. Raises InvalidEvent, LogError."""
        index = 0
        while index < len(self.rows):
            index = self._replay_from(index)
        self.writer.clock.set()

    def _replay_from(self, index: int) -> int:
        """Write the event that starts at a row. Return the index of the next one."""
        row, recorder = self.rows[index], self.writer.recorder
        is_plain = row.context_snapshot is None and row.message_id is not None
        stop = self._context_end(index)
        if recorder.open_request is not None and (stop > index or row.event_type in _NEXT):
            recorder.log_response(recorder.open_request)  # Its call had no response.
        if stop > index:
            return self._replay_context(index, stop)
        if row.event_type is Kind.LLM_RESPONSE and recorder.open_request is not None:
            return self._replay_answer(index, recorder.open_request)
        if row.event_type is Kind.CONTEXT_COMPACTED and self._precedes_context(index):
            self._compaction = row
            return self._run_end(index)
        if row.event_type is Kind.MESSAGE_ADDED and is_plain:
            self._truncate_context(row.position_in_context)
            stop = self._group_end(index, len(self.rows))
            self._add_message(self.rows[index:stop])
            return stop
        if row.event_type is Kind.LLM_REQUEST and recorder.open_request is None:
            if _has_empty_context(row):
                self._context_items = []
            if self._is_assembled or not self._context_items:
                self._write_request([item.item for item in self._context_items], row)
                self._last_context = []
                self._mark_shown(self._context_items)
                return index + 1
        if row.memory_operation is not None and row.message_id is None:
            self.writer.clock.set(row.timestamp)
            self.writer.log_memory(row.memory_operation)
            return index + 1
        self.writer.log_row(row, None if row.message_id is None else self.messages[row.message_id])
        return index + 1

    def _context_end(self, index: int) -> int:
        """Return the end index of a full context that starts here, or `index` if none does."""
        stop = index
        while stop < len(self.rows):
            row = self.rows[stop]
            is_next = row.event_type in _CONTEXT and row.position_in_context == stop - index
            if not is_next or row.context_snapshot is not None or row.message_id is None:
                break
            stop += 1
        kinds = {row.event_type for row in self.rows[index:stop]}
        return stop if self._request_at(stop) or Kind.CONTEXT_REPLAYED in kinds else index

    def _request_at(self, index: int) -> ThreadEntry | None:
        """Return the request row at this index, or None."""
        row = self.rows[index] if index < len(self.rows) else None
        return row if row is not None and row.event_type is Kind.LLM_REQUEST else None

    def _precedes_context(self, index: int) -> bool:
        later = (
            later_index
            for later_index in range(index + 1, len(self.rows))
            if self._context_end(later_index) > later_index
        )
        return self.rows[index].context_snapshot is not None and next(later, None) is not None

    def _run_end(self, index: int) -> int:
        """Return the end index of consecutive rows with the same type and time."""
        first, end = self.rows[index], index + 1
        while end < len(self.rows):
            row = self.rows[end]
            if (row.event_type, row.timestamp) != (first.event_type, first.timestamp):
                break
            end += 1
        return end

    def _replay_context(self, index: int, end: int) -> int:
        """Write a context and the request that follows it."""
        rows, request = self.rows[index:end], self._request_at(end)
        times = [row.timestamp for row in rows if row.event_type is Kind.CONTEXT_REPLAYED]
        if times and (request is None or request.timestamp != times[0]):
            # The context was assembled before the request, and may have grown since.
            request = None
            while rows[-1].timestamp > times[0]:
                rows, end = rows[:-1], end - 1
        time = request.timestamp if request is not None else times[0]
        context = self._build_context(rows, time)
        items = [replayed.item for replayed in context]
        self._context_items = list(context)
        self.writer.clock.set(time)
        if request is None:
            self.writer.recorder.set_context(items)
            self.writer.log_full_context(Kind.CONTEXT_REPLAYED)
            self._is_assembled = True
            return end
        self._write_request(items, request)
        return end + 1

    def _write_request(self, items: Sequence[Item], request: ThreadEntry) -> None:
        """Write a request for the current context."""
        snapshot = request.context_snapshot
        self._model = "" if snapshot is None else snapshot.model_used or ""
        self._is_assembled = False
        self.writer.clock.set(request.timestamp)
        settings = RequestSettings(
            model=self._model, evidence=request.evidence, missing=ROW_MISSING
        )
        self.writer.recorder.log_request(items, settings)

    def _build_context(self, rows: Sequence[ThreadEntry], time: str) -> list[_ReplayedItem]:
        """Return the items of a context. New ones are written now."""
        remaining = list(self._last_context)
        context: list[_ReplayedItem] = []
        index = 0
        while index < len(rows):
            self._write_compaction(context, index)
            replayed = self._find_item(rows[index:], remaining, context, time)
            if replayed is None:
                end = self._group_end_in(rows, index)
                replayed = self._add_message(rows[index:end])
            index += len(replayed.ids)
            context.append(replayed)
        self._write_compaction(context, index)
        self._last_context = []
        self._mark_shown(context)
        return context

    def _mark_shown(self, context: Sequence[_ReplayedItem]) -> None:
        """Remember the items of the last context."""
        for replayed in context:
            replayed.is_shown = True
        self._last_context += context

    def _find_item(
        self,
        rows: Sequence[ThreadEntry],
        remaining: list[_ReplayedItem],
        context: list[_ReplayedItem],
        time: str,
    ) -> _ReplayedItem | None:
        """Return the known item that starts at the first row, or None if it is new.

        `remaining` are items of the last context without a row yet, `context` those with one.
        """
        first_row = rows[0]

        def fits(replayed: _ReplayedItem) -> bool:
            return replayed not in context and all(
                id_ == row.message_id for id_, row in zip(replayed.ids, rows, strict=False)
            )

        if first_row.event_type is Kind.CONTEXT_REPLAYED:
            match = next(filter(fits, remaining), None)
            if match is not None:
                remaining.remove(match)
            return match
        candidates = list(filter(fits, self._items_by_id.get(first_row.message_id or "", [])))
        fresh = [
            replayed
            for replayed in candidates
            if not replayed.is_shown and replayed.time == first_row.timestamp
        ]
        returned = [
            replayed
            for replayed in candidates
            if replayed not in self._last_context and first_row.timestamp == time
        ]
        return next(iter(fresh or returned[-1:]), None)

    def _write_compaction(self, context: Sequence[_ReplayedItem], size: int) -> None:
        """Write the pending compaction once all items of its context are known."""
        row = self._compaction
        if row is None or row.context_snapshot is None:
            return
        if size < row.context_snapshot.total_messages:
            return
        self._compaction = None
        summary_indexes = [
            index for index, replayed in enumerate(context) if row.message_id in replayed.ids
        ]
        self.writer.clock.set(row.timestamp)
        self.writer.recorder.set_context(
            [replayed.item for replayed in context],
            reason="compaction",
            summary=summary_indexes[-1] if summary_indexes else None,
        )
        self._context_items = list(context)

    def _replay_answer(self, index: int, request: MessageId) -> int:
        """Write a response; all its rows are one message."""
        row = self.rows[index]
        end = index + 1 if row.message_id is None else self._run_end(index)
        model = None if row.context_snapshot is None else row.context_snapshot.model_used
        reported_model = model if model != self._model else None
        if row.message_id is None:
            self.writer.clock.set(row.timestamp)
            self.writer.recorder.log_response(
                request, finish=Finish(stop_reason="error", model=reported_model)
            )
            return end
        rows = self.rows[index:end]
        replayed = self._create_item(rows)
        self._context_items.append(replayed)
        self.writer.clock.set(row.timestamp)
        self.writer.recorder.log_response(
            request, [replayed.item], finish=Finish(stop_reason="end_turn", model=reported_model)
        )
        return end

    def _truncate_context(self, position: int | None) -> None:
        """Truncate the context at a position where a row shows that it ended without a request."""
        size = 0
        for index, replayed in enumerate(self._context_items):
            if size == position:
                self.writer.recorder.set_context(
                    [item.item for item in self._context_items[:index]]
                )
                self._context_items = self._context_items[:index]
                return
            size += len(replayed.ids)

    def _group_end(self, index: int, end: int) -> int:
        """Apply `_group_end_in` to all rows of the thread."""
        return index + self._group_end_in(self.rows[index:end], 0)

    def _group_end_in(self, rows: Sequence[ThreadEntry], index: int) -> int:
        """Return the end index of the rows of one message: a text and the calls after it."""
        first, end = rows[index], index + 1
        if self._role_of(first) not in (MessageRole.ASSISTANT, MessageRole.TOOL_CALL):
            return end
        while end < len(rows):
            row = rows[end]
            is_same = (row.event_type, row.timestamp) == (first.event_type, first.timestamp)
            if not is_same or self._role_of(row) is not MessageRole.TOOL_CALL:
                break
            end += 1
        return end

    def _role_of(self, row: ThreadEntry) -> MessageRole | None:
        return None if row.message_id is None else self.messages[row.message_id].role

    def _add_message(self, rows: Sequence[ThreadEntry]) -> _ReplayedItem:
        """Add a new message to the context."""
        self.writer.clock.set(rows[0].timestamp)
        replayed = self._create_item(rows)
        self.writer.recorder.append_item(replayed.item)
        self._context_items.append(replayed)
        return replayed

    def _create_item(self, rows: Sequence[ThreadEntry]) -> _ReplayedItem:
        """Create the item of a message, and remember it by its first id."""
        logged = [self.messages[row.message_id or ""] for row in rows]
        ids = tuple(row.message_id or "" for row in rows)
        replayed = _ReplayedItem(
            ids, Item.from_message(self.writer.join_units(logged)), rows[0].timestamp
        )
        self._items_by_id.setdefault(ids[0], []).append(replayed)
        return replayed


def _has_empty_context(row: ThreadEntry) -> bool:
    """Whether the context of a request was empty."""
    snapshot = row.context_snapshot
    return row.message_id is None and snapshot is not None and not snapshot.total_messages
