"""Chunks: the pieces of a streamed answer, and the `StreamAccumulator` that joins them.

Every source of an answer (a provider, a script, a recording) streams it in these chunks.
`StreamAccumulator` is the inverse of `chunks_of`, which splits a message into chunks.

A partial is the received part of an answer that did not finish, as a single text for the log.
Text is kept as it was received. Thinking follows a line `[thinking]`, and text after thinking
follows a line `[answer]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, TypeAlias

import msgspec

from harken.core import structs
from harken.core.event_types.message_parser import decode_extra, encode_extra
from harken.core.events import Usage
from harken.core.messages import (
    ChatMessage,
    Content,
    ContentPart,
    Extra,
    FunctionCall,
    Message,
    Meta,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
)

_THINKING = "[thinking]\n"
_ANSWER = "\n[answer]\n"


def format_partial(thinking: str, text: str) -> str | None:
    r"""Format thinking and text as a partial. Return None if both are empty.

    >>> format_partial("hm, ", "The te")
    '[thinking]\nhm, \n[answer]\nThe te'
    >>> format_partial("", "The te")
    'The te'
    """
    if not thinking.strip():
        return text or None
    return f"{_THINKING}{thinking}{_ANSWER}{text}" if text else f"{_THINKING}{thinking}"


def parse_partial_thinking(partial: str | None) -> str:
    r"""Return the thinking part of a partial.

    >>> parse_partial_thinking("[thinking]\nhm, \n[answer]\nThe te")
    'hm, '
    """
    if partial is None or not partial.startswith(_THINKING):
        return ""
    return partial.removeprefix(_THINKING).partition(_ANSWER)[0]


def parse_partial_text(partial: str | None) -> str:
    r"""Return the text part of a partial, without the thinking.

    >>> (
    ...     parse_partial_text("[thinking]\nhm, \n[answer]\nThe te"),
    ...     parse_partial_text("The te"),
    ...     parse_partial_text("[thinking]\nhm"),
    ... )
    ('The te', 'The te', '')
    """
    if partial is None or not partial.startswith(_THINKING):
        return partial or ""
    return partial.removeprefix(_THINKING).partition(_ANSWER)[2]


class TextDelta(msgspec.Struct, frozen=True):
    """The next piece of the answer's text.

    `meta` and `extra` are set on the last piece of a part; an empty `meta` also ends the part.
    """

    text: str
    meta: Meta | None = None
    extra: Extra | None = None


class ThinkingDelta(msgspec.Struct, frozen=True):
    """The next piece of thinking; `meta` (a signature) and `extra` as in `TextDelta`."""

    text: str
    meta: Meta | None = None
    extra: Extra | None = None


class PartDelta(msgspec.Struct, frozen=True):
    """A part that arrives complete: an image, a native block, or a call slot.

    Calls without a slot follow all parts; either all calls have a slot or none has.
    """

    part: ContentPart


class ToolCallDelta(msgspec.Struct, frozen=True):
    """The next piece of a tool call; `id`, `name` and `type` are in its first piece.

    `index` counts the calls of the answer from 0. The last `extra` is that of the call.
    """

    index: int
    arguments: str = ""
    id: str = ""
    name: str = ""
    type: str = "function"
    meta: Meta | None = None
    extra: Extra | None = None


class ExtraDelta(msgspec.Struct, frozen=True):
    """Content of the answer that no part carries: members for the `extra` of its first part."""

    members: Mapping[str, Any]


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an answer. An answer without a Finish was interrupted."""

    stop_reason: str
    """Empty if it is not known."""
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str | None = None
    """The model that answered, if the provider reports it."""
    response_id: str | None = None
    """The provider's id of the response, if it is known."""


Chunk: TypeAlias = TextDelta | ThinkingDelta | PartDelta | ToolCallDelta | ExtraDelta | Finish


