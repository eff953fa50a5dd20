"""Interventions: messages and calls that a hook changed.

After a rewrite, the log has both versions: the original, and an entry that names it as its
`substance` but has other content; or a call, and the `action_rewritten` event that replaced it. The
label that an utterance gets for its recipients (`[Jack]: text`) is not an intervention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from harken.core.events import ActionRewritten, Event, PieceOfText, TranscriptEntry
from harken.core.ids import AgentId, MessageId
from harken.core.record import SparseRecord
from harken.views.links import Links
from harken.views.message_diff import TextSpan
from harken.views.message_text import call_text, has_same_text, readable_text


class Intervention(SparseRecord, frozen=True, kw_only=True):
    """A message that an agent received in changed form, or a call that was changed."""

    kind: Literal["message", "action"]
    message_id: MessageId
    """Message id of the original."""
    agent_id: AgentId | None
    """The author of the original."""
    name: str | None
    proposed: str
    became: str
    """The text that was received, or the call that was run."""
    became_id: MessageId
    heard_by: AgentId | None
    """The agent that received the message, or whose call it is."""
    heard_by_name: str | None
    time: str
    spans: list[TextSpan] = msgspec.field(default_factory=list)
    """The changes, without the label of the author; empty until they are compared."""


def interventions(events: Iterable[Event]) -> list[Intervention]:
    """Return all interventions of a session, oldest first, one per recipient."""
    links = Links.of(events)
    rows: list[Intervention] = []
    for event in links:
        if isinstance(event, TranscriptEntry) and event.substance is not None:
            rows.extend(_iter_message_rows(links, event))
        elif isinstance(event, ActionRewritten):
            rows.extend(_iter_action_rows(links, event))
    return rows


def _iter_message_rows(links: Links, event: TranscriptEntry) -> Iterator[Intervention]:
    """Yield a row if an entry differs from its original."""
    original = links.get(links.original(event))
    if isinstance(original, TranscriptEntry | PieceOfText):
        author = links.names.all_names(links.author(original.message_id))
        if not has_same_text(original.content, event.content, author):
            texts = readable_text(original.content), readable_text(event.content)
            yield _build_row(links, original, event, texts)


def _iter_action_rows(links: Links, event: ActionRewritten) -> Iterator[Intervention]:
    """Yield the row of a rewritten call, with tool and arguments verbatim."""
    entry, call = links.get(links.target(event.call)), links.find_call(event.call)
    if isinstance(entry, TranscriptEntry):
        proposed = "" if call is None else call_text(call)
        yield _build_row(links, entry, event, (proposed, f"{event.tool} {event.arguments}"))


def _build_row(
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
        name=links.names.latest_name(author),
        proposed=texts[0],
        became=texts[1],
        became_id=event.message_id,
        heard_by=event.agent_id,
        heard_by_name=links.names.latest_name(event.agent_id),
        time=event.time,
    )
