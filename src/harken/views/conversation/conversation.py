"""The conversations of all agents of a session that may be running, as numbered items.

`Conversations` reads each event once. It keeps a slot for each item, and creates the item when it
is requested: so an item always shows the current state, and a page costs what it shows. A later
event appends slots or changes earlier ones; it never removes or moves one. Which slots an event
changes depends on that event and earlier ones only: reading a log in pieces, or at once after a
restart, gives the same items and the same changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TypeAlias

import msgspec

from harken.core.events import (
    ActionRewritten,
    AgentConfigured,
    AgentCreated,
    Event,
    HookVerdict,
    Reference,
    TranscriptEntry,
    TurnStop,
)
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ToolCall
from harken.views.conversation.differences import Work
from harken.views.conversation.items import ConversationItem, ConversationPart, Cuts, TextVersion
from harken.views.conversation.parts import PartBuilder
from harken.views.conversation.texts import CallWithEffects, find_part, text_of_event, text_of_part
from harken.views.dialogs.answers import Answers
from harken.views.dialogs.hook_messages import HookMessages
from harken.views.dialogs.labels import (
    Label,
    decide_label,
    describe_subject,
    empty_label,
    input_label,
    iter_labeled_parts,
)
from harken.views.links import Links, causes_of
from harken.views.message_text import readable_text

_CallKey: TypeAlias = tuple[MessageId, str]
"""The message and the id of a call: a log refers to a call in two forms."""


class _Slot(msgspec.Struct):
    """An item: its event, and the range of the parts of the event that it shows."""

    event: TranscriptEntry | HookVerdict | TurnStop
    label: Label
    start: int
    stop: int
    listed_at: int
    """The number of events after its own."""
    changed_at: int
    """The number of events after the last one that changed the item."""


class _Slots(msgspec.Struct):
    """The slots of an agent, and the order in which they changed."""

    items: list[_Slot] = msgspec.field(default_factory=list)
    changes: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """The number of events after each change, and the index of the changed slot."""


class Conversations:
    """The conversations of the agents of a session that may be running."""

    def __init__(self, links: Links) -> None:
        """`links` must contain all events that are added."""
        self._links = links
        self._answers = Answers()
        self._hook_messages = HookMessages(links)
        self._event_count = 0
        self._slots: dict[AgentId, _Slots] = {}
        self._indexes: dict[MessageId, tuple[AgentId, range]] = {}
        """Message -> its agent, and the indexes of its items."""
        self._results: dict[_CallKey, TranscriptEntry] = {}
        self._rewrites: dict[_CallKey, ActionRewritten] = {}
        self._created: dict[_CallKey, list[AgentId]] = {}
        self._names: dict[AgentId, str] = {}
        self.steps = 0
        """How many steps of comparisons the built items took: pages with much work are shorter."""
        self._renamed_at = 0
        """The number of events after the last change of a name that items may show."""

    def add(self, events: Iterable[Event]) -> None:
        """Add later events."""
        for event in events:
            self._event_count += 1
            for answer in self._answers.add_event(event):
                self._mark(answer)
            self._add_event(event)

    def count(self, agent_id: str) -> int:
        """Return the number of items of an agent. 0 for an unknown agent."""
        slots = self._slots.get(AgentId(agent_id))
        return 0 if slots is None else len(slots.items)

    def items(self, agent_id: str, start: int, stop: int) -> list[ConversationItem]:
        """Return a range of the items of an agent, oldest first."""
        slots = self._slots.get(AgentId(agent_id))
        return [] if slots is None else [*map(self._build_item, slots.items[start:stop])]

    def iter_texts(self, agent_id: str, index: int) -> Iterator[str]:
        """Yield the whole texts of an item: its parts, results, and rewrites."""
        slot = self._slots[AgentId(agent_id)].items[index]
        event = slot.event
        if not isinstance(event, TranscriptEntry):
            yield text_of_event(event, self._links) or ""
            return
        for _, _, part in [*iter_labeled_parts(event)][slot.start : slot.stop]:
            if isinstance(part, ToolCall):
                yield from self._find_call(event, part).iter_texts()
            else:
                yield text_of_part(part) or ""
        outcome = self._answers.outcomes.get(event.message_id)
        if slot.label == "Said" and outcome is not None and outcome.status == "rewritten":
            yield outcome.text

    def find_last_before(self, agent_id: str, position: int) -> int:
        """Return the index of the last item whose event is at a position of the log or before.

        Return 0 if the first one is later.
        """
        slots = self._slots.get(AgentId(agent_id), _Slots()).items
        index = bisect_right(slots, position + 1, key=lambda slot: slot.listed_at)
        return max(0, index - 1)

    def find_changed(self, agent_id: str, event_count: int) -> list[int]:
        """Return the indexes of the items that changed since this number of events, in order."""
        slots = self._slots.get(AgentId(agent_id))
        if slots is None:
            return []
        if event_count < self._renamed_at:
            return [*range(len(slots.items))]
        first = bisect_right(slots.changes, event_count, key=lambda change: change[0])
        return sorted({index for _, index in slots.changes[first:]})

    def find_index(self, message_id: str) -> tuple[AgentId, int] | None:
        """Return the agent and index of the first item of a message, or of the call it answers.

        Return None if no item shows it.
        """
        event = self._links.get(message_id)
        result_of = event is not None and next(
            (link.target for link in self._links.links_from(event) if link.kind == "call"), None
        )
        for id_ in (MessageId(message_id), result_of):
            if id_ and id_ in self._indexes:
                agent, indexes = self._indexes[id_]
                return agent, indexes.start
        return None

    def find_call(self, message_id: str, position: int) -> CallWithEffects | None:
        """Return the call at a position of a message. Return None if there is none."""
        event = self._links.get(message_id)
        part = find_part(event, position) if isinstance(event, TranscriptEntry) else None
        if not isinstance(event, TranscriptEntry) or not isinstance(part, ToolCall):
            return None
        return self._find_call(event, part)

    def find_text(
        self, message_id: str, position: int | None = None, version: TextVersion = "written"
    ) -> str | None:
        """Return the whole text of a part of a message, or of the message without a position.

        Return None if there is no such message, part or version, or it has no text.
        """
        agent, indexes = self._indexes.get(MessageId(message_id), (AgentId(""), range(0)))
        own_event = self._slots[agent].items[indexes.start].event if indexes else None
        event = own_event or self._links.get(message_id)
        if isinstance(event, TranscriptEntry) and position is not None:
            part = find_part(event, position)
            if isinstance(part, ToolCall):
                return self._find_call(event, part).find_text(version)
            return None if part is None or version != "written" else text_of_part(part)
        if position is not None or event is None:
            return None
        if version == "heard":
            outcome = self._answers.outcomes.get(event.message_id)
            return outcome.text if outcome is not None and outcome.status == "rewritten" else None
        return text_of_event(event, self._links) if version == "written" else None

    def _add_event(self, event: Event) -> None:
        match event:
            case TranscriptEntry():
                self._add_entry(event)
            case HookVerdict():
                self._add_verdict(event)
            case TurnStop() if event.reason != "moved":
                self._append(event, "Stopped", 0, 0)
            case ActionRewritten():
                key = self._find_call_key(event.call)
                if key is not None:
                    self._rewrites[key] = event
                    self._mark(key[0])
            case AgentCreated() | AgentConfigured():
                self._add_agent(event)
            case _:
                pass

    def _add_entry(self, entry: TranscriptEntry) -> None:
        """Append the items of an entry, or attach a result to its call."""
        if entry.role == "tool" and self._attach_result(entry):
            return
        if isinstance(entry.content, str) and entry.content and not entry.tool_calls:
            # Most entries are a text only.
            self._append(entry, input_label(entry) or "Said", 0, 1)
            return
        labels = [label for label, _, _ in iter_labeled_parts(entry)]
        start = 0
        for label, group in groupby(labels):
            stop = start + len([*group])
            self._append(entry, label, start, stop)
            start = stop
        if not labels:
            self._append(entry, empty_label(entry), 0, 0)

    def _attach_result(self, entry: TranscriptEntry) -> bool:
        """Attach a result to its call. Return False if the log lacks the call, or has a result."""
        for link in self._links.links_from(entry):
            if link.kind == "call" and link.target in self._indexes:
                key = link.target, entry.tool_call_id or ""
                if key in self._results:
                    return False
                self._results[key] = entry
                self._mark(link.target)
                return True
        return False

    def _add_verdict(self, verdict: HookVerdict) -> None:
        if verdict.said is not None:
            self._mark(verdict.said)  # Its label is Verdict now.
            return
        for event in self._hook_messages.insert_into([verdict]):
            if isinstance(event, TranscriptEntry) and event.message_id != verdict.message_id:
                self._add_entry(event)  # The question that the log does not repeat.
        self._append(verdict, "Verdict", 0, 0)

    def _add_agent(self, event: AgentCreated | AgentConfigured) -> None:
        agent = event.agent_id or AgentId("")
        if event.name and self._names.get(agent) != event.name:
            is_rename = agent in self._names or agent in self._slots
            self._names[agent] = event.name
            if is_rename:
                self._renamed_at = self._event_count
        if isinstance(event, AgentCreated):
            for reference in causes_of(event):
                key = self._find_call_key(reference)
                if key is not None:
                    self._created.setdefault(key, []).append(agent)
                    self._mark(key[0])

    def _find_call_key(self, reference: Reference) -> _CallKey | None:
        call = self._links.find_call(reference)
        return None if call is None else (self._links.target(reference), call.id)

    def _append(
        self, event: TranscriptEntry | HookVerdict | TurnStop, label: Label, start: int, stop: int
    ) -> None:
        agent = event.agent_id or AgentId("")
        slots = self._slots.get(agent)
        if slots is None:
            slots = self._slots[agent] = _Slots()
        index = len(slots.items)
        slots.items.append(_Slot(event, label, start, stop, self._event_count, self._event_count))
        slots.changes.append((self._event_count, index))
        # A log of another program may repeat an id; the first one counts.
        indexed = self._indexes.get(event.message_id)
        if indexed is None:
            self._indexes[event.message_id] = agent, range(index, index + 1)
        elif indexed[0] == agent and indexed[1].stop == index:
            self._indexes[event.message_id] = agent, range(indexed[1].start, index + 1)

    def _mark(self, message_id: MessageId) -> None:
        """Note that the items of a message change."""
        agent, indexes = self._indexes.get(message_id, (AgentId(""), range(0)))
        for index in indexes:
            slots = self._slots[agent]
            if slots.items[index].changed_at < self._event_count:
                slots.items[index].changed_at = self._event_count
                slots.changes.append((self._event_count, index))

    def _build_item(self, slot: _Slot) -> ConversationItem:
        event, names = slot.event, self._links.names
        label, note, author = slot.label, None, event.agent_id
        original, purpose = None, None
        parts: list[ConversationPart]
        builder = PartBuilder(Cuts.for_parts(slot.stop - slot.start), Work())
        if isinstance(event, TranscriptEntry):
            label, note = decide_label(event, label, self._answers, names)
            original_id = self._links.original(event)
            original = None if original_id == event.message_id else original_id
            author, purpose = self._links.author(original_id), event.purpose
            parts = self._build_parts(event, slot, builder)
        else:
            note = event.reason if isinstance(event, TurnStop) else describe_subject(event, names)
            parts = [builder.build_text(text_of_event(event, self._links) or "")]
        self.steps += builder.work.spent
        speaker, speaker_name = self._find_speaker(event, author)
        return ConversationItem(
            message_id=event.message_id,
            time=event.time,
            label=label,
            note=note,
            purpose=purpose,
            original=original,
            author=speaker,
            author_name=speaker_name,
            parts=parts,
        )

    def _find_speaker(
        self, event: Event, author: AgentId | None
    ) -> tuple[AgentId | None, str | None]:
        """Return the agent that spoke a message, and its name.

        A context may have answers of other agents, as that of a group chat.
        """
        names = self._links.names
        name = None
        if isinstance(event, TranscriptEntry) and event.role == "assistant":
            name = event.name
        if not name or name in names.all_names(author):
            return author, names.latest_name(author)
        speakers = names.find_by_name(name)
        return (speakers[0] if len(speakers) == 1 else None), name

    def _build_parts(
        self, entry: TranscriptEntry, slot: _Slot, builder: PartBuilder
    ) -> list[ConversationPart]:
        labeled = [*iter_labeled_parts(entry)]
        parts = [
            builder.build_call(self._find_call(entry, part), position)
            if isinstance(part, ToolCall)
            else builder.build(part, position)
            for _, position, part in labeled[slot.start : slot.stop]
        ]
        outcome = self._answers.outcomes.get(entry.message_id)
        is_last = all(label != slot.label for label, _, _ in labeled[slot.stop :])
        if slot.label == "Said" and is_last and outcome and outcome.status == "rewritten":
            written = readable_text(entry.content)
            parts.append(builder.build_rewritten(written, outcome, self._links.names))
        return parts

    def _find_call(self, entry: TranscriptEntry, call: ToolCall) -> CallWithEffects:
        key = entry.message_id, call.id
        return CallWithEffects(
            call, self._results.get(key), self._rewrites.get(key), self._created.get(key, [])
        )
