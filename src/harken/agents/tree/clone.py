"""`clone` at work: a subagent's memory, passed on to somebody else.

The copy reads the same messages, which stand in the log once; from its birth on both go their own
ways. It is watched by copies of the hooks of whoever it works for, and of the guards of the
original, and is told that it is a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harken.agents.agent import Agent
from harken.agents.budget import check_birth
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.actions import (
    check_name,
    copies_for,
    end_subtree,
    get_subagents,
    install,
    log_text_piece,
    set_interlocutors,
)
from harken.agents.tree.agent_snapshot import OF_A_PLACE, bear, blueprint_of, made_from, without
from harken.core.events import Reference
from harken.world.result import InvalidArguments, ToolResult

COPIED = (
    "You are a copy of {original}, made just now, with all that it remembers. You are called "
    "{name} and work for {above}; you share nothing with {original} from now on, and have none of "
    "its subagents."
)
"""What a copy is told."""
GIVEN = (
    "You have a new subagent, {name}: a copy of {original} with all that it remembers. `discuss` "
    "with it where its experience helps."
)
"""What an agent is told that was given a copy."""


async def run_clone(agent: ToolAgent, call: Reference, arguments: Mapping[str, Any]) -> ToolResult:
    """Copy a subagent, for the caller or for another subagent of it.

    Raises InvalidArguments, BudgetExceeded, AgentBusy.
    """
    (original,) = get_subagents(agent, [arguments["name"]])
    above = agent if arguments["into"] is None else get_subagents(agent, [arguments["into"]])[0]
    name = arguments["as_name"] or original.name
    original.check_free()
    if above is not agent:
        await above.finish_calls()
        (above,) = get_subagents(agent, [arguments["into"]])  # its hook may have taken its place
        above.check_free()
    if not original.can_restore:
        raise InvalidArguments(f"{original.name} is one of its kind: it cannot be copied")
    check_name(above, name)
    check_birth(agent.session.state, above.agent_id)
    copy = _copied(above, original, name, call)
    told = COPIED.format(original=original.name, name=name, above=above.name)
    agent.inform(copy, log_text_piece(agent, call, told))
    set_interlocutors(above, call, [copy.agent_id], [])
    if above is not agent:
        given = GIVEN.format(name=name, original=original.name)
        agent.inform(above, log_text_piece(agent, call, given))
    return ToolResult(f"Cloned {original.name}: {name} is a subagent of {above.name}")


def _copied(above: Agent, original: Agent, name: str, call: Reference) -> Agent:
    plan = blueprint_of(original)
    spec = without(plan.spec, OF_A_PLACE | {"mcp"})
    servers = _servers(above, original, plan.spec.get("mcp") or ())
    spec |= {"mcp": servers} if servers else {}
    allowed = _allowed(above, spec.get("tools"))
    if allowed is not None:
        spec = {**spec, "tools": allowed}
    plan = msgspec.structs.replace(plan, spec=spec, name=name)
    copy = made_from(plan, above.session, above.runtime)
    hooks = copies_for(copy, above)
    there = {hook.born_with["original"] for _, hook in hooks}
    guards = copies_for(copy, original, own=False, below=False, there=there)
    hooks += guards  # what watches the original: a copy of it may do no more
    above.checkpoint_if_due("spawn")
    bear(copy, plan, [above.state.birth, call], name, "subagent")
    try:
        install(hooks, copy)
    except Exception:
        end_subtree(above.session, copy.agent_id, call)
        raise
    return copy


def _servers(above: Agent, original: Agent, own: Sequence[str]) -> list[str]:
    """Return the MCP servers of a copy: where it works for another, none that this one has not."""
    if above.agent_id == original.state.parent:
        return [*own]
    theirs = above.servers if isinstance(above, ToolAgent) else ()
    return [name for name in own if name in theirs]


def _allowed(above: Agent, own: list[str] | None) -> list[str] | None:
    """Return what a copy may use: what the original may, and no more than it works for."""
    limit = above.allowed if isinstance(above, ToolAgent) else None
    if own is None or limit is None:
        return limit if own is None else own
    return [one for one in own if one in limit]
