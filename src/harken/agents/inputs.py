"""Unread inputs of an agent: messages of triggers, and answers of subagents that a trigger woke."""

from __future__ import annotations

from collections.abc import Sequence

from harken.agents.agent import Agent
from harken.core.events import TranscriptEntry


def has_news(agent: Agent) -> bool:
    """Whether there is unread input: from a trigger or from a subagent."""
    return bool(agent._unread_results or agent.session.agents[agent.agent_id].undelivered)


def hear_news(agent: Agent, most: int | None = None) -> list[TranscriptEntry]:
    """Append unread inputs to the transcript, at most `most` of them. Return the entries.

    Call it at the start of a turn or between two steps, where every call has its result.
    """
    trigger_entries = [
        TranscriptEntry(agent_id=agent.agent_id, role="user", content=text, substance=piece)
        for piece, text in agent.state.undelivered.items()
    ]
    entries = (trigger_entries + agent._unread_results)[:most]
    result_count = max(0, len(entries) - len(trigger_entries))
    agent._unread_results = agent._unread_results[result_count:]
    agent.session.append_all(entries)
    return entries


def unread_results(agent: Agent) -> Sequence[TranscriptEntry]:
    """Return the unread answers of subagents, oldest first."""
    return agent._unread_results


def set_unread_results(agent: Agent, entries: Sequence[TranscriptEntry]) -> None:
    """Set the unread answers of subagents."""
    agent._unread_results = [*entries]
