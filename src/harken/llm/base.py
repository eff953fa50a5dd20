"""The protocol between agents and models: a request goes in, chunks stream out.

A model is a name and a stream. It keeps no conversation: everything it may look at is in the
request, so that a resumed agent asks exactly what the live one would have asked. Cancelling the
task that reads a stream cancels the call; what arrived until then is in the `Draft`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Protocol, TypeAlias, overload

import msgspec

from harken.core import codec
from harken.core.events import Usage
from harken.core.messages import (
    CallPlace,
    ChatMessage,
    Content,
    ContentPart,
    FunctionCall,
    ImagePart,
    Message,
    Meta,
    OtherPart,
    TextPart,
    ThinkingPart,
    ToolCall,
)

ToolSchema: TypeAlias = Mapping[str, Any]
"""`name`, `description` and `parameters` (JSON Schema) of one tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
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
    return codec.hash_of(codec.REQUEST, covered)


def tools_hash(tools: Sequence[ToolSchema]) -> str:
    """Return the identity of a list of tool schemas: 64 hex digits."""
    return codec.hash_of(codec.TOOLS, [dict(tool) for tool in tools])


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's text.

    `meta` comes with the last piece of a part; also an empty one ends the part.
    """

    text: str
    meta: Meta | None = None


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """The next piece of thinking; `meta` (a signature) as in `TextDelta`."""

    text: str
    meta: Meta | None = None


@dataclass(frozen=True, slots=True)
class PartDelta:
    """A part that comes whole: an image, a native block, or the place of a call.

    Calls without a place stand after all parts; either all calls have one or none has.
    """

    part: ImagePart | OtherPart | CallPlace


@dataclass(frozen=True, slots=True)
class CallDelta:
    """The next piece of a tool call; `id`, `name` and `type` come with its first piece.

    `index` counts the calls of the answer from 0.
    """

    index: int
    arguments: str = ""
    id: str = ""
    name: str = ""
    type: str = "function"
    meta: Meta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The end of an answer. An answer without one was cut off."""

    stop_reason: str
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str | None = None
    """The model that really answered, where the provider says so."""


Chunk: TypeAlias = TextDelta | ThinkingDelta | PartDelta | CallDelta | Finish


class Model(Protocol):
    """Something that answers requests."""

    @property
    def name(self) -> str:
        """How the log calls it: `anthropic/...`, `scripted:FILE`, `replay:SESSION`."""
        ...

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Answer a request, piece by piece, ending with `Finish`.

        Raises ModelError where the call fails; never anything else for a failure outside.
        Call ids are unique among the calls of the context that have no result.
        """
        ...


ModelResolver: TypeAlias = Callable[[str], Model]
"""Turns a model's name into the model. Raises ConfigError for one that it does not know."""


@dataclass(slots=True)
class Draft:
    """An answer while it arrives; `message` is what there is of it so far."""

    finish: Finish | None = None
    _parts: list[TextDelta | ThinkingDelta | PartDelta] = field(default_factory=list)
    _calls: dict[int, list[CallDelta]] = field(default_factory=dict)

    def add(self, chunk: Chunk) -> None:
        """Take the next chunk."""
        match chunk:
            case Finish():
                self.finish = chunk
            case CallDelta():
                self._calls.setdefault(chunk.index, []).append(chunk)
            case _:
                self._parts.append(chunk)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(part.text for part in self._parts if isinstance(part, TextDelta))

    def message(self, *, with_calls: bool = True) -> Message:
        """Return the assistant message so far, without calls where they may be unfinished."""
        calls = [_joined(self._calls[index]) for index in sorted(self._calls)]
        parts = [part for part in self._content() if with_calls or not isinstance(part, CallPlace)]
        content: Content = parts or None
        if len(parts) == 1 and isinstance(parts[0], TextPart) and not parts[0].meta:
            content = parts[0].text
        return Message(
            role="assistant",
            content=content,
            tool_calls=(calls or None) if with_calls else None,
        )

    def _content(self) -> Iterator[ContentPart]:
        """Join neighbouring pieces of one kind; a meta ends a part, also an empty part."""
        texts: list[str] = []
        for chunk, following in zip_longest(self._parts, self._parts[1:]):
            if isinstance(chunk, PartDelta):
                yield chunk.part
                continue
            texts.append(chunk.text)
            if chunk.meta is not None or type(following) is not type(chunk):
                text = "".join(texts)
                texts.clear()
                if text or chunk.meta is not None:
                    kind = TextPart if isinstance(chunk, TextDelta) else ThinkingPart
                    yield kind(text, chunk.meta or None)


def chunks_of(message: ChatMessage) -> Iterator[Chunk]:
    """Yield a whole message word by word, without `Finish`: the inverse of `Draft`.

    What a `Draft` makes of the chunks has the same `message_hash` and the same call ids.
    """
    content = message.content
    parts = [TextPart(content)] if isinstance(content, str) else content or []
    for part, following in zip_longest(parts, parts[1:]):
        if isinstance(part, TextPart | ThinkingPart):
            delta = TextDelta if isinstance(part, TextPart) else ThinkingDelta
            *words, last = _words(part.text) or [""]
            yield from map(delta, words)
            ends = not last or type(following) is type(part)
            yield delta(last, part.meta or ({} if ends else None))
        else:
            yield PartDelta(part)
    for index, call in enumerate(message.tool_calls or ()):
        yield CallDelta(index, "", call.id, call.function.name, call.type, call.meta or None)
        for word in _words(call.function.arguments):
            yield CallDelta(index, word)


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def _joined(pieces: list[CallDelta]) -> ToolCall:
    name = "".join(piece.name for piece in pieces)
    arguments = "".join(piece.arguments for piece in pieces)
    id_ = next((piece.id for piece in pieces if piece.id), "")
    meta = next((piece.meta for piece in pieces if piece.meta), msgspec.UNSET)
    return ToolCall(id_, FunctionCall(name, arguments), pieces[0].type, meta)


class Window(Sequence[ChatMessage]):
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
