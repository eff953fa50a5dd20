"""Asking models, and recording sessions with answers, for the tests of this folder."""

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
"""Make a request; a text stands for a user's message."""


def chunks(model: Model, asked: ModelRequest) -> list[Chunk]:
    async def collect() -> list[Chunk]:
        return [chunk async for chunk in model.stream(asked)]

    return asyncio.run(collect())


def answer(model: Model, asked: ModelRequest) -> Message:
    return draft(model, asked).message()


def draft(model: Model, asked: ModelRequest) -> StreamAccumulator:
    result = StreamAccumulator()
    for chunk in chunks(model, asked):
        result.add(chunk)
    return result


@dataclass(slots=True)
class Recorder:
    """Writes a session with model calls as the agents' loop would."""

    session: Session

    @staticmethod
    def begin(path: Path) -> Recorder:
        return Recorder(Session(path))

    def born(self, name: str, cause: str | None = None) -> AgentId:
        id_ = self.session.allocate_agent_id()
        self.session.log_agent_created(id_, cause, name)
        return id_

    def hears(self, agent: AgentId, message: Message | str) -> MessageId:
        message = user(message) if isinstance(message, str) else message
        return self.session.append(build_entry(agent, message))

    def asks(
        self,
        agent: AgentId,
        *,
        tools: Sequence[ToolSchema] = (),
        parameters: dict[str, Any] | None = None,
    ) -> MessageId:
        state = self.session.agent(agent)
        asked = request(*self.session.context(agent), tools=tools, parameters=parameters)
        return self.session.append(
            ev.LlmRequest(
                agent_id=agent,
                context=state.segments(),
                count=context_length(state),
                context_hash=asked.context_hash,
                model="recorded",
                parameters=parameters,
                tools=self._tools(asked),
            )
        )

    def _tools(self, asked: ModelRequest) -> MessageId | None:
        if asked.tools_hash is None:
            return None
        known = self.session.state.tools.get(asked.tools_hash)
        return known or self.session.append(
            ev.ToolsDefined(tools=[dict(tool) for tool in asked.tools], tools_hash=asked.tools_hash)
        )

    def answers(
        self, agent: AgentId, asked: MessageId, message: Message | str, finish: Finish | None = None
    ) -> None:
        message = assistant(message) if isinstance(message, str) else message
        finish = finish or Finish(stop_reason="tool_use" if message.tool_calls else "end_turn")
        entry = self.session.append(build_entry(agent, message))
        self.session.append(
            ev.LlmResponse(
                agent_id=agent,
                request=asked,
                entry=entry,
                stop_reason=finish.stop_reason,
                usage=finish.usage,
                cost_usd=finish.cost_usd,
                model=finish.model,
            )
        )

    def breaks(self, agent: AgentId, asked: MessageId, stop_reason: str) -> None:
        self.session.append(
            ev.LlmResponse(
                agent_id=agent, request=asked, stop_reason=stop_reason, partial="half an ans"
            )
        )

    def says(self, agent: AgentId, heard: Message | str, said: Message | str) -> None:
        """One turn: the agent hears something, its model is asked and answers."""
        self.hears(agent, heard)
        self.answers(agent, self.asks(agent), said)
