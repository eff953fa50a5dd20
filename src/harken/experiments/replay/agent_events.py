"""Lanes: a session as one list of events for each agent, in which two runs can be compared.

Agents run at the same time, so two runs of the same have their events in another order, and other
ids. What is the same in both is what each agent went through, in its order. An agent is known by
where it was born (`main/Jack`, the second of that name `main/Jack#2`), an event by its agent and
its place there. Times, latencies and commits are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from harken.agents.action_schemas import listing_in
from harken.core import events as ev
from harken.core.ids import USER, AgentId, MessageId, reference_message_id
from harken.core.messages import Content, TextPart, text_of

Lane: TypeAlias = str
Place: TypeAlias = tuple[Lane, int]
"""A lane, and which of its events, from 0."""
COMPACTOR = "compactor"
"""The kind of the agents that sum up."""
_ASIDE = (
    ev.SessionStarted
    | ev.SessionEnded
    | ev.SessionRepaired
    | ev.ContentPurged
    | ev.ContextCommitted
    | ev.ToolsDefined
    | ev.UnknownEvent
)
"""What is in no lane."""
_NOT_COMPARED = ("message_id", "time", "latency_s", "context", "wire", "agent_id")
_REFERENCES = ("substance", "entry", "request", "summary", "call")
_AGENTS = ("parent", "speakers", "listeners")


@dataclass(slots=True)
class AgentEventLists:
    """The events of a session by agent; events are taken as they come."""

    events: dict[Lane, list[ev.Event]] = field(default_factory=dict)
    places: dict[MessageId, Place] = field(default_factory=dict)
    order: dict[MessageId, int] = field(default_factory=dict)
    """Which event of the session it is."""
    of_agent: dict[AgentId, Lane] = field(default_factory=dict)
    agents: dict[Lane, AgentId] = field(default_factory=dict)
    births: dict[Lane, list[ev.AgentCreated]] = field(default_factory=dict)
    """The agents that were born below one, in order."""
    tools: dict[MessageId, ev.ToolsDefined] = field(default_factory=dict)
    _named: Counter[Lane] = field(default_factory=Counter)

    @classmethod
    def of(cls, events: Iterable[ev.Event]) -> AgentEventLists:
        """Sort all events of a session."""
        lanes = cls()
        for event in events:
            lanes.take(event)
        return lanes

    def take(self, event: ev.Event) -> None:
        """Take the next event."""
        if isinstance(event, ev.ToolsDefined):
            self.tools[event.message_id] = event
        if isinstance(event, _ASIDE):
            return
        if isinstance(event, ev.AgentCreated):
            self._birth(event)
        lane = self._lane(event)
        row = self.events.setdefault(lane, [])
        self.places[event.message_id] = (lane, len(row))
        self.order[event.message_id] = len(self.order)
        row.append(event)

    def size(self, lane: Lane) -> int:
        """Return how many events an agent has."""
        return len(self.events.get(lane, ()))

    def count(self, lane: Lane, kind: type) -> int:
        """Return how many events of a type an agent has."""
        return sum(isinstance(event, kind) for event in self.events.get(lane, ()))

    def born(self, lane: Lane, kind: str) -> list[ev.AgentCreated]:
        """Return the births of a kind below an agent."""
        births = self.births.get(lane, ())
        return [birth for birth in births if kind_of(birth) == kind]

    def subagents(self, lane: Lane) -> list[ev.AgentCreated]:
        """Return the births below an agent that are neither of hooks nor of those who sum up."""
        summing = self.born(lane, COMPACTOR)
        births = self.births.get(lane, ())
        return [one for one in births if one.relation != "hook" and one not in summing]

    def hooks(self, lane: Lane) -> list[ev.AgentCreated]:
        """Return the births of hooks of an agent."""
        return [one for one in self.births.get(lane, ()) if one.relation == "hook"]

    def system_prompt(self, birth: ev.AgentCreated) -> str | None:
        """Return the system prompt that an agent was born with."""
        lane = self.of_agent.get(birth.agent_id or AgentId(""), "")
        for event in self.events.get(lane, ())[1:2]:
            if isinstance(event, ev.TranscriptEntry) and event.role == "system":
                return text_of(event.content)
        return None

    def initial(self, lane: Lane) -> int:
        """Return how many of an agent's first events gave it a transcript to start from."""
        for at, event in enumerate(self.events.get(lane, ())):
            if isinstance(event, ev.TranscriptEdited) and event.reason == "init_prompt":
                return at
            if isinstance(event, ev.LlmRequest):
                break
        return 0

    def is_compacted_after(self, request: ev.LlmRequest) -> bool:
        """Whether a context was compacted, or tried again to be, between this call and its next."""
        lane, at = self.places[request.message_id]
        start, stop = self.order[request.message_id], len(self.order)
        parent = self.parent(lane)
        if parent is not None and kind_of(self.events[lane][0]) == COMPACTOR:
            lane, later = parent, [e for e in self.events[parent] if self.at(e) > start]
        else:
            later = [e for e in self.events[lane][at + 1 :] if isinstance(e, ev.LlmRequest)]
        stop = self.at(later[0]) if later else stop
        return any(start < self.at(birth) < stop for birth in self.born(lane, COMPACTOR))

    def after(self, event: ev.Event) -> ev.Event | None:
        """Return the event after one of the same agent."""
        lane, at = self.places[event.message_id]
        row = self.events[lane]
        return row[at + 1] if at + 1 < len(row) else None

    def is_asked_next(self, lane: Lane, event: ev.Event) -> bool:
        """Whether an agent's model was asked after an event, before the agent heard anything."""
        for later in self.events.get(lane, ()):
            if self.at(later) < self.at(event):
                continue
            if isinstance(later, ev.LlmRequest):
                return True
            if isinstance(later, ev.TranscriptEntry) and later.role == "user":
                return False
        return False

    def by_hand(self) -> set[MessageId]:
        """Return the entries that some program logged, and no agent made: it called no model.

        An answer stands between its request and how that ended; a result is as its call.
        """
        found: set[MessageId] = set()
        for row in self.events.values():
            if not row or kind_of(row[0]) != "smart":
                continue
            is_asking, calls = False, set[str | None]()
            for event in row:
                if isinstance(event, ev.LlmRequest | ev.LlmResponse):
                    is_asking = isinstance(event, ev.LlmRequest)
                elif isinstance(event, ev.TranscriptEntry) and event.role == "assistant":
                    ids = {call.id for call in event.tool_calls or ()}
                    calls = calls - ids if is_asking else calls | ids
                    found |= set() if is_asking else {event.message_id}
                elif isinstance(event, ev.TranscriptEntry) and event.role == "tool":
                    found |= {event.message_id} if event.tool_call_id in calls else set()
        return found

    def at(self, event: ev.Event) -> int:
        """Return which event of the session it is."""
        return self.order[event.message_id]

    def tools_from(self, event: ev.Event) -> list[MessageId]:
        """Return the lists of tools that agents were offered from an event on, as far as known.

        The first agent that may use all tools says which there were; where none may, all lists.
        """
        start = self.order[event.message_id]
        everything: dict[MessageId, None] = {}
        for lane, row in self.events.items():
            birth = row[0] if row else None
            spec = (birth.spec or {}) if isinstance(birth, ev.AgentCreated) else {}
            for one in row:
                if isinstance(one, ev.LlmRequest) and self.order[one.message_id] >= start:
                    if one.tools is not None:
                        everything[one.tools] = None
                    if spec.get("tools") is None and spec.get("kind") != COMPACTOR and lane:
                        return [] if one.tools is None else [one.tools]
                    break
        return list(everything)

    def first_tools(self, lane: Lane) -> list[MessageId]:
        """Return the list of tools that an agent was offered first; none where it never was."""
        for event in self.events.get(lane, ()):
            if isinstance(event, ev.LlmRequest):
                return [] if event.tools is None else [event.tools]
        return []

    def listing(self, defined: Iterable[MessageId]) -> str:
        """Return what models were told of templates, in these lists of tools."""
        schemas = [schema for one in defined for schema in self.tools[one].tools]
        told = (str(one.get("description")) for one in schemas if one.get("name") == "task")
        return next(filter(None, map(listing_in, told)), "")

    def parent(self, lane: Lane) -> Lane | None:
        """Return the lane below which an agent was born."""
        first = self.events[lane][0] if self.events.get(lane) else None
        return self._below(first) if isinstance(first, ev.AgentCreated) else None

    def plain(self, event: ev.Event) -> dict[str, Any]:
        """Return an event as it is compared: without ids, times and latencies.

        The context of a request stands for itself by its length and hash.
        """
        data = {k: v for k, v in ev.event_dict(event).items() if k not in _NOT_COMPARED}
        if isinstance(event, ev.TranscriptEntry):
            data["content"] = _plain_content(event.content)
        for name in _REFERENCES:
            if isinstance(data.get(name), str):
                data[name] = self.named(data[name])
        if "cause" in data:
            cause = data["cause"]
            many = isinstance(cause, list)
            data["cause"] = [self.named(one) for one in cause] if many else self.named(cause)
        for name in _AGENTS:
            if name in data:
                of = data[name]
                many = isinstance(of, list)
                data[name] = [*map(self._called, of)] if many else self._called(of)
        if isinstance(event, ev.LlmRequest):
            data.pop("tools", None)
            defined = self.tools.get(event.tools) if event.tools else None
            if defined is not None:
                data["tools"] = defined.tools_hash
        for segment in data.get("segments", ()):
            if "entries" in segment:
                segment["entries"] = [self.named(one) for one in segment["entries"]]
        return data

    def named(self, reference: str) -> str:
        """Return how a message is called in both runs: its lane and place, and its call."""
        message = reference_message_id(reference)
        place = self.places.get(message)
        if place is None:
            return reference
        return f"{place[0]} {place[1]}{reference.removeprefix(message)}"

    def _called(self, agent: str) -> str:
        return self.of_agent.get(AgentId(agent), agent)

    def _birth(self, event: ev.AgentCreated) -> None:
        agent, below = event.agent_id or AgentId(""), self._below(event)
        lane = f"{below}/{event.name or 'agent'}" if below else event.name or "agent"
        self._named[lane] += 1
        if self._named[lane] > 1:
            lane = f"{lane}#{self._named[lane]}"
        self.of_agent[agent], self.agents[lane] = lane, agent
        if below is not None:
            self.births.setdefault(below, []).append(event)

    def _below(self, event: ev.AgentCreated) -> Lane | None:
        causes = [event.cause] if isinstance(event.cause, str) else event.cause or []
        place = self.places.get(reference_message_id(causes[0])) if causes else None
        return None if place is None else place[0]

    def _lane(self, event: ev.Event) -> Lane:
        """Return whose an event is; what the user heard and said is of the agent it is about."""
        if event.agent_id == USER:
            named = [getattr(event, "cause", None), getattr(event, "substance", None)]
            first = next((one for one in named if isinstance(one, str)), None)
            place = self.places.get(reference_message_id(first)) if first is not None else None
            lane = USER if place is None else place[0]
            return lane if lane.startswith(USER) else f"{USER} of {lane}"
        agent = event.agent_id or AgentId("")
        return self.of_agent.setdefault(agent, agent)


