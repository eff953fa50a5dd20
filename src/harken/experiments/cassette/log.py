"""`CassetteLog`: write model calls to a session log, redacted.

Each call belongs to an agent. Messages that are already in the agent's context are not written
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from harken.core import canonical
from harken.core import events as ev
from harken.core.clock import Clock, system_clock
from harken.core.event_types.message_parser import parse_message
from harken.core.event_types.spec import AgentSpec, ForeignAgent
from harken.core.ids import AgentId, MessageId
from harken.core.messages import (
    ChatMessage,
    Message,
    extend_context_hash,
    message_hash,
)
from harken.core.replace import in_json
from harken.core.secrets.redaction import redact
from harken.core.stream import Finish, StreamAccumulator
from harken.errors import ModelError
from harken.llm.base import ModelRequest, ToolSchema, tools_hash
from harken.session.session import Session, SessionOptions, build_entry
from harken.views.context import without_entry_fields

RECORDED_BY = "harken-cassette"
"""Value of `recorded` in the `spec` of a cassette's agents."""


class CassetteLog:
    """The session log of a cassette. `begin` writes a call."""

    def __init__(self, log: Path, clock: Clock = system_clock) -> None:
        self.session = Session(log, options=SessionOptions(durability="none", clock=clock))

    def begin(self, request: ModelRequest, model: str) -> RecordedExchange:
        """Write a redacted request to the log."""
        model = redact(model).text
        session, agent = self.session, self._get_agent(request.agent, model)
        tools: MessageId | None = None
        if request.tools_hash is not None:
            tools = session.state.tools.get(request.tools_hash) or session.append(
                ev.ToolsDefined(
                    tools=[dict(tool) for tool in request.tools], tools_hash=request.tools_hash
                )
            )
        self._set_context(agent, request.messages)
        event = ev.LlmRequest(
            agent_id=agent,
            context=session.agent(agent).segments(),
            count=len(request.messages),
            context_hash=request.context_hash,
            model=model,
            parameters=dict(request.parameters) or None,
            tools=tools,
        )
        return RecordedExchange(session, agent, session.append(event))

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

    def _set_context(self, agent: AgentId, messages: Sequence[ChatMessage]) -> None:
        """Set the agent's context to these messages. Messages that it has are not written again."""
        previous = self.session.context(agent)
        common = _common_prefix(map(_message_key, previous), map(_message_key, messages))
        previous_count = len(previous)
        new_ids = [
            self.session.append(build_entry(agent, message)) for message in messages[common:]
        ]
        if common < previous_count:
            segments = [ev.Segment(start=0, stop=common)] if common else []
            segments += [ev.Segment(entries=new_ids)] if new_ids else []
            edit = ev.TranscriptEdited(agent_id=agent, segments=segments, reason="rewritten")
            self.session.append(edit)


class RecordedExchange:
    """A recorded call and its response."""

    def __init__(self, session: Session, agent: AgentId, request: MessageId) -> None:
        self.session, self.agent, self.request = session, agent, request
        self.draft = StreamAccumulator()
        self._started_us = session.options.clock()

    def end(self) -> None:
        """Write a complete response. Raises ModelError if the stream was cut off."""
        if self.draft.finish is None:
            raise ModelError("the answer was cut off before its end: it was not recorded")
        self.write_response([self.draft.message()], self.draft.finish)

    def write_response(
        self, answer: Sequence[ChatMessage], finish: Finish, extra: Mapping[str, Any] | None = None
    ) -> None:
        """Write a response, redacted. `more` has additional members of the response event."""
        entries = [
            self.session.append(build_entry(self.agent, redact_message(message)))
            for message in answer
        ]
        response = ev.LlmResponse(
            agent_id=self.agent,
            request=self.request,
            entry=entries[-1],
            stop_reason=finish.stop_reason,
            model=None if finish.model is None else redact(finish.model).text,
            usage=finish.usage,
            cost_usd=finish.cost_usd,
            latency_s=(self.session.options.clock() - self._started_us) / 1e6,
            unknown=dict(extra) if extra else None,
        )
        self.session.append(response)


def redact_request(request: ModelRequest) -> ModelRequest:
    """Return a request without credentials. Its hash is unchanged if there are none."""
    messages = [redact_message(message) for message in request.messages]
    tools: list[ToolSchema] = [_redact_value(dict(tool)) for tool in request.tools]
    return replace(
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


def _common_prefix(left_items: Iterable[object], right_items: Iterable[object]) -> int:
    """Return the length of the common prefix."""
    length = 0
    for left, right in zip(left_items, right_items, strict=False):
        if left != right:
            break
        length += 1
    return length


def _message_key(message: ChatMessage) -> tuple[str, tuple[str, ...], str | None]:
    ids = tuple(call.id for call in message.tool_calls or ())
    return message_hash(message), ids, message.tool_call_id
