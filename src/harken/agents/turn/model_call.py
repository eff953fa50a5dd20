"""One model call, with everything about it in the log.

The request is logged before the call, the answer and how it ended right after it. A failed or
cancelled call is logged too, with what had arrived.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, field, replace

import msgspec

from harken.agents.runtime import OnChunk
from harken.core.events import LlmRequest, LlmResponse, TranscriptEntry, Usage
from harken.core.ids import AgentId, MessageId, reference_number
from harken.core.messages import (
    ContentPart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
)
from harken.core.stream import Finish, StreamAccumulator, partial_of
from harken.errors import LogError, ModelError
from harken.formats.tool_calls import as_object
from harken.llm.base import Model, ModelRequest
from harken.session.session import Session, entry_of

CUT_OFF = "[interrupted]: your answer was cut off here"
"""What an agent hears after an answer of its own that was cancelled."""
TOO_LONG = frozenset({"max_tokens", "length", "model_length", "model_context_window_exceeded"})
"""How an answer ends that was longer than it may be: its last call may be half a call."""
LOST_USAGE = "a crash lost its usage"
"""What stands with an answer of which a crash cut off how it ended."""
HALF_A_CALL = (
    "Error: your answer reached its greatest length in the middle of this call, so it was not run. "
    "Say less at once: do it in several smaller calls."
)
"""The result of half a call."""


@dataclass(slots=True)
class ModelCall:
    """A call that is in the log as `request_id`."""

    session: Session
    agent_id: AgentId
    request_id: MessageId
    draft: StreamAccumulator = field(default_factory=StreamAccumulator)
    started_us: int = 0
    answer: TranscriptEntry = field(init=False)
    """What it answered, once it has."""
    response: LlmResponse | None = field(default=None, init=False)
    """How it ended; it has an id once that is in the log."""

    @property
    def said(self) -> TranscriptEntry | None:
        """What of an answer is in the log, also of one that was cancelled; None: nothing."""
        id_ = None if self.response is None else self.response.entry
        entries = reversed(self.session.agent(self.agent_id).transcript or ())
        return next((entry for entry in entries if entry.message_id == id_), None)

    async def run(self, model: Model, request: ModelRequest, on_chunk: OnChunk | None) -> None:
        """Make the call, and log its answer.

        Raises ModelError; a failure of any other kind in the model is one too.
        """
        self.started_us = self.session.options.clock()
        try:
            await self._stream(model, request, on_chunk)
            if self._is_blank():
                raise ModelError(f"{model.name} gave an empty answer")
            self._log_answer()
        except asyncio.CancelledError:
            self._log_cancelled()
            raise
        except LogError:
            raise
        except ModelError as error:
            self._log_failure(error)
            raise
        except Exception as error:
            failure = ModelError(f"{model.name}: {type(error).__name__}: {error}")
            self._log_failure(failure)
            raise failure from error

    async def _stream(self, model: Model, request: ModelRequest, on_chunk: OnChunk | None) -> None:
        chunks = model.stream(request)
        try:
            async for chunk in chunks:
                self.draft.add(chunk)
                if on_chunk is not None:
                    on_chunk(self.agent_id, chunk)
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()  # a connection is given back now, not when it is collected
        if self.draft.finish is None:
            raise ModelError(f"{model.name}: the answer was cut off before its end")

    @property
    def ends_in_half_a_call(self) -> bool:
        """Whether the answer was cut off in the middle of its last call.

        Arguments that are whole are an object. Where there are none, nobody knows whether some
        were to come, and what a tool does without them may be the opposite of what was meant.
        """
        calls = self.draft.message().tool_calls
        return bool(calls and self.is_cut_off and not as_object(calls[-1].function.arguments))

    @property
    def is_cut_off(self) -> bool:
        """Whether the answer was longer than it may be."""
        return self.draft.finish is not None and self.draft.finish.stop_reason in TOO_LONG

    def _is_blank(self) -> bool:
        """Whether nothing arrived that another could hear, or that can be done."""
        message = self.draft.message()
        content = message.content
        said = [content] if isinstance(content, str) else content or []
        return not message.tool_calls and not any(map(_says_something, said))

    def _log_answer(self) -> None:
        taken = self.session.agent(self.agent_id).open_calls
        message = with_call_ids(self.draft.message(), taken, self.request_id)
        finish = self.draft.finish or Finish(stop_reason="end_turn")
        self.answer = entry_of(self.agent_id, message)
        self.session.append_all([self.answer, self._response(finish, self.session.next_id())])

    def _log_failure(self, error: ModelError) -> None:
        finish = self._ended("error")
        response = self._response(finish, None)
        response.error = str(error)
        response.partial = partial_of(self.draft.thinking, self.draft.text)
        self.session.append(response)

    def _log_cancelled(self) -> None:
        """Log a cancelled call; text that had arrived is what the agent said, and a note says so.

        Half a thinking has no signature and half a call no end: no provider would take them back.
        So thinking stands in the response alone, for people.
        The text has the call as its cause, which no whole answer has: so it is never taken for
        one, wherever a crash cuts these lines.
        """
        finish, text = self._ended("cancelled"), self.draft.text
        if not text.strip():
            self.session.append(self._cut_off(finish, None))
            return
        said = self.session.next_id()
        self.session.append_all(
            [
                entry_of(self.agent_id, Message("assistant", text), cause=self.request_id),
                self._cut_off(finish, said),
                entry_of(self.agent_id, Message("user", CUT_OFF), cause=said),
            ]
        )

    def _cut_off(self, finish: Finish, said: MessageId | None) -> LlmResponse:
        response = self._response(finish, said)
        response.partial = partial_of(self.draft.thinking, "")
        return response

    def _ended(self, reason: str) -> Finish:
        """Return how a call ended that gave no answer, with the usage where it is known."""
        arrived = self.draft.finish
        return (
            Finish(stop_reason=reason) if arrived is None else replace(arrived, stop_reason=reason)
        )

    def _response(self, finish: Finish, entry: MessageId | None) -> LlmResponse:
        elapsed_us = self.session.options.clock() - self.started_us
        self.response = LlmResponse(
            agent_id=self.agent_id,
            request=self.request_id,
            entry=entry,
            stop_reason=finish.stop_reason,
            model=finish.model,
            usage=_plausible(finish.usage),
            cost_usd=_cost(finish.cost_usd),
            latency_s=elapsed_us / 1e6,
        )
        return self.response


def _says_something(part: ContentPart | str) -> bool:
    if isinstance(part, str | TextPart):
        return bool((part if isinstance(part, str) else part.text).strip())
    return not isinstance(part, ThinkingPart)


def _plausible(usage: Usage | None) -> Usage | None:
    """Return what a provider counted; what cannot be a count is not known."""
    if usage is None:
        return None
    counts = msgspec.structs.asdict(usage).items()
    return Usage(**{name: n if isinstance(n, int) and n >= 0 else None for name, n in counts})


def _cost(cost_usd: float | None) -> float | None:
    return cost_usd if cost_usd is not None and math.isfinite(cost_usd) else None


def with_call_ids(message: Message, taken: Collection[str], prefix: str) -> Message:
    """Return the message with a new id for each call whose id is missing, doubled or taken.

    Some servers leave ids out or repeat them. Places in the content follow in order; where they
    are not those of the calls, the calls stand after the content.
    """
    message = _without_odd_places(message)
    calls = message.tool_calls or []
    ids = [call.id for call in calls]
    if all(id_ and id_ not in taken and ids.count(id_) == 1 for id_ in ids):
        return message
    renamed = [
        ToolCall(f"call_{prefix}_{at}", call.function, call.type, call.meta)
        for at, call in enumerate(calls)
    ]
    content = message.content
    if isinstance(content, list):
        new_ids = iter([call.id for call in renamed])
        content = [
            ToolCallSlot(next(new_ids)) if isinstance(p, ToolCallSlot) else p for p in content
        ]
    return msgspec.structs.replace(message, tool_calls=renamed, content=content)


def _without_odd_places(message: Message) -> Message:
    content = message.content if isinstance(message.content, list) else []
    places = sorted(part.id for part in content if isinstance(part, ToolCallSlot))
    if not places or places == sorted(call.id for call in message.tool_calls or ()):
        return message
    rest = [part for part in content if not isinstance(part, ToolCallSlot)]
    return msgspec.structs.replace(message, content=rest or None)


def unanswered(session: Session) -> list[LlmRequest]:
    """Return the model calls that a crash left without an answer."""
    return list(session.state.requests.values())


def log_interrupted(session: Session, request: LlmRequest) -> None:
    """Log that a crash ended a model call; where only its end is missing, what it answered."""
    response = LlmResponse(agent_id=request.agent_id, request=request.message_id)
    answer = _answer_to(session, request)
    if answer is None:
        response.stop_reason = "interrupted"
    else:
        response.entry, response.error = answer.message_id, LOST_USAGE
        response.stop_reason = "tool_use" if answer.tool_calls else "end_turn"
        if answer.cause is not None:
            response.stop_reason = "cancelled"
    session.append(response)


def _answer_to(session: Session, request: LlmRequest) -> TranscriptEntry | None:
    """Return the assistant entry that stands after a request, the agent's last, if it does."""
    entries = session.agent(str(request.agent_id)).transcript or []
    asked = reference_number(request.message_id)
    for entry in reversed(entries):
        if reference_number(entry.message_id) < asked:
            return None
        if entry.role == "assistant":
            return entry
    return None
