"""`Alarm`: a clock and waiting by it, as one value, so that a test can pass its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from harken.core.clock import Clock, system_clock

_LONGEST_S = 30.0
"""So often the clock is looked at: a machine may sleep, and a clock may be set."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Waits until its clock says a time."""

    clock: Clock = system_clock
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Takes seconds."""

    async def until(self, due_us: int) -> None:
        """Return when it is this time, in microseconds since 1970, or later."""
        while (left_us := due_us - self.clock()) > 0:
            await self.sleep(min(left_us / 1e6, _LONGEST_S))

    async def pause(self, seconds: float) -> None:
        """Return after so many seconds."""
        await self.until(self.clock() + round(seconds * 1e6))
