"""`LiveAnswers`: the answers that agents write now, before they are in the log."""

from __future__ import annotations

import threading

import msgspec

from harken.core.events import Event, LlmRequest, LlmResponse
from harken.core.ids import AgentId, reference_number
from harken.core.stream import Chunk, TextDelta, ThinkingDelta

_MAX_CHARS = 32_768
"""The number of last characters of an answer that are kept."""


class LiveAnswer(msgspec.Struct):
    """The received part of an answer."""

    text: str = ""
    thinking: str = ""
    logged_at: int | None = None
    """The number of the event with the answer."""


class LiveAnswers:
    """One answer for each agent. Its methods are called by any thread.

    An answer is kept when it is logged: a page that has not read the event still shows the part
    that it knows, and one that has read it does not show it twice.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[AgentId, LiveAnswer] = {}

    def add_chunk(self, agent_id: AgentId, chunk: Chunk) -> bool:
        """Add a chunk. Return whether it has something to show."""
        if not isinstance(chunk, TextDelta | ThinkingDelta) or not chunk.text:
            return False
        with self._lock:
            answer = self._answers.setdefault(agent_id, LiveAnswer())
            if isinstance(chunk, TextDelta):
                answer.text = (answer.text + chunk.text)[-_MAX_CHARS:]
            else:
                answer.thinking = (answer.thinking + chunk.text)[-_MAX_CHARS:]
        return True

    def add_event(self, event: Event) -> None:
        """Begin or end an answer."""
        with self._lock:
            if isinstance(event, LlmRequest) and event.agent_id is not None:
                self._answers[event.agent_id] = LiveAnswer()
            elif isinstance(event, LlmResponse) and event.agent_id in self._answers:
                number = reference_number(event.message_id)
                self._answers[event.agent_id].logged_at = number

    def agents(self) -> list[AgentId]:
        """Return the agents that have written an answer."""
        with self._lock:
            return list(self._answers)

    def find(self, agent_id: AgentId, upto: int) -> tuple[str, str]:
        """Return text and thinking of an answer, or empty texts if it is logged up to there."""
        with self._lock:
            answer = self._answers.get(agent_id)
            if answer is None or (answer.logged_at is not None and answer.logged_at <= upto):
                return "", ""
            return answer.text, answer.thinking
