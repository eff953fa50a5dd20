"""`Timer`: an event source for due times. Times missed while no session listened are one event.

`TriggerClock`: a clock and a way to wait by it, as one value, so that a test can pass its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from harken.core.clock import Clock, system_clock
from harken.world.result import ToolError
from harken.world.triggers.base import TriggerEvent
from harken.world.triggers.schedule import MIN_INTERVAL_S, Schedule

_MAX_SLEEP_S = 30.0
"""The interval of clock checks: a machine may sleep, and a clock may be set."""


class TriggerClock(msgspec.Struct, frozen=True):
    """Waits until its clock reaches a time."""

    clock: Clock = system_clock
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Takes seconds."""

    async def sleep_until(self, due_us: int) -> None:
        """Wait until this time, in microseconds since 1970."""
        while (left_us := due_us - self.clock()) > 0:
            await self.sleep(min(left_us / 1e6, _MAX_SLEEP_S))

    async def pause(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        await self.sleep_until(self.clock() + round(seconds * 1e6))


LATE_US = 60_000_000
"""An event later than this is reported as late."""
_MAX_COUNTED_TIMES = 1000
"""The maximum number of missed times that are counted."""


class Timer:
    """The event source of one time trigger."""

    pause_s = MIN_INTERVAL_S

    def __init__(self, schedule: Schedule, last_us: int, alarm: TriggerClock) -> None:
        """Create a source; `last_us` is the time of its last event, or when it was armed."""
        self._schedule, self._alarm, self._last_us = schedule, alarm, last_us

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Do nothing: a timer needs no preparation."""
        yield

    async def wait(self) -> TriggerEvent:
        """Wait for the next due time."""
        schedule = self._schedule
        due = schedule.find_next_due(self._last_us)
        if due is None:
            raise ToolError("it never matches again")
        await self._alarm.sleep_until(due)
        now, last_due, times = self._alarm.clock(), due, 1
        next_due = schedule.find_next_due(due)
        while next_due is not None and next_due <= now and times < _MAX_COUNTED_TIMES:
            last_due, times, next_due = next_due, times + 1, schedule.find_next_due(next_due)
        self._last_us = max(now, last_due)
        return TriggerEvent(text=self._format_event(due, now, times), is_last=next_due is None)

    def _format_event(self, due: int, now: int, times: int) -> str:
        schedule = self._schedule
        text = f"it is {schedule.format_time(now)}"
        if times > 1:
            return f"{text}; {times} times since {schedule.format_time(due)}, when nobody told you"
        if now - due > LATE_US:
            return f"{text}; late: it was due at {schedule.format_time(due)}"
        return text
