"""The structural actions as methods of every agent, for programs and for dumb agents.

Each method logs a call in the transcript of the agent, runs it as a call of a model, and logs its
result: hooks judge it, budgets limit it, and a resume finds it. An error is raised here, and stands
in the result too. Source: docs/design/013-structure-as-methods.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast, overload

from harken.agents.discussion import Discussion
from harken.core.arguments import check_arguments
from harken.core.event_types.spec import HookPoint
from harken.core.logged_string import LoggedString
from harken.core.messages import ChatMessage
from harken.session.state import OpenCall

AgentT = TypeVar("AgentT")
"""The class `Agent`: it is made from this module."""
CODE_CALL_PREFIX = "code_"
"""The prefix of the ids of calls that code made."""


def is_code_call(message: ChatMessage) -> bool:
    """Whether a message makes a call of code, or is the result of one."""
    ids = [call.id for call in message.tool_calls or ()] or [message.tool_call_id or ""]
    return all(id_.startswith(CODE_CALL_PREFIX) for id_ in ids)


class AgentReply(NamedTuple, Generic[AgentT]):
    """An answer and the agent that gave it."""

    agent: AgentT
    answer: LoggedString


class CallRunner(Protocol):
    """The module that runs calls of code."""

    async def call_action(
        self,
        agent: Any,
        action: str,
        arguments: Mapping[str, Any],
        objects: Mapping[str, tuple[str, object]] | None = None,
    ) -> Any:
        """Log a call, run it, log its result and return its value."""
        ...

    def check_new_agent(
        self,
        parent: Any,
        agent: Any,
        *,
        has_instructions: bool,
        has_prompt: bool,
        has_model: bool = False,
    ) -> str:
        """Return the kind of a new agent. Raises TypeError and ValueError if it cannot be used."""
        ...

    def describe_interrupted_call(self, agent: Any, call: OpenCall) -> str:
        """Return the known effects of an interrupted call."""
        ...


def call_runner() -> CallRunner:
    """Return the module that runs calls.

    It is imported when it is needed: the actions are made of agents, so that `Agent` itself cannot
    import them.
    """
    return cast(CallRunner, import_module("harken.agents.turn.code_call"))


class AgentStructure(Generic[AgentT]):
    """The actions of an agent on the tree of agents, as methods.

    They raise InvalidArguments for unknown or taken names, BudgetExceeded, ActionBlocked if a hook
    denies the call, ToolError if it fails otherwise, and ModelError if an agent that was asked
    fails. Raises AgentBusy if a smart agent is in a turn, NotBorn before the birth is logged.
    """

    @overload
    async def task(
        self,
        name: str,
        instructions: str | None = None,
        *,
        prompt: None = None,
        tools: Sequence[str] | None = None,
        model: str | None = None,
        agent: AgentT | type[AgentT] | None = None,
    ) -> AgentT: ...
    @overload
    async def task(
        self,
        name: str,
        instructions: str | None = None,
        *,
        prompt: str,
        tools: Sequence[str] | None = None,
        model: str | None = None,
        agent: AgentT | type[AgentT] | None = None,
    ) -> AgentReply[AgentT]: ...
    @check_arguments
    async def task(
        self,
        name: str,
        instructions: str | None = None,
        *,
        prompt: str | None = None,
        tools: Sequence[str] | None = None,
        model: str | None = None,
        agent: AgentT | type[AgentT] | None = None,
    ) -> AgentT | AgentReply[AgentT]:
        """Create a subagent and return it; with a prompt, return its answer, too.

        instructions: its system prompt, `template:NAME` or `file:PATH`. tools: those of this
        agent's tools that it may use (None: all). model: the name of its model, this agent's or one
        of `ModelSettings.allowed` (None: this agent's). agent: an agent without a birth, or a
        class, in place of a plain smart agent.
        """
        arguments = {
            "name": name,
            "instructions": instructions,
            "prompt": prompt,
            "tools": tools,
            "model": model,
        }
        objects = _new_agent(
            self,
            agent,
            has_instructions=instructions is not None,
            has_prompt=prompt is not None,
            has_model=model is not None,
        )
        reply: AgentReply[AgentT] = await _call(self, "task", arguments, objects)
        return reply.agent if prompt is None else reply

    @check_arguments
    async def discuss(
        self,
        prompt: str | None = None,
        speakers: Sequence[str] | None = None,
        listeners: Sequence[str] | None = None,
        *,
        rounds: int = 1,
        until: str | None = None,
        order: str = "given",
    ) -> Discussion[AgentT]:
        """Send a prompt to subagents and let the speakers answer in turn. Return the answers.

        Each answer is heard by all other speakers and listeners. Without names, those of the last
        discussion are meant, or the newest subagent. `user` is the user. rounds: how many times
        each speaks at most. until: a phrase that ends the discussion when an answer has it, or
        `judge:NAME`, a subagent that is asked after each round. order: `given`, `random`,
        `random:SEED` or `moderator:NAME`, a subagent that is asked before each turn.
        """
        arguments = {
            "prompt": prompt,
            "speakers": speakers,
            "listeners": listeners,
            "rounds": None if rounds == 1 else rounds,
            "until": until,
            "order": None if order == "given" else order,
        }
        discussion: Discussion[AgentT] = await _call(self, "discuss", arguments)
        return discussion

    @check_arguments
    async def terminate(self, name: str) -> None:
        """End a subagent and all agents below it. The log keeps them."""
        await _call(self, "terminate", {"name": name})

    @check_arguments
    async def hook(
        self,
        name: str,
        instructions: str | None = None,
        *,
        points: Sequence[HookPoint] | None = None,
        tools: Sequence[str] | None = None,
        model: str | None = None,
        agent: AgentT | type[AgentT] | None = None,
    ) -> AgentT:
        """Install a hook above this agent, or above the agent that this hook watches. Return it.

        instructions: its system prompt, `hook:NAME`, `template:NAME` or `file:PATH`. model: as for
        `task`. agent: a hook without a birth, or a class, in place of instructions. It counts as
        made by this agent; for a guard that the program installs, use `Hook.install`.
        """
        arguments = {
            "name": name,
            "instructions": instructions,
            "points": points,
            "tools": tools,
            "model": model,
        }
        if agent is not None and (instructions, points, tools, model) != (None,) * 4:
            raise TypeError(
                "hook(agent=...): the agent has its own instructions, points, tools and model"
            )
        objects = _new_agent(self, agent)
        hook: AgentT = await _call(self, "hook", arguments, objects)
        return hook

    async def quit(self) -> None:
        """Stop watching: after the current verdict, or at once if this hook judges nothing now.

        Raises InvalidArguments if the agent is no hook.
        """
        await _call(self, "quit", {})

    async def meta(self) -> AgentT:
        """Take the place of the agent that this hook watches. Return that agent, now a subagent."""
        replaced: AgentT = await _call(self, "meta", {})
        return replaced

    @check_arguments
    async def endo(
        self,
        subagent: str,
        prompt: str | None = None,
        *,
        points: Sequence[HookPoint] | None = None,
    ) -> AgentT:
        """Let a subagent take this agent's place, and watch it as its hook. Return the subagent.

        With a prompt it owes an answer: `await subagent.response()`.
        """
        arguments = {"subagent": subagent, "prompt": prompt, "points": points}
        taker: AgentT = await _call(self, "endo", arguments)
        return taker

    @check_arguments
    async def talk_with(self, name: str) -> AgentT:
        """Let a subagent take this agent's place, and wait as its silent hook. Return the subagent.

        name: a name or a path such as `editor/critic`.
        """
        taker: AgentT = await _call(self, "talk_with", {"name": name})
        return taker

    @check_arguments
    async def clone(self, name: str, into: str | None = None, as_name: str | None = None) -> AgentT:
        """Copy a subagent with its memory, as a subagent of this agent or of `into`. Return it."""
        copy: AgentT = await _call(self, "clone", {"name": name, "into": into, "as_name": as_name})
        return copy

    @check_arguments
    async def dump(self, path: str | Path, name: str | None = None) -> Path:
        """Write this agent, or the subagent `name`, to a file. Return its path.

        The path is relative to the folder of the world, which must contain it.
        """
        file: Path = await _call(self, "dump", {"path": str(path), "name": name})
        return file

    @check_arguments
    async def restore(self, path: str | Path, name: str | None = None) -> AgentT:
        """Create a subagent from a file that `dump` wrote. Return it."""
        child: AgentT = await _call(self, "restore", {"path": str(path), "name": name})
        return child


async def _call(
    agent: object,
    action: str,
    arguments: Mapping[str, Any],
    objects: Mapping[str, tuple[str, object]] | None = None,
) -> Any:
    """Run an action by a call with the arguments that are not None."""
    members = {name: value for name, value in arguments.items() if value is not None}
    return await call_runner().call_action(agent, action, members, objects)


def _new_agent(
    parent: object,
    agent: object,
    *,
    has_instructions: bool = False,
    has_prompt: bool = False,
    has_model: bool = False,
) -> Mapping[str, tuple[str, object]] | None:
    """Return the member of a call for a new agent: the kind to log, and the agent or its class."""
    if agent is None:
        return None
    kind = call_runner().check_new_agent(
        parent,
        agent,
        has_instructions=has_instructions,
        has_prompt=has_prompt,
        has_model=has_model,
    )
    return {"agent": (kind, agent)}
