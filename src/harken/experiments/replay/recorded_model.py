"""A model that answers as a recorded session went, also where it failed or was cut off.

`ReplayModel` gives whole answers to whoever asks. To run a session again as it was, a call that
failed has to fail again, and one that somebody cut off has to be cut off at the same place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import text_of
from harken.core.stream import (
    Chunk,
    Finish,
    TextDelta,
    ThinkingDelta,
    chunks_of,
    text_in,
    thinking_in,
)
from harken.errors import Failure, ModelError, ReplayMiss
from harken.experiments.replay.progress import Crash, ReplayProgress
from harken.llm.base import ModelRequest
from harken.llm.replay import RecordedAnswer, ReplayLog, ReplayModel

FAILED, CANCELLED, INTERRUPTED = "error", "cancelled", "interrupted"


@dataclass(slots=True)
class RecordedAnswers:
    """What the models of a session answered, each time once; shared by all of them."""

    recording: ReplayLog
    too_long: frozenset[MessageId] = frozenset()
    """The requests whose failure was that the context is too long."""
    unended: Mapping[MessageId, ev.TranscriptEntry] = field(default_factory=dict)
    """Answers of which a crash cut off how they ended, by their requests."""
    script: ReplayProgress | None = None
    """What says when it is an answer's turn, where several agents act; None: at once."""
    stop: Callable[[], None] = lambda: None
    """Cuts off the turn that runs, as the user did."""
    missed: str = ""
    """What the first request that is not in the record has for a difference."""
    _waiting: dict[tuple[str, str], list[ev.LlmRequest]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Sort the requests by who asked what."""
        for request in self.recording.requests.values():
            hash_ = self.recording.hash_of(request)
            if hash_ is not None:
                agent = request.agent_id or AgentId("")
                name = self.recording.names.get(agent, agent)
                self._waiting.setdefault((name, hash_), []).append(request)

    def take(self, request: ModelRequest) -> ev.LlmRequest | None:
        """Return the recorded request that this one is, each once, in the order of the log."""
        waiting = self._waiting.get((request.agent, request.hash), [])
        ended = (n for n, one in enumerate(waiting) if not self._was_interrupted(one))
        return waiting.pop(next(ended, 0)) if waiting else None

    async def turn(self, request: ev.LlmRequest) -> None:
        """Wait until a recorded request was answered, in the order of the record."""
        await asyncio.sleep(0)
        if self.script is not None:
            await self.script.until(self.script.recorded.after(request))

    def crash(self) -> NoReturn:
        """End everything, as the process did. Raises Crash."""
        raise Crash if self.script is None else self.script.crash()

    def _was_interrupted(self, request: ev.LlmRequest) -> bool:
        """Whether a crash ended a call: whoever plays the session again ends there, too."""
        response = self.recording.responses.get(request.message_id)
        return response is None or response.stop_reason == INTERRUPTED

    def whole(self, request: ev.LlmRequest) -> RecordedAnswer | None:
        """Return the answer to a recorded request, also one of which a crash cut off the end."""
        entry = self.unended.get(request.message_id)
        if entry is not None:
            return RecordedAnswer(entry, ev.LlmResponse(request=request.message_id))
        return self.recording.answer_to(request)


class RecordedModel:
    """One of the models of a recorded session."""

    def __init__(self, answers: RecordedAnswers, name: str) -> None:
        """Answer as the model `name` did."""
        self.name = name
        self._answers = answers

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer as recorded. Raises ModelError as then, ReplayMiss for what was not asked."""
        answers = self._answers
        asked = answers.take(request)
        if asked is None:
            async for chunk in self._miss(request):
                yield chunk
            return
        await answers.turn(asked)
        whole = answers.whole(asked)
        response = answers.recording.responses.get(asked.message_id)
        if whole is not None:
            for chunk in chunks_of(whole.entry):
                yield chunk
            yield whole.finish
            return
        if response is None or response.stop_reason == INTERRUPTED:
            answers.crash()
        for chunk in self._arrived(response):
            yield chunk
        if response.stop_reason == CANCELLED:
            answers.stop()
            await asyncio.Event().wait()  # the turn is cut off meanwhile
        is_too_long = asked.message_id in answers.too_long
        why: Failure = "context_too_long" if is_too_long else "failed"
        raise ModelError(response.error or "", why=why)

    def _arrived(self, response: ev.LlmResponse) -> Iterator[Chunk]:
        """Yield what had arrived of an answer that did not end."""
        said = self._answers.recording.entries.get(response.entry or MessageId(""))
        text = text_in(response.partial) if said is None else text_of(said.content)
        if thinking := thinking_in(response.partial):
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

    async def _miss(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Say how a request differs from the nearest that was recorded."""
        replayed = ReplayModel(self._answers.recording, name="the record")
        try:
            async for chunk in replayed.stream(request):
                yield chunk  # another agent asked the same
        except ReplayMiss as miss:
            self._answers.missed = self._answers.missed or str(miss)
            raise
