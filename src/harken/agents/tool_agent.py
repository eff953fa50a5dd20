"""`ToolAgent`: the base class of agents that have tools and hooks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from harken.agents.action_schemas import VERDICT, hook, is_action, verdict_at, with_listings
from harken.agents.agent import Agent
from harken.agents.rights import allowed_servers, allowed_tools, may_use_tool
from harken.agents.structure import CODE_CALL_PREFIX
from harken.agents.templates.skills import SKILL, skills_of, with_skills
from harken.agents.templates.template import Template
from harken.core.event_types.spec import AgentSpec
from harken.llm.base import ToolSchema, tools_hash
from harken.session.state import OpenCall
from harken.world.tool import Tool


@dataclass(slots=True)
class Toolset:
    """The tools that an agent may use, with their schemas as sent in requests."""

    key: tuple[Any, ...]
    by_name: dict[str, Tool]
    schemas: list[ToolSchema] = field(init=False)
    hash: str | None = field(init=False)

    def __post_init__(self) -> None:
        """Compute the schemas and their hash once."""
        self.schemas = [tool.schema for tool in self.by_name.values()]
        self.hash = tools_hash(self.schemas) if self.schemas else None


class ToolAgent(Agent):
    """The interface that `act` and the structural actions need of an agent."""

    def _set_up(self) -> None:
        """Set up what is not in the log because it can be derived."""
        self._toolbox: Toolset | None = None
        self._fixed_toolset: Toolset | None = None
        self._toolbox_sources: tuple[Any, ...] = ()
        """The values from which the toolbox was built."""

    @classmethod
    @abstractmethod
    def _create_for(
        cls,
        parent: Agent,
        system_prompt: str | None,
        tools: Sequence[str] | None,
        template: Template | None = None,
        spec: AgentSpec | None = None,
        *,
        model: str | None = None,
    ) -> Self:
        """Create, without its birth, an agent that shares the world and the models of its parent.

        The birth records its template. Its model is `model`, else the template's, else its
        parent's.
        `spec` adds members to the birth.
        """

    @property
    def _allowed(self) -> list[str] | None:
        """The names of the tools that it may use, or None for all."""
        return allowed_tools(self)

    @property
    def _servers(self) -> Sequence[str]:
        """MCP servers given by name, which it may use regardless of its tool list."""
        return allowed_servers(self)

    @property
    def tools(self) -> dict[str, Tool]:
        """The actions and tools that it may use now, by name."""
        return self._get_toolset().by_name

    def set_tools(self, tools: Iterable[Tool]) -> None:
        """Give the agent exactly these tools, instead of those of its world, place and spec."""
        self._fixed_toolset = Toolset(("fixed",), {tool.name: tool for tool in tools})

    def _get_toolset(self) -> Toolset:
        """Return the tools with their schemas, rebuilt only if they changed.

        Templates and hooks are listed as they were when the toolbox was first built: a model's
        cached prompt begins with the schemas, and a new file must not invalidate it.
        """
        if self._fixed_toolset is not None:
            return self._fixed_toolset
        state = self.state
        sources = (tuple(self.runtime.world.tools.values()), state.spec, state.place)
        if self._toolbox is None or self._toolbox_sources != sources:
            self._toolbox, self._toolbox_sources = self._build_toolbox(), sources
        return self._toolbox

    def _build_toolbox(self) -> Toolset:
        world, allowed = self.runtime.world.tools, self._allowed
        schemas = tuple((tool.name, tool.description, tool.parameters) for tool in world.values())
        limits = (None if allowed is None else tuple(allowed), tuple(self._servers))
        key = (schemas, limits, self._asked_points)
        if self._toolbox is not None and self._toolbox.key == key:
            return self._toolbox
        candidates = {
            **self._list_actions(),
            **self._list_tools(),
        }
        tools = {name: tool for name, tool in candidates.items() if may_use_tool(self, tool)}
        return Toolset(key, tools)

    def _list_actions(self) -> dict[str, Tool]:
        """Return the structural actions; they list templates, and hooks if it may install one."""
        library = self.runtime.library
        registry = library.hooks if may_use_tool(self, hook) else None
        hooks = "" if registry is None else registry.listing()
        actions = with_listings(library.templates.listing(), hooks)
        verdict = verdict_at(self._asked_points or ())
        if verdict is None:
            return {name: action for name, action in actions.items() if name != VERDICT}
        return {**actions, VERDICT: verdict}

    @property
    def _asked_points(self) -> tuple[str, ...] | None:
        """The points at which it is asked as a hook, or None if it is no hook."""
        if self.state.place != "hook":
            return None
        return tuple(self.state.spec.standing.points or ())

    def _has_verdict_tool(self) -> bool:
        return is_action(self.tools.get(VERDICT))

    def _list_tools(self) -> dict[str, Tool]:
        """Return the tools of the world; `skill` lists the skills that this agent may use."""
        tools, skills = dict(self.runtime.world.tools), self.runtime.library.skills
        if skills is None or SKILL not in tools:
            return tools
        skill_tool, listing = tools.pop(SKILL), skills.listing(skills_of(self))
        return {**tools, SKILL: with_skills(skill_tool, listing)} if listing else tools


def is_idempotent(agent: Agent, call: OpenCall) -> bool:
    """Whether the tool of a call may simply be run again."""
    tool = agent.tools.get(call.name) if isinstance(agent, ToolAgent) else None
    return tool is not None and tool.idempotent


def can_go_on(agent: Agent, call: OpenCall) -> bool:
    """Whether a resume runs an interrupted call: its tool has not acted, or may act again.

    The effect and the result of a structural action are one group of events. The program that made
    a call of code decides by itself.
    """
    is_model_call = isinstance(agent, ToolAgent) and not call.id.startswith(CODE_CALL_PREFIX)
    return is_model_call and (not call.is_started or is_idempotent(agent, call))
