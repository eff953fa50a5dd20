"""`clone`: copy a subagent with its memory.

The copy references the same messages in the log; from its birth on, the two diverge. It is watched
by copies of the hooks of the agent that it works for, and of the guards of the original, and is
told that it is a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harken.agents import texts
from harken.agents.agent import Agent, check_free
from harken.agents.budget import check_birth
from harken.agents.call_result import answer_call
from harken.agents.checkpoints import checkpoint_if_due
from harken.agents.open_calls import finish_open_calls
from harken.agents.rights import allowed_servers, allowed_tools
from harken.agents.tree.action_result import ActionResult
from harken.agents.tree.actions import (
    check_name,
    create_hook_copies,
    get_subagents,
    install_hooks,
    log_text_piece,
    set_interlocutors,
)
from harken.agents.tree.agent_snapshot import (
    AgentSnapshot,
    create_from_snapshot,
    log_snapshot_birth,
    snapshot_agent,
)
from harken.core import structs
from harken.core.events import Reference
from harken.world.result import InvalidArguments


async def run_clone(
    agent: Agent, call: Reference, arguments: Mapping[str, Any]
) -> ActionResult[Agent]:
    """Copy a subagent, for the caller or for another subagent of it.

    Raises InvalidArguments, BudgetExceeded, AgentBusy.
    """
    (original,) = get_subagents(agent, [arguments["name"]])
    above = agent if arguments["into"] is None else get_subagents(agent, [arguments["into"]])[0]
    name = arguments["as_name"] or original.name
    check_free(original)
    if above is not agent:
        await finish_open_calls(above)
        (above,) = get_subagents(agent, [arguments["into"]])  # its hook may have taken its place
        check_free(above)
    if not original._can_restore:
        raise InvalidArguments(
            f"{original.name} cannot be copied: agents of its class cannot be restored"
        )
    check_name(above, name)
    check_birth(agent.session.state, above.agent_id)
    plan = _plan_copy(above, original, name)
    copy = create_from_snapshot(plan, above.session, above.runtime)
    hooks = _copy_hooks(above, original, copy)
    checkpoint_if_due(above, "spawn")
    notice = texts.COPIED.format(original=original.name, name=name, above=above.name)
    with agent.session.group():
        log_snapshot_birth(copy, plan, [above.state.birth, call], name, "subagent")
        install_hooks(hooks, copy)
        agent.inform(copy, log_text_piece(agent, call, notice))
        set_interlocutors(above, call, [copy.agent_id], [])
        if above is not agent:
            parent_notice = texts.COPY_RECEIVED.format(name=name, original=original.name)
            agent.inform(above, log_text_piece(agent, call, parent_notice))
        text = texts.CLONE_RESULT.format(original.name, name, above.name)
        return answer_call(agent, call, ActionResult(text, value=copy))


def _plan_copy(above: Agent, original: Agent, name: str) -> AgentSnapshot:
    """Return the snapshot that the copy is made from, limited to the rights of its parent."""
    plan = snapshot_agent(original)
    limits = plan.spec.limits
    limits = structs.replace(
        limits,
        mcp=_select_servers(above, original, limits.mcp or ()) or None,
        tools=_limit_tools(above, limits.tools),
    )
    spec = structs.replace(plan.spec.without_role(), limits=limits)
    return structs.replace(plan, spec=spec, name=name)


def _copy_hooks(above: Agent, original: Agent, copy: Agent) -> list[tuple[str, Agent]]:
    """Return the hooks of a copy: those of its parent, and the guards of the original.

    So the copy may do no more than the original.
    """
    hooks = create_hook_copies(copy, above)
    originals = [id_ for _, hook in hooks if (id_ := hook._birth_spec.original) is not None]
    return hooks + create_hook_copies(copy, original, own=False, below=False, there=originals)


def _select_servers(above: Agent, original: Agent, servers: Sequence[str]) -> list[str]:
    """Return the MCP servers of a copy: for another parent, only those that this parent has."""
    if above.agent_id == original.state.parent:
        return [*servers]
    parent_servers = allowed_servers(above)
    return [name for name in servers if name in parent_servers]


def _limit_tools(above: Agent, tools: list[str] | None) -> list[str] | None:
    """Return the tools of a copy: those of the original, limited to those of its parent."""
    limit = allowed_tools(above)
    if tools is None or limit is None:
        return limit if tools is None else tools
    return [name for name in tools if name in limit]
