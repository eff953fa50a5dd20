"""Interrupted structural calls: how far the discussion of a call that is given up had come."""

from __future__ import annotations

from harken.agents import texts
from harken.agents.agent import Agent
from harken.agents.tree.discussions.rounds import find_round, format_progress, participant_name
from harken.session.folds.discussions import find_end
from harken.session.state import OpenCall


def describe_interrupted_call(agent: Agent, call: OpenCall) -> str:
    """Return who had answered in the discussion of an interrupted call; empty for other calls."""
    current = find_round(agent, call.reference)
    if current is None:
        return ""
    if call.name == "task":
        template = texts.TASK_UNANSWERED if find_end(current) is None else texts.TASK_ANSWERED
        return template.format(participant_name(agent, current.opening.speakers[0]))
    return format_progress(agent, current)
