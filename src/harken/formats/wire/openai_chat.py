"""`openai-chat`: the wire protocol of OpenAI's Chat Completions, as many servers implement it.

Every piece is a message, including system messages at any position.

Source: docs/formats/wire.md, "openai-chat"; docs/formats/openai-chat.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from harken.core.event_types.message_parser import MESSAGE_KEY, block_members
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
    parts_of,
)
from harken.core.stream import StreamAccumulator
from harken.errors import FormatError
from harken.formats.first_part import take_leftover
from harken.formats.json_records import apply_members, get_objects, get_text
from harken.formats.json_records import get_object as inner
from harken.formats.providers.openai_chat import (
    DETAILS_MEMBER,
    ERROR_PREFIX,
    EXTRA_MEMBER,
    REASONING,
    parse_request_messages,
)
from harken.formats.providers.openai_chat_stream import OpenAIStreamDecoder
from harken.formats.tool_calls import iter_items
from harken.formats.wire.base import Body, ParsedRequest, ParsedResponse, PieceLookup
from harken.formats.wire.json_slices import build_body, slice_body
from harken.formats.wire.piece_codec import PieceCodec, build_protocol, parse_arguments

NAME = "openai-chat"
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_REASONING_MEMBER = "reasoning"
"""The alternative member in which servers stream thinking, and the manner of a message that has it.
"""
_WIRE_MODEL = "wire"
"""The model name with which the decoder tags server data. Here the data goes back to its own
server.
"""
_REFUSAL = "refusal"
_EMPTY: tuple[Any, ...] = (None, [])
_OCCURRENCE_MEMBERS = frozenset({"id", "tool_call_id", "cache_control"})
_ROLE_NAMES = {"developer": "system", "function": "tool"}
"""The names of roles in Harken by their other names."""


def _is_model_path(path: str) -> bool:
    return path.rstrip("/").endswith("/chat/completions")


def _parse_request(path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
    cutting = slice_body(NAME, body, CODEC.identify, known)
    match = re.search("/deployments/([^/]+)/", path)
    model = cutting.take_model(match[1] if match else "")
    messages = cutting.take_array("messages")
    if messages is None:
        raise FormatError(NAME, "it has no list of messages")
    pieces = cutting.pieces(messages, "messages")
    return cutting.build_request(model, pieces, cutting.take_tools(_build_tool))


def _build_body(request: ParsedRequest, values: Sequence[Any]) -> Body:
    return build_body(request, {"messages": [*values]}, _build_tool)


def _build_tool(tool: Mapping[str, Any]) -> Body:
    description = {"description": tool["description"]} if tool.get("description") else {}
    function = {"name": tool["name"], **description, "parameters": tool.get("parameters") or {}}
    return {"type": "function", "function": function}


def _parse_messages(value: Any) -> list[Message]:
    is_message = isinstance(value, dict) and value.get("role") in _ROLES
    return parse_request_messages({"messages": [value]}) if is_message else []


def _manner(value: Any) -> str:
    is_alternative = (
        isinstance(value, dict) and not value.get(REASONING) and value.get(_REASONING_MEMBER)
    )
    return _REASONING_MEMBER if is_alternative else ""


def _build_piece(messages: Sequence[ChatMessage], manner: str) -> Any:
    (message,) = messages
    if message.role == "assistant":
        return _assistant_message(message, manner or REASONING)
    content = _content(message.content)
    if message.role == "tool":
        text = ERROR_PREFIX + content if message.is_error and isinstance(content, str) else content
        body = {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": text}
        return {**body, "name": message.name} if message.name else body
    return {"role": message.role, "content": content}


def _assistant_message(message: ChatMessage, thinking: str) -> Body:
    items = [*iter_items(message)]
    body: Body = {"role": "assistant", "content": None}
    thoughts = [part.text for part in items if isinstance(part, ThinkingPart)]
    if thoughts:
        body[thinking] = "\n\n".join(thoughts)
    visible = [part for part in items if not isinstance(part, ThinkingPart | ToolCall)]
    match visible:
        case [TextPart(text=only_text)]:
            body["content"] = only_text
        case [_, *_]:
            body["content"] = [_block(part) for part in visible]
    calls = [_call(part) for part in items if isinstance(part, ToolCall)]
    return {**body, "tool_calls": calls} if calls else body


def _call(call: ToolCall) -> Body:
    function = call.function
    if call.type == "custom":
        custom = {"name": function.name, "input": function.arguments}
        return {"id": call.id, "type": "custom", "custom": custom}
    call_function = {"name": function.name, "arguments": function.arguments}
    return {"id": call.id, "type": "function", "function": call_function}


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
            block = parse_arguments(part.data)
            return block if isinstance(block, dict) else {"type": part.kind}


def _normalize_piece(value: Any) -> Any:
    """Return a message with its text as a block, and without empty members."""
    if not isinstance(value, dict):
        return value
    members = {name: inner for name, inner in value.items() if inner not in _EMPTY}
    if isinstance(members.get("content"), str):
        members["content"] = [{"type": "text", "text": members["content"]}]
    return members


def _piece_content(value: Any) -> Any:
    """Return a normalized message without ids and signatures, in the form of today's protocol."""
    value = _normalize_piece(value)
    if not isinstance(value, dict):
        return value
    members = {name: inner for name, inner in value.items() if name not in _OCCURRENCE_MEMBERS}
    role = members.get("role")
    if isinstance(role, str):
        members["role"] = _ROLE_NAMES.get(role, role)
    if members.get("role") == "tool":
        members.pop("name", None)
    if role == "assistant" and members.get("content") == [{"type": "text", "text": ""}]:
        del members["content"]
    if isinstance(members.get("function_call"), dict) and "tool_calls" not in members:
        members["tool_calls"] = [{"type": "function", "function": members.pop("function_call")}]
    for name, get_content in _MEMBER_CONTENTS.items():
        if isinstance(members.get(name), list):
            members[name] = [*map(get_content, members[name])]
    return members


