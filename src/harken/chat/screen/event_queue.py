"""Ears: what happens in the session, noted where it happens and taken in the event loop.

Chunks and events come from inside an agent's turn, events also from tools that run in threads.
Nothing that goes wrong in showing them may reach an agent: so they are only noted there.

The face: what of the screen a session is told of before there is a screen.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from harken.chat.screen.prompts import ScreenPrompts
from harken.core.events import Event
from harken.core.ids import AgentId
from harken.core.stream import Chunk

Heard: TypeAlias = Event | tuple[AgentId, Chunk] | str
"""An event, a piece of an answer, or what the user should know and no event says."""


class EventQueue:
    """Notes what is heard, in order, and gives it on in batches: events soon, chunks when asked."""

    def __init__(self) -> None:
        self.take: Callable[[Sequence[Heard]], None] = _nobody
        """Called in the event loop with a batch."""
        self.streaming: Callable[[], None] = _nobody
        """Told in the event loop that there are chunks; `give_on` gives them on."""
        self._heard: deque[Heard] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = False

    def open(self) -> None:
        """Give on from now on, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        if self._heard:
            self._wake()

    def close(self) -> None:
        """Give on what was heard, and nothing after that."""
        self.give_on()
        self._loop = None

    def on_chunk(self, agent_id: AgentId, chunk: Chunk) -> None:
        """Note a piece of an answer. A `AgentRuntime.on_chunk`, called in the event loop."""
        self._heard.append((agent_id, chunk))
        if self._loop is not None:
            self.streaming()

    def on_event(self, event: Event) -> None:
        """Note an event, in any thread. A listener of the session."""
        self._note(event)

    def on_notice(self, text: str) -> None:
        """Note what the user should know, in any thread. A `AgentRuntime.on_notice`."""
        self._note(text)

    def _note(self, heard: Heard) -> None:
        self._heard.append(heard)
        self._wake()

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None and not self._woken and not loop.is_closed():
            self._woken = True
            loop.call_soon_threadsafe(self.give_on)

    def give_on(self) -> None:
        """Give on all that was heard until now."""
        self._woken = False
        batch: list[Heard] = []
        while self._heard:
            batch.append(self._heard.popleft())
        if batch:
            self.take(batch)


def _nobody(*_: object) -> None:
    """Do nothing: there is no screen yet."""


@dataclass(frozen=True, slots=True)
class ScreenHandle:
    """Whom agents ask, and who hears what happens."""

    questions: ScreenPrompts = field(default_factory=ScreenPrompts)
    """The `user` of a `World`."""
    ears: EventQueue = field(default_factory=EventQueue)
    """Its `on_chunk` is that of a `AgentRuntime`."""
