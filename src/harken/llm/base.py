"""The protocol between agents and models: a request goes in, chunks stream out.

A model is a name and a stream. It keeps no conversation: everything it may depend on is in the
request, so that a resumed agent sends exactly the requests of the live one. Cancelling the task
that reads a stream cancels the call; the chunks received until then are in the `StreamAccumulator`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, overload

import msgspec

from harken.core import canonical
from harken.core.messages import ChatMessage
from harken.core.stream import Chunk

ToolSchema: TypeAlias = Mapping[str, Any]
"""`name`, `description` and `parameters` (JSON Schema) of one tool."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The complete input of one model call."""

    agent: str
    """The name of the calling agent, or its id if it has no name."""
    messages: Sequence[ChatMessage]
    """The context, oldest first."""
    tools: Sequence[ToolSchema] = ()
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    context_hash: str = ""
    """Rolling hash of `messages`."""
    tools_hash: str | None = None
    """The hash of `tools`. None if there are none."""

    @property
    def hash(self) -> str:
        """The hash of context, tools and parameters, independent of agent and model."""
        return request_hash(self.context_hash, self.tools_hash, self.parameters)


def request_hash(
    context_hash: str, tools_hash: str | None, parameters: Mapping[str, Any] | None
) -> str:
    """Return the hash of a request, also of a logged one: 64 hex digits."""
    content = {"context": context_hash, "tools": tools_hash, "parameters": dict(parameters or {})}
    return canonical.hash_value(canonical.REQUEST_DOMAIN, content)


def tools_hash(tools: Sequence[ToolSchema]) -> str:
    """Return the hash of a list of tool schemas: 64 hex digits."""
    return canonical.hash_value(canonical.TOOLS_DOMAIN, [dict(tool) for tool in tools])


class Model(Protocol):
    """A language model that answers requests.

    A model with a known context size has it as `context_window`, which is no part of the protocol:
    agents compact their context before it is full.
    """

    @property
    def name(self) -> str:
        """The name in the log: `anthropic/...`, `scripted:FILE`, `replay:SESSION`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Stream the answer to a request, ending with `Finish`.

        Raises ModelError if the call fails, and no other exception for an external failure.
        Call ids are unique among the calls of the context that have no result.
        """
        ...


ModelResolver: TypeAlias = Callable[[str], Model]
"""Returns the model with a name. Raises ConfigError for an unknown name."""


class MessageWindow(Sequence[ChatMessage]):
    """The first `size` messages of a list that may grow, without a copy."""

    __slots__ = ("_messages", "_size")

    def __init__(self, messages: Sequence[ChatMessage], size: int) -> None:
        """Create a view of the first `size` of `messages`, which may only be appended to."""
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
