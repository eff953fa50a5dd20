"""Checkpoints: commits of an agent's context to the store of its runtime."""

from __future__ import annotations

from harken.agents.agent import Agent
from harken.core.arguments import check_arguments
from harken.core.commits import Checkpoint, CommitId


@check_arguments
def checkpoint_agent(
    agent: Agent, trigger: Checkpoint = "explicit", summary: str = ""
) -> CommitId | None:
    """Commit an agent's context now. Return its last commit, or None without a store.

    Raises StoreError; the session can go on, and nothing is lost.
    """
    checkpoints = agent.runtime.checkpoints
    if checkpoints is None:
        return None
    return checkpoints.commit_pending(agent.session, agent.agent_id, trigger, summary)


def checkpoint_if_due(agent: Agent, trigger: Checkpoint) -> None:
    """Take a checkpoint if the trigger requires one. A store error does not stop the agent."""
    runtime = agent.runtime
    if runtime.checkpoints is not None:
        runtime.checkpoints.checkpoint_if_due(
            agent.session, agent.agent_id, trigger, runtime.notify
        )
