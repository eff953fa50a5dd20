"""Replayed models: answers of a recorded session, found by the hash of the exact request.

A request gets a recorded answer only if context, tools and parameters equal those of a recorded
request, from any agent. So a complete replay proves that no input of a model has changed; if an
input has changed, the miss describes the difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from harken.core import canonical, structs
from harken.core import events as ev
from harken.core.arguments import check_arguments
from harken.core.ids import AgentId, MessageId
from harken.core.messages import ChatMessage, TextPart, ThinkingPart, message_hash, parts_of
from harken.core.stream import Chunk, Finish, iter_chunks
from harken.errors import ReplayMiss
from harken.llm.base import ModelRequest, request_hash
from harken.session.log.reader import iter_events, paused_gc
from harken.session.segments import resolve_context

FAILED_STOP_REASONS = frozenset({"cancelled", "error", "interrupted"})
"""Stop reasons of incomplete answers."""


class RecordedAnswer(msgspec.Struct, frozen=True):
    """A complete answer in the log."""

    entry: ev.TranscriptEntry
    response: ev.LlmResponse

    @property
    def finish(self) -> Finish:
        """The end of the answer."""
        usual = "tool_use" if self.entry.tool_calls else "end_turn"
        return Finish(
            stop_reason=self.response.stop_reason or usual,
            usage=self.response.usage,
            cost_usd=self.response.cost_usd,
            model=self.response.model,
        )


class ReplayLog(msgspec.Struct):
    """The events of a log that a replay uses, by id, in the order of the log."""

    requests: dict[MessageId, ev.LlmRequest] = msgspec.field(default_factory=dict)
    responses: dict[MessageId, ev.LlmResponse] = msgspec.field(default_factory=dict)
    """Responses by the id of their request."""
    entries: dict[MessageId, ev.TranscriptEntry] = msgspec.field(default_factory=dict)
    tools: dict[MessageId, ev.ToolsDefined] = msgspec.field(default_factory=dict)
    names: dict[AgentId, str] = msgspec.field(default_factory=dict)

    @staticmethod
    def read(session_file: Path) -> ReplayLog:
        """Read a log, also of an older version.

        Raises LogNotFound, InvalidLog, LogVersionUnsupported, LogCorrupted.
        """
        with paused_gc():
            return ReplayLog.from_events(iter_events(session_file))

    @staticmethod
    def from_events(session: Iterable[ev.Event]) -> ReplayLog:
        """Read the events of a session, oldest first, which may have no log."""
        recording = ReplayLog()
        for event in session:
            recording.add(event)
        return recording

    def add(self, event: ev.Event) -> None:
        """Store the next event, if a replay uses it."""
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

    def hash_request(self, request: ev.LlmRequest) -> str | None:
        """Return the hash of a recorded request. Return None if its tools are not in the log."""
        tools_event = self.tools.get(request.tools) if request.tools else None
        if request.tools and tools_event is None:
            return None
        tools = tools_event.tools_hash if tools_event else None
        return request_hash(request.context_hash, tools, request.parameters)

    def context(self, request: ev.LlmRequest) -> list[ChatMessage]:
        """Return the context of a recorded request.

        Raises KeyError or ValueError if it cannot be rebuilt from the log alone.
        """
        return resolve_context(request, self.requests, self.entries)

    def answer_to(self, request: ev.LlmRequest) -> RecordedAnswer | None:
        """Return the complete answer to a recorded request.

        Return None if it failed or was cut off.
        """
        response = self.responses.get(request.message_id)
        if response is None or response.error or response.stop_reason in FAILED_STOP_REASONS:
            return None
        entry = self.entries.get(response.entry) if response.entry else None
        return None if entry is None else RecordedAnswer(entry, response)

    def describe(self, request: ev.LlmRequest) -> str:
        """Describe a request for a person: `msg_042 of Jack (agent_002)`."""
        agent = request.agent_id or AgentId("")
        name = self.names.get(agent)
        return f"{request.message_id} of " + (f"{name} ({agent})" if name else agent)


@check_arguments
class ReplayModel:
    """A model that repeats its answers of a recorded session.

    Several recorded answers to equal requests are returned in recorded order, the last one
    repeatedly. This object keeps the position in that order: agents that share it share the model.
    """

    def __init__(self, recording: ReplayLog, name: str = "replay") -> None:
        self.name = name
        self._recording = recording
        self._answers: dict[str, list[RecordedAnswer]] = {}
        self._used_counts: dict[str, int] = {}
        for request in recording.requests.values():
            answer, hash_ = recording.answer_to(request), recording.hash_request(request)
            if answer is not None and hash_ is not None:
                self._answers.setdefault(hash_, []).append(answer)

    @classmethod
    def load(cls, session_file: str | Path, *, name: str | None = None) -> ReplayModel:
        """Read a log, which may still be open. Raises as `ReplayLog.read`."""
        return cls(ReplayLog.read(Path(session_file)), name or f"replay:{session_file}")

    def has_answer(self, request: ModelRequest) -> bool:
        """Whether the log has an answer to this request."""
        return request.hash in self._answers

    def next_answer(self, request: ModelRequest) -> RecordedAnswer:
        """Return the next recorded answer to a request. Raises ReplayMiss if there is none."""
        hash_ = request.hash
        answers = self._answers.get(hash_)
        if answers is None:
            raise ReplayMiss(f"{self.name}: {_explain(self._recording, request)}")
        used_count = self._used_counts.get(hash_, 0)
        self._used_counts[hash_] = used_count + 1
        return answers[min(used_count, len(answers) - 1)]

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Stream the answer word by word, without delay. Raises ReplayMiss if there is none."""
        await asyncio.sleep(0)
        answer = self.next_answer(request)
        for chunk in iter_chunks(answer.entry):
            yield chunk
        yield answer.finish


