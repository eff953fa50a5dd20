"""`ActionResult`: the result of a structural action, with its value for code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from harken.world.result import ToolResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ActionResult(ToolResult, Generic[T]):
    """The text that a model reads, and the value that a method of an agent returns."""

    value: T | None = None
