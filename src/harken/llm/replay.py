"""Replayed models: the answers of a recorded session, found by the hash of the exact request.

A request gets a recorded answer only where context, tools and parameters are those of a recorded
request, whoever asks. So a replay that goes through shows that nothing a model could see has
changed; where something has, the miss says what.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from harken.core import canonical
from harken.core import events as ev
from harken.core.arguments import check_arguments
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, TextPart, ThinkingPart, message_hash
from harken.core.stream import Chunk, Finish, chunks_of
from harken.errors import ReplayMiss
from harken.llm.base import ModelRequest, request_hash
from harken.session.log.reader import events, paused_gc
from harken.session.segments import context_of

UNUSABLE = frozenset({"cancelled", "error", "interrupted"})
"""Stop reasons of answers that did not come to their end."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One whole answer, as it stands in the log."""

    entry: ev.TranscriptEntry
    response: ev.LlmResponse

    @property
    def finish(self) -> Finish:
        """How the answer ended."""
        usual = "tool_use" if self.entry.tool_calls else "end_turn"
        return Finish(
            stop_reason=self.response.stop_reason or usual,
            usage=self.response.usage,
            cost_usd=self.response.cost_usd,
            model=self.response.model,
        )


@dataclass(slots=True)
class ReplayLog:
    """What a replay needs of a log, each kind by its id, in the order of the log."""

    requests: dict[MessageId, ev.LlmRequest] = field(default_factory=dict)
    responses: dict[MessageId, ev.LlmResponse] = field(default_factory=dict)
    """By the request that they answer."""
    entries: dict[MessageId, ev.TranscriptEntry] = field(default_factory=dict)
    tools: dict[MessageId, ev.ToolsDefined] = field(default_factory=dict)
    names: dict[AgentId, str] = field(default_factory=dict)

    @staticmethod
    def read(session_file: Path) -> ReplayLog:
        """Read a log, also an older one.

        Raises LogNotFound, InvalidLog, LogVersionUnsupported, LogCorrupted.
        """
        with paused_gc():
            return ReplayLog.of(events(session_file))

    @staticmethod
    def of(session: Iterable[ev.Event]) -> ReplayLog:
        """Take the events of a session, oldest first; it may have no log."""
        recording = ReplayLog()
        for event in session:
            recording.take(event)
        return recording

    def take(self, event: ev.Event) -> None:
        """Keep what is needed of the next event."""
        match event:
            case ev.TranscriptEntry():
                self.entries[event.message_id] = event
            case ev.LlmRequest():
                self.requests[event.message_id] = event
            case ev.LlmResponse():
                self.responses[event.request] = event
            case ev.ToolsDefined():
                self.tools[event.message_id] = event
            case ev.AgentCreated() | ev.AgentConfigured() if event.agent_id and event.name:
                self.names[event.agent_id] = event.name
            case _:
                pass

    def hash_of(self, request: ev.LlmRequest) -> str | None:
        """Return the identity of a recorded request; None where its tools are not in the log."""
        defined = self.tools.get(request.tools) if request.tools else None
        if request.tools and defined is None:
            return None
        tools = defined.tools_hash if defined else None
        return request_hash(request.context_hash, tools, request.parameters)

    def context(self, request: ev.LlmRequest) -> list[ChatMessage]:
        """Return what a recorded request saw.

        Raises KeyError or ValueError where the log alone does not say.
        """
        return context_of(request, self.requests, self.entries)

    def answer_to(self, request: ev.LlmRequest) -> RecordedAnswer | None:
        """Return the whole answer to a recorded request; None where it was cut off or failed."""
        response = self.responses.get(request.message_id)
        if response is None or response.error or response.stop_reason in UNUSABLE:
            return None
        entry = self.entries.get(response.entry) if response.entry else None
        return None if entry is None else RecordedAnswer(entry, response)

    def called(self, request: ev.LlmRequest) -> str:
        """Return how a person would find a request: `msg_042 of Jack (agent_002)`."""
        agent = request.agent_id or AgentId("")
        name = self.names.get(agent)
        return f"{request.message_id} of " + (f"{name} ({agent})" if name else agent)


