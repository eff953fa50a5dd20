"""The first agent of a session, made from a template: it has all that a subagent would have of it.

A person who names a template means its guards and its limits, too: what of it cannot be had is an
error, and nothing of it is left out in silence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harken.agents.action_schemas import ACTIONS
from harken.agents.agent import Agent
from harken.agents.template_setup import hooks_of, servers_for
from harken.agents.templates.template import Template
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.actions import allowed_for, install
from harken.core.events import AgentConfigured
from harken.errors import ConfigError
from harken.world.mcp.names import server_in
from harken.world.result import InvalidArguments


def make_from(template: Template | None, root: Agent) -> None:
    """Log what an agent has of its template, and let the template's hooks watch it.

    Raises ConfigError where something that the template names is not here.
    """
    if template is None:
        return
    assert isinstance(root, ToolAgent)
    known = {*ACTIONS, *root.runtime.world.tools}
    whole = [server_in(name) for name in template.tools or () if name.endswith("__*")]
    servers = filter(None, whole)  # none of them has been started: their tools are not known yet
    template = replace(template, mcp=(*template.mcp, *servers)).expanded(known)
    for name in template.tools or ():
        if name not in known:
            there = ", ".join(sorted(known))
            raise ConfigError(f"{template.path}: no tool {name!r} is here; there is: {there}")
    try:
        spec: dict[str, Any] = {
            "template": template.origin,
            "tools": allowed_for(root, None, template),
            "permission": template.permission,
            "skills": None if template.skills is None else list(template.skills),
            **servers_for(root, None, template),
        }
        hooks = hooks_of(template, root, [hook.name for hook in root.hooks])
    except InvalidArguments as error:
        raise ConfigError(str(error)) from None
    given = {name: value for name, value in spec.items() if value is not None}
    root.session.append(AgentConfigured(agent_id=root.agent_id, spec=given))
    install(hooks, root)
    for note in template.notes:
        root.runtime.notify(note)
