"""When the keys of the user answer a question, and when they are ordinary typing.

A question may appear while the user types, and the next letter must not be taken for a yes. Keys
answer only when the input is empty, and nothing was typed for `QUIET_S` since the question was
drawn. `Arming` measures the time; the input says whether it is empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

QUIET_S = 1.0


class Arming:
    """A timer that restarts with every key until the user has paused.

    The timer starts when the question is drawn: the user cannot answer a question that the terminal
    does not show, for instance while an editor has it.
    """

    def __init__(
        self,
        changed: Callable[[], None],
        is_input_busy: Callable[[], bool] = lambda: False,
        quiet_s: float = QUIET_S,
    ) -> None:
        """Call `changed` when the pause is over. `is_input_busy`: whether the input holds text."""
        self._changed = changed
        self._is_input_busy = is_input_busy
        self._quiet_s = quiet_s
        self._is_waiting_for_drawing = False
        self._is_quiet = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def armed(self) -> bool:
        """Whether keys answer the question that is shown."""
        return self._is_quiet and not self._is_input_busy()

    def begin(self) -> None:
        """Wait for a question, or for the same one again, to be drawn."""
        self.end()
        self._is_waiting_for_drawing = True

    def drawn(self) -> None:
        """Start the timer if a question was waiting to be drawn."""
        if self._is_waiting_for_drawing:
            self._is_waiting_for_drawing = False
            self._start()

    def touch(self) -> None:
        """Restart the timer after a key, unless keys answer already."""
        if (self._timer is not None or self._is_quiet) and not self.armed:
            self._start()

    def end(self) -> None:
        """Stop the timer: no question is shown."""
        self._cancel()
        self._is_waiting_for_drawing = self._is_quiet = False

    def _start(self) -> None:
        self._cancel()
        self._is_quiet = False
        self._timer = asyncio.get_running_loop().call_later(self._quiet_s, self._expire)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer, self._is_quiet = None, True
        self._changed()
