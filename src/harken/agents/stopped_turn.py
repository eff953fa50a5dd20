"""Stopped turns: turns that ended without an answer, and the text that others read in its place."""

from __future__ import annotations

from harken.agents import texts
from harken.agents.agent import Agent
from harken.core.events import Cause, TurnStop
from harken.core.logged_string import LoggedString
from harken.errors import StopReason


def log_stop(agent: Agent, reason: StopReason, text: str, cause: Cause = None) -> LoggedString:
    """Log that the turn of an agent has no answer. Return the text in place of it.

    cause: the verdict or the move that ended the turn.
    """
    entries = agent.state.transcript or ()
    last = entries[-1].message_id if entries else agent.state.birth
    with agent.session.group():
        piece = agent.session.log_piece_of_text(agent.agent_id, text, last)
        event = TurnStop(agent_id=agent.agent_id, reason=reason, piece=piece, cause=cause)
        agent.session.append(event)
    return LoggedString(text, piece, reason)


def log_moved_stop(agent: Agent) -> LoggedString:
    """Log that another agent answers in the place of an agent. Return the text that says so."""
    above = agent.state.parent
    name = agent.name if above is None else agent.session.agents[above].name or above
    return log_stop(agent, "moved", texts.TURN_MOVED.format(name), agent.state.placed_by)


def last_stop(agent: Agent) -> LoggedString | None:
    """Return the text in place of an answer if the last turn of an agent was stopped, or None."""
    stop = agent.state.stop
    return None if stop is None else LoggedString(stop.text, stop.event.piece, stop.event.reason)