@check_arguments
class ReplayModel:
    """A model that says again what it said in a recorded session.

    Several recorded answers to one and the same request are given in their recorded order, the
    last one again and again. That order is kept in this object: agents that shall share it share
    the model.
    """

    def __init__(self, recording: ReplayLog, name: str = "replay") -> None:
        self.name = name
        self._recording = recording
        self._answers: dict[str, list[RecordedAnswer]] = {}
        self._given: dict[str, int] = {}
        for request in recording.requests.values():
            answer, hash_ = recording.answer_to(request), recording.hash_of(request)
            if answer is not None and hash_ is not None:
                self._answers.setdefault(hash_, []).append(answer)

    @classmethod
    def load(cls, session_file: str | Path, *, name: str | None = None) -> ReplayModel:
        """Read a log that nobody needs to have closed. Raises as `ReplayLog.read`."""
        return cls(ReplayLog.read(Path(session_file)), name or f"replay:{session_file}")

    def has(self, request: ModelRequest) -> bool:
        """Whether such a request was answered."""
        return request.hash in self._answers

    def take(self, request: ModelRequest) -> RecordedAnswer:
        """Return the next recorded answer to a request. Raises ReplayMiss where there is none."""
        hash_ = request.hash
        answers = self._answers.get(hash_)
        if answers is None:
            raise ReplayMiss(f"{self.name}: {_explain(self._recording, request)}")
        given = self._given.get(hash_, 0)
        self._given[hash_] = given + 1
        return answers[min(given, len(answers) - 1)]

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer word by word, at once. Raises ReplayMiss where no such request was answered."""
        await asyncio.sleep(0)
        answer = self.take(request)
        for chunk in chunks_of(answer.entry):
            yield chunk
        yield answer.finish


def _explain(recording: ReplayLog, request: ModelRequest) -> str:
    """Say which recorded request is nearest to one that was not found, and how they differ first.

    Nearest is that with the most messages in common from the beginning; among those, one of the
    same agent, of the most similar length, with the same tools and parameters, the earliest.
    """
    asked = f"no answer to this request of {request.agent} ({len(request.messages)} messages)"
    if not recording.requests:
        return f"{asked}: the log holds no model calls"
    common = _common(recording, [message_hash(message) for message in request.messages])
    if not common:
        return f"{asked}: no recorded context can be rebuilt from this log alone"

    def nearness(id_: MessageId) -> tuple[int, bool, int, bool]:
        recorded = recording.requests[id_]
        agent = recorded.agent_id or AgentId("")
        with_ours = request_hash(recorded.context_hash, request.tools_hash, request.parameters)
        return (
            common[id_],
            request.agent == recording.names.get(agent, agent),
            -abs(recorded.count - len(request.messages)),
            recording.hash_of(recorded) == with_ours,
        )

    nearest = recording.requests[max(common, key=nearness)]
    difference = (
        _in_messages(recording.context(nearest), request.messages, common[nearest.message_id])
        or _beside_messages(recording, nearest, request)
        or _in_answer(recording, nearest)
    )
    return f"{asked}; nearest is {recording.called(nearest)}: {difference}"


def _common(recording: ReplayLog, asked: Sequence[str]) -> dict[MessageId, int]:
    """Return how many messages from the beginning each recorded request has in common with one.

    A request that begins with the context of an earlier one is compared from there on, so the
    whole costs no more than the log is long. One that cannot be rebuilt is left out.
    """
    common: dict[MessageId, int] = {}
    for id_, recorded in recording.requests.items():
        head, *rest = recorded.context or [ev.Segment(entries=[])]
        same, stop = 0, head.stop or 0
        if head.request is not None and not head.start:
            same = min(common.get(head.request, -1), stop)
            if same < stop:
                if same >= 0:
                    common[id_] = same
                continue
            recorded = msgspec.structs.replace(recorded, context=rest)
        try:
            messages = recording.context(recorded)
        except (KeyError, ValueError):
            continue
        for message, hash_ in zip(messages, asked[same:], strict=False):
            if message_hash(message) != hash_:
                break
            same += 1
        common[id_] = same
    return common


def _in_messages(
    recorded: Sequence[ChatMessage], asked: Sequence[ChatMessage], at: int
) -> str | None:
    """Say how two contexts differ that have their first `at` messages in common."""
    if at == len(recorded) == len(asked):
        return None
    if at == len(recorded):
        more = _excerpt(asked[at])
        return f"the recorded context ends before message {at}, this one goes on with {more}"
    if at == len(asked):
        more = _excerpt(recorded[at])
        return f"this context ends before message {at}, the recorded one goes on with {more}"
    one, two = recorded[at], asked[at]
    if (one.role, _readable(one)) == (two.role, _readable(two)):
        return f"message {at} differs in parts that are no text: {_excerpt(one)}"
    start = _shortly_before_parting(_readable(one), _readable(two))
    return f"message {at} differs: recorded {_excerpt(one, start)}, asked {_excerpt(two, start)}"


def _excerpt(message: ChatMessage, start: int = 0) -> str:
    """Return the role and a stretch of the text of a message."""
    text, end = _readable(message), start + 60
    shown = "..." * (start > 0) + text[start:end] + "..." * (len(text) > end)
    return f"{message.role} {shown!r}"


def _shortly_before_parting(one: str, two: str) -> int:
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))
    return same - 20 if same > 40 else 0


def _readable(message: ChatMessage) -> str:
    """Return all of a message that can be read, its calls too."""
    content = message.content
    parts = [TextPart(content)] if isinstance(content, str) else content or []
    said = ["[error]"] if message.is_error else []
    said += [part.text for part in parts if isinstance(part, TextPart | ThinkingPart)]
    functions = [call.function for call in message.tool_calls or ()]
    said += [f"{function.name}({function.arguments})" for function in functions]
    return " ".join(said)


def _beside_messages(
    recording: ReplayLog, recorded: ev.LlmRequest, request: ModelRequest
) -> str | None:
    """Say how two requests differ beside their messages; None where they do not."""
    defined = recording.tools.get(recorded.tools) if recorded.tools else None
    if (defined.tools_hash if defined else None) != request.tools_hash:
        return "the messages are the same, the tools differ: " + _first_difference(
            _by_name(defined.tools if defined else ()), _by_name(request.tools)
        )
    one, two = recorded.parameters or {}, request.parameters
    if canonical.to_canonical_bytes(one) != canonical.to_canonical_bytes(dict(two)):
        return "the messages are the same, the parameters differ: " + _first_difference(one, two)
    return None


def _by_name(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {str(tool.get("name")): dict(tool) for tool in tools}


def _first_difference(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Name the first member that differs between two that are not the same."""
    for name in {**recorded, **asked}:
        one, two = (
            canonical.to_canonical_bytes(side[name]).decode() if name in side else None
            for side in (recorded, asked)
        )
        if one is None or two is None:
            return f"{name} is only in the {'recorded' if two is None else 'new'} request"
        if one != two:
            start = _shortly_before_parting(one, two)
            return f"{name} was {one[start : start + 60]}, is {two[start : start + 60]}"
    return "in their order"


def _in_answer(recording: ReplayLog, recorded: ev.LlmRequest) -> str:
    """Say why a recorded request gives no answer, though it is the same."""
    response = recording.responses.get(recorded.message_id)
    if response is None:
        return "it is the same, but was never answered"
    if recording.answer_to(recorded) is None:
        return f"it is the same, but its answer is not whole ({response.stop_reason or 'failed'})"
    return "it is the same, but this request says a context_hash that is not that of its messages"
