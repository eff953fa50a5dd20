"""Pace: what changes often is drawn at once, and then not more often than the eye can follow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

FRAME_S = 0.05


@dataclass(slots=True)
class Pace:
    """Calls `draw` when asked, at most every `frame_s` seconds; the last wish is never lost."""

    draw: Callable[[], None]
    frame_s: float = FRAME_S
    _drawn_at: float = float("-inf")
    _later: asyncio.Handle | None = field(default=None)

    def ask(self) -> None:
        """Draw as soon as it may be, from the running event loop."""
        if self._later is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._drawn_at + self.frame_s - loop.time()
        if wait > 0:
            self._later = loop.call_later(wait, self._draw, loop)
        else:
            self._later = loop.call_soon(self._draw, loop)

    def beat(self) -> None:
        """Draw unless that was done lately, from the running event loop.

        What is asked for next does not wait for it: words that come are not held up by a clock.
        """
        loop = asyncio.get_running_loop()
        if self._later is None and loop.time() - self._drawn_at >= self.frame_s:
            loop.call_soon(self.draw)

    def _draw(self, loop: asyncio.AbstractEventLoop) -> None:
        self._later, self._drawn_at = None, loop.time()
        self.draw()
