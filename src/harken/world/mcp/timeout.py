"""How long a request may go on. A sign of life renews it; a person's time is free.

`Progress`: how far a call is, as its server says, and how often a person is told of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a call is."""

    tool: str
    """Its name here."""
    call: str
    """How a cause names the call."""
    done: float
    total: float | None = None
    message: str = ""

    def __str__(self) -> str:
        """Say it in words.

        >>> str(Progress(tool="mcp__docs__index", call="msg_003", done=3, total=12))
        'mcp__docs__index: 3 of 12'
        """
        far = f"{self.done:g}" if self.total is None else f"{self.done:g} of {self.total:g}"
        return f"{self.tool}: {far}{f' ({self.message})' if self.message else ''}"


class ProgressReporter:
    """Tells of calls that go on for long: a line now and then."""

    def __init__(
        self,
        tell: Callable[[str], None],
        every_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Tell first when a call has gone on for `every_s`, and then as often."""
        self._tell, self._every_s, self._clock = tell, every_s, clock
        self._since: dict[str, float] = {}

    def __call__(self, progress: Progress) -> None:
        """Take note; tell where it is time."""
        now, key = self._clock(), f"{progress.call} {progress.tool}"
        if now - self._since.setdefault(key, now) >= self._every_s:
            self._since[key] = now
            self._tell(str(progress))
        if len(self._since) > 1000:  # nobody says when a call is over
            self._since.clear()


LONGEST_S = 3600.0
"""However much progress a server reports, a request does not go on longer."""


class RequestTimeout:
    """The time that one request has left: `with patience: ...` cancels what is inside when it ends.

    That raises TimeoutError, and `is_over` tells it from one that comes from inside. It does what
    `asyncio.timeout` does, at a third of its price, for a deadline that moves with every sign of
    life: the timer stays as it is, and looks at the deadline when it rings.
    """

    __slots__ = (
        "_cancelling",
        "_deadline",
        "_loop",
        "_task",
        "_timer",
        "_until",
        "_waiting",
        "is_over",
        "longest_s",
        "silence_s",
    )

    def __init__(self, silence_s: float, longest_s: float = LONGEST_S) -> None:
        """Wait so long for a sign of life, and so long for the end."""
        self.silence_s, self.longest_s = silence_s, max(longest_s, silence_s)
        self.is_over = False
        """Whether there was no time left."""
        self._task: asyncio.Task[Any] | None = None
        self._waiting = 0

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        now = self._loop.time()
        self._until, self._deadline = now + self.longest_s, now + self.silence_s
        self._timer = self._loop.call_at(self._deadline, self._ring)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        task, self._task = self._task, None
        if not self.is_over or task is None:
            return
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _ring(self) -> None:
        if self._task is None or self.is_over:
            return
        now = self._loop.time()
        if self._waiting or now < self._deadline:
            again = self._deadline if now < self._deadline else now + self.silence_s
            self._timer = self._loop.call_at(again, self._ring)
            return
        self.is_over = True
        self._task.cancel()

    def renew(self) -> None:
        """Begin to wait anew: there was a sign of life."""
        if self._task is not None:
            self._deadline = min(self._loop.time() + self.silence_s, self._until)

    @contextmanager
    def waiting_for_a_person(self) -> Iterator[None]:
        """Let no time pass for the request: somebody is thinking."""
        began = asyncio.get_running_loop().time()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if self._task is not None:
                self._until += self._loop.time() - began
                self.renew()
