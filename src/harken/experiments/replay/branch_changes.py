"""The first own events of a branch: its changes, and its first model call.

No agent makes the changes, so a replay appends them where the copied events end. Another process
went on from there, maybe with other tools, so a replay is resumed there, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harken.core import events as ev
from harken.core.ids import MessageId, Origin


class BranchStart(msgspec.Struct, frozen=True):
    """The begin of the own events of a branch. Both are empty if a session is no branch."""

    changes: frozenset[MessageId] = frozenset()
    """The events that change it. An edited message is not among them: a replay gets it as it gets
    any answer of a model or result of a tool."""
    first_request: MessageId | None = None
    """Its first own model call."""

    @classmethod
    def of(cls, events: Iterable[ev.Event]) -> BranchStart:
        """Return the start of the own events of a session."""
        changes: set[MessageId] = set()
        entries: set[MessageId] = set()
        origin: Origin | None = None
        for event in events:
            if isinstance(event, ev.SessionStarted):
                origin = event.origin
            if origin is None:
                break
            if origin.has_event(event.message_id):
                continue
            match event:
                case ev.LlmRequest():
                    return cls(frozenset(changes), event.message_id)
                case ev.TranscriptEntry():
                    entries.add(event.message_id)
                case ev.TranscriptEdited(summary=None):
                    changes.add(event.message_id)
                    ids = {id_ for segment in event.segments for id_ in segment.entries or ()}
                    changes |= ids & entries
                case ev.AgentConfigured() | ev.AgentMoved(cause=None, place="gone"):
                    changes.add(event.message_id)
                case _:
                    pass
        return cls(frozenset(changes))

    def is_begun_by(self, event: ev.Event) -> bool:
        """Whether another process logged this event."""
        return event.message_id in self.changes or event.message_id == self.first_request
