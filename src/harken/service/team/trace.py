"""The facts of one request that parts of the service share: its sender, right and outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from harken.teams.caller import Caller

if TYPE_CHECKING:
    from harken.teams.team import Team

_KEY = "harken.trace"


class RequestTrace(msgspec.Struct):
    """The facts of a request, as they become known."""

    team: Team | None = None
    """The team of the service at the beginning of the request."""
    caller: Caller | None = None
    needs_right: bool = True
    """Whether only a known sender gets an answer."""
    right: str = ""
    """The right that the route needs."""
    code: str = ""
    """The error code of the response."""
    store: Any = None
    """The store of the sender."""
    size_bytes: int = 0

    @property
    def touched(self) -> Sequence[str]:
        """The names of changed objects."""
        return getattr(self.store, "touched", ())


def begin_trace(scope: Any) -> RequestTrace:
    """Return the trace of a new request."""
    trace = scope[_KEY] = RequestTrace()
    return trace


def trace_of(scope: Any) -> RequestTrace:
    """Return the trace of a request."""
    return cast(RequestTrace, scope[_KEY])
