"""A thread-safe queue of session events and chunks, drained by the event loop.

Chunks and events come from inside an agent's turn, events also from tools that run in threads. An
error in displaying them must not reach an agent: so they are only queued there.

`ScreenHandle` contains the prompts and the queue that a session needs before the screen exists.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from harken.chat.screen.prompts import ScreenPrompts
from harken.core.events import Event
from harken.core.ids import AgentId
from harken.core.stream import Chunk

QueuedItem: TypeAlias = Event | tuple[AgentId, Chunk] | str
"""An event, a chunk of an answer, or a notice for the user that no event contains."""


class EventQueue:
    """Queues events and chunks and delivers them in batches: events soon, chunks on request."""

    def __init__(self) -> None:
        self.on_items: Callable[[Sequence[QueuedItem]], None] = _ignore
        """Called in the event loop with a batch."""
        self.streaming: Callable[[], None] = _ignore
        """Called in the event loop when chunks are queued; `deliver` delivers them."""
        self._items: deque[QueuedItem] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_scheduled = False

    def open(self) -> None:
        """Begin to deliver, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        if self._items:
            self._wake()

    def close(self) -> None:
        """Deliver the queued items, and nothing after that."""
        self.deliver()
        self._loop = None

    def on_chunk(self, agent_id: AgentId, chunk: Chunk) -> None:
        """Queue a chunk of an answer. An `AgentRuntime.on_chunk`, called in the event loop."""
        self._items.append((agent_id, chunk))
        if self._loop is not None:
            self.streaming()

    def on_event(self, event: Event) -> None:
        """Queue an event, from any thread. A listener of the session."""
        self._note(event)

    def on_notice(self, text: str) -> None:
        """Queue a notice for the user, from any thread. An `AgentRuntime.on_notice`."""
        self._note(text)

    def _note(self, item: QueuedItem) -> None:
        self._items.append(item)
        self._wake()

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None and not self._is_scheduled and not loop.is_closed():
            self._is_scheduled = True
            loop.call_soon_threadsafe(self.deliver)

    def deliver(self) -> None:
        """Deliver all queued items."""
        self._is_scheduled = False
        batch: list[QueuedItem] = []
        while self._items:
            batch.append(self._items.popleft())
        if batch:
            self.on_items(batch)


def _ignore(*_: object) -> None:
    """Do nothing: there is no screen yet."""


class ScreenHandle(msgspec.Struct, frozen=True):
    """The prompts that agents ask, and the queue of events."""

    questions: ScreenPrompts = msgspec.field(default_factory=ScreenPrompts)
    """The `user` of a `World`."""
    event_queue: EventQueue = msgspec.field(default_factory=EventQueue)
    """Its `on_chunk` is that of a `AgentRuntime`."""