def _explain(recording: ReplayLog, request: ModelRequest) -> str:
    """Describe the recorded request nearest to a missing one, and their first difference.

    The nearest is the one with the longest common prefix of messages; among equals, one of the same
    agent, of the most similar length, with the same tools and parameters, the earliest.
    """
    description = f"no answer to this request of {request.agent} ({len(request.messages)} messages)"
    if not recording.requests:
        return f"{description}: the log has no model calls"
    common = _count_common(recording, [message_hash(message) for message in request.messages])
    if not common:
        return f"{description}: no recorded context can be rebuilt from this log alone"

    def nearness(id_: MessageId) -> tuple[int, bool, int, bool]:
        recorded = recording.requests[id_]
        agent = recorded.agent_id or AgentId("")
        expected_hash = request_hash(recorded.context_hash, request.tools_hash, request.parameters)
        return (
            common[id_],
            request.agent == recording.names.get(agent, agent),
            -abs(recorded.count - len(request.messages)),
            recording.hash_request(recorded) == expected_hash,
        )

    nearest = recording.requests[max(common, key=nearness)]
    difference = (
        _describe_messages(recording.context(nearest), request.messages, common[nearest.message_id])
        or _describe_settings(recording, nearest, request)
        or _describe_answer(recording, nearest)
    )
    return f"{description}; nearest is {recording.describe(nearest)}: {difference}"


def _count_common(recording: ReplayLog, hashes: Sequence[str]) -> dict[MessageId, int]:
    """Return the length of the common prefix of messages of each recorded request with this one.

    A request that begins with the context of an earlier one is compared from its end on, so the
    total cost is linear in the log. A request that cannot be rebuilt is left out.
    """
    common: dict[MessageId, int] = {}
    for id_, recorded in recording.requests.items():
        head, *later_segments = recorded.context or [ev.Segment(entries=[])]
        matching, stop = 0, head.stop or 0
        if head.request is not None and not head.start:
            matching = min(common.get(head.request, -1), stop)
            if matching < stop:
                if matching >= 0:
                    common[id_] = matching
                continue
            recorded = structs.replace(recorded, context=later_segments)
        try:
            messages = recording.context(recorded)
        except (KeyError, ValueError):
            continue
        for message, hash_ in zip(messages, hashes[matching:], strict=False):
            if message_hash(message) != hash_:
                break
            matching += 1
        common[id_] = matching
    return common


