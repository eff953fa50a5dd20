"""The tools, MCP servers and the model that an agent may pass on to its subagents and hooks.

Rights only shrink on the way down: a subagent has at most what the agent above it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.agents.action_schemas import ACTIONS, may_use
from harken.agents.agent import Agent, is_born
from harken.agents.agent_classes import get_agent_class
from harken.agents.budget import iter_upwards
from harken.agents.templates.skills import skills_of
from harken.agents.templates.template import Template
from harken.core.arguments import format_existing
from harken.core.event_types.spec import AgentSpec
from harken.core.events import Reference
from harken.core.ids import reference_message_id
from harken.errors import HarkenError
from harken.world.mcp.names import server_in
from harken.world.result import InvalidArguments
from harken.world.tool import Tool


def allowed_tools(agent: Agent) -> list[str] | None:
    """Return the names of the tools that an agent may use, or None for all."""
    return agent.state.spec.limits.tools


def allowed_servers(agent: Agent) -> Sequence[str]:
    """Return the MCP servers given by name, which an agent may use regardless of its tool list."""
    return agent.state.spec.limits.mcp or ()


def may_use_tool(agent: Agent, tool: Tool) -> bool:
    """Whether an agent may use a tool or an action now."""
    if server_in(tool.name) in allowed_servers(agent):
        return True
    allowed = allowed_tools(agent)
    if tool.reserved and allowed is None:
        return False
    return may_use(tool.name, allowed, agent.state.place, agent.runtime.policy.actions)


def usable_tools(agent: Agent) -> dict[str, Tool]:
    """Return the actions and tools that an agent may use now, by name."""
    tools = {**ACTIONS, **agent.runtime.world.tools}
    return {name: tool for name, tool in tools.items() if may_use_tool(agent, tool)}


def inherited_model(agent: Agent) -> str | None:
    """Return the name of the model of an agent, or of the next agent above it that has one."""
    if not is_born(agent):
        return agent._language_model
    upwards = iter_upwards(agent.session.state, agent.agent_id)
    return next((state.language_model for state in upwards if state.language_model), None)


def check_model(agent: Agent, name: str | None, call: Reference) -> str | None:
    """Return the model that an agent chose for a new agent, or None if it chose none.

    It may pass on its own model and those that the runtime allows; a user's command may name any.
    Raises InvalidArguments for another model, and for one that cannot be used.
    """
    if name is None:
        return None
    runtime, own = agent.runtime, inherited_model(agent)
    if own is None and runtime.default_model is not None:
        own = runtime.default_model.name
    models = dict.fromkeys([*([] if own is None else [own]), *runtime.models.list_allowed()])
    is_users = reference_message_id(call) not in agent.session.state.cause_owners
    if name not in models and not is_users:
        existing = format_existing(models, "models", adjective="your")
        raise InvalidArguments(f"you have no model {name!r} to pass on{existing}")
    try:
        return runtime.get_model(name).name
    except HarkenError as error:
        raise InvalidArguments(f"model {name!r} cannot be used: {error}") from None


def inherited_skills(agent: Agent, template: Template | None) -> list[str] | None:
    """Return the skills of a subagent: a subset of its parent's and its template's skills."""
    skills = skills_of(agent) if is_born(agent) else agent._spec().limits.skills
    limit = None if template is None else template.skills
    if limit is None:
        return skills
    return [name for name in limit if skills is None or name in skills]


def create_subagent(
    parent: Agent,
    system_prompt: str | None,
    tools: Sequence[str] | None,
    template: Template | None = None,
    spec: AgentSpec | None = None,
    *,
    model: str | None = None,
) -> Agent:
    """Create, without its birth, a smart agent; see `ToolAgent._create_for`.

    It has the class that a revival would use.
    """
    kind = get_agent_class("smart", parent.runtime.library)
    child: Agent = kind._create_for(parent, system_prompt, tools, template, spec, model=model)
    return child
