"""`TurnLock`: whether an agent may begin a turn by itself.

An agent takes a single turn at a time. It begins none while its parent talks with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

TURN_TIMEOUT_S = 60.0
"""How long an action waits for the turns of subagents that a trigger woke."""


class TurnLock:
    """The lock of an agent. It is closed during a turn, or while a caller holds it."""

    def __init__(self) -> None:
        self._turns = 0
        """The number of turns: a dumb agent may run several calls at once."""
        self.is_triggered = False
        """Whether a trigger began that turn, so that no caller waits for its answer."""
        self._holders = 0
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def busy(self) -> bool:
        """Whether it is in the middle of a turn."""
        return self._turns > 0

    @property
    def is_open(self) -> bool:
        """Whether the agent may begin a turn by itself."""
        return not self.busy and not self._holders

    @property
    def is_waited_for(self) -> bool:
        """Whether a task waits for a change of this lock."""
        return bool(self._waiters)

    async def wait_until_open(self) -> None:
        """Wait until the lock is open. It is still open when the caller continues."""
        while not self.is_open:
            await self.wait_for_change()

    async def wait_for_change(self) -> None:
        """Wait until a turn ends or a holder releases the lock."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)

    def enter(self) -> None:
        """Begin a turn."""
        self._turns += 1

    def leave(self) -> None:
        """End the turn."""
        self._turns -= 1
        self._wake_waiters()

    @contextmanager
    def triggered_turn(self) -> Iterator[None]:
        """Mark the turn as begun by a trigger."""
        self.is_triggered = True
        try:
            yield
        finally:
            self.is_triggered = False
            self._wake_waiters()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Prevent the agent from beginning a turn by itself."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            self._wake_waiters()

    def _wake_waiters(self) -> None:
        for waiter in self._waiters:
            if not waiter.done() and not waiter.get_loop().is_closed():
                waiter.set_result(None)


async def wait_for_triggered_turns(
    gates: Sequence[TurnLock], patience_s: float = TURN_TIMEOUT_S
) -> None:
    """Wait until no agent is in a turn that a trigger began.

    Gives up after `patience_s`: such a turn may itself wait for the caller.
    """
    try:
        async with asyncio.timeout(patience_s):
            while busy := next((gate for gate in gates if gate.is_triggered), None):
                await busy.wait_for_change()
    except TimeoutError:
        pass
