"""`Progress`: how far a call is, as its server says, and how often a person is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


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


class Told:
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
