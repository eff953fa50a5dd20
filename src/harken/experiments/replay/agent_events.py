"""Group the events of a session by agent, so that two runs can be compared.

Agents run concurrently, so two equal runs may differ in the order and ids of events. The order of
each agent's own events is the same in both. An agent is identified by its creation path
(`main/Jack`, the second of that name `main/Jack#2`), and an event by its agent and its index there.
Times, latencies and commits are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from harken.agents.action_schemas import parse_listing
from harken.agents.structure import CODE_CALL_PREFIX, is_code_call
from harken.core import events as ev
from harken.core.event_types.spec import SMART, AgentSpec
from harken.core.ids import USER, AgentId, MessageId, reference_message_id
from harken.core.messages import Content, TextPart, text_of

Lane: TypeAlias = str
Place: TypeAlias = tuple[Lane, int]
"""A lane, and the index of an event in it, from 0."""
COMPACTOR = "compactor"
"""Kind of the agents that write summaries for compactions."""
_IGNORED = (
    ev.SessionStarted
    | ev.SessionEnded
    | ev.SessionRepaired
    | ev.ContentPurged
    | ev.ContextCommitted
    | ev.ToolsDefined
    | ev.UnknownEvent
)
"""Events that belong to no lane."""
_IGNORED_MEMBERS = ("message_id", "time", "latency_s", "context", "wire", "agent_id")
_REFERENCE_MEMBERS = (
    *("substance", "entry", "request", "summary", "call", "subject", "said", "answer"),
    "discussion",
)
_AGENT_MEMBERS = (
    *("parent", "speakers", "listeners", "watched", "speaker", "by", "judge", "moderator"),
)


class AgentEventLists(msgspec.Struct):
    """The events of a session by agent, in the order in which they are added."""

    events: dict[Lane, list[ev.Event]] = msgspec.field(default_factory=dict)
    positions: dict[MessageId, Place] = msgspec.field(default_factory=dict)
    order: dict[MessageId, int] = msgspec.field(default_factory=dict)
    """Event id -> index in the session."""
    of_agent: dict[AgentId, Lane] = msgspec.field(default_factory=dict)
    agents: dict[Lane, AgentId] = msgspec.field(default_factory=dict)
    births: dict[Lane, list[ev.AgentCreated]] = msgspec.field(default_factory=dict)
    """Lane -> creation events of its children, in order."""
    tools: dict[MessageId, ev.ToolsDefined] = msgspec.field(default_factory=dict)
    _name_counts: Counter[Lane] = msgspec.field(default_factory=Counter)
    _code_calls: dict[tuple[Lane, str | None], int] = msgspec.field(default_factory=dict)
    """Lane and id of a call of code -> index of its message. The id has the number of a message."""

    @classmethod
    def of(cls, events: Iterable[ev.Event]) -> AgentEventLists:
        """Group all events of a session."""
        lanes = cls()
        for event in events:
            lanes.add(event)
        return lanes

    def add(self, event: ev.Event) -> None:
        """Add the next event."""
        if isinstance(event, ev.ToolsDefined):
            self.tools[event.message_id] = event
        if isinstance(event, _IGNORED):
            return
        if isinstance(event, ev.AgentCreated):
            self._add_birth(event)
        lane = self._lane_of(event)
        lane_events = self.events.setdefault(lane, [])
        self.positions[event.message_id] = (lane, len(lane_events))
        self.order[event.message_id] = len(self.order)
        if isinstance(event, ev.TranscriptEntry) and is_code_call(event):
            for call in event.tool_calls or ():
                self._code_calls[lane, call.id] = len(lane_events)
        lane_events.append(event)

    def size(self, lane: Lane) -> int:
        """Return the number of events of an agent."""
        return len(self.events.get(lane, ()))

    def count(self, lane: Lane, kind: type) -> int:
        """Return the number of events of a type of an agent."""
        return sum(isinstance(event, kind) for event in self.events.get(lane, ()))

    def children_of_kind(self, lane: Lane, kind: str) -> list[ev.AgentCreated]:
        """Return the creation events of children with this kind."""
        births = self.births.get(lane, ())
        return [birth for birth in births if get_kind(birth) == kind]

    def subagents(self, lane: Lane) -> list[ev.AgentCreated]:
        """Return the creation events of children that are neither hooks nor compactors."""
        compactors = self.children_of_kind(lane, COMPACTOR)
        births = self.births.get(lane, ())
        return [birth for birth in births if birth.relation != "hook" and birth not in compactors]

    def hooks(self, lane: Lane) -> list[ev.AgentCreated]:
        """Return the creation events of an agent's hooks."""
        return [birth for birth in self.births.get(lane, ()) if birth.relation == "hook"]

    def system_prompt(self, birth: ev.AgentCreated) -> str | None:
        """Return the initial system prompt of an agent."""
        lane = self.of_agent.get(birth.agent_id or AgentId(""), "")
        for event in self.events.get(lane, ())[1:2]:
            if isinstance(event, ev.TranscriptEntry) and event.role == "system":
                return text_of(event.content)
        return None

    def initial(self, lane: Lane) -> int:
        """Return the number of events that set the agent's initial transcript."""
        for index, event in enumerate(self.events.get(lane, ())):
            if isinstance(event, ev.TranscriptEdited) and event.reason == "init_prompt":
                return index
            if isinstance(event, ev.LlmRequest):
                break
        return 0

    def is_compacted_after(self, request: ev.LlmRequest) -> bool:
        """Whether a compaction was started between this call and the agent's next one."""
        lane, index = self.positions[request.message_id]
        start, stop = self.order[request.message_id], len(self.order)
        parent = self.parent(lane)
        if parent is not None and get_kind(self.events[lane][0]) == COMPACTOR:
            lane, later = (
                parent,
                [event for event in self.events[parent] if self.index_of(event) > start],
            )
        else:
            later = [
                event
                for event in self.events[lane][index + 1 :]
                if isinstance(event, ev.LlmRequest)
            ]
        stop = self.index_of(later[0]) if later else stop
        return any(
            start < self.index_of(birth) < stop for birth in self.children_of_kind(lane, COMPACTOR)
        )

    def after(self, event: ev.Event) -> ev.Event | None:
        """Return the next event of the same agent."""
        lane, index = self.positions[event.message_id]
        lane_events = self.events[lane]
        return lane_events[index + 1] if index + 1 < len(lane_events) else None

    def is_asked_next(self, lane: Lane, event: ev.Event) -> bool:
        """Whether the agent's next event after this one is a request, not a user message."""
        for later in self.events.get(lane, ()):
            if self.index_of(later) < self.index_of(event):
                continue
            if isinstance(later, ev.LlmRequest):
                return True
            if isinstance(later, ev.TranscriptEntry) and later.role == "user":
                return False
        return False

    def find_manual_entries(self) -> set[MessageId]:
        """Return the entries that a program logged without a call of the agent's model.

        An assistant entry of a model is between its request and response; a result follows its
        call. Calls by methods of the agent are left out.
        """
        entry_ids: set[MessageId] = set()
        for lane_events in self.events.values():
            if not lane_events or get_kind(lane_events[0]) != "smart":
                continue
            has_open_request, manual_calls = False, set[str | None]()
            for event in lane_events:
                if isinstance(event, ev.TranscriptEntry) and is_code_call(event):
                    continue  # a method of the agent logs it again
                if isinstance(event, ev.LlmRequest | ev.LlmResponse):
                    has_open_request = isinstance(event, ev.LlmRequest)
                elif isinstance(event, ev.TranscriptEntry) and event.role == "assistant":
                    ids = {call.id for call in event.tool_calls or ()}
                    manual_calls = manual_calls - ids if has_open_request else manual_calls | ids
                    entry_ids |= set() if has_open_request else {event.message_id}
                elif isinstance(event, ev.TranscriptEntry) and event.role == "tool":
                    entry_ids |= {event.message_id} if event.tool_call_id in manual_calls else set()
        return entry_ids

    def index_of(self, event: ev.Event) -> int:
        """Return the index of an event in the session."""
        return self.order[event.message_id]

    def tools_from(self, event: ev.Event) -> list[MessageId]:
        """Return the tool lists of agents from an event on, as far as they are logged.

        The first agent with all tools has the complete list; without such an agent, return all
        lists.
        """
        start = self.order[event.message_id]
        tool_lists: dict[MessageId, None] = {}
        first_lane, _ = self.positions[event.message_id]
        for lane, lane_events in sorted(
            self.events.items(), key=lambda item: item[0] != first_lane
        ):
            birth = lane_events[0] if lane_events else None
            spec = birth.spec if isinstance(birth, ev.AgentCreated) else None
            spec = spec or AgentSpec()
            for request in lane_events:
                if isinstance(request, ev.LlmRequest) and self.order[request.message_id] >= start:
                    if request.tools is not None:
                        tool_lists[request.tools] = None
                    if spec.limits.tools is None and spec.kind != COMPACTOR and lane:
                        return [] if request.tools is None else [request.tools]
                    break
        return list(tool_lists)

    def first_tools(self, lane: Lane) -> list[MessageId]:
        """Return the first tool list of an agent. Empty if it has no tools."""
        for event in self.events.get(lane, ()):
            if isinstance(event, ev.LlmRequest):
                return [] if event.tools is None else [event.tools]
        return []

    def listing(self, action: str, defined: Iterable[MessageId]) -> str:
        """Return the templates or hooks that an action lists in these tool lists."""
        schemas = [schema for defined_id in defined for schema in self.tools[defined_id].tools]
        descriptions = (
            str(schema.get("description")) for schema in schemas if schema.get("name") == action
        )
        return next(filter(None, (parse_listing(action, text) for text in descriptions)), "")

    def parent(self, lane: Lane) -> Lane | None:
        """Return the lane of the parent of an agent."""
        first = self.events[lane][0] if self.events.get(lane) else None
        return self._parent_lane(first) if isinstance(first, ev.AgentCreated) else None

    def comparable_members(self, event: ev.Event) -> dict[str, Any]:
        """Return the comparable members of an event, without ids, times and latencies.

        The context of a request is represented by its length and hash.
        """
        data = {
            member: member_value
            for member, member_value in ev.event_dict(event).items()
            if member not in _IGNORED_MEMBERS
        }
        if isinstance(event, ev.TranscriptEntry):
            data["content"] = _normalize_content(event.content)
            self._normalize_call_ids(event, data)
        for name in _REFERENCE_MEMBERS:
            if isinstance(data.get(name), str):
                data[name] = self.stable_name(data[name])
        for name in ("prompt", "piece", "said"):  # a piece of text belongs to no lane
            if str(data.get(name, "")).startswith("msg_"):
                del data[name]
        if "cause" in data:
            cause = data["cause"]
            is_list = isinstance(cause, list)
            data["cause"] = (
                [self.stable_name(reference) for reference in cause]
                if is_list
                else self.stable_name(cause)
            )
        for name in _AGENT_MEMBERS:
            if name in data:
                agent_ids = data[name]
                is_list = isinstance(agent_ids, list)
                data[name] = (
                    [*map(self._agent_lane, agent_ids)] if is_list else self._agent_lane(agent_ids)
                )
        if isinstance(event, ev.LlmRequest):
            data.pop("tools", None)
            defined = self.tools.get(event.tools) if event.tools else None
            if defined is not None:
                data["tools"] = defined.tools_hash
        for segment in data.get("segments", ()):
            if "entries" in segment:
                segment["entries"] = [
                    self.stable_name(reference) for reference in segment["entries"]
                ]
        return data

    def stable_name(self, reference: str) -> str:
        """Format a reference by lane and index, so that it is equal in both runs."""
        message = reference_message_id(reference)
        place = self.positions.get(message)
        if place is None:
            return reference
        call_id = reference.removeprefix(message)
        is_code = call_id.startswith(f".{CODE_CALL_PREFIX}")  # its message makes no other call
        return f"{place[0]} {place[1]}{'' if is_code else call_id}"

    def _normalize_call_ids(self, event: ev.TranscriptEntry, data: dict[str, Any]) -> None:
        """Replace the ids of calls of code by the indexes of the messages with these calls."""
        lane = self.positions[event.message_id][0]
        for call in data.get("tool_calls", ()):
            call["id"] = self._code_calls.get((lane, call["id"]), call["id"])
        if "tool_call_id" in data:
            id_ = data["tool_call_id"]
            data["tool_call_id"] = self._code_calls.get((lane, id_), id_)

    def _agent_lane(self, agent: str) -> str:
        return self.of_agent.get(AgentId(agent), agent)

    def _add_birth(self, event: ev.AgentCreated) -> None:
        agent, parent_lane = event.agent_id or AgentId(""), self._parent_lane(event)
        lane = f"{parent_lane}/{event.name or 'agent'}" if parent_lane else event.name or "agent"
        self._name_counts[lane] += 1
        if self._name_counts[lane] > 1:
            lane = f"{lane}#{self._name_counts[lane]}"
        self.of_agent[agent], self.agents[lane] = lane, agent
        if parent_lane is not None:
            self.births.setdefault(parent_lane, []).append(event)

    def _parent_lane(self, event: ev.AgentCreated) -> Lane | None:
        causes = [event.cause] if isinstance(event.cause, str) else event.cause or []
        place = self.positions.get(reference_message_id(causes[0])) if causes else None
        return None if place is None else place[0]

    def _lane_of(self, event: ev.Event) -> Lane:
        """Return the lane of an event. Events of the user belong to a lane per agent."""
        if event.agent_id == USER:
            references = [getattr(event, "cause", None), getattr(event, "substance", None)]
            first = next(
                (reference for reference in references if isinstance(reference, str)), None
            )
            place = self.positions.get(reference_message_id(first)) if first is not None else None
            lane = USER if place is None else place[0]
            return lane if lane.startswith(USER) else f"{USER} of {lane}"
        agent = event.agent_id or AgentId("")
        return self.of_agent.setdefault(agent, agent)


