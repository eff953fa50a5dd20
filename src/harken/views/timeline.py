"""A timeline: all events in order, with agents as lanes.

A turn begins when the user says something to the primary agent; what comes before the first is
turn 0. Each mark says in one text what happened; long texts are whole, the reader cuts them.
"""

from __future__ import annotations

from collections.abc import Iterable

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.record import SparseRecord
from harken.session.fold import fold
from harken.session.state import SessionState
from harken.views.happened import happened
from harken.views.links import Links
from harken.views.names import Names


class Lane(SparseRecord, frozen=True, kw_only=True):
    """One agent, or the user."""

    agent_id: AgentId
    name: str | None
    first: MessageId
    """The first event about it."""
    last: MessageId
    events: int


class Mark(SparseRecord, frozen=True, kw_only=True):
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

    lanes: list[Lane]
    marks: list[Mark]


def timeline(events: Iterable[ev.Event]) -> Timeline:
    """Lay events out in time."""
    links = Links.of(events)
    places: dict[AgentId, int] = {}
    spans: list[tuple[MessageId, MessageId, int]] = []
    marks: list[Mark] = []
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
        Lane(agent_id=agent, name=links.names.of(agent), first=first, last=last, events=count)
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


def _mark(event: ev.Event, turn: int, lane: int | None, names: Names) -> Mark:
    return Mark(
        message_id=event.message_id,
        time=event.time,
        turn=turn,
        lane=lane,
        event_type=ev.event_type(event),
        role=event.role if isinstance(event, ev.TranscriptEntry) else None,
        text=happened(event, names),
    )
