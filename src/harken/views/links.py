"""`Links`: events in order, with indexes of the links between them.

There are three kinds of link, all logged explicitly: `substance` (the same content as that
message), `cause` (new content that it triggered) and `call` (the result of a call in it). The
causes of a hook's verdict are its subject, and the hook's message that states it. Nothing is
inferred from order, names or texts. Views that share a `Links` share its indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from harken.core.events import (
    ActionRewritten,
    Event,
    HookVerdict,
    Reference,
    TranscriptEntry,
    UnknownEvent,
)
from harken.core.ids import USER, AgentId, MessageId, reference_message_id
from harken.core.messages import ToolCall
from harken.session.fold import format_call_reference
from harken.views.agent_names import AgentNames

LinkKind: TypeAlias = Literal["substance", "cause", "call"]


class Link(NamedTuple):
    """A link of an event to a message."""

    kind: LinkKind
    target: MessageId
    reference: Reference
    """The target as logged: the message, or one of its calls (`msg_003.call_abc`)."""


class Links:
    """Events, oldest first, with lazily built indexes that grow with the events."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = list(events)

    @staticmethod
    def of(events: Iterable[Event]) -> Links:
        """Wrap events. Returns the argument if it is already a `Links`."""
        return events if isinstance(events, Links) else Links(events)

    def extend(self, events: Iterable[Event]) -> None:
        """Add later events of a running session, also to the indexes that exist."""
        start = len(self.events)
        self.events.extend(events)
        computed = self.__dict__  # The values of the cached properties.
        if "names" in computed:
            self.names.add(self.events[start:])
        if "positions" in computed:
            for position, event in enumerate(self.events[start:], start):
                self.positions.setdefault(event.message_id, position)
        if "_call_links" in computed:
            self._call_links.add(self.events[start:])
        if "_events_by_target" in computed:
            self._add_targets(self._events_by_target, self.events[start:])

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    @cached_property
    def names(self) -> AgentNames:
        """The names of all agents."""
        return AgentNames(self.events)

    @cached_property
    def positions(self) -> dict[MessageId, int]:
        """The position of each event, from 0."""
        positions = {event.message_id: position for position, event in enumerate(self.events)}
        # A log of another program may repeat an id; the first one counts.
        if len(positions) < len(self.events):
            for position, event in reversed(list(enumerate(self.events))):
                positions[event.message_id] = position
        return positions

    def get(self, id_: str | None) -> Event | None:
        """Return the event with this id, or None if it does not exist."""
        position = self.positions.get(MessageId(id_)) if id_ is not None else None
        return None if position is None else self.events[position]

    def links_from(self, event: Event) -> list[Link]:
        """Return the links of an event: its substance, its causes in order, its call."""
        links: list[Link] = []
        substance = substance_of(event)
        if substance is not None:
            links.append(Link("substance", substance, substance))
        references = _verdict_causes(event) if isinstance(event, HookVerdict) else causes_of(event)
        links.extend(Link("cause", self.target(reference), reference) for reference in references)
        call = self._call_links.by_result.get(event.message_id)
        if call is not None:
            links.append(call)
        elif isinstance(event, ActionRewritten):
            links.append(Link("call", self.target(event.call), event.call))
        return links

    def events_to(self, id_: str) -> list[Event]:
        """Return the events with a link to this one, oldest first."""
        return self._events_by_target.get(MessageId(id_), [])

    def original(self, event: Event) -> MessageId:
        """Return the id of the original of an event's content, which may be the event itself.

        Older logs may contain copies of copies; these are followed to the first original.
        """
        id_, substance = event.message_id, substance_of(event)
        visited = {id_}
        while substance is not None and substance not in visited:
            id_ = substance
            visited.add(id_)
            substance = substance_of(self.get(id_))
        return id_

    def author(self, id_: str) -> AgentId | None:
        """Return the author of an original: `user` for content from outside, None if unknown.

        The author of a message that an agent received is the agent of its cause, such as a hook.
        """
        event = self.get(id_)
        is_input = isinstance(event, TranscriptEntry) and event.role == "user"
        if event is None or (event.agent_id is not None and not is_input):
            return None if event is None else event.agent_id
        causes = (self.get(self.target(reference)) for reference in causes_of(event))
        cause_author = next((cause.agent_id for cause in causes if cause is not None), None)
        return USER if is_input and cause_author is None else cause_author

    def target(self, reference: Reference) -> MessageId:
        """Return the message id of a reference to a message or to one of its calls."""
        return (
            MessageId(reference) if reference in self.positions else reference_message_id(reference)
        )

    def find_call(self, reference: Reference) -> ToolCall | None:
        """Return the tool call that a reference names, or the only call of a message."""
        target = self.target(reference)
        entry, call_id = self.get(target), reference.removeprefix(f"{target}.")
        calls = entry.tool_calls if isinstance(entry, TranscriptEntry) else None
        return next((call for call in calls or () if call_id in (call.id, target)), None)

    @cached_property
    def _call_links(self) -> _CallLinks:
        links = _CallLinks()
        links.add(self.events)
        return links

    @cached_property
    def _events_by_target(self) -> dict[MessageId, list[Event]]:
        events_by_target: dict[MessageId, list[Event]] = {}
        self._add_targets(events_by_target, self.events)
        return events_by_target

    def _add_targets(
        self, events_by_target: dict[MessageId, list[Event]], new_events: Iterable[Event]
    ) -> None:
        for event in new_events:
            for link in self.links_from(event):
                events = events_by_target.setdefault(link.target, [])
                if not events or events[-1] is not event:
                    events.append(event)


class _CallLinks:
    """The links of results to their calls: to the agent's latest earlier call with that id."""

    def __init__(self) -> None:
        self.by_result: dict[MessageId, Link] = {}
        self._entries_by_call: dict[tuple[AgentId | None, str], TranscriptEntry] = {}

    def add(self, events: Iterable[Event]) -> None:
        """Add later events."""
        for event in events:
            if not isinstance(event, TranscriptEntry):
                continue
            for call in event.tool_calls or ():
                self._entries_by_call[event.agent_id, call.id] = event
            id_ = event.tool_call_id
            caller = None if id_ is None else self._entries_by_call.get((event.agent_id, id_))
            if id_ is not None and caller is not None:
                reference = format_call_reference(caller, id_)
                self.by_result[event.message_id] = Link("call", caller.message_id, reference)


def substance_of(event: Event | None) -> MessageId | None:
    """Return the original that an event names, or None if it is an original."""
    if isinstance(event, TranscriptEntry):
        return event.substance
    if isinstance(event, UnknownEvent) and isinstance(event.data.get("substance"), str):
        return MessageId(event.data["substance"])
    return None


def _verdict_causes(event: HookVerdict) -> list[Reference]:
    """Return the subject of a verdict, and the hook's message that states it, if any."""
    return [event.subject] if event.said is None else [event.subject, event.said]


def causes_of(event: Event) -> list[Reference]:
    """Return the references of an event's cause, in order."""
    if isinstance(event, UnknownEvent):
        cause: Any = event.data.get("cause")
    else:
        cause = getattr(event, "cause", None)
    if isinstance(cause, list):
        return [reference for reference in cause if isinstance(reference, str)]
    return [cause] if isinstance(cause, str) else []
