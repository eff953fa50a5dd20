"""Interventions: where what was heard or done is not what an agent said or asked for.

A hook that rewrites leaves both in the log: the original, and a copy with its `substance` and
other content; or a call, and the `action_rewritten` that replaced it. The form in which others
hear an utterance (`[Jack]: text`) is no intervention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from harken.core.events import ActionRewritten, Event, PieceOfText, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.record import SparseRecord
from harken.views.links import Links
from harken.views.message_text import call_text, readable_text, same_words


class Intervention(SparseRecord, frozen=True, kw_only=True):
    """One text that reached one agent changed, or one call that was changed."""

    kind: Literal["message", "action"]
    message_id: MessageId
    """Of what was proposed."""
    agent_id: AgentId | None
    """Who proposed it."""
    name: str | None
    proposed: str
    became: str
    """What was heard, or run, instead."""
    became_id: MessageId
    heard_by: AgentId | None
    """Who heard it; for an action, whose it is."""
    heard_by_name: str | None
    time: str


def interventions(events: Iterable[Event]) -> list[Intervention]:
    """Return all interventions of a session, oldest first; a row for each agent that heard one."""
    links = Links.of(events)
    found: list[Intervention] = []
    for event in links:
        if isinstance(event, TranscriptEntry) and event.substance is not None:
            found.extend(_message(links, event))
        elif isinstance(event, ActionRewritten):
            found.extend(_action(links, event))
    return found


def _message(links: Links, event: TranscriptEntry) -> Iterator[Intervention]:
    """Yield a row where an entry does not say what its original says."""
    original = links.get(links.original(event))
    if isinstance(original, TranscriptEntry | PieceOfText):
        author = links.names.ever(links.author(original.message_id))
        if not same_words(original.content, event.content, author):
            texts = readable_text(original.content), readable_text(event.content)
            yield _row(links, original, event, texts)


def _action(links: Links, event: ActionRewritten) -> Iterator[Intervention]:
    """Yield the row of a rewritten call: tool and arguments, verbatim."""
    entry, call = links.get(links.target(event.call)), links.called(event.call)
    if isinstance(entry, TranscriptEntry):
        proposed = "" if call is None else call_text(call)
        yield _row(links, entry, event, (proposed, f"{event.tool} {event.arguments}"))


def _row(
    links: Links,
    original: TranscriptEntry | PieceOfText,
    event: TranscriptEntry | ActionRewritten,
    texts: tuple[str, str],
) -> Intervention:
    author = links.author(original.message_id)
    return Intervention(
        kind="action" if isinstance(event, ActionRewritten) else "message",
        message_id=original.message_id,
        agent_id=author,
        name=links.names.of(author),
        proposed=texts[0],
        became=texts[1],
        became_id=event.message_id,
        heard_by=event.agent_id,
        heard_by_name=links.names.of(event.agent_id),
        time=event.time,
    )