def get_kind(birth: ev.Event) -> str:
    """Return the kind in a creation event. The default is `smart`."""
    spec = birth.spec if isinstance(birth, ev.AgentCreated) else None
    return (None if spec is None else spec.kind) or SMART


def _normalize_content(content: Content) -> object:
    """Return a content in a normalized form: a single text part equals a string."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], TextPart):
        return content[0].text if content[0].meta is None else msgspec.to_builtins(content)
    return msgspec.to_builtins(content)


class EventDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first event of an agent that differs between two runs."""

    agent_key: Lane
    place: int
    recorded: ev.Event | None
    """None if the recorded run has no such event."""
    replayed: ev.Event | None
    """None if the replayed run has no such event."""
    before: Mapping[str, Any]
    """Comparable members of the recorded event."""
    after: Mapping[str, Any]


def first_difference(recorded: AgentEventLists, again: AgentEventLists) -> EventDivergence | None:
    """Return the first difference of two runs, in recorded order, or None if they are equal.

    Different events take precedence over missing ones, which may be a consequence.
    """
    lanes = {**recorded.events, **again.events}
    divergences = [
        divergence for lane in lanes if (divergence := _compare_lane(lane, recorded, again))
    ]

    def when(divergence: EventDivergence) -> tuple[bool, int]:
        is_missing = divergence.recorded is None or divergence.replayed is None
        end = len(recorded.order)
        return is_missing, end if divergence.recorded is None else recorded.order[
            divergence.recorded.message_id
        ]

    return min(divergences, key=when, default=None)


def _compare_lane(
    lane: Lane, recorded: AgentEventLists, again: AgentEventLists
) -> EventDivergence | None:
    """Return the first difference in one lane."""
    recorded_events, replayed_events = recorded.events.get(lane, []), again.events.get(lane, [])
    for place in range(max(len(recorded_events), len(replayed_events))):
        recorded_event = recorded_events[place] if place < len(recorded_events) else None
        replayed_event = replayed_events[place] if place < len(replayed_events) else None
        recorded_members = (
            {} if recorded_event is None else recorded.comparable_members(recorded_event)
        )
        replayed_members = (
            {} if replayed_event is None else again.comparable_members(replayed_event)
        )
        if recorded_members != replayed_members:
            return EventDivergence(
                agent_key=lane,
                place=place,
                recorded=recorded_event,
                replayed=replayed_event,
                before=recorded_members,
                after=replayed_members,
            )
    return None
