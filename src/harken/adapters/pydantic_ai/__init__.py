"""Message history and steps of pydantic-ai over Harken's store.

    async with HarkenHistory("trip", "~/.harken") as history:
        result = await agent.run("Hello", message_history=await history.load())
        await history.add(result.new_messages())

`HarkenStepStore` keeps the steps of runs for `StepPersistence` of pydantic-ai-harness. A
conversation is a session of Harken, too: `harken view pydantic-ai:trip` shows it.

Source: docs/how-to/use-with-pydantic-ai.md; docs/design/020-adapters.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import pydantic_ai as _  # noqa: F401
except ImportError as error:
    raise ImportError(
        "harken.adapters.pydantic_ai needs pydantic-ai: install it with "
        "`pip install harken[pydantic-ai]`"
    ) from error

from harken.adapters.pydantic_ai.history import HarkenHistory

if TYPE_CHECKING:
    from harken.adapters.pydantic_ai.step_store import HarkenStepStore

__all__ = ["HarkenHistory", "HarkenStepStore"]


def __getattr__(name: str) -> Any:
    """Import the step store when it is used: it needs pydantic-ai-harness, too."""
    if name != "HarkenStepStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from harken.adapters.pydantic_ai.step_store import HarkenStepStore  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "HarkenStepStore needs pydantic-ai-harness: install it with "
            "`pip install harken[pydantic-ai]`"
        ) from error
    return HarkenStepStore
