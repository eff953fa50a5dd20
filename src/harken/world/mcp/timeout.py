"""The time limit of a request, which progress renews and waiting for the user suspends.

`Progress`: the progress of a call as reported by its server, and how often it is shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import msgspec


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a call."""

    tool: str
    """Its name for agents."""
    call: str
    """The call as a cause refers to it."""
    value: float
    total: float | None = None
    message: str = ""

    def __str__(self) -> str:
        """Format the progress for a person.

        >>> str(Progress(tool="mcp__docs__index", call="msg_003", value=3, total=12))
        'mcp__docs__index: 3 of 12'
        """
        progress_text = (
            f"{self.value:g}" if self.total is None else f"{self.value:g} of {self.total:g}"
        )
        return f"{self.tool}: {progress_text}{f' ({self.message})' if self.message else ''}"


class ProgressReporter:
    """Reports long calls at an interval."""

    def __init__(
        self,
        tell: Callable[[str], None],
        every_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Report a call first after `every_s`, and then at the same interval."""
        self._tell, self._every_s, self._clock = tell, every_s, clock
        self._since: dict[str, float] = {}

    def __call__(self, progress: Progress) -> None:
        """Record progress, and report it if the interval is over."""
        now, key = self._clock(), f"{progress.call} {progress.tool}"
        if now - self._since.setdefault(key, now) >= self._every_s:
            self._since[key] = now
            self._tell(str(progress))
        if len(self._since) > 1000:  # The end of a call is not reported.
            self._since.clear()


MAX_REQUEST_S = 3600.0
"""The maximum time of a request, regardless of progress."""


class RequestTimeout:
    """The remaining time of one request: `with timeout: ...` cancels its body when it ends.

    It then raises TimeoutError, and `is_over` distinguishes it from one raised in the body. It
    replaces `asyncio.timeout` at a third of the cost, for a deadline that moves with all progress:
    the timer is not moved, but checks the deadline when it fires.
    """

    __slots__ = (
        "_cancelling",
        "_deadline",
        "_loop",
        "_task",
        "_timer",
        "_total_deadline",
        "_waiting",
        "is_over",
        "longest_s",
        "silence_s",
    )

    def __init__(self, silence_s: float, longest_s: float = MAX_REQUEST_S) -> None:
        """Set the limits without progress, and in total."""
        self.silence_s, self.longest_s = silence_s, max(longest_s, silence_s)
        self.is_over = False
        """Whether the time is up."""
        self._task: asyncio.Task[Any] | None = None
        self._waiting = 0

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        now = self._loop.time()
        self._total_deadline, self._deadline = now + self.longest_s, now + self.silence_s
        self._timer = self._loop.call_at(self._deadline, self._on_timer)

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

    def _on_timer(self) -> None:
        if self._task is None or self.is_over:
            return
        now = self._loop.time()
        if self._waiting or now < self._deadline:
            next_check = self._deadline if now < self._deadline else now + self.silence_s
            self._timer = self._loop.call_at(next_check, self._on_timer)
            return
        self.is_over = True
        self._task.cancel()

    def renew(self) -> None:
        """Restart the limit after progress."""
        if self._task is not None:
            self._deadline = min(self._loop.time() + self.silence_s, self._total_deadline)

    @contextmanager
    def waiting_for_a_person(self) -> Iterator[None]:
        """Suspend the time limit while a person is asked."""
        start = asyncio.get_running_loop().time()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if self._task is not None:
                self._total_deadline += self._loop.time() - start
                self.renew()
