"""`TurnLimit`: end an unattended turn that makes too many model calls.

A model that always calls a tool, such as a script with one rule too general, would never answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import TypeVar

import msgspec

from harken.core.events import Event, LlmResponse
from harken.core.ids import AgentId
from harken.errors import ModelError

T = TypeVar("T")
MAX_MODEL_CALLS = 1000
_ENDS = frozenset({"end_turn", "stop", "stop_sequence"})
"""The stop reasons of a complete answer."""


class TurnLimit(msgspec.Struct):
    """Counts the model calls of each agent in a turn, and cancels a turn with too many.

    A turn that is continued by another process counts on from the `earlier` calls.
    """

    max_calls: int = MAX_MODEL_CALLS
    earlier: Counter[AgentId] = msgspec.field(default_factory=Counter)
    exceeded_by: AgentId | None = None
    """The agent that exceeded the limit."""
    _calls: Counter[AgentId] = msgspec.field(default_factory=Counter)
    _task: asyncio.Task[object] | None = None

    def on_event(self, event: Event) -> None:
        """Count a model call. A listener of the session."""
        if not isinstance(event, LlmResponse) or event.agent_id is None or self._task is None:
            return
        self._calls[event.agent_id] += 1
        has_answered = event.stop_reason in _ENDS
        if (
            self._calls[event.agent_id] >= self.max_calls
            and self.exceeded_by is None
            and not has_answered
        ):
            self.exceeded_by = event.agent_id
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    def _begin(self) -> None:
        self._calls = self.earlier.copy()
        self.exceeded_by, self._task = None, asyncio.current_task()

    async def run(self, work: Coroutine[object, object, T]) -> T:
        """Await the turn. Raises ModelError if it was cancelled by the limit."""
        self._begin()
        try:
            return await work
        except asyncio.CancelledError:
            if self.exceeded_by is None:
                raise
            raise _limit_error(self._calls[self.exceeded_by]) from None
        finally:
            self._task = None

    def check_earlier(self) -> None:
        """Raise ModelError if the earlier calls have reached the limit."""
        calls = max(self.earlier.values(), default=0)
        if calls >= self.max_calls:
            raise _limit_error(calls)


def _limit_error(calls: int) -> ModelError:
    return ModelError(
        f"{calls:,} model calls in one turn without an answer: the turn was stopped; "
        "see --max-calls"
    )
