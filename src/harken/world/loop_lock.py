"""`LoopLock`: a lock for objects that outlive an event loop, unlike `asyncio.Lock`.

`ReentrantHold` acquires the lock for a tool. Actions that the tool starts meanwhile share an inner
lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType, TracebackType


class LoopLock:
    """Provides an `asyncio.Lock` for the running loop, and a new one if the loop has changed."""

    __slots__ = ("_loop_lock",)

    def __init__(self) -> None:
        self._loop_lock: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def current(self) -> asyncio.Lock:
        """Return the lock of the running loop."""
        loop = asyncio.get_running_loop()
        if self._loop_lock is None or self._loop_lock[0] is not loop:
            self._loop_lock = (loop, asyncio.Lock())
        return self._loop_lock[1]

    @property
    def is_locked(self) -> bool:
        """Whether the lock of the loop that used it last is held."""
        return self._loop_lock is not None and self._loop_lock[1].locked()


_inner_locks: ContextVar[Mapping[LoopLock, LoopLock]] = ContextVar(
    "locks inside a tool", default=MappingProxyType({})
)


class ReentrantHold:
    """Holds a lock for an `async with` block; nested holds inside of the block use an inner lock.

    It is a class and not a generator because asyncio keeps a list of running generators, and each
    call of a tool enters this.
    """

    __slots__ = ("_lock", "_outer", "_token")

    def __init__(self, lock: LoopLock) -> None:
        self._outer = lock

    async def __aenter__(self) -> None:
        inner_locks = _inner_locks.get()
        self._lock = inner_locks.get(self._outer, self._outer).current()
        await self._lock.acquire()
        self._token = _inner_locks.set({**inner_locks, self._outer: LoopLock()})

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _inner_locks.reset(self._token)
        self._lock.release()
