"""Models (LLMs) behind one protocol: scripted, replayed, and those of vendors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.core.lazy import lazy_exports

if TYPE_CHECKING:
    from harken.core.stream import Chunk, Finish, TextDelta, ThinkingDelta, ToolCallDelta
    from harken.llm.base import ModelRequest
    from harken.llm.context_windows import ContextWindows
    from harken.llm.http_model import ModelEndpoint
    from harken.llm.providers import Provider
    from harken.llm.replay import ReplayModel
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "Chunk": "harken.core.stream",
            "ContextWindows": "harken.llm.context_windows",
            "Finish": "harken.core.stream",
            "ModelEndpoint": "harken.llm.http_model",
            "ModelRequest": "harken.llm.base",
            "Provider": "harken.llm.providers",
            "ReplayModel": "harken.llm.replay",
            "TextDelta": "harken.core.stream",
            "ThinkingDelta": "harken.core.stream",
            "ToolCallDelta": "harken.core.stream",
        },
    )

__all__ = [
    "Chunk",
    "ContextWindows",
    "Finish",
    "ModelEndpoint",
    "ModelRequest",
    "Provider",
    "ReplayModel",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallDelta",
]
