"""`Patience`: how long a request may go on. A sign of life renews it; a person's time is free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

LONGEST_S = 3600.0
"""However much progress a server reports, a request does not go on longer."""


class OutOfPatience(Exception):
    """A request took too long; it was cancelled."""


class Patience:
    """The time that one request has left."""

    def __init__(self, silence_s: float, longest_s: float = LONGEST_S) -> None:
        """Wait so long for a sign of life, and so long for the end."""
        self.silence_s, self.longest_s = silence_s, max(longest_s, silence_s)
        self._limit: asyncio.Timeout | None = None
        self._until = 0.0
        self._waiting = 0

    @asynccontextmanager
    async def limited(self) -> AsyncIterator[None]:
        """Cancel what is inside when there is no time left. Raises OutOfPatience then."""
        self._until = asyncio.get_running_loop().time() + self.longest_s
        self._limit = asyncio.timeout(self.silence_s)
        try:
            async with self._limit:
                yield
        except TimeoutError:
            if self._limit.expired():
                raise OutOfPatience from None
            raise

    def renew(self) -> None:
        """Begin to wait anew: there was a sign of life."""
        if self._limit is not None and not self._waiting and not self._limit.expired():
            now = asyncio.get_running_loop().time()
            self._limit.reschedule(min(now + self.silence_s, self._until))

    @contextmanager
    def waiting_for_a_person(self) -> Iterator[None]:
        """Let no time pass for the request: somebody is thinking."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._waiting += 1
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(None)
        try:
            yield
        finally:
            self._waiting -= 1
            self._until += loop.time() - began
            self.renew()
