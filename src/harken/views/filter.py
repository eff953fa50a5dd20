"""Filter events by type, agent, role and link; list utterances and transcripts.

A transcript has all entries of one agent's conversation, oldest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harken.core import events as ev
from harken.core.events import Event, TranscriptEntry, UnknownEvent
from harken.views.dialogs.answers import Answers
from harken.views.dialogs.hook_messages import HookMessages
from harken.views.links import LinkKind, Links


def transcript(events: Iterable[Event], agent_id: str) -> list[TranscriptEntry]:
    """Return an agent's entries. Empty for an unknown agent. Pieces of text are not entries.

    The transcript is complete, including entries that the agent's model no longer reads: see
    `context`. The messages of a hook of code are composed from its verdicts.
    """
    links = Links.of(events)
    own_events = (event for event in links if event.agent_id == agent_id)
    return [
        event
        for event in HookMessages(links).insert_into(own_events)
        if isinstance(event, TranscriptEntry)
    ]


def select(
    events: Iterable[Event],
    *,
    event_type: str | None = None,
    agent_id: str | None = None,
    role: str | None = None,
    link: str | None = None,
    by: LinkKind | None = None,
) -> Iterator[Event]:
    """Yield the events that match all given criteria, oldest first.

    `link` is the target of a link: a message (`msg_003`, including its calls) or one call
    (`msg_003.call_abc`). `by` is the kind of link; without `link` it matches all links of that
    kind.
    """
    links = None if link is None and by is None else Links.of(events)
    for event in events if links is None else links:
        if agent_id is not None and event.agent_id != agent_id:
            continue
        if event_type is not None and ev.event_type(event) != event_type:
            continue
        if role is not None and role_of(event) != role:
            continue
        if links is not None and not _has_link(links, event, link, by):
            continue
        yield event


def utterances(events: Iterable[Event]) -> Iterator[TranscriptEntry]:
    """Yield the utterances of agents: assistant entries with content and without calls.

    Drafts are left out: answers that hooks denied or have yet to judge. Others received the text of
    a rewritten answer as an entry with the answer as its substance.
    """
    events = [*events]
    answers = Answers.of(events)
    for event in events:
        if not isinstance(event, TranscriptEntry) or not event.is_utterance:
            continue
        if not answers.is_draft(event.message_id):
            yield event


def role_of(event: Event) -> str | None:
    """Return the role of an entry, or None for any other event."""
    if isinstance(event, UnknownEvent):
        role = event.data.get("role")
        return role if isinstance(role, str) else None
    return event.role if isinstance(event, TranscriptEntry) else None


def _has_link(links: Links, event: Event, link: str | None, by: LinkKind | None) -> bool:
    return any(
        (by is None or event_link.kind == by)
        and (link is None or link in (event_link.target, event_link.reference))
        for event_link in links.links_from(event)
    )
