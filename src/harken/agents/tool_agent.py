"""`ToolAgent`: the base class of agents that have tools and hooks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harken.agents.action_schemas import may_use, with_templates
from harken.agents.agent import Agent
from harken.agents.hooks.hook import CombinedVerdict, comment_entry
from harken.agents.hooks.verdict_log import undelivered_comments
from harken.agents.templates.skills import SKILL, skills_of, with_skills
from harken.agents.templates.template import Template
from harken.core.ids import reference_number
from harken.core.verdict import Comment, HookVerdict
from harken.llm.base import ToolSchema, tools_hash
from harken.session.state import AgentState, OpenCall
from harken.world.mcp.names import server_in
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
        self._comments: list[HookVerdict] | None = None
        """Comments of hooks that are not delivered yet. None: they must be read from the log."""
        self._toolbox: Toolset | None = None
        self._toolbox_sources: tuple[Any, ...] = ()
        """The values from which the toolbox was built."""

    @abstractmethod
    def _make_subagent(
        self,
        system_prompt: str | None,
        tools: Sequence[str] | None,
        template: Template | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> Agent:
        """Create, without its birth, an agent that shares this agent's world and models.

        The birth records its template, and it has the template's model. `spec` adds members to the
        birth.
        """

    @property
    def _allowed(self) -> list[str] | None:
        """The names of the tools that it may use, or None for all."""
        return self.state.spec.get("tools")

    @property
    def _servers(self) -> Sequence[str]:
        """MCP servers given by name, which it may use regardless of its tool list."""
        servers: Sequence[str] = self.state.spec.get("mcp") or ()
        return servers

    @property
    def tools(self) -> dict[str, Tool]:
        """The actions and tools that it may use now, by name."""
        return self._get_toolset().by_name

    def _get_toolset(self) -> Toolset:
        """Return the tools with their schemas, rebuilt only if they changed.

        Templates are listed as they were when the toolbox was first built: a model's cached prompt
        begins with the schemas, and a new file must not invalidate it.
        """
        state = self.state
        sources = (tuple(self.runtime.world.tools.values()), state.spec, state.place)
        if self._toolbox is None or self._toolbox_sources != sources:
            self._toolbox, self._toolbox_sources = self._build_toolbox(), sources
        return self._toolbox

    def _build_toolbox(self) -> Toolset:
        world, allowed, place = self.runtime.world.tools, self._allowed, self.state.place
        schemas = tuple((tool.name, tool.description, tool.parameters) for tool in world.values())
        limits = (None if allowed is None else tuple(allowed), tuple(self._servers))
        key = (schemas, limits, place == "hook")
        if self._toolbox is not None and self._toolbox.key == key:
            return self._toolbox
        candidates = {
            **with_templates(self.runtime.library.templates.listing()),
            **self._list_tools(),
        }
        tools = {name: tool for name, tool in candidates.items() if self._may_use(tool)}
        return Toolset(key, tools)

    def _may_use(self, tool: Tool) -> bool:
        if server_in(tool.name) in self._servers:
            return True
        if tool.reserved and self._allowed is None:
            return False
        return may_use(tool.name, self._allowed, self.state.place, self.runtime.policy.actions)

    def _list_tools(self) -> dict[str, Tool]:
        """Return the tools of the world; `skill` lists the skills that this agent may use."""
        tools, skills = dict(self.runtime.world.tools), self.runtime.library.skills
        if skills is None or SKILL not in tools:
            return tools
        skill_tool, listing = tools.pop(SKILL), skills.listing(skills_of(self))
        return {**tools, SKILL: with_skills(skill_tool, listing)} if listing else tools

    def _note_comments(self, judgement: CombinedVerdict) -> None:
        """Keep comments until the agent may receive them."""
        if self._comments is not None:
            self._comments += judgement.comments

    def _forget_comments(self) -> None:
        """Read comments from the log next time: a broken-off turn may have lost some."""
        self._comments = None

    def _deliver_comments(self) -> None:
        """Append the kept comments to the transcript, as soon as every call has its result."""
        if self.state.open_calls:
            return
        comments = self._read_undelivered() if self._comments is None else self._comments
        self._comments = []
        for opinion in comments:
            if isinstance(opinion.verdict, Comment):
                self.session.append(comment_entry(self, opinion, opinion.verdict.text))

    def _read_undelivered(self) -> list[HookVerdict]:
        """Return the undelivered comments of its hooks in the log, oldest first.

        Hooks that left after their comment are included: their last comment still counts.
        """
        comments = [
            comment for hook in self._watchers() for comment in undelivered_comments(self, hook)
        ]
        return sorted(comments, key=lambda opinion: reference_number(opinion.message_id))

    def _watchers(self) -> list[AgentState]:
        """Return its hooks, and former hooks that are still in memory; see `load_session`."""
        former = (self.session.agents[id_] for id_ in self.state.former_hooks)
        loaded = [state for state in former if state.transcript is not None]
        return [*map(self.session.agent, self.state.hooks), *loaded]


def is_retryable(agent: Agent, call: OpenCall) -> bool:
    """Whether an interrupted call of an agent may simply be run again."""
    tool = agent.tools.get(call.name) if isinstance(agent, ToolAgent) else None
    return tool is not None and tool.idempotent
