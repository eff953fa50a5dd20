"""Background commands: they run through the shell and emit an event when they end.

They end with the session that started them: a resume does not start a logged command again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from harken.world.result import ToolError
from harken.world.shell.shell import BackgroundCommand
from harken.world.triggers.base import TriggerEvent, quote_text
from harken.world.triggers.trigger import CommandTrigger

TAIL = 3000
"""The number of characters at the end of the output that the agent gets."""


class BackgroundCommands:
    """All commands that run in the background, by the call that started them."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str], tuple[BackgroundCommand, float]] = {}

    def add(self, agent: str, call: str, running: BackgroundCommand) -> None:
        """Register a command that an agent has started."""
        self._running[agent, call] = running, time.monotonic()

    def find(self, agent: str, call: str) -> tuple[BackgroundCommand, float] | None:
        """Return a running command and its start time. Return None if it does not run here."""
        return self._running.get((agent, call))

    def end(self, agent: str, call: str) -> None:
        """Terminate a command, if it still runs."""
        entry = self._running.pop((agent, call), None)
        if entry is not None:
            entry[0].end()

    def close(self) -> None:
        """Terminate all of them."""
        for agent, call in list(self._running):
            self.end(agent, call)


class CommandEnded:
    """The event source of one command."""

    pause_s = 0.0

    def __init__(
        self, trigger: CommandTrigger, agent: str, call: str, background: BackgroundCommands
    ) -> None:
        """Create a source of a command that the agent's call has started."""
        self._trigger, self._agent, self._call = trigger, agent, call
        self._background = background

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Terminate the command when the context ends; it runs already."""
        try:
            yield
        finally:
            self._background.end(self._agent, self._call)

    async def wait(self) -> TriggerEvent:
        """Wait until the command has ended."""
        entry = self._background.find(self._agent, self._call)
        if entry is None:
            raise ToolError("the command was stopped with its session")
        running, start_s = entry
        status = await running.wait_ended()
        text = [f"the command ended after {time.monotonic() - start_s:.1f} s: {status}"]
        text.append(f"$ {' '.join(self._trigger.command.split())[:200]}")
        tail = running.output.read_tail(TAIL).rstrip("\n")
        text.append(quote_text(tail, TAIL) if tail else "(no output)")
        if running.output.size_bytes > len(tail.encode()) + 1:
            text.append(
                f"(the end of {running.output.size_bytes:,} bytes in {self._trigger.output})"
            )
        return TriggerEvent(text="\n".join(text), is_last=True)
