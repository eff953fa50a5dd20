"""The hooks and MCP servers of a template, set up for an agent before its birth.

An agent has MCP servers by name: from its template, or from the agent that created it. The birth
records the names (`mcp` in its spec). A server that the template itself describes is added to the
world at its first use; after a resume it is read from the templates again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from harken.agents.agent import Agent
from harken.agents.command_hooks.config import read_hooks
from harken.agents.command_hooks.hook import CommandHook, Commands, allow_commands
from harken.agents.hooks.registry import get_hook_class
from harken.agents.rights import allowed_servers
from harken.agents.templates.template import Template
from harken.agents.tool_agent import ToolAgent
from harken.core.arguments import format_existing
from harken.errors import ConfigError, HarkenError
from harken.world.result import InvalidArguments


def servers_for(
    agent: Agent, tool_names: Sequence[str] | None, template: Template | None
) -> list[str] | None:
    """Return the names of the servers of a new agent, or None without servers.

    It has the servers of its template. If neither the template nor `tool_names` limits its tools,
    it also has those of the agent that creates it. Raises InvalidArguments if the template names
    an unknown server.
    """
    inherits = tool_names is None and (template is None or template.tools is None)
    inherited = allowed_servers(agent) if inherits else ()
    names = [*inherited, *(template.mcp if template is not None else ())]
    if template is not None and template.mcp:
        _add_servers(agent, template)
    return list(dict.fromkeys(names)) or None


def _add_servers(agent: Agent, template: Template) -> None:
    """Add the servers that a template describes to the world. Raises InvalidArguments."""
    connections = agent.runtime.world.mcp
    if connections is None:
        raise InvalidArguments(
            f"template:{template.name} needs MCP servers, but this world supports none"
        )
    for server in template.servers:
        try:
            connections.add(server)
        except ConfigError as error:
            raise InvalidArguments(f"template:{template.name} cannot be used: {error}") from None
    for name in template.mcp:
        if name not in connections.servers:
            raise InvalidArguments(
                f"template:{template.name}: MCP server {name!r} not found"
                + format_existing(connections.servers, "servers")
            )


async def wait_for_servers(agent: ToolAgent) -> None:
    """Wait until the tools of an agent's servers are available, before a request lists them."""
    connections = agent.runtime.world.mcp
    if connections is not None and any(name not in connections.servers for name in agent._servers):
        servers = [
            name for template in agent.runtime.library.templates for name in template.servers
        ]
        for server in servers:
            if server.name in agent._servers and server.name not in connections.servers:
                connections.add(server)
    await agent.runtime.world.wait_ready(agent._servers)


def create_template_hooks(
    template: Template | None, watched: Agent, existing_names: Collection[str]
) -> list[tuple[str, Agent]]:
    """Create the hooks of a template, with their names, except those in `existing_names`.

    Raises InvalidArguments if a hook cannot be created: a guard is never omitted silently.
    """
    if template is None:
        return []
    try:
        hooks = [
            (name, make_hook(name, watched))
            for name in template.hooks
            if name not in existing_names
        ]
        if template.commands is not None:
            hooks.append((f"{template.name}-hooks", _create_command_hook(template, watched)))
    except HarkenError as error:
        raise InvalidArguments(f"template:{template.name} cannot be used: {error}") from None
    return hooks


def make_hook(name: str, watched: Agent) -> Agent:
    """Create a hook by its name, to be installed. Raises NameNotFound, ConfigError."""
    registry = watched.runtime.library.hooks
    if registry is not None:
        hook: Agent = registry.create(name, watched)
        return hook
    return get_hook_class(name, watched.runtime)(watched.session, runtime=watched.runtime)


def _create_command_hook(template: Template, watched: Agent) -> CommandHook:
    is_root = watched.agent_id == watched.session.state.root
    hooks = read_hooks(template.commands, str(template.path), of_subagent=not is_root)
    for note in hooks.notes:
        watched.runtime.notify(note)
    options = allow_commands(watched.runtime, Commands(hooks.entries))
    return CommandHook(watched.session, runtime=watched.runtime, options=options)
