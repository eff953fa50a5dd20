"""`LoopLock`: a lock for whoever outlives an event loop, as an `asyncio.Lock` does not."""

from __future__ import annotations

import asyncio


class LoopLock:
    """Gives the lock of the loop that runs; where another loop runs now, a new one."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def here(self) -> asyncio.Lock:
        """Return the lock of the running loop."""
        loop = asyncio.get_running_loop()
        if self._held is None or self._held[0] is not loop:
            self._held = (loop, asyncio.Lock())
        return self._held[1]

    @property
    def is_held(self) -> bool:
        """Whether somebody holds the lock of the loop that used it last."""
        return self._held is not None and self._held[1].locked()
