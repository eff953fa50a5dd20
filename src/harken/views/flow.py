"""Trace the origin of a message, and the spread of its content.

Both follow links only. An answer of an agent is a new message: the log does not claim a connection
with the messages that it has read. See `context` for those.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from harken.core.events import Event, PieceOfText, TranscriptEntry, event_type
from harken.core.ids import AgentId, MessageId
from harken.core.record import SparseRecord
from harken.views.filter import role_of
from harken.views.links import Link, LinkKind, Links
from harken.views.message_text import has_same_text, readable_text


class Hop(SparseRecord, frozen=True, kw_only=True):
    """An event that a content reached."""

    message_id: MessageId
    hops: int
    """Minimum number of links between it and the start."""
    via: LinkKind
    """Kind of the last link."""
    source: MessageId
    """Target of the last link: the message that this event refers to."""
    agent_id: AgentId | None
    name: str | None
    event_type: str
    role: str | None = None
    content: str
    time: str
    differs: bool = False
    """Whether its text differs from its source, because a hook changed it."""


def parents(events: Iterable[Event]) -> dict[MessageId, MessageId]:
    """Return the parent of each message that has one, in order.

    The parent is the message's substance, else its first cause, else the message whose call it
    answers; for a creation event, its cause. A parent may be missing in an incomplete log.
    """
    links = Links.of(events)
    return {
        event.message_id: event_links[0].target
        for event in links
        if (event_links := links.links_from(event))
    }


def trace(events: Iterable[Event], message_id: str) -> list[Event]:
    """Return all events that led to a message over any links, oldest first, and the message.

    Returns an empty list for an unknown id.
    """
    links = Links.of(events)
    end = links.get(message_id)
    if end is None:
        return []
    events_by_id: dict[MessageId, Event] = {end.message_id: end}
    pending = [end]
    while pending:
        for link in links.links_from(pending.pop()):
            event = links.get(link.target)
            if event is not None and event.message_id not in events_by_id:
                events_by_id[event.message_id] = event
                pending.append(event)
    ancestors = sorted(events_by_id.keys() - {end.message_id}, key=links.positions.__getitem__)
    return [*(events_by_id[id_] for id_ in ancestors), end]


def origins(events: Iterable[Event], message_id: str) -> list[Hop]:
    """Return all events that led to a message over any links, oldest first, as hops.

    `source` is the later event that refers to this one, and `via` the kind of that link.
    """
    links = Links.of(events)
    hops_by_id: dict[MessageId, Hop] = {}
    pending = deque([(MessageId(message_id), 0)])
    while pending:
        later_id, hops = pending.popleft()
        later = links.get(later_id)
        for link in [] if later is None else links.links_from(later):
            event = links.get(link.target)
            if event is None or link.target in hops_by_id or link.target == message_id:
                continue
            hops_by_id[link.target] = _build_hop(
                links, event, Link(link.kind, later_id, link.reference), hops + 1
            )
            pending.append((link.target, hops + 1))
    return sorted(hops_by_id.values(), key=lambda hop: links.positions[hop.message_id])


def references(events: Iterable[Event], message_id: str) -> list[TranscriptEntry]:
    """Return the entries whose substance is this message, oldest first: its direct recipients."""
    return [
        event
        for event in events
        if isinstance(event, TranscriptEntry) and event.substance == message_id
    ]


def spread(events: Iterable[Event], message_id: str) -> list[Hop]:
    """Return all events that a message's content reached over any number of links, oldest first.

    Links are: an entry represents the message (`substance`), the message causes a new one (`cause`:
    a compiled result, a piece, a hook's comment, a creation event), or a call gets its result
    (`call`).
    """
    links = Links.of(events)
    hops_by_id: dict[MessageId, Hop] = {}
    pending = deque([(MessageId(message_id), 0)])
    while pending:
        source, hops = pending.popleft()
        for event in links.events_to(source):
            if event.message_id not in hops_by_id and event.message_id != message_id:
                link = next(link for link in links.links_from(event) if link.target == source)
                hops_by_id[event.message_id] = _build_hop(links, event, link, hops + 1)
                pending.append((event.message_id, hops + 1))
    return sorted(hops_by_id.values(), key=lambda hop: links.positions[hop.message_id])


def hearers(events: Iterable[Event], message_id: str) -> list[Hop]:
    """Return the recipients of a message: for each agent, its first entry that contains it.

    Ordered by number of hops. An agent's own utterances and calls are not received messages, and
    neither is the verdict of a hook on them, which has other content.
    """
    links = Links.of(events)
    first_hops: dict[AgentId | None, Hop] = {}
    entries = (
        entry_hop
        for entry_hop in spread(links, message_id)
        if entry_hop.event_type == "transcript_entry"
    )
    for hop in sorted(entries, key=lambda hop: hop.hops):
        if (hop.role != "assistant" or hop.via == "substance") and not _is_verdict(links, hop):
            first_hops.setdefault(hop.agent_id, hop)
    return list(first_hops.values())


def _is_verdict(links: Links, hop: Hop) -> bool:
    """Whether an entry has the verdict of a hook on the message that caused it."""
    entry = links.get(hop.message_id)
    return isinstance(entry, TranscriptEntry) and entry.purpose in ("comment", "returned")


def _build_hop(links: Links, event: Event, link: Link, hops: int) -> Hop:
    content = event.content if isinstance(event, TranscriptEntry | PieceOfText) else None
    return Hop(
        message_id=event.message_id,
        hops=hops,
        via=link.kind,
        source=link.target,
        agent_id=event.agent_id,
        name=links.names.latest_name(event.agent_id),
        event_type=event_type(event),
        role=role_of(event),
        content=readable_text(content),
        time=event.time,
        differs=link.kind == "substance" and _is_different(links, event, link.target),
    )


def _is_different(links: Links, event: Event, original: MessageId) -> bool:
    source = links.get(original)
    return (
        isinstance(source, TranscriptEntry | PieceOfText)
        and isinstance(event, TranscriptEntry | PieceOfText)
        and not has_same_text(
            source.content, event.content, links.names.all_names(links.author(original))
        )
    )
