"""`ToolResult`: the result of an action that the model reads, also if it failed.

A failed action is reported to the model, not raised to the user. Only a failing model call or a
failing log is raised: a resume continues from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import msgspec

from harken.core.events import Cause, Closed
from harken.core.ids import MessageId
from harken.core.messages import Content
from harken.errors import BudgetExceeded, ConfigError, LogError, ModelError


class ToolError(Exception):
    """An action failed; the text tells the model why, and how to proceed."""

    def __init__(self, text: str, *, cause: Cause = None, closed: Closed | None = None) -> None:
        super().__init__(text)
        self.cause: Cause = cause
        """The messages that contain the reason, if any."""
        self.closed: Closed | None = closed
        """Why the action was not run, if it was not."""


class InvalidArguments(ToolError):
    """The arguments of a model do not match the tool; the text says why."""


class ActionBlocked(ToolError):
    """A hook denied an action; the text says which hook, and why."""


class ToolTimeout(ToolError):
    """A tool exceeded its time limit. A function in a thread cannot be stopped and continues."""

    def __init__(self, name: str, timeout_s: float) -> None:
        super().__init__(
            f"{name} timed out after {timeout_s:g} s. It may or may not have acted: "
            "check before you repeat it."
        )


class ToolResult(msgspec.Struct, frozen=True):
    """The result of an action: text, or message parts if it contains an image."""

    content: Content
    substance: MessageId | None = None
    """The message that it passes on unchanged."""
    cause: Cause = None
    """The messages from which it was compiled."""
    is_error: bool = False
    closed: Closed | None = None
    """Why the action has no result of its own."""


def error_result(message: str, *, cause: Cause = None, closed: Closed | None = None) -> ToolResult:
    """Return the result of an action that failed with this message."""
    return ToolResult(f"Error: {message}", cause=cause, is_error=True, closed=closed)


async def run_catching(name: str, action: Awaitable[ToolResult]) -> ToolResult:
    """Await the result of an action; convert its own failure to a result.

    Raises ModelError and LogError, and CancelledError if this task itself is cancelled.
    """
    try:
        return await action
    except (ModelError, LogError):
        raise
    except asyncio.CancelledError:
        if current_task_cancelled():
            raise
        return error_result(f"{name}: it was cancelled from inside")
    except ToolError as error:
        return error_result(str(error), cause=error.cause, closed=error.closed)
    except (BudgetExceeded, ConfigError) as error:
        return error_result(str(error))
    except Exception as error:  # noqa: BLE001 - any failure of an action is a result
        return error_result(f"{name}: {type(error).__name__}: {error}")


def current_task_cancelled() -> bool:
    """Whether this task is being cancelled, rather than an awaitable that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
