"""Turns that a trigger begins, so that no caller waits for the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

from harken.agents.agent import Agent


def may_begin_turn(agent: Agent) -> bool:
    """Whether an agent may begin a turn by itself now."""
    return agent._turn_lock.is_open


async def wait_for_turn(agent: Agent) -> None:
    """Wait until an agent may begin a turn by itself."""
    await agent._turn_lock.wait_until_open()


@asynccontextmanager
async def triggered_turn(agent: Agent) -> AsyncIterator[None]:
    """Mark the turn of an agent as begun by a trigger. A hook is not asked meanwhile."""
    is_hook = agent.state.place == "hook"
    async with agent._question_lock.current() if is_hook else nullcontext():
        with agent._turn_lock.triggered_turn():
            yield
