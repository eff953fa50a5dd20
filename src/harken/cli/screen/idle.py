"""`Idle`: where nobody says anything for a while, hooks may let the user know that they should."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from harken.agents.happening import UserWanted, call_user
from harken.cli.opened import Opened

AFTER_S = 60.0


@dataclass(slots=True)
class Idle:
    """Waits for the user, from the end of a turn to the beginning of the next."""

    opened: Opened
    after_s: float = AFTER_S
    _waiting: asyncio.Task[None] | None = field(default=None, init=False)

    def begin(self) -> None:
        """Begin to wait."""
        self.end()
        self._waiting = asyncio.get_running_loop().create_task(self._wait(), name="idle")

    def end(self) -> None:
        """Wait no longer."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    async def _wait(self) -> None:
        await asyncio.sleep(self.after_s)
        await call_user(self.opened.primary, UserWanted(kind="idle_prompt"))
