"""A model that replays the responses of a recorded session, including failures and interruptions.

`ReplayModel` replays complete responses only. To repeat a session, a failed call must fail again,
and a cancelled call must be cancelled at the same point.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, NoReturn

import msgspec

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import text_of
from harken.core.stream import (
    Chunk,
    Finish,
    TextDelta,
    ThinkingDelta,
    iter_chunks,
    parse_partial_text,
    parse_partial_thinking,
)
from harken.errors import Failure, ModelError, ReplayMiss
from harken.experiments.replay.agent_events import AgentEventLists
from harken.experiments.replay.progress import Crash, ReplayProgress
from harken.llm.base import ModelRequest
from harken.llm.replay import ReplayLog, ReplayModel
from harken.views.links import Links

FAILED, CANCELLED, INTERRUPTED = "error", "cancelled", "interrupted"


class RecordedAnswers(msgspec.Struct):
    """The recorded responses of all models of a session. Each is used once."""

    recording: ReplayLog
    too_long: frozenset[MessageId] = frozenset()
    """Requests that failed because the context was too long."""
    progress: ReplayProgress | None = None
    """Determines the order of responses between agents. None means no waiting."""
    stop: Callable[[], None] = lambda: None
    """Cancels the current turn, as the user did."""
    miss_text: str = ""
    """The difference between the first unrecorded request and the nearest recorded one."""
    _unused_requests: dict[tuple[str, str], list[ev.LlmRequest]] = msgspec.field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        """Group the requests by agent name and hash."""
        for request in self.recording.requests.values():
            hash_ = self.recording.hash_request(request)
            if hash_ is not None:
                agent = request.agent_id or AgentId("")
                name = self.recording.names.get(agent, agent)
                self._unused_requests.setdefault((name, hash_), []).append(request)

    def get_next(self, request: ModelRequest) -> ev.LlmRequest | None:
        """Return the recorded request that equals this one. Each is returned once, in log order."""
        candidates = self._unused_requests.get((request.agent, request.hash), [])
        ended = (
            index
            for index, candidate in enumerate(candidates)
            if not self._was_interrupted(candidate)
        )
        return candidates.pop(next(ended, 0)) if candidates else None

    async def wait_for_turn(self, request: ev.LlmRequest) -> None:
        """Wait until all events before the response were replayed."""
        await asyncio.sleep(0)
        if self.progress is not None:
            await self.progress.wait_until(self.progress.recorded.after(request))

    def crash(self) -> NoReturn:
        """Stop the replay at a recorded crash. Raises Crash."""
        raise Crash if self.progress is None else self.progress.crash()

    def _was_interrupted(self, request: ev.LlmRequest) -> bool:
        """Whether a crash interrupted the call; such a request is used last."""
        response = self.recording.responses.get(request.message_id)
        return response is None or response.stop_reason == INTERRUPTED


class RecordedModel:
    """A model of a recorded session."""

    def __init__(self, answers: RecordedAnswers, name: str) -> None:
        """Replay the model called `name`."""
        self.name = name
        self._answers = answers

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Replay the response. Raises ModelError as recorded, ReplayMiss for an unknown request."""
        answers = self._answers
        recorded = answers.get_next(request)
        if recorded is None:
            async for chunk in self._raise_miss(request):
                yield chunk
            return
        await answers.wait_for_turn(recorded)
        answer = answers.recording.answer_to(recorded)
        response = answers.recording.responses.get(recorded.message_id)
        if answer is not None:
            for chunk in iter_chunks(answer.entry):
                yield chunk
            yield answer.finish
            return
        if response is None or response.stop_reason == INTERRUPTED:
            answers.crash()
        for chunk in self._iter_partial(response):
            yield chunk
        if response.stop_reason == CANCELLED:
            answers.stop()
            await asyncio.Event().wait()  # The turn is cancelled while this waits.
        is_too_long = recorded.message_id in answers.too_long
        failure: Failure = "context_too_long" if is_too_long else "failed"
        raise ModelError(response.error or "", why=failure)

    def _iter_partial(self, response: ev.LlmResponse) -> Iterator[Chunk]:
        """Yield the recorded part of an incomplete response."""
        entry = self._answers.recording.entries.get(response.entry or MessageId(""))
        text = parse_partial_text(response.partial) if entry is None else text_of(entry.content)
        if thinking := parse_partial_thinking(response.partial):
            yield ThinkingDelta(thinking)
        if text:
            yield TextDelta(text)
        if (response.usage, response.cost_usd, response.model) != (None, None, None):
            yield Finish(
                stop_reason=response.stop_reason or FAILED,
                usage=response.usage,
                cost_usd=response.cost_usd,
                model=response.model,
            )

    async def _raise_miss(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Raise ReplayMiss with the difference from the nearest recorded request."""
        replayed = ReplayModel(self._answers.recording, name="the record")
        try:
            async for chunk in replayed.stream(request):
                yield chunk  # Another agent sent the same request.
        except ReplayMiss as miss:
            self._answers.miss_text = self._answers.miss_text or str(miss)
            raise


def collect_parameters(lanes: AgentEventLists) -> dict[str, Mapping[str, Any]]:
    """Return the recorded model parameters of created agents, by model."""
    parameters_by_model: dict[str, Mapping[str, Any]] = {}
    for births in lanes.births.values():
        for birth in births:
            parameters = None if birth.spec is None else birth.spec.parameters
            if parameters is not None and birth.language_model is not None:
                parameters_by_model.setdefault(birth.language_model, parameters)
    return parameters_by_model


def collect_models(lanes: AgentEventLists) -> list[str]:
    """Return the recorded models of created agents."""
    births = (birth for births in lanes.births.values() for birth in births)
    return [birth.language_model for birth in births if birth.language_model is not None]


def find_first_model(events: Links) -> str:
    """Return the model of the first request, else that of the first agent with a model."""
    requested = (event.model for event in events if isinstance(event, ev.LlmRequest))
    births = (event for event in events if isinstance(event, ev.AgentCreated))
    created = (birth.language_model for birth in births if birth.language_model is not None)
    return next(requested, None) or next(created, "none")
