"""`ActionResult`: the result of a structural action, with its value for code."""

from __future__ import annotations

from typing import Generic, TypeVar

from harken.world.result import ToolResult

T = TypeVar("T")


class ActionResult(ToolResult, Generic[T], frozen=True):
    """The text that a model reads, and the value that a method of an agent returns."""

    value: T | None = None
