"""A timeline: all events in order, with agents as lanes.

A turn begins when the user says something to the primary agent; what comes before the first is
turn 0. Each mark says in one text what happened; long texts are whole, the reader cuts them.

Happened: what an event says, in one text for people. No JSON, except where nothing is known.

Long texts are whole: the reader cuts them.
"""

from __future__ import annotations

from collections.abc import Iterable

from harken.core import events as ev
from harken.core.canonical import to_json_line
from harken.core.ids import AgentId, MessageId
from harken.core.record import SparseRecord
from harken.session.fold import fold
from harken.session.state import SessionState
from harken.views.agent_names import AgentNames
from harken.views.links import Links
from harken.views.message_text import call_text, count, readable_text, size_text, tool_names


def happened(event: ev.Event, names: AgentNames) -> str:
    """Say what happened; an event of an unknown type shows its members as they are."""
    match event:
        case ev.TranscriptEntry():
            texts = [readable_text(event.content), *map(call_text, event.tool_calls or ())]
            return "\n".join(filter(None, texts))
        case ev.PieceOfText():
            return event.content
        case ev.ActionRewritten():
            return f"{event.call}: {event.tool} {event.arguments}"
        case ev.LlmRequest():
            return f"{event.model} reads {count(event.count, 'message')}"
        case ev.LlmResponse():
            return _response(event)
        case ev.ToolsDefined():
            return tool_names(event.tools)
        case ev.MemoryOperation():
            return _memory(event)
        case ev.ThreadNoted():
            at = None if event.position is None else f"at position {event.position}"
            return _listed(event.entry_type, "the whole context" if event.whole else at)
        case ev.UnknownEvent():
            return _members(event)
        case ev.SessionStarted() | ev.SessionEnded() | ev.SessionRepaired() | ev.ContentPurged():
            return _session(event)
        case ev.TranscriptEdited() | ev.ContextLoaded() | ev.ContextCommitted():
            return _context(event)
        case _:
            return _agent(event, names)


def latency_text(latency_s: float) -> str:
    """Return a time as a person writes it.

    >>> latency_text(0.00012), latency_text(1.23)
    ('0.1 ms', '1.2 s')
    """
    return f"{latency_s:.1f} s" if latency_s >= 1 else f"{latency_s * 1000:.1f} ms"


