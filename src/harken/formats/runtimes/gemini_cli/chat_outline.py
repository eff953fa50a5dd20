"""`ChatOutline`: the messages of a chat, from the first pass over its lines.

A message has a slot: its position among all messages, in the order of their first appearance. Lines
may contain a later version of a message, or remove messages.

A `SavedOutline` has the latest live messages before a read point. A line that changes an earlier
message, or may refer to an older one, needs a reading from the beginning.

Source: docs/formats/gemini-cli.md; docs/design/005-other-runtimes.md, "A file that grows".
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from harken.core import structs
from harken.formats.json_records import Record, get_object, get_objects, get_text
from harken.formats.runtimes.gemini_cli.earlier_ids import MAX_IDS, MAX_RECENT_IDS, EarlierIds
from harken.formats.runtimes.read_point import EarlierStepChanged

_RESULTS_SUFFIX = "_response"
"""The suffix of the id of a message that repeats the results of another one's calls."""


class MessageSlot(msgspec.Struct):
    """A message of a chat, or all messages of a compaction."""

    parent: int | None
    first_line: int
    """The number of the line with the first version."""
    line: int
    """The number of the line with the last version."""
    index: int | None = None
    """The index of the message in that line. None for the line itself."""
    is_compaction: bool = False


class SavedSlot(msgspec.Struct, array_like=True):
    """A message before a read point."""

    number: int
    parent: int | None
    is_line: bool
    """Whether a later line may be a new version of it."""


class SavedOutline(msgspec.Struct, array_like=True):
    """The messages before a read point."""

    slot_count: int
    head: int | None
    slots: list[SavedSlot]
    live: list[tuple[str, int]]
    """The latest live messages and their slots, in order."""
    removed: list[tuple[str, int]]
    """The messages that are not live, and their slots."""
    is_complete: bool
    """Whether these are all messages."""
    id_count: int
    """The number of ids in the outline."""
    hashes: set[int] = set()
    """The hashes of all ids, if these are not all."""


