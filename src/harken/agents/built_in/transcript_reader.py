"""Read the transcripts of watched agents in time independent of their length.

A transcript is read from its end, and only as far as a question needs. The result is the same after
a resume, so a hook saves only its own reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harken.agents.agent import Agent, get_agent
from harken.agents.budget import iter_upwards
from harken.agents.hooks.hook import Hook
from harken.core.events import Reference, TranscriptEntry
from harken.core.ids import reference_message_id, reference_number
from harken.session.state import AgentState

MAKING = frozenset({"task", "clone", "restore"})
"""The actions that create a subagent."""


def newest_first(agent: Agent) -> Iterator[TranscriptEntry]:
    """Yield an agent's transcript, newest first."""
    return reversed(agent.state.transcript or [])


def entry_at(agent: Agent, subject: Reference) -> TranscriptEntry | None:
    """Return the message that a question is about, or None if it is not of this agent."""
    message_id = reference_message_id(subject)
    number = reference_number(message_id)
    for entry in newest_first(agent):
        if entry.message_id == message_id:
            return entry
        if entry.role != "tool" and reference_number(entry.message_id) < number:
            return None  # results are in the order of the calls, not of their ids
    return None


def requests_of(agent: Agent) -> int:
    """Return the number of an agent's model requests, which only grows."""
    return agent.state.usage.model_calls


def top_of(hook: Hook) -> Agent | None:
    """Return the highest agent above that has the same hook, from which limits count.

    A copy for a subagent has the name and the kind of its original.
    """
    watched = hook.watched
    if watched is None:
        return None
    top = watched.agent_id
    for above in iter_upwards(hook.session.state, top):
        if above.id != top and not _has_same(hook, above):
            break
        top = above.id
    return get_agent(hook, top)


def _has_same(hook: Hook, agent: AgentState) -> bool:
    hooks = (hook.session.agents[state] for state in agent.hooks)
    return any(state.name == hook.name and state.spec.kind == hook._kind for state in hooks)


def saved_dict(saved: Any, name: str) -> dict[str, Any]:
    """Return a table of a saved state, or an empty table if it has another type."""
    table = saved.get(name) if isinstance(saved, dict) else None
    return dict(table) if isinstance(table, dict) else {}


def saved_number(saved: Any, name: str) -> int:
    """Return a number of a saved state, or 0 if it has another type."""
    number = saved.get(name) if isinstance(saved, dict) else None
    return number if isinstance(number, int) else 0
