"""Configure the first agent of a session from a template, as completely as a subagent.

The guards and limits of a template apply, too: a part of the template that is not available is an
error and is never ignored.
"""

from __future__ import annotations

from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent
from harken.agents.template_setup import create_template_hooks, servers_for
from harken.agents.templates.template import Template
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.actions import allowed_for, install_hooks
from harken.core import structs
from harken.core.event_types.spec import NO_LIMITS, Limits, SpecChange
from harken.core.events import AgentConfigured
from harken.errors import ConfigError
from harken.world.mcp.names import server_in
from harken.world.result import InvalidArguments


def configure_from_template(template: Template | None, root: Agent) -> None:
    """Log the limits of an agent from its template, and install the template's hooks.

    Raises ConfigError if something that the template names is not available.
    """
    if template is None:
        return
    assert isinstance(root, ToolAgent)
    tool_names = {*ACTIONS, *root.runtime.world.tools}
    server_names = [server_in(name) for name in template.tools or () if name.endswith("__*")]
    # The servers are not started yet, so their tools are not known.
    servers = filter(None, server_names)
    template = structs.replace(template, mcp=(*template.mcp, *servers)).expanded(tool_names)
    for name in template.tools or ():
        if name not in tool_names:
            available = ", ".join(sorted(tool_names))
            raise ConfigError(
                f"{template.path}: tool {name!r} not found; available tools: {available}"
            )
    try:
        limits = Limits(
            tools=allowed_for(root, None, template),
            permission=template.permission,
            skills=None if template.skills is None else list(template.skills),
            mcp=servers_for(root, None, template),
        )
        hooks = create_template_hooks(template, root, [hook.name for hook in root.hooks])
    except InvalidArguments as error:
        raise ConfigError(str(error)) from None
    if limits != NO_LIMITS:
        spec = SpecChange(limits=limits)
        root.session.append(AgentConfigured(agent_id=root.agent_id, spec=spec))
    install_hooks(hooks, root)
    for note in template.notes:
        root.runtime.notify(note)
