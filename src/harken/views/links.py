"""Links: events in order, and what they point at and are pointed at by.

Three kinds, all of them facts of the log: `substance` (the same content as that message),
`cause` (new content, triggered by it) and `call` (the answer to a call that it made). Nothing is
guessed from order, names or texts. Views that share a `Links` share its indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from harken.core.events import (
    ActionRewritten,
    Event,
    Reference,
    TranscriptEntry,
    UnknownEvent,
)
from harken.core.ids import USER, AgentId, MessageId, reference_message_id
from harken.core.messages import ToolCall
from harken.session.fold import reference_to
from harken.views.agent_names import AgentNames

LinkKind: TypeAlias = Literal["substance", "cause", "call"]


class Link(NamedTuple):
    """One link of an event, as it was written and as the message that it names."""

    kind: LinkKind
    target: MessageId
    reference: Reference
    """The target, or one of its several calls: `msg_003.call_abc`."""


class Links:
    """Events, oldest first, with their indexes; each index is made in one pass, when needed."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = list(events)

    @staticmethod
    def of(events: Iterable[Event]) -> Links:
        """Return the links of these events: themselves where they are `Links` already."""
        return events if isinstance(events, Links) else Links(events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    @cached_property
    def names(self) -> AgentNames:
        """What the agents are called."""
        return AgentNames(self.events)

    @cached_property
    def at(self) -> dict[MessageId, int]:
        """The position of each event, from 0."""
        at = {event.message_id: n for n, event in enumerate(self.events)}
        if len(at) < len(self.events):  # an id given twice, in a log of another hand: the first
            for n, event in reversed(list(enumerate(self.events))):
                at[event.message_id] = n
        return at

    def get(self, id_: str | None) -> Event | None:
        """Return the event with this id, None where there is none."""
        position = self.at.get(MessageId(id_)) if id_ is not None else None
        return None if position is None else self.events[position]

    def up(self, event: Event) -> list[Link]:
        """Return what an event points at: its substance, its causes in order, its call."""
        links: list[Link] = []
        substance = substance_of(event)
        if substance is not None:
            links.append(Link("substance", substance, substance))
        links.extend(Link("cause", self.target(named), named) for named in causes_of(event))
        call = self._answered.get(event.message_id)
        if call is not None:
            links.append(call)
        elif isinstance(event, ActionRewritten):
            links.append(Link("call", self.target(event.call), event.call))
        return links

    def down(self, id_: str) -> list[Event]:
        """Return the events that point at this one, oldest first."""
        return self._down.get(MessageId(id_), [])

    def original(self, event: Event) -> MessageId:
        """Return the id of the content that an event represents: its own where it is an original.

        Older logs may hold copies of copies; the first original counts, known or not.
        """
        id_, substance = event.message_id, substance_of(event)
        passed = {id_}
        while substance is not None and substance not in passed:
            id_ = substance
            passed.add(id_)
            substance = substance_of(self.get(id_))
        return id_

    def author(self, id_: str) -> AgentId | None:
        """Return who made an original: `user` for what came from outside, None where unknown.

        A message that an agent heard was made by the agent of its cause (a hook that commented).
        """
        event = self.get(id_)
        heard = isinstance(event, TranscriptEntry) and event.role == "user"
        if event is None or (event.agent_id is not None and not heard):
            return None if event is None else event.agent_id
        causes = (self.get(self.target(reference)) for reference in causes_of(event))
        made_by = next((cause.agent_id for cause in causes if cause is not None), None)
        return USER if heard and made_by is None else made_by

    def target(self, reference: Reference) -> MessageId:
        """Return the message that a reference names, itself or by one of its calls."""
        return MessageId(reference) if reference in self.at else reference_message_id(reference)

    def called(self, reference: Reference) -> ToolCall | None:
        """Return the call that a reference names: one of several, or the only one of a message."""
        target = self.target(reference)
        entry, call_id = self.get(target), reference.removeprefix(f"{target}.")
        calls = entry.tool_calls if isinstance(entry, TranscriptEntry) else None
        return next((call for call in calls or () if call_id in (call.id, target)), None)

    @cached_property
    def _answered(self) -> dict[MessageId, Link]:
        """The call that each result answers: the agent's last one before it with this id."""
        made: dict[tuple[AgentId | None, str], TranscriptEntry] = {}
        answered: dict[MessageId, Link] = {}
        for event in self.events:
            if not isinstance(event, TranscriptEntry):
                continue
            for call in event.tool_calls or ():
                made[event.agent_id, call.id] = event
            id_ = event.tool_call_id
            caller = None if id_ is None else made.get((event.agent_id, id_))
            if id_ is not None and caller is not None:
                reference = reference_to(caller, id_)
                answered[event.message_id] = Link("call", caller.message_id, reference)
        return answered

    @cached_property
    def _down(self) -> dict[MessageId, list[Event]]:
        down: dict[MessageId, list[Event]] = {}
        for event in self.events:
            for link in self.up(event):
                pointing = down.setdefault(link.target, [])
                if not pointing or pointing[-1] is not event:
                    pointing.append(event)
        return down


def substance_of(event: Event | None) -> MessageId | None:
    """Return the original that an event names; None where it is one itself."""
    if isinstance(event, TranscriptEntry):
        return event.substance
    if isinstance(event, UnknownEvent) and isinstance(event.data.get("substance"), str):
        return MessageId(event.data["substance"])
    return None


def causes_of(event: Event) -> list[Reference]:
    """Return what an event names as its cause, in order."""
    if isinstance(event, UnknownEvent):
        cause: Any = event.data.get("cause")
    else:
        cause = getattr(event, "cause", None)
    if isinstance(cause, list):
        return [reference for reference in cause if isinstance(reference, str)]
    return [cause] if isinstance(cause, str) else []
