"""`ToolAgent`: an agent that has tools and hooks, whoever decides what it does with them."""

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
    """The tools that an agent may use, with what a request says of them."""

    key: tuple[Any, ...]
    by_name: dict[str, Tool]
    schemas: list[ToolSchema] = field(init=False)
    hash: str | None = field(init=False)

    def __post_init__(self) -> None:
        """Work out the schemas and their identity once."""
        self.schemas = [tool.schema for tool in self.by_name.values()]
        self.hash = tools_hash(self.schemas) if self.schemas else None


class ToolAgent(Agent):
    """What `act` and the structural actions need of an agent."""

    def begin(self) -> None:
        """Set up what is not in the log because it can be derived."""
        self._comments: list[HookVerdict] | None = None
        """What hooks commented and it has not heard; None: the log has to tell."""
        self._toolbox: Toolset | None = None
        self._made_of: tuple[Any, ...] = ()
        """What the toolbox was worked out from."""

    @abstractmethod
    def make_subagent(
        self,
        system_prompt: str | None,
        tools: Sequence[str] | None,
        template: Template | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> Agent:
        """Make, without its birth, an agent that shares this agent's world and models.

        Its birth says from which template it is made, and it has the template's model. `spec` is
        what the birth says besides.
        """

    @property
    def allowed(self) -> list[str] | None:
        """The names of the tools that it may use; None for all."""
        return self.state.spec.get("tools")

    @property
    def servers(self) -> Sequence[str]:
        """The MCP servers that it was given by name: it has their tools, whatever its list says."""
        servers: Sequence[str] = self.state.spec.get("mcp") or ()
        return servers

    @property
    def tools(self) -> dict[str, Tool]:
        """The actions and tools that it may use now, by name."""
        return self.toolbox().by_name

    def toolbox(self) -> Toolset:
        """Return the same with their schemas; worked out again only where they changed.

        Templates are listed as they were when this was worked out first: a model's cached
        prompt begins with the schemas, and a new file shall not make it void.
        """
        state = self.state
        made_of = (tuple(self.runtime.world.tools.values()), state.spec, state.place)
        if self._toolbox is None or self._made_of != made_of:
            self._toolbox, self._made_of = self._toolbox_now(), made_of
        return self._toolbox

    def _toolbox_now(self) -> Toolset:
        world, allowed, place = self.runtime.world.tools, self.allowed, self.state.place
        shown = tuple((tool.name, tool.description, tool.parameters) for tool in world.values())
        limits = (None if allowed is None else tuple(allowed), tuple(self.servers))
        key = (shown, limits, place == "hook")
        if self._toolbox is not None and self._toolbox.key == key:
            return self._toolbox
        everything = {**with_templates(self.runtime.templates.listing()), **self._tools()}
        found = {name: tool for name, tool in everything.items() if self._may_use(tool)}
        return Toolset(key, found)

    def _may_use(self, tool: Tool) -> bool:
        if server_in(tool.name) in self.servers:
            return True
        if tool.reserved and self.allowed is None:
            return False
        return may_use(tool.name, self.allowed, self.state.place, self.runtime.actions)

    def _tools(self) -> dict[str, Tool]:
        """Return the tools of the world; `skill` tells which skills there are for this agent."""
        tools, skills = dict(self.runtime.world.tools), self.runtime.skills
        if skills is None or SKILL not in tools:
            return tools
        made, listing = tools.pop(SKILL), skills.listing(skills_of(self))
        return {**tools, SKILL: with_skills(made, listing)} if listing else tools

    def is_retryable(self, call: OpenCall) -> bool:
        """Whether a call that was cut off may simply be run again."""
        tool = self.tools.get(call.name)
        return tool is not None and tool.idempotent

    def note_comments(self, judgement: CombinedVerdict) -> None:
        """Keep comments until a place where the agent may hear them."""
        if self._comments is not None:
            self._comments += judgement.comments

    def forget_comments(self) -> None:
        """Look for comments in the log next time: a turn was broken off, some may be lost."""
        self._comments = None

    def deliver(self) -> None:
        """Let the agent hear the comments that were kept, as soon as every call has its result."""
        if self.state.open_calls:
            return
        comments = self._undelivered() if self._comments is None else self._comments
        self._comments = []
        for opinion in comments:
            if isinstance(opinion.verdict, Comment):
                self.session.append(comment_entry(self, opinion, opinion.verdict.text))

    def _undelivered(self) -> list[HookVerdict]:
        """Return the comments of its hooks in the log that it has not heard, oldest first.

        Also of those that left with their comment: what they said last still counts.
        """
        found = [one for hook in self._watchers() for one in undelivered_comments(self, hook)]
        return sorted(found, key=lambda opinion: reference_number(opinion.message_id))

    def _watchers(self) -> list[AgentState]:
        """Return its hooks, and those that left and are still in memory: see `load_session`."""
        left = (self.session.agents[id_] for id_ in self.state.former_hooks)
        gone = [one for one in left if one.transcript is not None]
        return [*map(self.session.agent, self.state.hooks), *gone]
