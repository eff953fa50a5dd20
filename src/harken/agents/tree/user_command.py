"""Structural actions that the user runs with a command.

A command is logged as a message of the agent `user` before it has an effect, and is the cause of
all that follows from it. It runs at once and bypasses the hooks. Its result is logged as input of
the user. The agent is told of it, too, before its next request: otherwise it would not know of its
new subagents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from harken.agents import texts
from harken.agents.agent import Agent, check_free, get_agent
from harken.agents.checkpoints import checkpoint_if_due
from harken.agents.open_calls import finish_open_calls, has_open_calls
from harken.agents.tree.actions import end_subtree
from harken.core.arguments import format_existing
from harken.core.events import Reference, TranscriptEntry
from harken.core.ids import USER, AgentId
from harken.core.messages import text_of
from harken.errors import ModelError
from harken.world.result import InvalidArguments, ToolResult, run_catching

UserAction: TypeAlias = Callable[[Agent, Reference], Awaitable[ToolResult]]
"""A command on an agent; the reference is the logged command, for causes."""


async def run_user_command(agent: Agent, command: str, doing: UserAction) -> ToolResult:
    """Run a user's command, `command` as typed. An error in it becomes its result.

    Raises AgentBusy in the middle of a turn, before anything is logged; ModelError if an agent that
    was asked fails.
    """
    check_free(agent)
    await finish_open_calls(agent)
    primary = agent.session.state.primary
    command_entry = TranscriptEntry(agent_id=USER, role="assistant", content=command)
    cause = agent.session.append(command_entry)
    try:
        result = await run_catching(command.split(maxsplit=1)[0], doing(agent, cause))
    except (asyncio.CancelledError, ModelError) as error:
        outcome = texts.USER_ACTION_ABORTED.format(str(error) or texts.USER_STOPPED)
        _notify_agent(agent, cause, command, outcome)
        raise
    result_entry = TranscriptEntry(
        agent_id=USER,
        role="user",
        content=result.content,
        substance=result.substance,
        cause=cause if result.substance is None else None,
        is_error=result.is_error,
    )
    agent.session.append(result_entry)
    if not result.is_error:
        _notify_agent(agent, cause, command, text_of(result.content))
        _notify_new_primary(agent, cause, command, primary)
    agent.session.sync()
    return result


def _notify_agent(agent: Agent, cause: Reference, command: str, outcome: str) -> None:
    """Tell the agent of a command and its result; it owes no answer to that."""
    if agent.state.place == "gone":
        return
    text = texts.USER_ACTION.format(command, outcome)
    entry = TranscriptEntry(
        agent_id=agent.agent_id, role="user", content=text, cause=cause, purpose="told"
    )
    agent.session.append(entry)


def _notify_new_primary(
    agent: Agent, cause: Reference, command: str, previous: AgentId | None
) -> None:
    """Tell the new primary agent, unless it is the agent that acted."""
    primary = agent.session.state.primary
    if primary is None or previous is None or primary in (previous, agent.agent_id):
        return
    taker = get_agent(agent, primary)
    if not has_open_calls(taker):  # else it was told something that it has to answer
        outcome = texts.NEW_PRIMARY.format(get_agent(agent, previous).name)
        _notify_agent(taker, cause, command, outcome)


async def add_system_message(agent: Agent, command: Reference, text: str) -> ToolResult:
    """Add a system message, which the agent reads from its next turn on."""
    entry = TranscriptEntry(agent_id=agent.agent_id, role="system", content=text, cause=command)
    agent.session.append(entry)
    return ToolResult(texts.SYSTEM_ADDED)


async def remove_hook(agent: Agent, command: Reference, name: str) -> ToolResult:
    """Remove a hook from an agent, with all agents below it. Raises InvalidArguments.

    Only the user can do that: a watched agent has no authority over its hooks.
    """
    hooks = {hook.name: hook for hook in agent.hooks}
    if name not in hooks:
        existing = format_existing(hooks, "hooks")
        raise InvalidArguments(f"{agent.name} has no hook {name!r}{existing}")
    check_free(hooks[name])
    checkpoint_if_due(hooks[name], "session_end")
    end_subtree(agent.session, hooks[name].agent_id, command)
    return ToolResult(texts.HOOK_REMOVED.format(name))
