"""A single model call, with everything about it in the log.

The request is logged before the call, the answer and its outcome right after it. A failed or
canceled call is logged too, with the part that had arrived.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from harken.agents import texts
from harken.agents.initial_transcript import UNNAMED
from harken.agents.runtime import OnChunk
from harken.agents.structure import CODE_CALL_PREFIX
from harken.core import structs
from harken.core.events import Event, LlmRequest, LlmResponse, TranscriptEntry, Usage
from harken.core.ids import AgentId, MessageId
from harken.core.messages import (
    ContentPart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
)
from harken.core.stream import Finish, StreamAccumulator, format_partial
from harken.errors import LogError, ModelError
from harken.formats.tool_calls import parse_json_object
from harken.llm.base import Model, ModelRequest
from harken.session.session import Session, build_entry

TRUNCATED_STOP_REASONS = frozenset(
    {"max_tokens", "length", "model_length", "model_context_window_exceeded"}
)
"""Stop reasons of truncated answers: the last call may be incomplete."""


@dataclass(slots=True)
class ModelCall:
    """A model call that is logged as `request_id`."""

    session: Session
    agent_id: AgentId
    request_id: MessageId
    draft: StreamAccumulator = field(default_factory=StreamAccumulator)
    started_us: int = 0
    answer: TranscriptEntry = field(init=False)
    """The answer, once it is complete."""
    response: LlmResponse | None = field(default=None, init=False)
    """The outcome; it has an id once it is logged."""

    @property
    def logged_entry(self) -> TranscriptEntry | None:
        """The logged entry of an answer, also of a canceled answer, or None."""
        id_ = None if self.response is None else self.response.entry
        entries = reversed(self.session.agent(self.agent_id).transcript or ())
        return next((entry for entry in entries if entry.message_id == id_), None)

    async def run(self, model: Model, request: ModelRequest, on_chunk: OnChunk | None) -> None:
        """Make the call, and log its answer.

        Raises ModelError, also for any other failure in the model.
        """
        self.started_us = self.session.options.clock()
        try:
            await self._stream(model, request, on_chunk)
            if self._is_blank():
                raise ModelError(f"{model.name} returned an empty answer")
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
                await chunks.aclose()  # releases the connection now, not at collection
        if self.draft.finish is None:
            raise ModelError(f"{model.name}: the answer was cut off before its end")

    @property
    def _ends_in_partial_call(self) -> bool:
        """Whether the answer was truncated in the middle of its last call.

        Complete arguments are an object. For empty arguments it is unknown whether more would
        follow, and a tool may do the opposite of the intention without them.
        """
        calls = self.draft.message().tool_calls
        return bool(
            calls and self.is_cut_off and not parse_json_object(calls[-1].function.arguments)
        )

    @property
    def is_cut_off(self) -> bool:
        """Whether the answer was truncated at its maximum length."""
        return (
            self.draft.finish is not None
            and self.draft.finish.stop_reason in TRUNCATED_STOP_REASONS
        )

    def _is_blank(self) -> bool:
        """Whether the answer has neither visible content nor calls."""
        message = self.draft.message()
        content = message.content
        parts = [content] if isinstance(content, str) else content or []
        return not message.tool_calls and not any(map(_is_visible, parts))

    def _log_answer(self) -> None:
        used_ids = self.session.agent(self.agent_id).open_calls
        message = with_call_ids(self.draft.message(), used_ids, self.request_id)
        finish = self.draft.finish or Finish(stop_reason="end_turn")
        self.answer = build_entry(self.agent_id, message)
        events: list[Event] = [self.answer, self._response(finish, self.session.next_id())]
        if message.tool_calls and self._ends_in_partial_call:
            events.append(_refuse_call(self.agent_id, message.tool_calls[-1]))
        self.session.append_all(events)

    def _log_failure(self, error: ModelError) -> None:
        finish = self._finish_without_answer("error")
        response = self._response(finish, None)
        response.error = str(error)
        response.partial = format_partial(self.draft.thinking, self.draft.text)
        self.session.append(response)

    def _log_cancelled(self) -> None:
        """Log a canceled call, with the text that had arrived as a message, followed by a note.

        Incomplete thinking has no signature and an incomplete call no end: no provider accepts
        them. So thinking is only in the response, for people. The text has the call as its cause,
        unlike a complete answer, so that it is never taken for a complete answer, even after a
        crash between these lines.
        """
        finish, text = self._finish_without_answer("cancelled"), self.draft.text
        if not text.strip():
            self.session.append(self._cancelled_response(finish, None))
            return
        entry_id = self.session.next_id()
        self.session.append_all(
            [
                build_entry(self.agent_id, Message("assistant", text), cause=self.request_id),
                self._cancelled_response(finish, entry_id),
                build_entry(
                    self.agent_id,
                    Message("user", texts.CUT_OFF),
                    cause=entry_id,
                    purpose="cut_off",
                ),
            ]
        )

    def _cancelled_response(self, finish: Finish, entry_id: MessageId | None) -> LlmResponse:
        response = self._response(finish, entry_id)
        response.partial = format_partial(self.draft.thinking, "")
        return response

    def _finish_without_answer(self, reason: str) -> Finish:
        """Return the outcome of a call without an answer, with the usage if known."""
        received = self.draft.finish
        return (
            Finish(stop_reason=reason)
            if received is None
            else structs.replace(received, stop_reason=reason)
        )

    def _response(self, finish: Finish, entry: MessageId | None) -> LlmResponse:
        elapsed_us = self.session.options.clock() - self.started_us
        self.response = LlmResponse(
            agent_id=self.agent_id,
            request=self.request_id,
            entry=entry,
            stop_reason=finish.stop_reason,
            model=finish.model,
            usage=_valid_usage(finish.usage),
            cost_usd=_valid_cost(finish.cost_usd),
            latency_s=elapsed_us / 1e6,
        )
        return self.response


def _refuse_call(agent_id: AgentId, call: ToolCall) -> TranscriptEntry:
    """Return the result of a call that is incomplete."""
    return TranscriptEntry(
        agent_id=agent_id,
        role="tool",
        content=texts.HALF_A_CALL,
        tool_call_id=call.id,
        name=call.function.name or UNNAMED,
        is_error=True,
        closed="half",
    )


def _is_visible(part: ContentPart | str) -> bool:
    if isinstance(part, str | TextPart):
        return bool((part if isinstance(part, str) else part.text).strip())
    return not isinstance(part, ThinkingPart)


def _valid_usage(usage: Usage | None) -> Usage | None:
    """Return the usage with invalid counts removed."""
    if usage is None:
        return None
    counts = msgspec.structs.asdict(usage).items()
    return Usage(**{name: n if isinstance(n, int) and n >= 0 else None for name, n in counts})


def _valid_cost(cost_usd: float | None) -> float | None:
    return cost_usd if cost_usd is not None and math.isfinite(cost_usd) else None


def with_call_ids(message: Message, used_ids: Collection[str], prefix: str) -> Message:
    """Return the message with new ids for its calls if an id is missing, repeated or used.

    Also if an id looks like that of a call of code. Some servers omit or repeat ids. Slots in the
    content follow in order; if they do not match the calls, the calls stand after the content.
    """
    message = _remove_unmatched_slots(message)
    calls = message.tool_calls or []
    ids = [call.id for call in calls]
    if all(_is_usable(id_, ids, used_ids) for id_ in ids):
        return message
    new_calls = [
        structs.replace(call, id=f"call_{prefix}_{index}") for index, call in enumerate(calls)
    ]
    content = message.content
    if isinstance(content, list):
        new_ids = iter([call.id for call in new_calls])
        content = [
            ToolCallSlot(next(new_ids)) if isinstance(p, ToolCallSlot) else p for p in content
        ]
    return structs.replace(message, tool_calls=new_calls, content=content)


def _is_usable(id_: str, ids: Sequence[str], used_ids: Collection[str]) -> bool:
    is_unique = id_ not in used_ids and ids.count(id_) == 1
    return bool(id_) and is_unique and not id_.startswith(CODE_CALL_PREFIX)


def _remove_unmatched_slots(message: Message) -> Message:
    content = message.content if isinstance(message.content, list) else []
    slot_ids = sorted(part.id for part in content if isinstance(part, ToolCallSlot))
    if not slot_ids or slot_ids == sorted(call.id for call in message.tool_calls or ()):
        return message
    remaining: list[ContentPart] = [part for part in content if not isinstance(part, ToolCallSlot)]
    return structs.replace(message, content=remaining or None)


def unanswered_requests(session: Session) -> list[LlmRequest]:
    """Return the model calls that a crash left without an answer."""
    return list(session.state.requests.values())


def log_interrupted(session: Session, request: LlmRequest) -> None:
    """Log that a crash ended a model call. An answer is in the log with its outcome or not."""
    session.append(
        LlmResponse(
            agent_id=request.agent_id, request=request.message_id, stop_reason="interrupted"
        )
    )
