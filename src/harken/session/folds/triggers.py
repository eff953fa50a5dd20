"""The fold of triggers: which are armed, and the last event of each."""

from __future__ import annotations

from harken.core import events as ev
from harken.core.ids import AgentId
from harken.session.state import AgentState, SessionState, TriggerState


def fold_armed(state: SessionState, event: ev.TriggerArmed) -> None:
    """Note a trigger of an agent. A reused name is a new trigger: it has no last event."""
    agent = state.agents.get(event.agent_id or AgentId(""))
    if agent is not None:
        agent.triggers[event.name] = event
        agent.trigger_states.pop(event.name, None)


def fold_disarmed(state: SessionState, event: ev.TriggerDisarmed) -> None:
    """Remove a trigger of an agent."""
    agent = state.agents.get(event.agent_id or AgentId(""))
    if agent is not None:
        agent.triggers.pop(event.name, None)
        agent.trigger_states.pop(event.name, None)


def note_trigger_event(agent: AgentState, name: str, piece: ev.PieceOfText) -> None:
    """Note an event of a trigger, which is undelivered until an entry has it as `substance`."""
    agent.trigger_states[name] = TriggerState(piece.message_id, piece.time, piece.seen)
    agent.undelivered[piece.message_id] = piece.content
