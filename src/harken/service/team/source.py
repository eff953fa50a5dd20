"""`TeamSource`: the team of a service, which may begin while the service runs.

Until there is a team, only the token of the home is accepted. From its first user or rule on, each
request is under its rights; a team never ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec

from harken.errors import HarkenError
from harken.service.team.access import TeamGate
from harken.service.team.audit import RequestAudit

if TYPE_CHECKING:
    from harken.service.access import AccessCheck
    from harken.teams.team import Team

_CHECK_INTERVAL_S = 0.5


class TeamParts(msgspec.Struct, frozen=True):
    """A team, the gate of its users, and the audit of their requests."""

    team: Team
    gate: TeamGate
    audit: RequestAudit


class TeamSource:
    """Opens the team of a service as soon as there is one."""

    def __init__(
        self, find: Callable[[], Team | None], *, interval_s: float = _CHECK_INTERVAL_S
    ) -> None:
        """Look for the team now, and then at most once in an interval.

        find: opens the team, or returns None if there are no users. Its errors are raised.
        """
        self._find, self._interval_s = find, interval_s
        self._lock = anyio.Lock()
        self._parts: TeamParts | None = None
        self.team = find()
        """The open team, or None."""
        self._checked_at = time.monotonic()
        self._error: HarkenError | None = None

    async def find_parts(self, owner: AccessCheck) -> TeamParts | None:
        """Return the parts of the team, or None if there is none. Raises StoreError, ConfigError.

        owner: the check of the token of the home.
        """
        if self._is_due():
            async with self._lock:
                if self._is_due():
                    await self._look()
        if self._error is not None:
            raise self._error
        if self._parts is None and self.team is not None:
            gate, audit = TeamGate(owner, self.team), RequestAudit(self.team)
            self._parts = TeamParts(self.team, gate, audit)
        return self._parts

    def close(self) -> None:
        """Close the team, if there is one."""
        if self.team is not None:
            self.team.close()

    async def _look(self) -> None:
        """Look for the team. An error is kept, so that not each request repeats what fails."""
        self._error = None
        try:
            self.team = await anyio.to_thread.run_sync(self._find)
        except HarkenError as error:
            self._error = error
        self._checked_at = time.monotonic()

    def _is_due(self) -> bool:
        return self.team is None and time.monotonic() >= self._checked_at + self._interval_s
