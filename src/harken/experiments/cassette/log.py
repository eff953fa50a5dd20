"""`CassetteLog`: write model calls to a session log, redacted.

Each call belongs to an agent. Messages that are already in the agent's context are not written
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from harken.core import canonical, structs
from harken.core.clock import Clock, system_clock
from harken.core.event_types.message_parser import parse_message
from harken.core.event_types.spec import AgentSpec, ForeignAgent
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, Message, extend_context_hash
from harken.core.secrets.redaction import redact
from harken.core.secrets.removal import in_json
from harken.core.stream import Finish, StreamAccumulator
from harken.errors import ModelError
from harken.llm.base import ModelRequest, ToolSchema, tools_hash
from harken.recording.writer.agent_recorder import AgentRecorder
from harken.recording.writer.item import Item
from harken.recording.writer.request import RequestSettings
from harken.session.session import Session, SessionOptions
from harken.views.context import without_entry_fields

RECORDED_BY = "harken-cassette"
"""Value of `recorded` in the `spec` of a cassette's agents."""


class CassetteLog:
    """The session log of a cassette. `begin` writes a call."""

    def __init__(self, log: Path, clock: Clock = system_clock) -> None:
        self.session = Session(log, options=SessionOptions(durability="none", clock=clock))
        self._recorders: dict[AgentId, AgentRecorder] = {}

    def begin(self, request: ModelRequest, model: str) -> RecordedExchange:
        """Write a redacted request to the log."""
        model = redact(model).text
        agent_id = self._get_agent(request.agent, model)
        recorder = self._recorders.get(agent_id)
        if recorder is None:
            recorder = self._recorders[agent_id] = AgentRecorder.from_log(self.session, agent_id)
        settings = RequestSettings(
            model=model, parameters=request.parameters, tools=[dict(tool) for tool in request.tools]
        )
        items = [Item.from_message(without_entry_fields(message)) for message in request.messages]
        clock = self.session.options.clock
        return RecordedExchange(recorder, recorder.log_request(items, settings), clock)

    def _get_agent(self, name: str, model: str) -> AgentId:
        """Return the agent for a call: the one with this name, unless it has an open request."""
        session = self.session
        for id_, state in session.agents.items():
            if state.name == name and id_ not in session.state.requests:
                return id_
        agent_id, root = session.allocate_agent_id(), session.state.root
        cause = None if root is None else session.agents[root].birth
        spec = AgentSpec(foreign=ForeignAgent(RECORDED_BY))
        session.log_agent_created(agent_id, cause, name, model, spec=spec)
        return agent_id


class RecordedExchange:
    """A recorded call and its response."""

    def __init__(self, recorder: AgentRecorder, request: MessageId, clock: Clock) -> None:
        self.recorder, self.request = recorder, request
        self.draft = StreamAccumulator()
        self._clock = clock
        self._started_us = self._clock()

    def end(self) -> None:
        """Write a complete response. Raises ModelError if the stream was cut off."""
        if self.draft.finish is None:
            raise ModelError("the answer was cut off before its end: it was not recorded")
        self.write_response([self.draft.message()], self.draft.finish)

    def write_response(
        self, answer: Sequence[ChatMessage], finish: Finish, extra: Mapping[str, Any] | None = None
    ) -> None:
        """Write a response, redacted. `extra` has additional members of the response event."""
        model = None if finish.model is None else redact(finish.model).text
        self.recorder.log_response(
            self.request,
            [Item.from_message(redact_message(message)) for message in answer],
            finish=structs.replace(finish, model=model),
            latency_s=(self._clock() - self._started_us) / 1e6,
            extra=extra,
        )


def redact_request(request: ModelRequest) -> ModelRequest:
    """Return a request without credentials. Its hash is unchanged if there are none."""
    messages = [redact_message(message) for message in request.messages]
    tools: list[ToolSchema] = [_redact_value(dict(tool)) for tool in request.tools]
    return structs.replace(
        request,
        messages=messages,
        tools=tools,
        parameters=_redact_value(dict(request.parameters)),
        context_hash=reduce(extend_context_hash, messages, ""),
        tools_hash=tools_hash(tools) if request.tools_hash is not None else None,
    )


def redact_message(message: ChatMessage) -> Message:
    """Return a message without credentials."""
    message_ = without_entry_fields(message)
    data = canonical.to_json_line(message_)
    redacted_data = _redact_json(data)
    return message_ if redacted_data == data else parse_message(canonical.from_json(redacted_data))


def _redact_value(value: Any) -> Any:
    data = canonical.to_json_line(value)
    redacted_data = _redact_json(data)
    return value if redacted_data == data else canonical.from_json(redacted_data)


def _redact_json(data: bytes) -> bytes:
    return in_json(data, lambda text: redact(text).text)
