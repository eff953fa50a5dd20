"""Interrupted structural calls: how far the discussion of a call that is given up had come."""

from __future__ import annotations

from collections.abc import Sequence

from harken.agents import texts
from harken.agents.agent import Agent
from harken.core.ids import AgentId
from harken.session.state import OpenCall


def describe_interrupted_call(agent: Agent, call: OpenCall) -> str:
    """Return who had answered in the discussion of an interrupted call; empty for other calls."""
    current = agent.session.state.rounds.get(call.reference)
    if current is None:
        return ""
    spoken = [event.speaker for event in current.spoken]
    silent = [speaker for speaker in current.speakers if speaker not in spoken]
    if call.name == "task":
        template = texts.TASK_UNANSWERED if silent else texts.TASK_ANSWERED
        return template.format(_join_names(agent, current.speakers))
    return texts.DISCUSS_PROGRESS.format(_join_names(agent, spoken), _join_names(agent, silent))


def _join_names(agent: Agent, ids: Sequence[AgentId]) -> str:
    agents = agent.session.agents
    return ", ".join(agents[id_].name or id_ for id_ in ids) or texts.NO_NAMES
