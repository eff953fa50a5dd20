"""Flow: where a message came from, and where its content went.

Both follow links only. What an agent says after it heard something is its own, new message: the
log does not claim a connection, and neither do these views; `context` tells what a model had
read when it spoke.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from harken.core.events import Event, PieceOfText, TranscriptEntry, event_type
from harken.core.ids import AgentId, MessageId
from harken.core.record import SparseRecord
from harken.views.filter import role_of
from harken.views.links import Link, LinkKind, Links
from harken.views.message_text import readable_text, same_words


class Hop(SparseRecord, frozen=True, kw_only=True):
    """One event that a content reached."""

    message_id: MessageId
    hops: int
    """How many links lie between it and the start: the fewest."""
    via: LinkKind
    """The last of these links."""
    source: MessageId
    """Where it came from: what this event points at."""
    agent_id: AgentId | None
    name: str | None
    event_type: str
    role: str | None = None
    content: str
    time: str
    differs: bool = False
    """Whether it represents its source in other words: a hook changed it on the way."""


def parents(events: Iterable[Event]) -> dict[MessageId, MessageId]:
    """Return the one parent of each message that has one, in order.

    It is the message's substance, else its first cause, else the message whose call it answers;
    of a birth, its cause. A parent may be missing from a log that is only a part.
    """
    links = Links.of(events)
    return {event.message_id: up[0].target for event in links if (up := links.up(event))}


def trace(events: Iterable[Event], message_id: str) -> list[Event]:
    """Return all that led to a message over links of every kind, oldest first, it last.

    Nothing for an unknown id.
    """
    links = Links.of(events)
    end = links.get(message_id)
    if end is None:
        return []
    found: dict[MessageId, Event] = {end.message_id: end}
    waiting = [end]
    while waiting:
        for link in links.up(waiting.pop()):
            event = links.get(link.target)
            if event is not None and event.message_id not in found:
                found[event.message_id] = event
                waiting.append(event)
    before = sorted(found.keys() - {end.message_id}, key=links.at.__getitem__)
    return [*(found[id_] for id_ in before), end]


def references(events: Iterable[Event], message_id: str) -> list[TranscriptEntry]:
    """Return the entries whose substance is this message, oldest first: who heard it directly."""
    return [e for e in events if isinstance(e, TranscriptEntry) and e.substance == message_id]


def spread(events: Iterable[Event], message_id: str) -> list[Hop]:
    """Return all that a message's content reached, over any number of hops, oldest first.

    A hop is a link: the message is heard (`substance`), makes a new one (`cause`: a compiled
    result, a piece, a hook's comment, a birth) or is a call that gets its result (`call`).
    """
    links = Links.of(events)
    found: dict[MessageId, Hop] = {}
    waiting = deque([(MessageId(message_id), 0)])
    while waiting:
        source, hops = waiting.popleft()
        for event in links.down(source):
            if event.message_id not in found and event.message_id != message_id:
                link = next(link for link in links.up(event) if link.target == source)
                found[event.message_id] = _hop(links, event, link, hops + 1)
                waiting.append((event.message_id, hops + 1))
    return sorted(found.values(), key=lambda hop: links.at[hop.message_id])


def hearers(events: Iterable[Event], message_id: str) -> list[Hop]:
    """Return who heard a message, over any number of hops: each agent's first entry that says so.

    Fewest hops first. An agent's own words and calls are nothing that it heard.
    """
    heard: dict[AgentId | None, Hop] = {}
    entries = (h for h in spread(events, message_id) if h.event_type == "transcript_entry")
    for hop in sorted(entries, key=lambda hop: hop.hops):
        if hop.role != "assistant" or hop.via == "substance":
            heard.setdefault(hop.agent_id, hop)
    return list(heard.values())


def _hop(links: Links, event: Event, link: Link, hops: int) -> Hop:
    content = event.content if isinstance(event, TranscriptEntry | PieceOfText) else None
    return Hop(
        message_id=event.message_id,
        hops=hops,
        via=link.kind,
        source=link.target,
        agent_id=event.agent_id,
        name=links.names.of(event.agent_id),
        event_type=event_type(event),
        role=role_of(event),
        content=readable_text(content),
        time=event.time,
        differs=link.kind == "substance" and _differs(links, event, link.target),
    )


def _differs(links: Links, event: Event, original: MessageId) -> bool:
    source = links.get(original)
    return (
        isinstance(source, TranscriptEntry | PieceOfText)
        and isinstance(event, TranscriptEntry | PieceOfText)
        and not same_words(source.content, event.content, links.names.ever(links.author(original)))
    )
