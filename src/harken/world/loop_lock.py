"""`LoopLock`: a lock for whoever outlives an event loop, as an `asyncio.Lock` does not.

`ReentrantHold` holds one for a tool, and those that the tool lets act share another one meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType, TracebackType


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


_inside: ContextVar[Mapping[LoopLock, LoopLock]] = ContextVar(
    "locks inside a tool", default=MappingProxyType({})
)


class ReentrantHold:
    """Holds a lock until the end of an `async with`; inside of itself, an inner lock instead.

    No generator: asyncio keeps a list of those that run, and each call of a tool enters this.
    """

    __slots__ = ("_lock", "_outer", "_token")

    def __init__(self, lock: LoopLock) -> None:
        self._outer = lock

    async def __aenter__(self) -> None:
        inside = _inside.get()
        self._lock = inside.get(self._outer, self._outer).here()
        await self._lock.acquire()
        self._token = _inside.set({**inside, self._outer: LoopLock()})

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _inside.reset(self._token)
        self._lock.release()
