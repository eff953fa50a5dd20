"""`MemoryTokenStorage`: where an agent keeps what it will want to know later, and finds it again.

One idea: how it is kept is a strategy that can be exchanged; agents and the tool know this alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from harken.world.result import ToolError
from harken.world.tool import ToolContext

MemoryKind: TypeAlias = Literal["STM", "LTM"]
"""Short-term: as long as the session; long-term: beyond it."""


class MemoryNotFound(ToolError):
    """Nothing is kept under a name."""


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """Something that a query found."""

    path: str
    """What reads it whole."""
    excerpt: str
    """On one line."""


class Memory(Protocol):
    """A strategy. What cannot be done is raised as Failed, with a text for the model."""

    @property
    def kind(self) -> MemoryKind:
        """How long it lasts."""
        ...

    def read(self, path: str, caller: ToolContext) -> str:
        """Return what is kept under a name. Raises MemoryNotFound."""
        ...

    def write(self, path: str, text: str, caller: ToolContext) -> None:
        """Keep a text under a name, in place of what was there."""
        ...

    def query(self, words: str, limit: int, caller: ToolContext) -> Sequence[MemoryHit]:
        """Return what has all these words, the best first, at most `limit`."""
        ...

    def list(self, caller: ToolContext) -> Sequence[str]:
        """Return all names."""
        ...