def _session(
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
            return _listed(f"in {count(event.places, 'line')}", event.by, event.why)


def _agent(
    event: ev.AgentCreated
    | ev.AgentConfigured
    | ev.AgentStateSaved
    | ev.AgentMoved
    | ev.InterlocutorsSet,
    names: AgentNames,
) -> str:
    match event:
        case ev.AgentCreated():
            return _listed(event.name, event.relation, event.language_model)
        case ev.AgentConfigured():
            new = f"new {', '.join(event.spec)}" if event.spec else None
            return _listed(event.name, event.language_model, new)
        case ev.AgentStateSaved():
            return f"{size_text(len(to_json_line(event.state)))} of state"
        case ev.AgentMoved():
            below = "" if event.parent is None else f" of {names.of(event.parent)}"
            if event.replaces is not None:
                below = f" in place of {names.of(event.replaces)}, now its {event.replaced_as}"
            return event.place + below
        case ev.InterlocutorsSet():
            speakers, listeners = _all(event.speakers, names), _all(event.listeners, names)
            return f"speakers: {speakers}; listeners: {listeners}"


def _context(event: ev.TranscriptEdited | ev.ContextLoaded | ev.ContextCommitted) -> str:
    match event:
        case ev.TranscriptEdited():
            stretches = f"now reads {count(len(event.segments), 'stretch', 'stretches')}"
            return _listed(stretches, _after("summary", event.summary), event.reason)
        case ev.ContextLoaded():
            return f"{count(event.count, 'message')} of {event.ctx}, back to the last {event.stop}"
        case ev.ContextCommitted():
            upto, parent = _after("up to", event.upto), _after("after", event.parent_ctx)
            return _listed(event.ctx, upto, parent, event.checkpoint)


def _response(event: ev.LlmResponse) -> str:
    """Say how a model call ended, as far as the provider told."""
    usage = event.usage or ev.Usage()
    latency = None if event.latency_s is None else latency_text(event.latency_s)
    cost = None if event.cost_usd is None else f"{event.cost_usd:.6f}".rstrip("0").rstrip(".")
    return _listed(
        event.stop_reason,
        _before(usage.input_tokens, "tokens in"),
        _before(usage.output_tokens, "tokens out"),
        _before(cost, "USD"),
        latency,
        _after("error:", event.error),
        _after("partial:", event.partial),
    )


def _memory(event: ev.MemoryOperation) -> str:
    found = None if event.result_count is None else count(event.result_count, "result")
    done = f"{event.memory_type} {event.operation}"
    return _listed(done, event.file_path, event.query, found, event.content_preview)


def _members(event: ev.Event) -> str:
    common = {"message_id", "event_type", "agent_id", "time"}
    own = {name: value for name, value in ev.event_dict(event).items() if name not in common}
    return to_json_line(own).decode() if own else ""


def _listed(*facts: str | None) -> str:
    return ", ".join(filter(None, facts))


def _before(fact: object, unit: str) -> str | None:
    return None if fact is None else f"{fact} {unit}"


def _after(label: str, fact: str | None) -> str | None:
    return None if fact is None else f"{label} {fact}"


def _all(agents: Iterable[AgentId], names: AgentNames) -> str:
    return ", ".join(str(names.of(agent)) for agent in agents) or "none"


class TimelineLane(SparseRecord, frozen=True, kw_only=True):
    """One agent, or the user."""

    agent_id: AgentId
    name: str | None
    first: MessageId
    """The first event about it."""
    last: MessageId
    events: int


class TimelineEvent(SparseRecord, frozen=True, kw_only=True):
    """One event."""

    message_id: MessageId
    time: str
    turn: int
    lane: int | None
    """The position of its lane, from 0; None for what is about the whole session."""
    event_type: str
    role: str | None = None
    text: str


class Timeline(SparseRecord, frozen=True, kw_only=True):
    """Lanes in the order of their first events, marks in the order of the log."""

    lanes: list[TimelineLane]
    marks: list[TimelineEvent]


def timeline(events: Iterable[ev.Event]) -> Timeline:
    """Lay events out in time."""
    links = Links.of(events)
    places: dict[AgentId, int] = {}
    spans: list[tuple[MessageId, MessageId, int]] = []
    marks: list[TimelineEvent] = []
    state, turn = SessionState(), 0
    for event in links:
        lane = None
        if event.agent_id:
            lane = places.setdefault(event.agent_id, len(spans))
            if lane == len(spans):
                spans.append((event.message_id, event.message_id, 0))
            spans[lane] = (spans[lane][0], event.message_id, spans[lane][2] + 1)
        if isinstance(event, ev.AgentCreated | ev.AgentMoved):
            fold(state, event)  # only who is primary matters here
        turn += _begins_turn(state, event)
        marks.append(_mark(event, turn, lane, links.names))
    lanes = [
        TimelineLane(
            agent_id=agent, name=links.names.of(agent), first=first, last=last, events=count
        )
        for agent, (first, last, count) in zip(places, spans, strict=True)
    ]
    return Timeline(lanes=lanes, marks=marks)


def _begins_turn(state: SessionState, event: ev.Event) -> bool:
    return (
        isinstance(event, ev.TranscriptEntry)
        and event.role == "user"
        and event.substance is None
        and event.cause is None
        and event.agent_id == state.primary
    )


def _mark(event: ev.Event, turn: int, lane: int | None, names: AgentNames) -> TimelineEvent:
    return TimelineEvent(
        message_id=event.message_id,
        time=event.time,
        turn=turn,
        lane=lane,
        event_type=ev.event_type(event),
        role=event.role if isinstance(event, ev.TranscriptEntry) else None,
        text=happened(event, names),
    )
