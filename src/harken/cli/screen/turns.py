"""Turns: the agent answers, one thing after the other, while the user may type on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from harken.cli.opening import Opened
from harken.cli.screen.queued import Queued
from harken.cli.tally import Tally
from harken.core.text import LoggedString
from harken.errors import ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a turn ended: with an answer, a failed model call, or because it was stopped."""

    said: LoggedString | None = None
    error: ModelError | None = None
    seconds: float
    used: Tally


@dataclass(slots=True)
class Turns:
    """Runs turns of the primary agent."""

    opened: Opened
    ended: Callable[[Ended], None]
    """Told how a turn ended, when no other runs yet."""
    failed: Callable[[BaseException], None]
    """Told what no turn should raise: a log that fails, a bug."""
    queued: Queued = field(default_factory=Queued)
    used: Tally = field(default_factory=Tally)
    """What the turn that runs has used; fed by whoever hears the events."""
    _task: asyncio.Task[None] | None = None
    _began: float = 0.0

    @property
    def running(self) -> bool:
        """Whether a turn runs."""
        return self._task is not None

    @property
    def seconds(self) -> float:
        """How long the turn runs, or ran."""
        return time.monotonic() - self._began

    def start(self, text: str | None) -> None:
        """Begin a turn; None goes on with one that was cut off."""
        assert self._task is None, "one turn at a time"
        self._task = asyncio.get_running_loop().create_task(self._turn(text), name="turn")

    def stop(self) -> None:
        """Cut the turn off; the agent keeps what had arrived."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Cut the turn off and wait until it has ended."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _turn(self, text: str | None) -> None:
        self.used, self._began = Tally(), time.monotonic()
        said: LoggedString | None = None
        error: ModelError | None = None
        try:
            said = await self.opened.primary.response(text)
        except asyncio.CancelledError:
            pass  # the end of this task: nothing comes after
        except ModelError as failure:
            error = failure
        except Exception as failure:  # noqa: BLE001 - the border: raised where the screen is run
            self._task = None
            self.failed(failure)
            return
        self._task = None
        self.ended(Ended(said=said, error=error, seconds=self.seconds, used=self.used))
        if said is not None and not self.running and (waiting := self.queued.next()) is not None:
            self.start(waiting)
