"""`Memory`: the protocol of a store in which an agent keeps and finds texts.

The storage is an interchangeable strategy; agents and the tool use only this protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from harken.world.result import ToolError
from harken.world.tool import ToolContext

MemoryKind: TypeAlias = Literal["STM", "LTM"]
"""Short-term: for the session; long-term: beyond it."""


class MemoryNotFound(ToolError):
    """No text is stored under a name."""


class MemoryHit(msgspec.Struct, frozen=True):
    """A result of a query."""

    path: str
    """The path with which `read` returns the full text."""
    excerpt: str
    """An excerpt on one line."""


class Memory(Protocol):
    """A memory strategy. Methods raise ToolError with a text for the model."""

    @property
    def kind(self) -> MemoryKind:
        """Whether it is short-term or long-term."""
        ...

    def read(self, path: str, caller: ToolContext) -> str:
        """Return the text stored under a name. Raises MemoryNotFound."""
        ...

    def write(self, path: str, text: str, caller: ToolContext) -> None:
        """Store a text under a name and replace the previous one."""
        ...

    def query(self, words: str, limit: int, caller: ToolContext) -> Sequence[MemoryHit]:
        """Return the texts that contain all these words, the best first, at most `limit`."""
        ...

    def list(self, caller: ToolContext) -> Sequence[str]:
        """Return all names."""
        ...