def kind_of(birth: ev.Event) -> str:
    """Return the kind that a birth records; `smart` where it does not say."""
    spec = birth.spec if isinstance(birth, ev.AgentCreated) else None
    return str((spec or {}).get("kind", "smart"))


def _plain_content(content: Content) -> object:
    """Return a content in one form: a text may stand in a log as a list with it alone."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], TextPart):
        return content[0].text if content[0].meta is None else msgspec.to_builtins(content)
    return msgspec.to_builtins(content)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDivergence:
    """The first event of an agent that is not the same in two runs."""

    lane: Lane
    place: int
    recorded: ev.Event | None
    """None: the record has no such event."""
    again: ev.Event | None
    """None: it did not happen again."""
    before: Mapping[str, Any]
    """The recorded one as it is compared."""
    after: Mapping[str, Any]


def first_difference(recorded: AgentEventLists, again: AgentEventLists) -> EventDivergence | None:
    """Return where two runs part first, in the order of the record; None: they are the same.

    What happened otherwise comes before what did not happen at all: that may be because of it.
    """
    lanes = {**recorded.events, **again.events}
    found = [one for lane in lanes if (one := _of(lane, recorded, again))]

    def when(one: EventDivergence) -> tuple[bool, int]:
        is_missing = one.recorded is None or one.again is None
        end = len(recorded.order)
        return is_missing, end if one.recorded is None else recorded.order[one.recorded.message_id]

    return min(found, key=when, default=None)


def _of(lane: Lane, recorded: AgentEventLists, again: AgentEventLists) -> EventDivergence | None:
    """Return where one agent's runs part."""
    one, two = recorded.events.get(lane, []), again.events.get(lane, [])
    for place in range(max(len(one), len(two))):
        old = one[place] if place < len(one) else None
        new = two[place] if place < len(two) else None
        before = {} if old is None else recorded.plain(old)
        after = {} if new is None else again.plain(new)
        if before != after:
            return EventDivergence(
                lane=lane, place=place, recorded=old, again=new, before=before, after=after
            )
    return None