class ChatOutline(msgspec.Struct):
    """The structure of a chat."""

    slots: dict[int, MessageSlot] = msgspec.field(default_factory=dict)
    slot_count: int = 0
    live_slots: dict[str, int] = msgspec.field(default_factory=dict)
    """The slots of the live messages, by id."""
    all_slots: dict[str, int] = msgspec.field(default_factory=dict)
    """The slots of all messages that ever existed, by id."""
    head: int | None = None
    branching: set[int] = msgspec.field(default_factory=set)
    is_chat: bool = False
    """Whether a line has the id of the session."""
    first_slot: int = 0
    """The first slot after the read point."""
    is_complete: bool = True
    """Whether no older messages exist."""
    earlier_ids: EarlierIds = msgspec.field(default_factory=EarlierIds)

    @classmethod
    def restore(cls, state: SavedOutline) -> ChatOutline:
        """Return the outline at a read point."""
        slots = {
            saved.number: MessageSlot(saved.parent, 0, 0, None if saved.is_line else 0)
            for saved in state.slots
        }
        return cls(
            slots,
            slot_count=state.slot_count,
            live_slots=dict(state.live),
            all_slots=dict([*state.removed, *state.live]),
            head=state.head,
            is_chat=True,
            first_slot=state.slot_count,
            is_complete=state.is_complete,
            earlier_ids=EarlierIds(state.hashes),
        )

    def save(self) -> SavedOutline:
        """Return the state for a read point here, without the hashes of the ids."""
        live = [*islice(reversed(self.live_slots.items()), MAX_RECENT_IDS)][::-1]
        sizes = (len(self.all_slots), self.slot_count)
        is_complete = self.is_complete and max(sizes) <= MAX_RECENT_IDS
        removed: list[tuple[str, int]] = []
        numbers = [number for _, number in live]
        if is_complete:
            removed = [item for item in self.all_slots.items() if item[0] not in self.live_slots]
            numbers = [*self.slots]
        return SavedOutline(
            slot_count=self.slot_count,
            head=self.head,
            slots=[self._save_slot(number) for number in dict.fromkeys(numbers)],
            live=live,
            removed=removed,
            is_complete=is_complete,
            id_count=len(self.all_slots),
        )

    def hash_ids(self, state: SavedOutline) -> SavedOutline | None:
        """Return a state of this outline with the hashes of its ids. Return None for too many."""
        if state.is_complete:
            return state
        if state.id_count + len(self.earlier_ids.hashes) > MAX_IDS:
            return None
        hashes = self.earlier_ids.join(islice(self.all_slots, state.id_count))
        return structs.replace(state, hashes=hashes)

    def _save_slot(self, number: int) -> SavedSlot:
        slot = self.slots[number]
        return SavedSlot(number, slot.parent, slot.index is None)

    def add(self, record: Record, line: int) -> None:
        """Add a line. Raises EarlierStepChanged if it changes a message before the read point."""
        self.is_chat = self.is_chat or bool(get_text(record, "sessionId"))
        rewind_id = get_text(record, "$rewindTo")
        if rewind_id:
            self._rewind(rewind_id)
        elif get_text(record, "id"):
            self._put(get_text(record, "id"), line)
        elif (messages := list_messages(record)) is not None:
            ids = [name_message(message, index) for index, message in enumerate(messages)]
            self._replace(ids, line)

    def _put(self, id_: str, line: int) -> None:
        """Add a line that is a message: a new one, or a new version."""
        number = self.live_slots.get(id_)
        if number is None:
            self.earlier_ids.check_new(id_)
            self._append_slot(id_, line, None)
        elif self.slots[number].index is None:
            if number < self.first_slot:
                raise EarlierStepChanged
            self.slots[number].line = line

    def _rewind(self, id_: str) -> None:
        """Remove a message and all after it. An unknown message removes all."""
        ids = [*self.live_slots]
        position = ids.index(id_) if id_ in self.live_slots else 0
        if not position and not self.is_complete:  # Older messages may remain.
            raise EarlierStepChanged
        self.live_slots = {id_: self.live_slots[id_] for id_ in ids[:position]}
        self._set_head(self.live_slots[ids[position - 1]] if position else None)

    def _replace(self, ids: list[str], line: int) -> None:
        """Apply a list of all messages: it continues, rewinds or compacts the previous ones."""
        if not self.is_complete:
            raise EarlierStepChanged
        previous_head, head = self.head, None
        live, new = dict[str, int](), list[tuple[int, str]]()
        for index, id_ in enumerate(ids):
            number = self.all_slots.get(id_)
            if (
                not new
                and number is not None
                and (self.slots[number].parent == head or number == head)
            ):
                head = live[id_] = number
            elif id_.removesuffix(_RESULTS_SUFFIX) not in self.all_slots or id_ in self.all_slots:
                new.append((index, id_))  # Other ids repeat results that their calls have.
        if new and head != previous_head:
            self._append_slot(ids[0], line, 0, is_all=True)
            self.live_slots = dict.fromkeys(ids, self.slot_count - 1)
            self.all_slots |= self.live_slots
            return
        self.live_slots = live
        self._set_head(head)
        for index, id_ in new:
            self._append_slot(id_, line, index)

    def _set_head(self, head: int | None) -> None:
        if head is not None and head != self.head:
            self.branching.add(head)
        self.head = head

    def _append_slot(self, id_: str, line: int, index: int | None, *, is_all: bool = False) -> None:
        number, self.slot_count = self.slot_count, self.slot_count + 1
        self.slots[number] = MessageSlot(self.head, line, line, index, is_all)
        self.live_slots[id_] = self.all_slots[id_] = self.head = number

    def index_lines(self) -> dict[int, list[int]]:
        """Return the slots by the number of the line with their last version."""
        slots_by_line: dict[int, list[int]] = {}
        for number in range(self.first_slot, self.slot_count):
            slots_by_line.setdefault(self.slots[number].line, []).append(number)
        return slots_by_line


def list_messages(record: Record) -> list[Record] | None:
    """Return the complete message list of a line. Return None if it has none."""
    holder = get_object(record, "$set") if "$set" in record else record
    return get_objects(holder, "messages") if isinstance(holder.get("messages"), list) else None


def name_message(message: Record, index: int) -> str:
    """Return the id of a message, or a name by its position."""
    return get_text(message, "id") or f"message {index}"


def parse_slot_messages(record: Record, slots: Iterable[MessageSlot]) -> list[list[Record]]:
    """Return the messages of each slot, which has its last version in a line."""
    messages = list_messages(record) or []
    return [
        messages if slot.is_compaction else [record if slot.index is None else messages[slot.index]]
        for slot in slots
    ]
