"""`anthropic-messages`: the wire protocol of Anthropic's Messages API.

A block of the system prompt is the piece `{"system": [block]}`, a system prompt that is a text is
`{"system": text}`; any other piece is a message. A client's billing header block is stored aside:
it is not part of the prompt and differs in each request.

Source: docs/formats/wire.md, "anthropic-messages"; docs/formats/anthropic-messages.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harken.core.event_types.message_parser import block_members
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
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.json_records import get_count as count
from harken.formats.json_records import get_text as text
from harken.formats.providers.anthropic import (
    CITATIONS,
    OCCURRENCE_MEMBERS,
    is_stated,
    parse_request_messages,
)
from harken.formats.providers.anthropic_stream import build_usage
from harken.formats.tool_calls import iter_items
from harken.formats.wire.base import Body, ParsedRequest, ParsedResponse, PieceLookup
from harken.formats.wire.body_prefix import Text
from harken.formats.wire.json_slices import (
    BodySlices,
    build_body,
    get_shape,
    parse_slice,
    slice_body,
    starts_with,
)
from harken.formats.wire.piece_codec import PieceCodec, build_protocol, parse_arguments

NAME = "anthropic-messages"
_SYSTEM = "system"
_BILLING_HEADER = "x-anthropic-billing-header:"
_MID_CONVERSATION = "message"
"""The manner of system messages between other messages."""


def _is_model_path(path: str) -> bool:
    return path.rstrip("/").endswith("/messages")


def _parse_request(path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
    del path
    cutting = slice_body(NAME, body, CODEC.identify, known)
    model = cutting.take_model()
    messages = cutting.take_array("messages")
    if messages is None:
        raise FormatError(NAME, "it has no list of messages")
    prompt = _take_system_pieces(cutting)
    if not prompt and _is_system(messages[:1]):
        cutting.shape[_SYSTEM] = 0
    pieces = cutting.pieces(messages, "messages", leading=map(cutting.piece, prompt))
    return cutting.build_request(model, pieces, cutting.take_tools(_build_tool))


def _take_system_pieces(cutting: BodySlices) -> list[bytes]:
    """Remove the system prompt from the body and return its blocks as pieces."""
    blocks = cutting.take_array(_SYSTEM)
    if blocks is None:
        if not starts_with(cutting.members.get(_SYSTEM), b'"'):
            return []
        return [b'{"system":%b}' % bytes(cutting.members.pop(_SYSTEM))]
    prompt_pieces: list[bytes] = []
    aside: list[Any] = []
    for index, raw_block in enumerate(blocks):
        block = cutting.extract_marks(bytes(raw_block), _SYSTEM, index)
        if (header := _parse_billing_header(block)) is not None:
            aside.append([index, header])
        else:
            prompt_pieces.append(b'{"system":[%b]}' % block)
    if aside:
        cutting.shape["aside"] = aside
    if not prompt_pieces:
        cutting.shape[_SYSTEM] = 0
        if not blocks:
            cutting.shape["aside"] = []
    return prompt_pieces


def _parse_billing_header(block: bytes) -> Any:
    """Return a billing header block. Return None if the block is part of the prompt."""
    if _BILLING_HEADER.encode() not in block:
        return None
    match parse_slice(block):
        case {"type": "text", "text": str(text)} as value if text.startswith(_BILLING_HEADER):
            return value
    return None


def _is_system(first: Sequence[Text]) -> bool:
    """Whether the first message looks like a piece of the system prompt."""
    return bool(first) and _system_content(parse_slice(first[0])) is not None


def _system_content(value: Any) -> Any:
    """Return the content of a piece of the system prompt. Return None if the piece is a message."""
    return value[_SYSTEM] if isinstance(value, dict) and {*value} == {_SYSTEM} else None


def _build_body(request: ParsedRequest, values: Sequence[Any]) -> Body:
    shape, prompts = get_shape(request), [_system_content(value) for value in values]
    count = shape.get(_SYSTEM)
    if not isinstance(count, int):
        count = next(
            (index for index, prompt in enumerate(prompts) if prompt is None), len(prompts)
        )
    members: Body = {}
    blocks: list[Any] = []
    for prompt in prompts[:count]:
        if isinstance(prompt, str):
            members[_SYSTEM] = prompt
        else:
            blocks += prompt or ()
    aside = shape.get("aside")
    if blocks or aside is not None:
        for index, block in aside or ():
            blocks.insert(index, block)
        members[_SYSTEM] = blocks
    return build_body(request, {**members, "messages": [*values[count:]]}, _build_tool)


def _build_tool(tool: Mapping[str, Any]) -> Body:
    description = {"description": tool["description"]} if tool.get("description") else {}
    return {"name": tool["name"], **description, "input_schema": tool.get("parameters") or {}}


def _parse_messages(value: Any) -> list[Message]:
    prompt = _system_content(value)
    if prompt is not None:
        return parse_request_messages({_SYSTEM: prompt})
    if not isinstance(value, dict) or value.get("role") not in ("user", "assistant", _SYSTEM):
        return []
    return parse_request_messages({"messages": [value]}) or [Message(value["role"], "")]


def _manner(value: Any) -> str:
    is_amidst = isinstance(value, dict) and value.get("role") == _SYSTEM
    return _MID_CONVERSATION if is_amidst else ""


def _build_piece(messages: Sequence[ChatMessage], manner: str) -> Any:
    first = messages[0]
    if first.role == _SYSTEM:
        if manner == _MID_CONVERSATION:
            return {"role": _SYSTEM, "content": _content(first.content)}
        return {_SYSTEM: _blocks(first)}
    if first.role == "assistant":
        return {"role": "assistant", "content": _blocks(first)}
    if len(messages) == 1 and first.role == "user":
        return {"role": "user", "content": _content(first.content)}
    blocks: list[Body] = []
    for message in messages:
        blocks += [_result(message)] if message.role == "tool" else _blocks(message)
    return {"role": "user", "content": blocks}


def _result(message: ChatMessage) -> Body:
    block = {"type": "tool_result", "tool_use_id": message.tool_call_id or ""}
    if message.content is not None:
        block["content"] = _content(message.content)
    return {**block, "is_error": True} if message.is_error else block


def _content(content: Content) -> Any:
    """Return a content in the form that clients write; a text stays a string."""
    if content is None or isinstance(content, str):
        return content or ""
    return [_block(part) for part in content if not isinstance(part, ToolCallSlot)]


def _blocks(message: ChatMessage) -> list[Body]:
    return [_block(item) for item in iter_items(message)]


def _block(item: Part | ToolCall) -> Body:
    """Return a block with the members of its `extra`."""
    return {**_plain_block(item), **block_members(item.extra)}


def _plain_block(item: Part | ToolCall) -> Body:
    meta = item.meta if isinstance(item.meta, dict) else {}
    match item:
        case TextPart():
            return {"type": "text", "text": item.text}
        case ThinkingPart():
            signature = {"signature": meta["signature"]} if "signature" in meta else {}
            return {"type": "thinking", "thinking": item.text, **signature}
        case ToolCall(id=id_, function=function):
            arguments = parse_arguments(function.arguments)
            return {"type": "tool_use", "id": id_, "name": function.name, "input": arguments}
        case ImagePart(data=None):
            return {"type": "image", "source": {"type": "url", "url": item.url}}
        case ImagePart():
            source = {"type": "base64", "media_type": item.media_type, "data": item.data}
            return {"type": "image", "source": source}
        case UnknownPart():
            block = parse_arguments(item.data)
            return block if isinstance(block, dict) else {"type": item.kind}


def _normalize_piece(value: Any) -> Any:
    """Return a piece with all texts as blocks and without null members."""
    prompt = _system_content(value)
    if prompt is not None:
        return {_SYSTEM: _as_blocks(prompt)}
    return (
        {**value, "content": _as_blocks(value.get("content"))} if isinstance(value, dict) else value
    )


def _as_blocks(content: Any) -> Any:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [*map(_normalize_block, content)] if isinstance(content, list) else content


def _normalize_block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    members = {name: inner for name, inner in block.items() if is_stated(name, inner)}
    return (
        {**members, "content": _as_blocks(members["content"])} if "content" in members else members
    )


def _piece_content(value: Any) -> Any:
    """Return a normalized piece without ids, signatures and cache marks."""
    value = _normalize_piece(value)
    if not isinstance(value, dict):
        return value
    if _SYSTEM in value:
        return {**value, _SYSTEM: _content_blocks(value[_SYSTEM])}
    members = {n: v for n, v in value.items() if v is not None and n not in OCCURRENCE_MEMBERS}
    return {**members, "content": _content_blocks(members.get("content"))}


def _content_blocks(blocks: Any) -> Any:
    return [*map(_block_content, blocks)] if isinstance(blocks, list) else blocks


def _block_content(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    members = {n: v for n, v in block.items() if is_stated(n, v) and n not in OCCURRENCE_MEMBERS}
    if members.get("is_error") is False:
        del members["is_error"]
    if "content" in members:
        members["content"] = _content_blocks(members["content"])
    return members


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

    id: str = ""
    _blocks: dict[Any, Body] = msgspec.field(default_factory=dict)
    _additions: dict[Any, dict[str, list[str]]] = msgspec.field(default_factory=dict)
    """Streamed additions to the members of a block, by block index."""
    _usage: dict[str, int] = msgspec.field(default_factory=dict)
    _stop_reason: str = ""
    _model: str | None = None
    _is_whole: bool = False

    def add_event(self, event: Any) -> None:
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._head(message)
            case {"type": "content_block_start", "index": index, "content_block": dict(block)}:
                self._blocks[index] = dict(block)
            case {"type": "content_block_delta", "index": index, "delta": dict(delta)}:
                self._delta(index, delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._stop_reason = text(delta, "stop_reason") or self._stop_reason
                self._count(event.get("usage"))
            case {"type": "message_stop"}:
                self._is_whole = True

    def add_body(self, body: dict[str, Any]) -> None:
        self._head(body)
        self._is_whole = isinstance(body["content"], list)
        self._blocks = dict(enumerate(body["content"]))

    def finish(self) -> ParsedResponse:
        blocks = [self._finished_block(index) for index in self._blocks]
        if not self._stop_reason and not self._is_whole:
            return ParsedResponse(
                id=self.id, partial=(_joined_text(blocks, "thinking"), _joined_text(blocks))
            )
        has_calls = any(
            isinstance(block, dict) and block.get("type") == "tool_use" for block in blocks
        )
        reason = self._stop_reason or ("tool_use" if has_calls else "end_turn")
        finish = Finish(stop_reason=reason, usage=build_usage(self._usage), model=self._model)
        message = {"role": "assistant", "content": blocks}
        return ParsedResponse(
            id=self.id, finish=finish, pieces=[CODEC.piece(message)] if blocks else ()
        )

    def _head(self, message: Body) -> None:
        self.id, self._model = text(message, "id"), text(message, "model") or None
        self._stop_reason = text(message, "stop_reason")
        self._count(message.get("usage"))

    def _delta(self, index: Any, delta: Body) -> None:
        """Append the texts of a delta to its block."""
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        if delta.get("type") == "citations_delta":
            block[CITATIONS] = [*(block.get(CITATIONS) or ()), delta.get("citation")]
            return
        additions = self._additions.setdefault(index, {})
        for name, piece in delta.items():
            if name != "type" and isinstance(piece, str):
                additions.setdefault(name, []).append(piece)

    def _finished_block(self, index: Any) -> Any:
        block = self._blocks[index]
        if index not in self._additions:
            return block
        block = dict(block)
        for name, pieces in self._additions[index].items():
            text_ = "".join(pieces)
            if name != "partial_json":
                block[name] = text(block, name) + text_
            elif text_:
                block["input"] = parse_arguments(text_)
        return block

    def _count(self, usage: Any) -> None:
        """Update counts. They are totals, so later values replace earlier ones."""
        for name in usage if isinstance(usage, dict) else ():
            if (total := count(usage, name)) is not None:
                self._usage[name] = total


def _joined_text(blocks: Sequence[Any], kind: str = "text") -> str:
    matching = [b for b in blocks if isinstance(b, dict) and b.get("type") == kind]
    return "\n\n".join(filter(None, (text(block, kind) for block in matching)))


PROTOCOL = build_protocol(CODEC, _is_model_path, _parse_request, _build_body, _ResponseAssembler)
