"""`MemorySession`: a session without a file, for contexts that are not logged but derived.

Its events are numbered and folded like those of a log, and an `AgentRecorder` cannot tell the
difference. They are not checked: the writer of the events keeps the invariants of a log
(`harken.session.invariants`), so that each of them could be written.

Source: docs/design/015-one-writer.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from harken.core.events import KnownEvent
from harken.core.ids import AgentId, MessageId, message_id
from harken.core.messages import ChatMessage
from harken.errors import NameNotFound
from harken.session.fold import current_messages, fold
from harken.session.state import AgentState, SessionState


class WritableSession(Protocol):
    """The members of a session that an `AgentRecorder` uses."""

    @property
    def state(self) -> SessionState:
        """The state after the events so far."""

    @property
    def agents(self) -> Mapping[AgentId, AgentState]:
        """All agents of the session, by id. Their transcripts may be evicted."""

    def append(self, event: KnownEvent) -> MessageId:
        """Append an event, with a new id and time. Return the id."""

    def agent(self, agent_id: str) -> AgentState:
        """Return an agent with its transcript in memory. Raises NameNotFound."""

    def context(self, agent_id: str) -> Sequence[ChatMessage]:
        """Return the agent's current context, oldest message first. Raises NameNotFound."""


class MemorySession:
    """A session in memory. See `WritableSession`."""

    def __init__(self) -> None:
        self.state = SessionState()
        self.events: list[KnownEvent] = []
        """The events so far."""
        self.time = ""
        """The time of the next events, RFC 3339."""

    @property
    def agents(self) -> Mapping[AgentId, AgentState]:
        """All agents of the session, by id."""
        return self.state.agents

    def append(self, event: KnownEvent) -> MessageId:
        """Append an event. It becomes part of the session, with its id and time."""
        event.message_id, event.time = message_id(len(self.events)), self.time
        self.events.append(event)
        fold(self.state, event)
        return event.message_id

    def agent(self, agent_id: str) -> AgentState:
        """Return an agent. Raises NameNotFound."""
        state = self.state.agents.get(AgentId(agent_id))
        if state is None:
            raise NameNotFound("agent", agent_id, self.state.agents)
        return state

    def context(self, agent_id: str) -> Sequence[ChatMessage]:
        """Return the agent's current context, oldest message first. Raises NameNotFound."""
        return current_messages(self.agent(agent_id))
