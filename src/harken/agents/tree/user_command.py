"""What the user does with a command: the structural actions, from outside.

A command is logged as what the user said, an entry of the agent `user`, before it has an effect;
it is the cause of all that comes of it. It acts at once and passes by the hooks. What came of it
is what the user heard; the agent that it was done with is told, too, when it is asked next: a
subagent that it does not know of is of no use to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from harken.agents.agent import Agent
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.actions import end_subtree
from harken.core.events import Reference, TranscriptEntry
from harken.core.ids import USER, AgentId
from harken.core.messages import text_of
from harken.errors import ConfigError, ModelError
from harken.world.result import InvalidArguments, ToolResult, run_catching

TOLD = "[the user did this: {}] {}"
"""What the agent is told of a command, and of what came of it."""
BROKEN_OFF = "It was broken off: {}"
TAKEN_OVER = "You talk with the user from now on, in the place of {}."
"""What an agent is told whom the user let take the place of another."""
Doing: TypeAlias = Callable[[ToolAgent, Reference], Awaitable[ToolResult]]
"""Does what the user wants with an agent; the reference is the command, for causes."""


async def obey(agent: Agent, command: str, doing: Doing) -> ToolResult:
    """Do what the user wants, `command` as it was typed; what goes wrong in it is its result.

    Raises AgentBusy in the middle of a turn and ConfigError for an agent that has no subagents,
    where nothing is logged; ModelError where an agent that was asked fails.
    """
    agent.check_free()
    if not isinstance(agent, ToolAgent):
        raise ConfigError(f"{agent.name} has neither subagents nor hooks: code decides for it")
    await agent.finish_calls()
    primary = agent.session.state.primary
    done = TranscriptEntry(agent_id=USER, role="assistant", content=command)
    cause = agent.session.append(done)
    try:
        result = await run_catching(command.split(maxsplit=1)[0], doing(agent, cause))
    except (asyncio.CancelledError, ModelError) as error:
        _tell(agent, cause, command, BROKEN_OFF.format(str(error) or "the user stopped it"))
        raise
    heard = TranscriptEntry(
        agent_id=USER,
        role="user",
        content=result.content,
        substance=result.substance,
        cause=cause if result.substance is None else None,
        is_error=result.is_error,
    )
    agent.session.append(heard)
    if not result.is_error:
        _tell(agent, cause, command, text_of(result.content))
        _tell_who_took_over(agent, cause, command, primary)
    agent.session.sync()
    return result


def _tell(agent: Agent, cause: Reference, command: str, came: str) -> None:
    """Let the agent know; it owes no answer to it."""
    if agent.state.place == "gone":
        return
    text = TOLD.format(command, came)
    entry = TranscriptEntry(agent_id=agent.agent_id, role="user", content=text, cause=cause)
    agent.session.append(entry)


def _tell_who_took_over(
    agent: Agent, cause: Reference, command: str, before: AgentId | None
) -> None:
    """Let the agent that the user talks with now know; whoever acted has been told already."""
    now = agent.session.state.primary
    if now is None or before is None or now in (before, agent.agent_id):
        return
    taker = agent.agent_by_id(now)
    if not taker.has_open_calls:  # else it was told something that it has to answer
        _tell(taker, cause, command, TAKEN_OVER.format(agent.agent_by_id(before).name))


async def instruct(agent: ToolAgent, command: Reference, text: str) -> ToolResult:
    """Tell an agent something in the words of the system, which it reads from its next turn on."""
    told = TranscriptEntry(agent_id=agent.agent_id, role="system", content=text, cause=command)
    agent.session.append(told)
    return ToolResult("The system says so from now on.")


async def dismiss(agent: ToolAgent, command: Reference, name: str) -> ToolResult:
    """Take a hook away from an agent, with everybody below it. Raises InvalidArguments.

    Only the user can: a watched agent has no authority over its hooks.
    """
    hooks = {hook.name: hook for hook in agent.hooks}
    if name not in hooks:
        there = ", ".join(hooks) or "none"
        raise InvalidArguments(f"no hook {name!r} watches {agent.name}; there is: {there}")
    hooks[name].check_free()
    hooks[name].checkpoint_if_due("session_end")
    end_subtree(agent.session, hooks[name].agent_id, command)
    return ToolResult(f"Removed hook: {name}")
