"""Filters: the raw events that fit (by type, agent, role, link), and the utterances.

A transcript: all that ever entered one agent's conversation, oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harken.core import events as ev
from harken.core.events import Event, TranscriptEntry, UnknownEvent
from harken.views.links import LinkKind, Links


def transcript(events: Iterable[Event], agent_id: str) -> list[TranscriptEntry]:
    """Return an agent's entries; none for an agent that never was. Pieces of text are no entries.

    This is the whole past, also where the agent's model no longer reads it: see `context`.
    """
    return [e for e in events if isinstance(e, TranscriptEntry) and e.agent_id == agent_id]


def select(
    events: Iterable[Event],
    *,
    event_type: str | None = None,
    agent_id: str | None = None,
    role: str | None = None,
    link: str | None = None,
    by: LinkKind | None = None,
) -> Iterator[Event]:
    """Yield the events that fit everything that is given, oldest first.

    `link` is what an event points at: a message (`msg_003`, any of its calls included) or one
    call (`msg_003.call_abc`). `by` is the kind of link; alone it asks for any link of that kind.
    """
    links = None if link is None and by is None else Links.of(events)
    for event in events if links is None else links:
        if agent_id is not None and event.agent_id != agent_id:
            continue
        if event_type is not None and ev.event_type(event) != event_type:
            continue
        if role is not None and role_of(event) != role:
            continue
        if links is not None and not _points(links, event, link, by):
            continue
        yield event


def utterances(events: Iterable[Event]) -> Iterator[TranscriptEntry]:
    """Yield what agents said: assistant entries with content and without calls."""
    for event in events:
        if isinstance(event, TranscriptEntry) and event.is_utterance:
            yield event


def role_of(event: Event) -> str | None:
    """Return the role of an entry; None for any other event."""
    if isinstance(event, UnknownEvent):
        role = event.data.get("role")
        return role if isinstance(role, str) else None
    return event.role if isinstance(event, TranscriptEntry) else None


def _points(links: Links, event: Event, link: str | None, by: LinkKind | None) -> bool:
    return any(
        (by is None or found.kind == by)
        and (link is None or link in (found.target, found.reference))
        for found in links.up(event)
    )
