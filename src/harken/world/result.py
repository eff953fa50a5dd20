"""`ToolResult`: what an action gives back to the model, also where it failed.

What goes wrong in an action is told to the model, not raised at the user. Only a failing model
call or a failing log goes further up: a resume goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from harken.core.events import Cause
from harken.core.ids import MessageId
from harken.core.messages import Content
from harken.errors import BudgetExceeded, ConfigError, LogError, ModelError


class ToolError(Exception):
    """An action that could not be done; the text says why, and what to do, to the model."""

    def __init__(self, text: str, *, cause: Cause = None) -> None:
        super().__init__(text)
        self.cause: Cause = cause
        """The messages that say why, where there are any."""


class InvalidArguments(ToolError):
    """What a model sent does not fit a tool; the text says what."""


class ToolTimeout(ToolError):
    """A tool took longer than it may. What runs in a thread cannot be stopped and goes on."""

    def __init__(self, name: str, timeout_s: float) -> None:
        super().__init__(
            f"{name} did not finish within {timeout_s:g} s. It may or may not have acted: "
            f"check before you do it again."
        )


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What an action gives back to the model: a text, or parts where there is an image in it."""

    content: Content
    substance: MessageId | None = None
    """The one message that it hands through."""
    cause: Cause = None
    """The messages that it was compiled from."""
    is_error: bool = False


async def run_catching(name: str, action: Awaitable[ToolResult]) -> ToolResult:
    """Await an action's result; a failure of its own is its result.

    Raises ModelError and LogError, and CancelledError where this task itself is cancelled.
    """
    try:
        return await action
    except (ModelError, LogError):
        raise
    except asyncio.CancelledError:
        if current_task_cancelled():
            raise
        return ToolResult(f"Error: {name}: it was cancelled from inside", is_error=True)
    except ToolError as error:
        return ToolResult(f"Error: {error}", cause=error.cause, is_error=True)
    except (BudgetExceeded, ConfigError) as error:
        return ToolResult(f"Error: {error}", is_error=True)
    except Exception as error:  # noqa: BLE001 - the border: an action's failure is a result
        return ToolResult(f"Error: {name}: {type(error).__name__}: {error}", is_error=True)


def current_task_cancelled() -> bool:
    """Whether this task is being cancelled, rather than something that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
