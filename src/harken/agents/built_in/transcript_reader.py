"""What hooks read of the agents that they watch, in a time that does not grow with the history.

A transcript is read from its end, and no further than a question needs. What is read there is the
same after a resume: a hook keeps as its state only what it has said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harken.agents.agent import Agent
from harken.agents.budget import upwards
from harken.agents.hooks.hook import Hook
from harken.core.events import Reference, TranscriptEntry
from harken.core.ids import reference_message_id, reference_number
from harken.session.state import AgentState

MAKING = frozenset({"task", "clone", "restore"})
"""The actions that bring a subagent into being."""


def newest_first(agent: Agent) -> Iterator[TranscriptEntry]:
    """Yield what is in an agent's transcript, newest first."""
    return reversed(agent.state.transcript or [])


def entry_at(agent: Agent, subject: Reference) -> TranscriptEntry | None:
    """Return the message that a question is about; None where it is none of this agent's."""
    wanted = reference_message_id(subject)
    at = reference_number(wanted)
    for entry in newest_first(agent):
        if entry.message_id == wanted:
            return entry
        if reference_number(entry.message_id) < at:
            return None
    return None


def requests_of(agent: Agent) -> int:
    """Return how often an agent has asked its model; it only grows."""
    return agent.state.usage.model_calls


def top_of(hook: Hook) -> Agent | None:
    """Return the highest agent above that has the same hook: there the limits begin to count.

    A copy for a subagent has the name and the kind of what it was copied from.
    """
    watched = hook.watched
    if watched is None:
        return None
    top = watched.agent_id
    for above in upwards(hook.session.state, top):
        if above.id != top and not _has_same(hook, above):
            break
        top = above.id
    return hook.agent_by_id(top)


def _has_same(hook: Hook, agent: AgentState) -> bool:
    there = (hook.session.agents[one] for one in agent.hooks)
    return any(one.name == hook.name and one.spec.get("kind") == hook.kind for one in there)


def saved_dict(saved: Any, name: str) -> dict[str, Any]:
    """Return a table in a saved state; an empty one where the log has something else."""
    table = saved.get(name) if isinstance(saved, dict) else None
    return dict(table) if isinstance(table, dict) else {}


def saved_number(saved: Any, name: str) -> int:
    """Return a number in a saved state; 0 where the log has something else."""
    number = saved.get(name) if isinstance(saved, dict) else None
    return number if isinstance(number, int) else 0
