"""MCP servers that an agent has by name: given by its template, or by the agent that made it.

The birth records the names (`mcp` in its spec). A server that a template itself describes is known
to the world from the first use on; after a resume the templates are asked for it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harken.agents.actor import Actor
from harken.agents.templates import Template
from harken.errors import ConfigError
from harken.world.result import BadArguments


def servers_for(
    agent: Actor, wanted: Sequence[str] | None, template: Template | None
) -> dict[str, Any]:
    """Return what the spec of a new agent says of its servers; nothing where it has none.

    It has those of its template. Where neither the template nor `wanted` says which tools it may
    use, it has those of its maker, too, as it has all its tools. Raises BadArguments where the
    template names one that is not here.
    """
    inherits = wanted is None and (template is None or template.tools is None)
    names = [*(agent.servers if inherits else ()), *(template.mcp if template is not None else ())]
    if template is not None and template.mcp:
        _add(agent, template)
    return {"mcp": list(dict.fromkeys(names))} if names else {}


def _add(agent: Actor, template: Template) -> None:
    """Let the world know of the servers that a template describes. Raises BadArguments."""
    connections = agent.runtime.world.mcp
    if connections is None:
        raise BadArguments(f"template:{template.name} names MCP servers, and there are none here")
    for server in template.servers:
        try:
            connections.add(server)
        except ConfigError as error:
            raise BadArguments(f"template:{template.name} cannot be used: {error}") from None
    for name in template.mcp:
        if name not in connections.servers:
            there = ", ".join(connections.servers) or "none"
            raise BadArguments(
                f"template:{template.name} names an MCP server {name!r} that is not here; "
                f"there is: {there}"
            )


async def reach(agent: Actor) -> None:
    """Wait until the tools are there that come from servers, before a model is told of them."""
    connections = agent.runtime.world.mcp
    if connections is not None and any(one not in connections.servers for one in agent.servers):
        described = [one for template in agent.runtime.templates for one in template.servers]
        for server in described:
            if server.name in agent.servers and server.name not in connections.servers:
                connections.add(server)
    await agent.runtime.world.ready(agent.servers)
