"""A timeline: all events in order, with one lane per agent.

A turn starts when the user sends a message to the primary agent; events before the first turn have
number 0. Each mark describes an event as text. Long texts are not truncated.

`happened` formats an event as text for people. JSON is used for unknown event types only.

The caller truncates long texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from harken.core import events as ev
from harken.core.canonical import to_json_line
from harken.core.ids import AgentId, MessageId
from harken.core.record import SparseRecord
from harken.session.fold import fold
from harken.session.state import DiscussionStep, SessionState
from harken.views.agent_names import AgentNames
from harken.views.links import Links
from harken.views.message_text import call_text, format_size, join_tool_names, readable_text
from harken.views.message_text import format_count as count


def describe_event(event: ev.Event, names: AgentNames) -> str:
    """Describe an event as text. An unknown event is formatted as JSON."""
    match event:
        case ev.TranscriptEntry():
            texts = [readable_text(event.content), *map(call_text, event.tool_calls or ())]
            return "\n".join(filter(None, texts))
        case ev.PieceOfText():
            return event.content
        case ev.ActionStarted():
            return event.call
        case ev.ActionRewritten():
            return f"{event.call}: {event.tool} {event.arguments}"
        case ev.LlmRequest():
            return f"{event.model} reads {count(event.count, 'message')}"
        case ev.LlmResponse():
            return _describe_response(event)
        case ev.ToolsDefined():
            return join_tool_names(event.tools)
        case ev.MemoryOperation():
            return _describe_memory(event)
        case ev.ThreadNoted():
            position = None if event.position is None else f"at position {event.position}"
            return _join_facts(event.entry_type, "the whole context" if event.whole else position)
        case ev.UnknownEvent():
            return _format_members(event)
        case ev.SessionStarted() | ev.SessionEnded() | ev.SessionRepaired() | ev.ContentPurged():
            return _describe_session(event)
        case ev.TranscriptEdited() | ev.ContextLoaded() | ev.ContextCommitted():
            return _describe_context(event)
        case ev.HookVerdict() | ev.AnswerGiven() | ev.TurnStop() | ev.NoteKept() | ev.HookLeaving():
            return _describe_decision(event, names)
        case (
            ev.DiscussionOpened()
            | ev.DiscussionSpoken()
            | ev.DiscussionChosen()
            | ev.DiscussionJudged()
        ):
            return _describe_discussion(event, names)
        case _:
            return _describe_agent(event, names)


def format_latency(latency_s: float) -> str:
    """Format a duration in seconds or milliseconds.

    >>> format_latency(0.00012), format_latency(1.23)
    ('0.1 ms', '1.2 s')
    """
    return f"{latency_s:.1f} s" if latency_s >= 1 else f"{latency_s * 1000:.1f} ms"


def _describe_session(
    event: ev.SessionStarted | ev.SessionEnded | ev.SessionRepaired | ev.ContentPurged,
) -> str:
    match event:
        case ev.SessionStarted():
            return f"{event.session_id}, schema version {event.schema_version}"
        case ev.SessionEnded():
            return event.reason or ""
        case ev.SessionRepaired():
            return f"from {event.source}, {count(len(event.lost), 'line')} lost"
        case ev.ContentPurged():
            return _join_facts(f"in {count(event.places, 'line')}", event.by, event.why)


def _describe_decision(
    event: ev.HookVerdict | ev.AnswerGiven | ev.TurnStop | ev.NoteKept | ev.HookLeaving,
    names: AgentNames,
) -> str:
    match event:
        case ev.NoteKept():
            return event.text
        case ev.HookLeaving():
            return ""
        case ev.HookVerdict():
            watched = names.latest_name(event.watched)
            failure = None if event.failed is None else f"the hook failed: {event.failed}"
            return _join_facts(
                f"{event.verdict} to {watched} at {event.point}", event.text or failure
            )
        case ev.AnswerGiven():
            return event.answer
        case ev.TurnStop():
            return _join_facts(event.reason, event.piece)


def _describe_discussion(event: ev.DiscussionOpened | DiscussionStep, names: AgentNames) -> str:
    match event:
        case ev.DiscussionOpened():
            return _describe_opening(event, names)
        case ev.DiscussionSpoken():
            return _join_facts(names.latest_name(event.by), event.said)
        case ev.DiscussionChosen():
            speaker = None if event.speaker is None else names.latest_name(event.speaker)
            return _join_facts(names.latest_name(event.by), event.said, speaker, event.failed)
        case ev.DiscussionJudged():
            facts = (event.verdict, event.text, event.failed)
            return _join_facts(names.latest_name(event.by), event.said, *facts)


def _describe_opening(event: ev.DiscussionOpened, names: AgentNames) -> str:
    """Describe the participants and the order of a discussion; defaults are left out."""
    facts = {
        "speakers": _join_names(event.speakers, names),
        "listeners": _join_names(event.listeners, names),
        "rounds": None if event.rounds == 1 else event.rounds,
        "until": event.until,
        "judge": None if event.judge is None else names.latest_name(event.judge),
        "moderator": None if event.moderator is None else names.latest_name(event.moderator),
        "seed": event.seed,
    }
    return "; ".join(f"{name}: {value}" for name, value in facts.items() if value is not None)


def _describe_agent(
    event: ev.AgentCreated
    | ev.AgentConfigured
    | ev.TriggerArmed
    | ev.TriggerDisarmed
    | ev.AgentStateSaved
    | ev.AgentMoved
    | ev.InterlocutorsSet,
    names: AgentNames,
) -> str:
    match event:
        case ev.AgentCreated():
            return _join_facts(event.name, event.relation, event.language_model)
        case ev.AgentConfigured():
            limits = {} if event.spec is None else msgspec.to_builtins(event.spec.limits)
            members = ["parameters", *limits] if event.parameters is not None else [*limits]
            new = f"new {', '.join(members)}" if members else None
            return _join_facts(event.name, event.language_model, new)
        case ev.TriggerArmed():
            return _join_facts(event.name, str(event.trigger.get("kind", "")))
        case ev.TriggerDisarmed():
            return event.name
        case ev.AgentStateSaved():
            return f"{format_size(len(to_json_line(event.state)))} of state"
        case ev.AgentMoved():
            below = "" if event.parent is None else f" of {names.latest_name(event.parent)}"
            if event.replaces is not None:
                below = (
                    f" in place of {names.latest_name(event.replaces)}, now its {event.replaced_as}"
                )
            return event.place + below
        case ev.InterlocutorsSet():
            speakers, listeners = (
                _join_names(event.speakers, names),
                _join_names(event.listeners, names),
            )
            return f"speakers: {speakers}; listeners: {listeners}"


def _describe_context(event: ev.TranscriptEdited | ev.ContextLoaded | ev.ContextCommitted) -> str:
    match event:
        case ev.TranscriptEdited():
            stretches = f"now reads {count(len(event.segments), 'stretch', 'stretches')}"
            return _join_facts(stretches, _with_label("summary", event.summary), event.reason)
        case ev.ContextLoaded():
            return f"{count(event.count, 'message')} of {event.ctx}, back to the last {event.stop}"
        case ev.ContextCommitted():
            upto, parent = _with_label("up to", event.upto), _with_label("after", event.parent_ctx)
            return _join_facts(event.ctx, upto, parent, event.checkpoint)


def _describe_response(event: ev.LlmResponse) -> str:
    """Describe the end of a model call, as far as the provider reports it."""
    usage = event.usage or ev.Usage()
    latency = None if event.latency_s is None else format_latency(event.latency_s)
    cost = None if event.cost_usd is None else f"{event.cost_usd:.6f}".rstrip("0").rstrip(".")
    return _join_facts(
        event.stop_reason,
        _with_unit(usage.input_tokens, "tokens in"),
        _with_unit(usage.output_tokens, "tokens out"),
        _with_unit(cost, "USD"),
        latency,
        _with_label("error:", event.error),
        _with_label("partial:", event.partial),
    )


def _describe_memory(event: ev.MemoryOperation) -> str:
    result_count = None if event.result_count is None else count(event.result_count, "result")
    operation = f"{event.memory_type} {event.operation}"
    return _join_facts(operation, event.file_path, event.query, result_count, event.content_preview)


def _format_members(event: ev.Event) -> str:
    common = {"message_id", "event_type", "agent_id", "time"}
    members = {name: value for name, value in ev.event_dict(event).items() if name not in common}
    return to_json_line(members).decode() if members else ""


def _join_facts(*facts: str | None) -> str:
    return ", ".join(filter(None, facts))


def _with_unit(fact: object, unit: str) -> str | None:
    return None if fact is None else f"{fact} {unit}"


def _with_label(label: str, fact: str | None) -> str | None:
    return None if fact is None else f"{label} {fact}"


def _join_names(agents: Iterable[AgentId], names: AgentNames) -> str:
    return ", ".join(str(names.latest_name(agent)) for agent in agents) or "none"


class TimelineLane(SparseRecord, frozen=True, kw_only=True):
    """An agent, or the user."""

    agent_id: AgentId
    name: str | None
    first: MessageId
    """The first event of the agent."""
    last: MessageId
    events: int


class TimelineEvent(SparseRecord, frozen=True, kw_only=True):
    """One event."""

    message_id: MessageId
    time: str
    turn: int
    lane: int | None
    """Index of its lane, from 0; None for events about the whole session."""
    event_type: str
    role: str | None = None
    text: str
    source: MessageId | None = None
    """Of an entry that an agent received: the message that it represents or that caused it."""
    source_agent: AgentId | None = None
    """The agent of the source."""


class Timeline(SparseRecord, frozen=True, kw_only=True):
    """Lanes in the order of their first events, marks in the order of the log."""

    lanes: list[TimelineLane]
    marks: list[TimelineEvent]


def timeline(events: Iterable[ev.Event]) -> Timeline:
    """Build the timeline of a session."""
    links = Links.of(events)
    index = TimelineIndex(links)
    index.add(links)
    return Timeline(lanes=index.lanes(), marks=index.marks(0, len(index)))


class TimelineIndex:
    """The timeline of a session that may be running. A mark is built when it is requested."""

    def __init__(self, links: Links) -> None:
        """`links` must contain all events that are added."""
        self._links = links
        self._lane_by_agent: dict[AgentId, int] = {}
        self._spans: list[tuple[MessageId, MessageId, int]] = []
        self._places: list[tuple[ev.Event, int, int | None]] = []
        """The turn and the lane of each event."""
        self._state, self._turn = SessionState(), 0

    def __len__(self) -> int:
        return len(self._places)

    def add(self, events: Iterable[ev.Event]) -> None:
        """Add later events."""
        spans = self._spans
        for event in events:
            lane = None
            if event.agent_id:
                lane = self._lane_by_agent.setdefault(event.agent_id, len(spans))
                if lane == len(spans):
                    spans.append((event.message_id, event.message_id, 0))
                spans[lane] = (spans[lane][0], event.message_id, spans[lane][2] + 1)
            if isinstance(event, ev.AgentCreated | ev.AgentMoved):
                with suppress(ValueError):  # A log of another program may contradict itself.
                    fold(self._state, event)  # Only the primary agent matters here.
            self._turn += _begins_turn(self._state, event)
            self._places.append((event, self._turn, lane))

    def lanes(self) -> list[TimelineLane]:
        """Return the lanes in the order of their first events."""
        return [
            TimelineLane(
                agent_id=agent,
                name=self._links.names.latest_name(agent),
                first=first,
                last=last,
                events=count,
            )
            for agent, (first, last, count) in zip(self._lane_by_agent, self._spans, strict=True)
        ]

    def marks(self, start: int, stop: int) -> list[TimelineEvent]:
        """Return a range of the events, in the order of the log."""
        return [
            _build_mark(event, turn, lane, self._links)
            for event, turn, lane in self._places[start:stop]
        ]


def _begins_turn(state: SessionState, event: ev.Event) -> bool:
    return (
        isinstance(event, ev.TranscriptEntry)
        and event.role == "user"
        and event.substance is None
        and event.cause is None
        and event.agent_id == state.primary
    )


def _build_mark(event: ev.Event, turn: int, lane: int | None, links: Links) -> TimelineEvent:
    source = _find_source(event, links)
    return TimelineEvent(
        message_id=event.message_id,
        time=event.time,
        turn=turn,
        lane=lane,
        event_type=ev.event_type(event),
        role=event.role if isinstance(event, ev.TranscriptEntry) else None,
        text=describe_event(event, links.names),
        source=None if source is None else source.message_id,
        source_agent=None if source is None else source.agent_id,
    )


def _find_source(event: ev.Event, links: Links) -> ev.Event | None:
    """Return the event whose content an agent received: by substance, else the first cause."""
    if not isinstance(event, ev.TranscriptEntry) or event.role in ("assistant", "system"):
        return None
    targets = {link.kind: link.target for link in reversed([*links.links_from(event)])}
    target = targets.get("substance") or targets.get("cause")
    return None if target is None else links.get(target)
