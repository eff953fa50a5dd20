"""Helpers for tests of agents: scripted models, sessions with a root agent, checks of logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from harken import Agent, AgentRuntime, FunctionModel, LocalWorld, Session, SessionOptions, Tool
from harken import load_session as load
from harken.agents.agent import get_agent
from harken.agents.open_calls import answer_or_stop
from harken.core import canonical
from harken.core.messages import ChatMessage, FunctionCall, Message, ToolCall, text_of
from harken.core.stream import Chunk
from harken.errors import ModelError
from harken.llm.base import Model, ModelRequest
from harken.session.log.file import Disk
from harken.session.session import Durability
from harken.session.verify import verify
from harken.testing import RecordingDisk, ticking
from tests.session_kit import read_lines

ScriptedAnswer: TypeAlias = (
    str | Message | Exception | Sequence[Chunk] | Callable[[ModelRequest], Any]
)
"""An answer of a model: a text, a message, an error, chunks, or a function of the request."""
LogLine: TypeAlias = dict[str, Any]
T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. Raises TimeoutError after a minute."""

    async def limited() -> T:
        async with asyncio.timeout(60):
            return await coroutine

    return asyncio.run(limited())


def call(tool: str, _id: str = "c1", /, **arguments: Any) -> ToolCall:
    """Return a call of a tool."""
    return ToolCall(_id, FunctionCall(tool, canonical.to_json_line(arguments).decode()))


def raw_call(tool: str, arguments: str, _id: str = "c1") -> ToolCall:
    """Return a call whose arguments are exactly this text."""
    return ToolCall(_id, FunctionCall(tool, arguments))


def call_message(*tool_calls: ToolCall, text: str | None = None) -> Message:
    """Return an assistant message that makes these calls."""
    return Message("assistant", text, list(tool_calls))


def request_texts(request: ModelRequest) -> list[str]:
    """Return the texts of all messages in a request."""
    return [text_of(message.content) for message in request.messages]


@dataclass
class ScriptModel:
    """A model that gives each agent its scripted answers in order, and records the requests.

    The index of the answer follows from the request alone (the number of answers in it), so
    that a resumed agent continues where it stopped. Each request must be valid for a provider.
    """

    answers: Mapping[str, Sequence[ScriptedAnswer]]
    name: str = "play"
    requests: list[ModelRequest] = field(default_factory=list)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        check_context(request.messages)
        self.requests.append(msgspec.structs.replace(request, messages=list(request.messages)))
        async for chunk in FunctionModel(self._answer, self.name).stream(request):
            yield chunk

    def _answer(self, request: ModelRequest) -> Any:
        index = sum(message.role == "assistant" for message in request.messages)
        part = self.answers[request.agent]
        line = part[index] if index < len(part) else f"[{request.agent} has no line {index}]"
        if isinstance(line, Exception):
            raise line
        return line(request) if callable(line) else line

    def requests_of(self, agent: str) -> list[ModelRequest]:
        """Return the requests of one agent."""
        return [request for request in self.requests if request.agent == agent]


def script_model(**parts: Sequence[ScriptedAnswer]) -> ScriptModel:
    """Return a model with these answers by agent. The root is `main`."""
    return ScriptModel(parts)


def fails_once(answer: str, error: str = "overloaded") -> Callable[[ModelRequest], str]:
    """Return a scripted answer whose first request fails."""
    failures = [ModelError(error)]

    def respond(_: ModelRequest) -> str:
        if failures:
            raise failures.pop()
        return answer

    return respond