def _describe_messages(
    recorded: Sequence[ChatMessage], current: Sequence[ChatMessage], position: int
) -> str | None:
    """Describe the first difference of two contexts with `position` common messages."""
    if position == len(recorded) == len(current):
        return None
    if position == len(recorded):
        excerpt = _excerpt(current[position])
        return f"the recorded context ends before message {position}, this one has {excerpt}"
    if position == len(current):
        excerpt = _excerpt(recorded[position])
        return f"this context ends before message {position}, the recorded one has {excerpt}"
    old, new = recorded[position], current[position]
    if (old.role, _full_text(old)) == (new.role, _full_text(new)):
        return f"message {position} differs in parts other than text: {_excerpt(old)}"
    start = _excerpt_start(_full_text(old), _full_text(new))
    return (
        f"message {position} differs: recorded {_excerpt(old, start)}, asked {_excerpt(new, start)}"
    )


def _excerpt(message: ChatMessage, start: int = 0) -> str:
    """Return the role and an excerpt of the text of a message."""
    text, end = _full_text(message), start + 60
    excerpt = "..." * (start > 0) + text[start:end] + "..." * (len(text) > end)
    return f"{message.role} {excerpt!r}"


def _excerpt_start(left: str, right: str) -> int:
    matching = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False))
    )
    return matching - 20 if matching > 40 else 0


def _full_text(message: ChatMessage) -> str:
    """Return the text of a message, with its thoughts and calls."""
    parts = parts_of(message.content)
    texts = ["[error]"] if message.is_error else []
    texts += [part.text for part in parts if isinstance(part, TextPart | ThinkingPart)]
    functions = [call.function for call in message.tool_calls or ()]
    texts += [f"{function.name}({function.arguments})" for function in functions]
    return " ".join(texts)


def _describe_settings(
    recording: ReplayLog, recorded: ev.LlmRequest, request: ModelRequest
) -> str | None:
    """Describe the difference of two requests outside of the messages.

    Return None if there is none.
    """
    tools_event = recording.tools.get(recorded.tools) if recorded.tools else None
    if (tools_event.tools_hash if tools_event else None) != request.tools_hash:
        return "the messages are the same, the tools differ: " + _first_difference(
            _tools_by_name(tools_event.tools if tools_event else ()), _tools_by_name(request.tools)
        )
    old, new = recorded.parameters or {}, request.parameters
    if canonical.to_canonical_bytes(old) != canonical.to_canonical_bytes(dict(new)):
        return "the messages are the same, the parameters differ: " + _first_difference(old, new)
    return None


def _tools_by_name(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {str(tool.get("name")): dict(tool) for tool in tools}


def _first_difference(recorded: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    """Describe the first member that differs between two unequal objects."""
    for name in {**recorded, **current}:
        old, new = (
            canonical.to_canonical_bytes(side[name]).decode() if name in side else None
            for side in (recorded, current)
        )
        if old is None or new is None:
            return f"{name} is only in the {'recorded' if new is None else 'new'} request"
        if old != new:
            start = _excerpt_start(old, new)
            return f"{name} was {old[start : start + 60]}, is {new[start : start + 60]}"
    return "in their order"


def _describe_answer(recording: ReplayLog, recorded: ev.LlmRequest) -> str:
    """Explain why an equal recorded request gives no answer."""
    response = recording.responses.get(recorded.message_id)
    if response is None:
        return "it is the same, but was never answered"
    if recording.answer_to(recorded) is None:
        return f"it is the same, but its answer is incomplete ({response.stop_reason or 'failed'})"
    return "it is the same, but this request says a context_hash that is not that of its messages"