class StreamAccumulator(msgspec.Struct):
    """An answer that is being received; `message` returns the part received so far."""

    finish: Finish | None = None
    _parts: list[TextDelta | ThinkingDelta | PartDelta] = msgspec.field(default_factory=list)
    _calls: dict[int, list[ToolCallDelta]] = msgspec.field(default_factory=dict)
    _extra: dict[str, Any] = msgspec.field(default_factory=dict)

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk."""
        match chunk:
            case Finish():
                self.finish = chunk
            case ToolCallDelta():
                self._calls.setdefault(chunk.index, []).append(chunk)
            case ExtraDelta():
                self._extra |= chunk.members
            case _:
                self._parts.append(chunk)

    @property
    def text(self) -> str:
        """The text received so far."""
        return "".join(part.text for part in self._parts if isinstance(part, TextDelta))

    @property
    def thinking(self) -> str:
        """The thinking received so far."""
        return "".join(part.text for part in self._parts if isinstance(part, ThinkingDelta))

    def message(self, *, with_calls: bool = True) -> Message:
        """Return the assistant message so far. Without `with_calls`, omit the tool calls."""
        calls = [_join_call_pieces(self._calls[index]) for index in sorted(self._calls)]
        parts = [
            part for part in self._iter_parts() if with_calls or not isinstance(part, ToolCallSlot)
        ]
        if self._extra:
            _extend_first(parts, calls if with_calls else [], self._extra)
        content: Content = parts or None
        match parts:
            case [TextPart(text=text, meta=meta, extra=extra)] if not meta and not extra:
                content = text
        return Message(
            role="assistant",
            content=content,
            tool_calls=(calls or None) if with_calls else None,
        )

    def _iter_parts(self) -> Iterator[ContentPart]:
        """Join adjacent pieces of one kind.

        A piece with a meta or an extra ends a part, even an empty one.
        """
        texts: list[str] = []
        for chunk, following in zip_longest(self._parts, self._parts[1:]):
            if isinstance(chunk, PartDelta):
                yield chunk.part
                continue
            texts.append(chunk.text)
            is_end = chunk.meta is not None or chunk.extra is not None
            if is_end or type(following) is not type(chunk):
                text = "".join(texts)
                texts.clear()
                if text or is_end:
                    kind = TextPart if isinstance(chunk, TextDelta) else ThinkingPart
                    yield kind(text, chunk.meta or None, chunk.extra)


def _extend_first(
    parts: list[ContentPart], calls: list[ToolCall], members: Mapping[str, Any]
) -> None:
    """Add members to the `extra` of the first part or call. If there is none, add an empty text."""
    if not parts and not calls:
        parts.append(TextPart(""))
    first = parts[0] if parts else None
    if first is None or isinstance(first, ToolCallSlot):
        ids = [call.id for call in calls]
        index = 0 if first is None else ids.index(first.id)
        calls[index] = structs.replace(calls[index], extra=_join_extra(calls[index].extra, members))
    else:
        parts[0] = structs.replace(first, extra=_join_extra(first.extra, members))


def _join_extra(extra: Extra | msgspec.UnsetType | None, members: Mapping[str, Any]) -> Any:
    return encode_extra({**decode_extra(extra), **members})


def iter_chunks(message: ChatMessage) -> Iterator[Chunk]:
    """Yield a message as chunks of a word each, without `Finish`: inverse of `StreamAccumulator`.

    The message that a `StreamAccumulator` builds from the chunks has the same `message_hash` and
    the same call ids.
    """
    content = message.content
    parts = [TextPart(content)] if isinstance(content, str) else content or []
    for part, following in zip_longest(parts, parts[1:]):
        if isinstance(part, TextPart | ThinkingPart):
            delta = TextDelta if isinstance(part, TextPart) else ThinkingDelta
            *words, last = _split_words(part.text) or [""]
            yield from map(delta, words)
            ends = not last or type(following) is type(part)
            yield delta(last, part.meta or ({} if ends else None), part.extra)
        else:
            yield PartDelta(part)
    for index, call in enumerate(message.tool_calls or ()):
        name, meta, extra = call.function.name, call.meta or None, call.extra or None
        yield ToolCallDelta(index, "", call.id, name, call.type, meta, extra)
        for word in _split_words(call.function.arguments):
            yield ToolCallDelta(index, word)


def _split_words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def _join_call_pieces(pieces: list[ToolCallDelta]) -> ToolCall:
    name = "".join(piece.name for piece in pieces)
    arguments = "".join(piece.arguments for piece in pieces)
    id_ = next((piece.id for piece in pieces if piece.id), "")
    meta = next((piece.meta for piece in pieces if piece.meta), msgspec.UNSET)
    extra = next((piece.extra for piece in reversed(pieces) if piece.extra), msgspec.UNSET)
    return ToolCall(id_, FunctionCall(name, arguments), pieces[0].type, meta, extra)
