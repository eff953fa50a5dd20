"""Requests to models, and sessions recorded with their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import Message
from harken.core.stream import Chunk, Finish, StreamAccumulator
from harken.llm.base import Model, ModelRequest, ToolSchema
from harken.session.fold import context_length
from harken.session.session import Session, build_entry
from harken.testing import request_of


def user(text: str) -> Message:
    return Message("user", text)


def assistant(text: str) -> Message:
    return Message("assistant", text)


request = partial(request_of, agent="Jack")
"""Build a request. A string is the text of a user message."""


def collect_chunks(model: Model, request_: ModelRequest) -> list[Chunk]:
    async def collect() -> list[Chunk]:
        return [chunk async for chunk in model.stream(request_)]

    return asyncio.run(collect())


def get_answer(model: Model, request_: ModelRequest) -> Message:
    return accumulate(model, request_).message()


def accumulate(model: Model, request_: ModelRequest) -> StreamAccumulator:
    result = StreamAccumulator()
    for chunk in collect_chunks(model, request_):
        result.add(chunk)
    return result


@dataclass(slots=True)
class SessionRecorder:
    """Write a session with model calls like the loop of the agents."""

    session: Session

    @staticmethod
    def create(path: Path) -> SessionRecorder:
        return SessionRecorder(Session(path))

    def create_agent(self, name: str, cause: str | None = None) -> AgentId:
        id_ = self.session.allocate_agent_id()
        self.session.log_agent_created(id_, cause, name)
        return id_

    def add_message(self, agent: AgentId, message: Message | str) -> MessageId:
        message = user(message) if isinstance(message, str) else message
        return self.session.append(build_entry(agent, message))

    def add_request(
        self,
        agent: AgentId,
        *,
        tools: Sequence[ToolSchema] = (),
        parameters: dict[str, Any] | None = None,
    ) -> MessageId:
        state = self.session.agent(agent)
        request_ = request(*self.session.context(agent), tools=tools, parameters=parameters)
        return self.session.append(
            ev.LlmRequest(
                agent_id=agent,
                context=state.segments(),
                count=context_length(state),
                context_hash=request_.context_hash,
                model="recorded",
                parameters=parameters,
                tools=self._tools(request_),
            )
        )

    def _tools(self, request_: ModelRequest) -> MessageId | None:
        if request_.tools_hash is None:
            return None
        event_id = self.session.state.tools.get(request_.tools_hash)
        return event_id or self.session.append(
            ev.ToolsDefined(
                tools=[dict(tool) for tool in request_.tools], tools_hash=request_.tools_hash
            )
        )

    def add_response(
        self,
        agent: AgentId,
        request_: MessageId,
        message: Message | str,
        finish: Finish | None = None,
    ) -> None:
        message = assistant(message) if isinstance(message, str) else message
        finish = finish or Finish(stop_reason="tool_use" if message.tool_calls else "end_turn")
        entry = self.session.append(build_entry(agent, message))
        self.session.append(
            ev.LlmResponse(
                agent_id=agent,
                request=request_,
                entry=entry,
                stop_reason=finish.stop_reason,
                usage=finish.usage,
                cost_usd=finish.cost_usd,
                model=finish.model,
            )
        )

    def add_interrupted_response(
        self, agent: AgentId, request_: MessageId, stop_reason: str
    ) -> None:
        self.session.append(
            ev.LlmResponse(
                agent_id=agent, request=request_, stop_reason=stop_reason, partial="half an ans"
            )
        )

    def add_turn(self, agent: AgentId, user_message: Message | str, answer: Message | str) -> None:
        """Add one turn: the agent receives a message, its model is called and answers."""
        self.add_message(agent, user_message)
        self.add_response(agent, self.add_request(agent), answer)