def _call_content(call: Any) -> Any:
    if not isinstance(call, dict):
        return call
    names = ("id", "index", EXTRA_MEMBER)
    return {"type": "function", **{n: v for n, v in call.items() if n not in names}}


def _without_secrets(detail: Any) -> Any:
    """Return a reasoning detail without its id, signature and encrypted data."""
    if not isinstance(detail, dict):
        return detail
    return {n: v for n, v in detail.items() if n not in ("id", "signature", "data")}


def _block_content(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    return {n: v for n, v in block.items() if v is not None and n not in _OCCURRENCE_MEMBERS}


_MEMBER_CONTENTS: Mapping[str, Callable[[Any], Any]] = {
    "content": _block_content,
    "tool_calls": _call_content,
    DETAILS_MEMBER: _without_secrets,
}


CODEC = PieceCodec(
    name=NAME,
    messages=_parse_messages,
    build=_build_piece,
    manner=_manner,
    normalize=_normalize_piece,
    content=_piece_content,
)


class _ResponseAssembler(msgspec.Struct):
    """Assembles the assistant message that a client sends back."""

    _id: str = ""
    _decoder: OpenAIStreamDecoder = msgspec.field(
        default_factory=lambda: OpenAIStreamDecoder(_WIRE_MODEL)
    )
    _draft: StreamAccumulator = msgspec.field(default_factory=StreamAccumulator)
    _thinking: str = REASONING
    """The member in which thinking arrived."""
    _refusal: list[str] = msgspec.field(default_factory=list)
    _has_blocks: bool = False
    """Whether the content arrived in blocks."""
    _body: Body | None = None

    def add_event(self, event: Any) -> None:
        """Add the next event."""
        if isinstance(event, dict):
            self._id = get_text(event, "id") or self._id
            for choice in get_objects(event, "choices")[:1]:
                self._note_delta(inner(choice, "delta"))
        for chunk in self._decoder.iter_chunks(event):
            self._draft.add(chunk)

    def _note_delta(self, delta: Body) -> None:
        """Note in which members the text and the thinking arrive."""
        if get_text(delta, _REASONING_MEMBER) and not get_text(delta, REASONING):
            self._thinking = _REASONING_MEMBER
        self._has_blocks = self._has_blocks or isinstance(delta.get("content"), list)
        if get_text(delta, _REFUSAL):
            self._refusal.append(get_text(delta, _REFUSAL))

    def add_body(self, body: Body) -> None:
        """Add a complete response: the first of several choices."""
        choice = body["choices"][0]
        message = dict(choice["message"])
        reason = choice.get("finish_reason") or (
            "tool_calls" if message.get("tool_calls") else "stop"
        )
        self.add_event({**body, "choices": [{"finish_reason": reason}]})
        self._body = message

    def finish(self) -> ParsedResponse:
        """Return the parsed response."""
        finish = self._decoder.finish()
        if finish is None:
            return ParsedResponse(id=self._id, partial=(self._draft.thinking, self._draft.text))
        body = self._body if self._body is not None else self._streamed_message()
        is_empty = not any(value for name, value in body.items() if name != "role")
        pieces = [] if is_empty else [CODEC.piece(body)]
        return ParsedResponse(id=self._id, finish=finish, pieces=pieces)

    def _streamed_message(self) -> Body:
        """Return the message as a complete response has it."""
        message, leftover = take_leftover(self._draft.message())
        body = _assistant_message(message, self._thinking)
        if not self._has_blocks:
            body["content"] = self._draft.text.removesuffix("".join(self._refusal)) or None
            if self._draft.thinking:
                body[self._thinking] = self._draft.thinking
        else:
            body.pop(self._thinking, None)
            body["content"] = [_block(part) for part in parts_of(message.content)]
        if self._refusal:
            body[_REFUSAL] = "".join(self._refusal)
        for call, call_body in zip(
            message.tool_calls or (), body.get("tool_calls", ()), strict=True
        ):
            if call.meta is not msgspec.UNSET and EXTRA_MEMBER in call.meta:
                call_body[EXTRA_MEMBER] = call.meta[EXTRA_MEMBER][_WIRE_MODEL]
            call_body |= apply_members(call_body, block_members(call.extra))
        details = [*_iter_details(message)]
        if details:
            body[DETAILS_MEMBER] = details
        return {**body, **inner(leftover, MESSAGE_KEY)}


def _iter_details(message: Message) -> Iterator[Any]:
    for part in iter_items(message):
        if not isinstance(part, ToolCall) and part.meta and DETAILS_MEMBER in part.meta:
            yield from part.meta[DETAILS_MEMBER][_WIRE_MODEL]


PROTOCOL = build_protocol(CODEC, _is_model_path, _parse_request, _build_body, _ResponseAssembler)
