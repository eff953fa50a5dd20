"""Pace: what changes often is drawn at once, and then not more often than the eye can follow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

FRAME_S = 0.04


@dataclass(slots=True)
class Pace:
    """Calls `draw` when asked, at most every `frame_s` seconds; the last wish is never lost."""

    draw: Callable[[], None]
    frame_s: float = FRAME_S
    _drawn_at: float = -1.0
    _later: asyncio.TimerHandle | None = field(default=None)

    def ask(self) -> None:
        """Draw now, or as soon as it may be. To be called in the event loop."""
        if self._later is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._drawn_at + self.frame_s - loop.time()
        if wait <= 0:
            self._draw(loop)
        else:
            self._later = loop.call_later(wait, self._draw, loop)

    def drawn(self) -> None:
        """Note that everything was just drawn for another reason."""
        self._drawn_at = asyncio.get_running_loop().time()
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _draw(self, loop: asyncio.AbstractEventLoop) -> None:
        self._later, self._drawn_at = None, loop.time()
        self.draw()
