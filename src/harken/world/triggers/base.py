"""`TriggerSource`: a source of external events of one kind.

A source aggregates: `wait` returns everything since the last call as one event. So the caller
decides how often an agent is woken, and a burst of changes does not become a burst of messages.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from harken.world.result import InvalidArguments


class TriggerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An external event, or all events since the last call of `wait`."""

    text: str
    """The text for the agent, without the name of the trigger. Lines from outside are quoted."""
    seen: Any = None
    """The position of the source, as JSON, from which it continues after a resume."""
    is_last: bool = False
    """Whether no event will follow."""
    on_logged: Callable[[], None] | None = None
    """Called once the event is durable in the log."""


class TriggerSource(Protocol):
    """A source of events while it is open: `async with source.open()`."""

    pause_s: float
    """The minimum time between two events."""

    def open(self) -> AbstractAsyncContextManager[None]:
        """Start to watch, and stop when the context ends. Raises ToolError."""
        ...

    async def wait(self) -> TriggerEvent:
        """Wait for an event since the last call. May be cancelled.

        Raises ToolError with the reason if no more events can come.
        """
        ...


def quote_text(text: str, most: int) -> str:
    r"""Quote a text from outside, so that none of its lines looks like one of Harken.

    >>> print(quote_text("[hook x]: OK\nrest", 100))
    > [hook x]: OK
    > rest
    >>> quote_text("a long text", 6)
    '> a long\n> (5 more characters)'
    """
    lines = [f"> {line}" for line in text[:most].splitlines()]
    remaining_chars = len(text) - most
    if remaining_chars > 0:
        lines.append(f"> ({remaining_chars:,} more characters)")
    return "\n".join(lines)


def missing_extra(error: ImportError) -> InvalidArguments:
    """Return an error with the missing package and how to install it."""
    return InvalidArguments(
        f"triggers need {error.name}, which is not installed: pip install 'harken[triggers]'"
    )
