"""The protocol between agents and models: a request goes in, chunks stream out.

A model is a name and a stream. It keeps no conversation: everything it may look at is in the
request, so that a resumed agent asks exactly what the live one would have asked. Cancelling the
task that reads a stream cancels the call; what arrived until then is in the `Draft`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, overload

from harken.core import canonical
from harken.core.messages import ChatMessage
from harken.core.stream import Chunk

ToolSchema: TypeAlias = Mapping[str, Any]
"""`name`, `description` and `parameters` (JSON Schema) of one tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """Everything that one model call may depend on."""

    agent: str
    """The name of the asking agent, its id where it has none."""
    messages: Sequence[ChatMessage]
    """The context, oldest first."""
    tools: Sequence[ToolSchema] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    context_hash: str = ""
    """Rolling hash of `messages`."""
    tools_hash: str | None = None
    """Identity of `tools`; None where there are none."""

    @property
    def hash(self) -> str:
        """The identity of the request: context, tools and parameters, not who asks whom."""
        return request_hash(self.context_hash, self.tools_hash, self.parameters)


def request_hash(
    context_hash: str, tools_hash: str | None, parameters: Mapping[str, Any] | None
) -> str:
    """Return the identity of a request, also of one that stands in a log: 64 hex digits."""
    covered = {"context": context_hash, "tools": tools_hash, "parameters": dict(parameters or {})}
    return canonical.hash_value(canonical.REQUEST, covered)


def tools_hash(tools: Sequence[ToolSchema]) -> str:
    """Return the identity of a list of tool schemas: 64 hex digits."""
    return canonical.hash_value(canonical.TOOLS, [dict(tool) for tool in tools])


class Model(Protocol):
    """Something that answers requests.

    One that knows how many tokens it reads at once says so as `context_window`, which is no part of
    the protocol: agents compact their context before it is full.
    """

    @property
    def name(self) -> str:
        """How the log calls it: `anthropic/...`, `scripted:FILE`, `replay:SESSION`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer a request, piece by piece, ending with `Finish`.

        Raises ModelError where the call fails; never anything else for a failure outside.
        Call ids are unique among the calls of the context that have no result.
        """
        ...


ModelResolver: TypeAlias = Callable[[str], Model]
"""Turns a model's name into the model. Raises ConfigError for one that it does not know."""


class MessageWindow(Sequence[ChatMessage]):
    """The first `size` messages of a list that may grow meanwhile, without copying it."""

    __slots__ = ("_messages", "_size")

    def __init__(self, messages: Sequence[ChatMessage], size: int) -> None:
        """Look at the first `size` of `messages`, which may only be appended to."""
        self._messages, self._size = messages, size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> ChatMessage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ChatMessage]: ...
    def __getitem__(self, index: int | slice) -> ChatMessage | Sequence[ChatMessage]:
        if isinstance(index, slice):
            return [self._messages[at] for at in range(*index.indices(self._size))]
        if not -self._size <= index < self._size:
            raise IndexError(index)
        return self._messages[index % self._size]
