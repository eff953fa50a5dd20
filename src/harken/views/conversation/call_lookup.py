"""Find the message of a tool call that another index knows by the id of the call."""

from __future__ import annotations

from harken.core.events import ContextCommitted, TranscriptEntry
from harken.core.ids import MessageId
from harken.views.links import Links


def find_call(links: Links, call_id: str, ctx: str = "") -> MessageId | None:
    """Return the message with a tool call. Return None if the log has none with this id.

    Ids of some providers repeat within a session. `ctx`: the commit that contains the call, by
    which the right one is known: the last one of the agent before the commit.
    """
    messages: list[TranscriptEntry] = []
    for event in links.events:
        if isinstance(event, TranscriptEntry) and _has_call(event, call_id):
            messages.append(event)
        elif isinstance(event, ContextCommitted) and event.ctx == ctx:
            of_agent = [message for message in messages if message.agent_id == event.agent_id]
            if of_agent:
                return links.original(of_agent[-1])
    return links.original(messages[0]) if messages else None


def _has_call(entry: TranscriptEntry, call_id: str) -> bool:
    return entry.role == "assistant" and any(call.id == call_id for call in entry.tool_calls or ())
