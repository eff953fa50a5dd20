"""The story: the events so far, and what they amount to. Its ids and times are its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from harken.core.events import KnownEvent
from harken.core.ids import MessageId, message_id
from harken.session.fold import fold
from harken.session.state import SessionState


@dataclass(slots=True)
class Story:
    """Events, as the log of a session would hold them, and the state after the last one."""

    events: list[KnownEvent] = field(default_factory=list)
    state: SessionState = field(default_factory=SessionState)

    def say(self, event: KnownEvent, time: str) -> MessageId:
        """Add an event; return its id."""
        event.message_id, event.time = message_id(len(self.events)), time
        self.events.append(event)
        fold(self.state, event)
        return event.message_id
