"""`TurnLock`: whether an agent may begin a turn by itself.

An agent takes one turn at a time, and one that its parent talks with begins none of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

PATIENCE_S = 60.0
"""How long an action waits for subagents that something outside has woken."""


class TurnLock:
    """Of one agent. Shut while it is in a turn, or held by whoever talks with it."""

    def __init__(self) -> None:
        self.busy = False
        """Whether it is in the middle of a turn."""
        self.woken = False
        """Whether something outside began that turn: nobody waits for its answer."""
        self._holders = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_open(self) -> bool:
        """Whether the agent may begin a turn by itself."""
        return not self.busy and not self._holders

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for it to change."""
        return bool(self._waiting)

    async def opened(self) -> None:
        """Return when it is open; what runs next, without a pause, finds it so."""
        while not self.is_open:
            await self.changed()

    async def changed(self) -> None:
        """Return when a turn has ended, or somebody has let go."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        finally:
            self._waiting.remove(waiting)

    def enter(self) -> None:
        """Begin a turn."""
        self.busy = True

    def leave(self) -> None:
        """End the turn."""
        self.busy = False
        self._tell()

    @contextmanager
    def by_event(self) -> Iterator[None]:
        """Take a turn that something outside began."""
        self.woken = True
        try:
            yield
        finally:
            self.woken = False
            self._tell()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let the agent begin no turn by itself."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            self._tell()

    def _tell(self) -> None:
        for waiting in self._waiting:
            if not waiting.done() and not waiting.get_loop().is_closed():
                waiting.set_result(None)


async def woken_ones_done(gates: Sequence[TurnLock], patience_s: float = PATIENCE_S) -> None:
    """Return when none of these agents is in a turn that something outside began.

    Also after `patience_s`: such a turn may wait for somebody who waits here.
    """
    try:
        async with asyncio.timeout(patience_s):
            while busy := next((gate for gate in gates if gate.woken), None):
                await busy.changed()
    except TimeoutError:
        pass
