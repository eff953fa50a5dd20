"""The hooks that a template says: made for an agent that is not born yet.

MCP servers that an agent has by name: given by its template, or by the agent that made it.

The birth records the names (`mcp` in its spec). A server that a template itself describes is known
to the world from the first use on; after a resume the templates are asked for it again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from harken.agents.agent import Agent
from harken.agents.command_hooks.config import read_hooks
from harken.agents.command_hooks.hook import CommandHook, Commands, let_run
from harken.agents.hooks.registry import hook_kind
from harken.agents.templates.template import Template
from harken.agents.tool_agent import ToolAgent
from harken.errors import ConfigError, HarkenError
from harken.world.result import InvalidArguments


def servers_for(
    agent: ToolAgent, wanted: Sequence[str] | None, template: Template | None
) -> dict[str, Any]:
    """Return what the spec of a new agent says of its servers; nothing where it has none.

    It has those of its template. Where neither the template nor `wanted` says which tools it may
    use, it has those of its maker, too, as it has all its tools. Raises InvalidArguments where the
    template names one that is not here.
    """
    inherits = wanted is None and (template is None or template.tools is None)
    names = [*(agent.servers if inherits else ()), *(template.mcp if template is not None else ())]
    if template is not None and template.mcp:
        _add(agent, template)
    return {"mcp": list(dict.fromkeys(names))} if names else {}


def _add(agent: ToolAgent, template: Template) -> None:
    """Let the world know of the servers that a template describes. Raises InvalidArguments."""
    connections = agent.runtime.world.mcp
    if connections is None:
        raise InvalidArguments(
            f"template:{template.name} names MCP servers, and there are none here"
        )
    for server in template.servers:
        try:
            connections.add(server)
        except ConfigError as error:
            raise InvalidArguments(f"template:{template.name} cannot be used: {error}") from None
    for name in template.mcp:
        if name not in connections.servers:
            there = ", ".join(connections.servers) or "none"
            raise InvalidArguments(
                f"template:{template.name} names an MCP server {name!r} that is not here; "
                f"there is: {there}"
            )


async def reach(agent: ToolAgent) -> None:
    """Wait until the tools are there that come from servers, before a model is told of them."""
    connections = agent.runtime.world.mcp
    if connections is not None and any(one not in connections.servers for one in agent.servers):
        described = [one for template in agent.runtime.templates for one in template.servers]
        for server in described:
            if server.name in agent.servers and server.name not in connections.servers:
                connections.add(server)
    await agent.runtime.world.wait_ready(agent.servers)


def hooks_of(
    template: Template | None, watched: Agent, there: Collection[str]
) -> list[tuple[str, Agent]]:
    """Return the hooks that a template says, with their names; none that is `there` already.

    Raises InvalidArguments where one cannot be had: a guard is never left out in silence.
    """
    if template is None:
        return []
    try:
        found = [(name, make_hook(name, watched)) for name in template.hooks if name not in there]
        if template.commands is not None:
            found.append((f"{template.name}-hooks", _commands(template, watched)))
    except HarkenError as error:
        raise InvalidArguments(f"template:{template.name} cannot be used: {error}") from None
    return found


def make_hook(name: str, watched: Agent) -> Agent:
    """Return a hook by its name, to be installed. Raises NameNotFound, ConfigError."""
    finder = watched.runtime.hooks
    if finder is not None:
        found: Agent = finder.make(name, watched)
        return found
    return hook_kind(name, watched.runtime)(watched.session, runtime=watched.runtime)


def _commands(template: Template, watched: Agent) -> CommandHook:
    is_first = watched.agent_id == watched.session.state.root
    hooks = read_hooks(template.commands, str(template.path), of_subagent=not is_first)
    for note in hooks.notes:
        watched.runtime.notify(note)
    options = let_run(watched.runtime, Commands(hooks.entries))
    return CommandHook(watched.session, runtime=watched.runtime, options=options)
