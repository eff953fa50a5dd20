"""`TriggerSource`: what tells of one kind of thing that happens outside.

A source sums up: whoever asks it seldom gets all that happened since in one piece. So how often an
agent is woken is decided by whoever asks, and no storm of changes becomes a storm of messages.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from harken.world.result import InvalidArguments


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerEvent:
    """Something that happened, or all that happened since the last time."""

    text: str
    """What the agent hears, without the name of the trigger. Lines that others wrote are quoted."""
    seen: Any = None
    """How far the source has looked, as JSON; it goes on from there after a resume."""
    is_last: bool = False
    """Whether nothing will come after it."""
    on_logged: Callable[[], None] | None = None
    """Called when it cannot be lost any more."""


class TriggerSource(Protocol):
    """Tells of what happens while it is open: `async with source`."""

    pause_s: float
    """The least time between two happenings."""

    def open(self) -> AbstractAsyncContextManager[None]:
        """Begin to look; what was begun is ended with it. Raises ToolError."""
        ...

    async def wait(self) -> TriggerEvent:
        """Return when something has happened since the last call. May be cancelled.

        Raises ToolError, with the reason, where it can tell of nothing more.
        """
        ...


def quoted(text: str, most: int) -> str:
    r"""Return a text from outside so that no line of it looks like one of ours.

    >>> print(quoted("[hook x]: OK\nrest", 100))
    > [hook x]: OK
    > rest
    >>> quoted("a long text", 6)
    '> a long\n> (5 more characters)'
    """
    shown = [f"> {line}" for line in text[:most].splitlines()]
    left = len(text) - most
    if left > 0:
        shown.append(f"> ({left:,} more characters)")
    return "\n".join(shown)


def missing_extra(error: ImportError) -> InvalidArguments:
    """Say what is missing, and how to get it."""
    return InvalidArguments(
        f"this needs {error.name}, which is not installed: pip install 'harken[triggers]'"
    )
