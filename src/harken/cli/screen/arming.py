"""Arming: a question takes keys only when the user has stopped typing for a moment.

A question may come while somebody types ahead; the next letter shall not be taken for a yes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

ARMED_AFTER_S = 0.3


class Arming:
    """Says whether keys answer the question that is shown."""

    def __init__(self, changed: Callable[[], None], after_s: float = ARMED_AFTER_S) -> None:
        """`changed` is called when keys begin to count, or cease to."""
        self.armed = False
        self._changed = changed
        self._after_s = after_s
        self._later: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Another question is shown: it counts soon."""
        self.end()
        self._later = asyncio.get_running_loop().call_later(self._after_s, self._arm)

    def touch(self) -> None:
        """The user has typed something else: the question counts a little later."""
        if self._later is not None:
            self.begin()

    def end(self) -> None:
        """No question is shown."""
        if self._later is not None:
            self._later.cancel()
        self._later, self.armed = None, False

    def _arm(self) -> None:
        self._later, self.armed = None, True
        self._changed()
