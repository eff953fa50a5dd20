"""Commands in the background: they run through the shell, and tell when they have ended.

They end with the session that began them: what a log says of one starts nothing again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from harken.world.result import ToolError
from harken.world.shell.shell import BackgroundCommand
from harken.world.triggers.base import TriggerEvent, quoted
from harken.world.triggers.trigger import CommandTrigger

TAIL = 3000
"""So many characters of the end of its output an agent hears."""


class BackgroundCommands:
    """All commands that run in the background, by the call that began them."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str], tuple[BackgroundCommand, float]] = {}

    def add(self, agent: str, call: str, running: BackgroundCommand) -> None:
        """Keep a command that an agent has begun."""
        self._running[agent, call] = running, time.monotonic()

    def of(self, agent: str, call: str) -> tuple[BackgroundCommand, float] | None:
        """Return a command and when it began; None: it does not run here."""
        return self._running.get((agent, call))

    def end(self, agent: str, call: str) -> None:
        """End a command, if it still runs."""
        found = self._running.pop((agent, call), None)
        if found is not None:
            found[0].end()

    def close(self) -> None:
        """End all of them."""
        for agent, call in list(self._running):
            self.end(agent, call)


class CommandEnded:
    """The source of one command."""

    pause_s = 0.0

    def __init__(self, armed: CommandTrigger, agent: str, background: BackgroundCommands) -> None:
        self._armed, self._agent, self._background = armed, agent, background

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The command runs already; it ends with its source."""
        try:
            yield
        finally:
            self._background.end(self._agent, self._armed.call)

    async def wait(self) -> TriggerEvent:
        """Return when the command has ended."""
        found = self._background.of(self._agent, self._armed.call)
        if found is None:
            raise ToolError("the command was ended with the session that ran it")
        running, began = found
        how = await running.ended()
        text = [f"the command has ended after {time.monotonic() - began:.1f} s: {how}"]
        text.append(f"$ {' '.join(self._armed.command.split())[:200]}")
        tail = running.output.tail(TAIL).rstrip("\n")
        text.append(quoted(tail, TAIL) if tail else "(no output)")
        if running.output.size_bytes > len(tail.encode()) + 1:
            text.append(f"(the end of {running.output.size_bytes:,} bytes in {self._armed.output})")
        return TriggerEvent(text="\n".join(text), is_last=True)
