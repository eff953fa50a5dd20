"""`SessionForker`: the protocol through which the routes fork sessions."""

from __future__ import annotations

from typing import Protocol

import msgspec

from harken.core.record import Record


class SessionForkRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The point of a fork and its changes, as in `harken fork`."""

    at: str | None = None
    """The last message of the fork, or the model call after which it ends. None: the end."""
    before: bool = False
    edit: str | None = None
    model: str | None = None
    without_hooks: list[str] = msgspec.field(default_factory=list)
    name: str | None = None


class ForkRow(Record, frozen=True, kw_only=True):
    """A session that was forked off another one."""

    session: str
    """The name of the new session."""
    origin: str
    """The line that tells of which session it is a fork."""
    disarmed: list[str]
    """The triggers that were disarmed."""


class SessionForker(Protocol):
    """Forks sessions of a home. Methods are called by several threads at a time."""

    def fork(self, name: str, request: SessionForkRequest) -> ForkRow:
        """Fork a session. Raises NameNotFound, HarkenError for a request that is not possible."""
