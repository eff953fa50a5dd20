"""`openai-chat`: OpenAI's Chat Completions on the wire, as many servers speak it.

Every piece is a message, those of the system, too, wherever they stand.

Source: docs/formats/wire.md, "openai-chat"; docs/formats/openai-chat.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harken.core.messages import (
    ChatMessage,
    Content,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
)
from harken.core.stream import StreamAccumulator
from harken.errors import FormatError
from harken.formats.json_records import get_object as inner
from harken.formats.json_records import get_objects, get_text
from harken.formats.providers.openai_chat import DETAILS, ERROR, EXTRA, REASONING, messages_of
from harken.formats.providers.openai_chat_stream import OpenAIStreamDecoder
from harken.formats.tool_calls import in_order
from harken.formats.wire.base import Body, ParsedRequest, ParsedResponse, PieceLookup
from harken.formats.wire.json_slices import cutting_of, put
from harken.formats.wire.piece_codec import PieceCodec, argument, protocol_of

NAME = "openai-chat"
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_THOUGHT = "reasoning"
"""The other member that servers stream thinking in, and the manner of a message that has it."""
_ANYONE = "wire"
"""For whom the decoder marks what the server wants back: here it goes back to whoever said it."""
_EMPTY: tuple[Any, ...] = (None, [])


def _asks(path: str) -> bool:
    return path.rstrip("/").endswith("/chat/completions")


def _take_apart(path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
    cutting = cutting_of(NAME, body, SAYING.identify, known)
    deployed = re.search("/deployments/([^/]+)/", path)
    model = cutting.model(deployed[1] if deployed else "")
    listed = cutting.array("messages")
    if listed is None:
        raise FormatError(NAME, "it has no list of messages")
    pieces = cutting.pieces(listed, "messages")
    return cutting.asked(model, pieces, cutting.tools(_tool))


def _put_together(asked: ParsedRequest, values: Sequence[Any]) -> Body:
    return put(asked, {"messages": [*values]}, _tool)


def _tool(tool: Mapping[str, Any]) -> Body:
    told = {"description": tool["description"]} if tool.get("description") else {}
    function = {"name": tool["name"], **told, "parameters": tool.get("parameters") or {}}
    return {"type": "function", "function": function}


def _messages(value: Any) -> list[Message]:
    is_one = isinstance(value, dict) and value.get("role") in _ROLES
    return messages_of({"messages": [value]}) if is_one else []


def _manner(value: Any) -> str:
    is_other = isinstance(value, dict) and not value.get(REASONING) and value.get(_THOUGHT)
    return _THOUGHT if is_other else ""


def _plain(messages: Sequence[ChatMessage], manner: str) -> Any:
    (message,) = messages
    if message.role == "assistant":
        return _said(message, manner or REASONING)
    content = _content(message.content)
    if message.role == "tool":
        told = ERROR + content if message.is_error and isinstance(content, str) else content
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": told}
    return {"role": message.role, "content": content}


def _said(message: ChatMessage, thinking: str) -> Body:
    said = [*in_order(message)]
    written: Body = {"role": "assistant", "content": None}
    thoughts = [part.text for part in said if isinstance(part, ThinkingPart)]
    if thoughts:
        written[thinking] = "\n\n".join(thoughts)
    shown = [part for part in said if not isinstance(part, ThinkingPart | ToolCall)]
    match shown:
        case [TextPart(text=lone)]:
            written["content"] = lone
        case [_, *_]:
            written["content"] = [_block(part) for part in shown]
    calls = [_call(part) for part in said if isinstance(part, ToolCall)]
    return {**written, "tool_calls": calls} if calls else written


def _call(call: ToolCall) -> Body:
    function = call.function
    if call.type == "custom":
        given = {"name": function.name, "input": function.arguments}
        return {"id": call.id, "type": "custom", "custom": given}
    called = {"name": function.name, "arguments": function.arguments}
    return {"id": call.id, "type": "function", "function": called}


def _content(content: Content) -> Any:
    if content is None or isinstance(content, str):
        return content
    return [_block(part) for part in content if not isinstance(part, ToolCallSlot)]


def _block(part: Part) -> Body:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            inline = f"data:{part.media_type};base64,{part.data}"
            return {"type": "image_url", "image_url": {"url": inline if part.data else part.url}}
        case ThinkingPart():
            return {"type": "thinking", "thinking": [{"type": "text", "text": part.text}]}
        case UnknownPart():
            block = argument(part.data)
            return block if isinstance(block, dict) else {"type": part.kind}


def _normal(value: Any) -> Any:
    """Return a message with its text as a block, and without what is empty."""
    if not isinstance(value, dict):
        return value
    kept = {name: inner for name, inner in value.items() if inner not in _EMPTY}
    if isinstance(kept.get("content"), str):
        kept["content"] = [{"type": "text", "text": kept["content"]}]
    return kept


SAYING = PieceCodec(name=NAME, messages=_messages, plain=_plain, manner=_manner, normal=_normal)


@dataclass(slots=True)
class _Answer:
    """Puts together the message that a client sends back."""

    _id: str = ""
    _decoder: OpenAIStreamDecoder = field(default_factory=lambda: OpenAIStreamDecoder(_ANYONE))
    _draft: StreamAccumulator = field(default_factory=StreamAccumulator)
    _thinking: str = REASONING
    """The member that thinking came in."""
    _whole: Body | None = None

    def event(self, event: Any) -> None:
        """Take the next event."""
        if isinstance(event, dict):
            self._id = get_text(event, "id") or self._id
            deltas = [inner(choice, "delta") for choice in get_objects(event, "choices")]
            if any(
                get_text(delta, _THOUGHT) and not get_text(delta, REASONING) for delta in deltas
            ):
                self._thinking = _THOUGHT
        for chunk in self._decoder.chunks(event):
            self._draft.add(chunk)

    def whole(self, body: Body) -> None:
        """Take an answer that came at once; of several, the first."""
        choice = body["choices"][0]
        said = dict(choice["message"])
        reason = choice.get("finish_reason") or ("tool_calls" if said.get("tool_calls") else "stop")
        self.event({**body, "choices": [{"finish_reason": reason}]})
        self._whole = said

    def answered(self) -> ParsedResponse:
        """Return what has come."""
        finish = self._decoder.finish()
        if finish is None:
            return ParsedResponse(id=self._id, partial=(self._draft.thinking, self._draft.text))
        said = self._whole if self._whole is not None else self._streamed()
        is_empty = not any(value for name, value in said.items() if name != "role")
        pieces = [] if is_empty else [SAYING.piece(said)]
        return ParsedResponse(id=self._id, finish=finish, pieces=pieces)

    def _streamed(self) -> Body:
        message = self._draft.message()
        said = _said(message, self._thinking)
        for call, written in zip(message.tool_calls or (), said.get("tool_calls", ()), strict=True):
            if call.meta is not msgspec.UNSET and EXTRA in call.meta:
                written[EXTRA] = call.meta[EXTRA][_ANYONE]
        details = [*_details(message)]
        return {**said, DETAILS: details} if details else said


def _details(message: Message) -> Iterator[Any]:
    for part in in_order(message):
        if not isinstance(part, ToolCall) and part.meta and DETAILS in part.meta:
            yield from part.meta[DETAILS][_ANYONE]


PROTOCOL = protocol_of(SAYING, _asks, _take_apart, _put_together, _Answer)
