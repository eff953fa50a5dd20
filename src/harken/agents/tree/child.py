"""`create_child`: a new subagent or hook, without its birth, of any class."""

from __future__ import annotations

from collections.abc import Sequence

from harken.agents.agent import Agent
from harken.agents.rights import create_subagent, usable_tools
from harken.agents.templates.template import Template
from harken.agents.tool_agent import ToolAgent
from harken.core.event_types.spec import AgentSpec, Limits


def create_child(
    parent: Agent,
    agent: Agent | type[Agent] | None,
    instructions: str | None,
    tools: Sequence[str] | None,
    *,
    template: Template | None = None,
    spec: AgentSpec | None = None,
    model: str | None = None,
) -> Agent:
    """Return a new agent: a plain smart one, one of a class, or an agent of the program itself.

    tools: the tools that it may use, or None for all those of its parent; a list of its own is
    limited to them. spec: further members of its birth. model: the model of a smart agent (None:
    that of its template or its parent).
    """
    if agent is None:
        return create_subagent(parent, instructions, tools, template, spec, model=model)
    if isinstance(agent, Agent):
        child = agent
    elif issubclass(agent, ToolAgent):
        return agent._create_for(parent, instructions, tools, template, spec, model=model)
    else:
        child = agent(parent.session, instructions, runtime=parent.runtime)
    own = child._spec().limits.tools
    limit = tools if own is None or tools is not None else [*usable_tools(parent)]
    child._birth_spec = child._birth_spec.merge(spec or AgentSpec())
    if limit is not None:
        wanted = limit if own is None else own
        tool_limits = Limits(tools=[name for name in wanted if name in limit])
        child._birth_spec = child._birth_spec.merge(AgentSpec(limits=tool_limits))
    return child
