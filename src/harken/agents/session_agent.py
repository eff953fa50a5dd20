"""One agent and its session in one object, for programs that need no more.

    agent = harken.agent("anthropic/claude-opus-5-5", tools=[weather], session="tea.jsonl")
    print(agent.run_sync("Will it rain in Oslo?"))

A session that exists is resumed, so the same program goes on where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Self, TypeVar, overload

from harken.agents.agent import Agent, check_free
from harken.agents.load import load_session
from harken.agents.runtime import AgentRuntime, Observers
from harken.agents.typed_answer import REQUEST, TOOL_NAME, TypedAnswer
from harken.core.arguments import check_arguments
from harken.core.ids import AgentId
from harken.core.logged_string import LoggedString
from harken.core.stream import Chunk
from harken.errors import ConfigError, ModelError
from harken.llm.base import Model
from harken.session.session import Session
from harken.world.local_world import LocalWorld
from harken.world.tool import Function, Tool
from harken.world.world import World

T = TypeVar("T")


class SessionAgent:
    """The root agent of a session. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        log: str | Path,
        *,
        model: Model | str,
        world: World,
        system_prompt: str | None,
        name: str,
    ) -> None:
        self._chunks: asyncio.Queue[Chunk | None] | None = None
        runtime = AgentRuntime(
            model=model, world=world, observers=Observers(on_chunk=self._put_chunk)
        )
        self.root: Agent
        """The agent itself, with all that `Agent` can do."""
        self.session: Session
        """The log of all that it hears, says and does."""
        self.root, self.session = load_session(
            log, runtime=runtime, system_prompt=system_prompt, name=name
        )

    @overload
    async def run(self, prompt: str, *, output: None = None) -> LoggedString: ...
    @overload
    async def run(self, prompt: str, *, output: type[T]) -> T: ...
    async def run(self, prompt: str, *, output: type[T] | None = None) -> LoggedString | T:
        """Return the answer to a prompt, as a value of `output` if that is given.

        output: a type of msgspec, a dataclass or a pydantic model. The model answers by a tool with
        the schema of the type; if it did not, it is asked once more. Raises TypeError for a type
        without a JSON schema, ModelError if there is no valid answer after both requests, AgentBusy
        during another turn, and what `Agent.response` raises.
        """
        if output is None:
            return await self.root.response(prompt)
        check_free(self.root)
        answer = TypedAnswer(output, self.root.agent_id)
        tools = self.root.runtime.world.tools
        if TOOL_NAME in tools:
            raise ConfigError(f"a tool of the agent is named {TOOL_NAME}: rename it")
        tools[TOOL_NAME] = answer.tool
        try:
            await self.root.response(f"{prompt}\n\n{REQUEST}")
            if not answer.values:
                await self.root.response(f"{answer.problem}. {REQUEST}")
        finally:
            del tools[TOOL_NAME]
        if answer.values:
            return answer.values[-1]
        raise ModelError(
            f"{self.root.name} returned no answer of type {answer.name}: {answer.problem}"
        )

    @overload
    def run_sync(self, prompt: str, *, output: None = None) -> LoggedString: ...
    @overload
    def run_sync(self, prompt: str, *, output: type[T]) -> T: ...
    def run_sync(self, prompt: str, *, output: type[T] | None = None) -> LoggedString | T:
        """Do as `run` in an event loop of its own. Raises RuntimeError inside a running loop."""
        if output is None:
            return asyncio.run(self.run(prompt))
        return asyncio.run(self.run(prompt, output=output))

    async def stream(self, prompt: str) -> AsyncIterator[Chunk]:
        """Yield the answer to a prompt in chunks, as the model streams them.

        Chunks of subagents are left out. Leaving the loop early cancels the turn; what the agent
        said until then is in the log. Raises AgentBusy during another turn, and what
        `Agent.response` raises.
        """
        check_free(self.root)
        chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
        self._chunks = chunks
        turn = asyncio.ensure_future(self.root.response(prompt))
        turn.add_done_callback(lambda _: chunks.put_nowait(None))
        try:
            while (chunk := await chunks.get()) is not None:
                yield chunk
            await turn
        finally:
            self._chunks = None
            if not turn.done():
                turn.cancel()
                await asyncio.wait([turn])

    def close(self) -> None:
        """Close the session. A second call does nothing."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put_chunk(self, agent_id: AgentId, chunk: Chunk) -> None:
        if self._chunks is not None and agent_id == self.root.agent_id:
            self._chunks.put_nowait(chunk)


@check_arguments
def agent(
    model: Model | str,
    *,
    session: str | Path,
    tools: Iterable[Tool | Function] = (),
    system_prompt: str | None = None,
    name: str = "main",
) -> SessionAgent:
    """Return an agent that a model drives, with its session: a new one, or the one that is there.

    model: a model or its name (`anthropic/...`). session: the path of the log. tools: typed
    functions with a docstring, or tools. system_prompt, name: those of the agent in a new session.
    For hooks, permissions, budgets, a store and the other parts of a runtime use `load_session`.
    Raises what `load_session` raises.
    """
    return SessionAgent(
        session, model=model, world=LocalWorld(tools), system_prompt=system_prompt, name=name
    )
