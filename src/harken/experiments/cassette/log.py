"""`CassetteLog`: a session in which model calls are written down as they are made, redacted.

An agent of it reads what each of its requests held; what it has read already is not written again.
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
from harken.core.ids import AgentId, MessageId
from harken.core.messages import (
    ChatMessage,
    Message,
    extend_context_hash,
    message_from,
    message_hash,
)
from harken.core.replace import in_json
from harken.core.secrets.redaction import redact
from harken.core.stream import Finish, StreamAccumulator
from harken.errors import ModelError
from harken.llm.base import ModelRequest, ToolSchema, tools_hash
from harken.session.session import Session, SessionOptions, entry_of
from harken.views.context import without_entry_fields

RECORDED = "harken-cassette"
"""What the birth of an agent in a cassette says that it was recorded by."""


class CassetteLog:
    """The session; `begin` writes a call down."""

    def __init__(self, log: Path, clock: Clock = system_clock) -> None:
        self.session = Session(log, options=SessionOptions(durability="none", clock=clock))

    def begin(self, request: ModelRequest, model: str) -> RecordedExchange:
        """Write down a request that was redacted, and which model it goes to."""
        model = redact(model).text
        session, agent = self.session, self._agent(request.agent, model)
        tools: MessageId | None = None
        if request.tools_hash is not None:
            tools = session.state.tools.get(request.tools_hash) or session.append(
                ev.ToolsDefined(
                    tools=[dict(tool) for tool in request.tools], tools_hash=request.tools_hash
                )
            )
        self._read(agent, request.messages)
        asked = ev.LlmRequest(
            agent_id=agent,
            context=session.agent(agent).segments(),
            count=len(request.messages),
            context_hash=request.context_hash,
            model=model,
            parameters=dict(request.parameters) or None,
            tools=tools,
        )
        return RecordedExchange(session, agent, session.append(asked))

    def _agent(self, name: str, model: str) -> AgentId:
        """Return whose call it is: one agent of a name, unless that waits for an answer."""
        session = self.session
        for id_, state in session.agents.items():
            if state.name == name and id_ not in session.state.requests:
                return id_
        new, root = session.allocate_agent_id(), session.state.root
        cause = None if root is None else session.agents[root].birth
        session.log_agent_created(new, cause, name, model, spec={"recorded": RECORDED})
        return new

    def _read(self, agent: AgentId, messages: Sequence[ChatMessage]) -> None:
        """Let the agent read these messages; what it has read already is not written again."""
        had = self.session.context(agent)
        same = _same(map(_key, had), map(_key, messages))
        kept = len(had)
        new = [self.session.append(entry_of(agent, message)) for message in messages[same:]]
        if same < kept:
            segments = [ev.Segment(start=0, stop=same)] if same else []
            segments += [ev.Segment(entries=new)] if new else []
            edit = ev.TranscriptEdited(agent_id=agent, segments=segments, reason="rewritten")
            self.session.append(edit)


class RecordedExchange:
    """A call that is written down, and the answer as it comes."""

    def __init__(self, session: Session, agent: AgentId, request: MessageId) -> None:
        self.session, self.agent, self.request = session, agent, request
        self.draft = StreamAccumulator()
        self._started_us = session.options.clock()

    def end(self) -> None:
        """Write down a whole answer. Raises ModelError where it has no end."""
        if self.draft.finish is None:
            raise ModelError("the answer was cut off before its end: it was not recorded")
        self.say([self.draft.message()], self.draft.finish)

    def say(
        self, answer: Sequence[ChatMessage], finish: Finish, more: Mapping[str, Any] | None = None
    ) -> None:
        """Write down an answer, redacted; `more` are members that only a cassette has."""
        entries = [self.session.append(entry_of(self.agent, clean(one))) for one in answer]
        response = ev.LlmResponse(
            agent_id=self.agent,
            request=self.request,
            entry=entries[-1],
            stop_reason=finish.stop_reason,
            model=None if finish.model is None else redact(finish.model).text,
            usage=finish.usage,
            cost_usd=finish.cost_usd,
            latency_s=(self.session.options.clock() - self._started_us) / 1e6,
            unknown=dict(more) if more else None,
        )
        self.session.append(response)


def redacted(request: ModelRequest) -> ModelRequest:
    """Return a request without credentials; one that has none is the same by its hash."""
    messages = [clean(message) for message in request.messages]
    tools: list[ToolSchema] = [_without(dict(tool)) for tool in request.tools]
    return replace(
        request,
        messages=messages,
        tools=tools,
        parameters=_without(dict(request.parameters)),
        context_hash=reduce(extend_context_hash, messages, ""),
        tools_hash=tools_hash(tools) if request.tools_hash is not None else None,
    )


def clean(message: ChatMessage) -> Message:
    """Return a message without credentials, wherever they stand in it."""
    alone = without_entry_fields(message)
    data = canonical.to_json_line(alone)
    without = _in_json(data)
    return alone if without == data else message_from(canonical.from_json(without))


def _without(value: Any) -> Any:
    data = canonical.to_json_line(value)
    without = _in_json(data)
    return value if without == data else canonical.from_json(without)


def _in_json(data: bytes) -> bytes:
    return in_json(data, lambda text: redact(text).text)


def _same(one: Iterable[object], two: Iterable[object]) -> int:
    """Return with how many equal items both begin."""
    same = 0
    for left, right in zip(one, two, strict=False):
        if left != right:
            break
        same += 1
    return same


def _key(message: ChatMessage) -> tuple[str, tuple[str, ...], str | None]:
    ids = tuple(call.id for call in message.tool_calls or ())
    return message_hash(message), ids, message.tool_call_id
