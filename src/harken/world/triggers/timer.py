"""`Timer`: tells when a time has come. Times that came while nobody listened are one happening.

`TriggerClock`: a clock and waiting by it, as one value, so that a test can pass its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from harken.core.clock import Clock, system_clock
from harken.world.result import ToolError
from harken.world.triggers.base import TriggerEvent
from harken.world.triggers.schedule import SHORTEST_S, Schedule
from harken.world.triggers.trigger import TimeTrigger

_LONGEST_S = 30.0
"""So often the clock is looked at: a machine may sleep, and a clock may be set."""


@dataclass(frozen=True, slots=True)
class TriggerClock:
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


LATE_US = 60_000_000
"""What comes later than this is said to be late."""
_COUNTED = 1000
"""So many times that were missed are counted."""


class Timer:
    """The source of one trigger."""

    pause_s = SHORTEST_S

    def __init__(self, armed: TimeTrigger, last_us: int, alarm: TriggerClock) -> None:
        """`last_us` is when it told of a time last, or when it was armed."""
        self._schedule, self._alarm, self._last_us = Schedule(armed), alarm, last_us

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Nothing is to be begun."""
        yield

    async def wait(self) -> TriggerEvent:
        """Return when the next time has come."""
        schedule = self._schedule
        due = schedule.after(self._last_us)
        if due is None:
            raise ToolError("it comes never again")
        await self._alarm.until(due)
        now, last, times = self._alarm.clock(), due, 1
        following = schedule.after(due)
        while following is not None and following <= now and times < _COUNTED:
            last, times, following = following, times + 1, schedule.after(following)
        self._last_us = max(now, last)
        return TriggerEvent(text=self._text(due, now, times), is_last=following is None)

    def _text(self, due: int, now: int, times: int) -> str:
        schedule = self._schedule
        text = f"it is {schedule.shown(now)}"
        if times > 1:
            return f"{text}; {times} times since {schedule.shown(due)}, when nobody told you"
        if now - due > LATE_US:
            return f"{text}; late: it was due at {schedule.shown(due)}"
        return text