@dataclass
class Stage:
    """A session with its root agent."""

    root: Agent
    session: Session
    runtime: AgentRuntime

    @property
    def log(self) -> Path:
        return self.session.path

    def ask(self, text: str | None = None) -> str:
        """Send a text to the root. Return its answer, or the text of a stopped turn."""
        return run(answer_or_stop(self.root, text))

    def resume(self, model: Model | None = None, tools: Iterable[Tool] | None = None) -> Stage:
        """Close the session and resume it from its log."""
        self.session.close()
        runtime = self.runtime
        if model is not None:
            runtime = replace(runtime, model=model)
        if tools is not None:
            runtime = replace(runtime, world=LocalWorld(tools))
        root, session = load(self.log, runtime=runtime, options=fast_options())
        return Stage(root, session, runtime)

    def set_answers(self, **parts: Sequence[ScriptedAnswer]) -> None:
        """Replace the scripted answers of agents."""
        assert isinstance(self.runtime.model, ScriptModel)
        self.runtime.model.answers = {**self.runtime.model.answers, **parts}

    def agent(self, name: str) -> Agent:
        """Return the agent with this name anywhere in the tree, also a removed one."""
        return get_agent(self.root, self.id_of(name))

    def id_of(self, name: str) -> str:
        return next(id_ for id_, state in self.session.agents.items() if state.name == name)

    def select_lines(self, **members: Any) -> list[LogLine]:
        return select_lines(self.log, **members)

    def result(self, call_id: str = "c1", agent: str = "main") -> LogLine:
        """Return the only result of a call."""
        [row] = self.select_lines(role="tool", tool_call_id=call_id, agent_id=self.id_of(agent))
        return row

    def user_messages(self, agent: str) -> list[str]:
        """Return the user messages of an agent."""
        return [
            row["content"] for row in self.select_lines(role="user", agent_id=self.id_of(agent))
        ]


def fast_options(durability: Durability = "none", disk: Disk | None = None) -> SessionOptions:
    """Return options with a ticking clock and, by default, without syncs."""
    return SessionOptions(durability=durability, clock=ticking(), disk=disk or RecordingDisk())


def open_stage(
    folder: Path,
    model: Model,
    *,
    tools: Iterable[Tool] = (),
    system_prompt: str | None = "You are main.",
    options: SessionOptions | None = None,
    **more: Any,
) -> Stage:
    """Begin a session in `folder` whose root is `main`. `more` is passed to `load_session`."""
    runtime = more.pop("runtime", None) or AgentRuntime(model=model, world=LocalWorld(tools))
    root, session = load(
        folder / "s.jsonl",
        runtime=runtime,
        system_prompt=system_prompt,
        name="main",
        options=options or fast_options(),
        **more,
    )
    return Stage(root, session, runtime)


def select_lines(log: Path, **members: Any) -> list[LogLine]:
    """Return the lines of a log that have all these members."""
    return [
        line
        for line in read_lines(log)
        if all(line.get(name) == value for name, value in members.items())
    ]


def full_state(session: Session) -> dict[str, Any]:
    """Return the full state of a session, with the transcripts of unloaded agents."""
    for agent_id in session.agents:
        session.agent(agent_id)
    return session.state.describe()


def check_context(messages: Sequence[ChatMessage]) -> None:
    """Check that the messages are valid for a provider.

    The results of the calls of a message directly follow it, one for each call.
    """
    waiting: set[str | None] = set()
    for message in messages:
        if message.role == "tool":
            assert message.tool_call_id in waiting, f"a result for no call: {message}"
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting, f"{message.role} comes before the results of {waiting}"
            ids = [call_.id for call_ in message.tool_calls or ()]
            assert len(set(ids)) == len(ids)
            assert all(ids)
            waiting = set(ids)
    assert not waiting, f"no result for {waiting}"


def check_log(log: Path, *, finished: bool = True) -> None:
    """Check the invariants of a log: it verifies, and its links match the format."""
    assert verify(log) == []
    created_ids: set[str] = {"user"}
    open_calls: set[tuple[str, str]] = set()
    for row in read_lines(log):
        assert not ("substance" in row and "cause" in row)
        if row["event_type"] == "agent_created":
            created_ids.add(row["agent_id"])
        elif "agent_id" in row:
            assert row["agent_id"] in created_ids, f"{row} stands before its agent's birth"
        for made in row.get("tool_calls", ()):
            assert (row["agent_id"], made["id"]) not in open_calls
            open_calls.add((row["agent_id"], made["id"]))
        if row.get("role") == "tool":
            open_calls.remove((row["agent_id"], row["tool_call_id"]))  # KeyError: a second result
    assert not (finished and open_calls), f"without a result: {open_calls}"
