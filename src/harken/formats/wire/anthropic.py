"""`anthropic-messages`: Anthropic's Messages on the wire.

A block of the system prompt is the piece `{"system": [block]}`, one that is a text
`{"system": text}`; any other piece is a message. What a client says of its bill stands aside: it is
no part of what the model is told, and another in each request.

Source: docs/formats/wire.md, "anthropic-messages"; docs/formats/anthropic-messages.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from harken.formats.providers.anthropic import messages_of
from harken.formats.providers.anthropic_stream import usage_of
from harken.formats.tool_calls import in_order
from harken.formats.wire.base import Body, ParsedRequest, ParsedResponse, PieceLookup
from harken.formats.wire.json_slices import (
    BodySlices,
    Text,
    begins,
    cutting_of,
    put,
    shape_of,
    value_of,
)
from harken.formats.wire.piece_codec import PieceCodec, argument, protocol_of

NAME = "anthropic-messages"
_SYSTEM = "system"
_ASIDE = "x-anthropic-billing-header:"
_AMIDST = "message"
"""The manner of what the system says amidst the messages."""


def _asks(path: str) -> bool:
    return path.rstrip("/").endswith("/messages")


def _take_apart(path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
    del path
    cutting = cutting_of(NAME, body, SAYING.identify, known)
    model = cutting.model()
    listed = cutting.array("messages")
    if listed is None:
        raise FormatError(NAME, "it has no list of messages")
    told = _system(cutting)
    if not told and _is_system(listed[:1]):
        cutting.shape[_SYSTEM] = 0
    pieces = [*map(cutting.piece, told), *cutting.pieces(listed, "messages")]
    return cutting.asked(model, pieces, cutting.tools(_tool))


def _system(cutting: BodySlices) -> list[bytes]:
    """Take the system prompt: its blocks, as pieces."""
    blocks = cutting.array(_SYSTEM)
    if blocks is None:
        if not begins(cutting.members.get(_SYSTEM), b'"'):
            return []
        return [b'{"system":%b}' % bytes(cutting.members.pop(_SYSTEM))]
    cut: list[bytes] = []
    aside: list[Any] = []
    for at, marked in enumerate(blocks):
        block = cutting.unmarked(bytes(marked), _SYSTEM, at)
        if (beside := _beside(block)) is not None:
            aside.append([at, beside])
        else:
            cut.append(b'{"system":[%b]}' % block)
    if aside:
        cutting.shape["aside"] = aside
    if not cut:
        cutting.shape[_SYSTEM] = 0
        if not blocks:
            cutting.shape["aside"] = []
    return cut


def _beside(block: bytes) -> Any:
    """Return a block that stands aside; None: it is part of the prompt."""
    if _ASIDE.encode() not in block:
        return None
    match value_of(block):
        case {"type": "text", "text": str(text)} as value if text.startswith(_ASIDE):
            return value
    return None


def _is_system(first: Sequence[Text]) -> bool:
    """Whether a message looks like a piece of the system prompt."""
    return bool(first) and _told(value_of(first[0])) is not None


def _told(value: Any) -> Any:
    """Return what a piece of the system prompt holds; None: it is a message."""
    return value[_SYSTEM] if isinstance(value, dict) and {*value} == {_SYSTEM} else None


def _put_together(asked: ParsedRequest, values: Sequence[Any]) -> Body:
    shape, told = shape_of(asked), [_told(value) for value in values]
    count = shape.get(_SYSTEM)
    if not isinstance(count, int):
        count = next((at for at, one in enumerate(told) if one is None), len(told))
    taken: Body = {}
    blocks: list[Any] = []
    for one in told[:count]:
        if isinstance(one, str):
            taken[_SYSTEM] = one
        else:
            blocks += one or ()
    aside = shape.get("aside")
    if blocks or aside is not None:
        for at, block in aside or ():
            blocks.insert(at, block)
        taken[_SYSTEM] = blocks
    return put(asked, {**taken, "messages": [*values[count:]]}, _tool)


def _tool(tool: Mapping[str, Any]) -> Body:
    told = {"description": tool["description"]} if tool.get("description") else {}
    return {"name": tool["name"], **told, "input_schema": tool.get("parameters") or {}}


def _messages(value: Any) -> list[Message]:
    told = _told(value)
    if told is not None:
        return messages_of({_SYSTEM: told})
    if not isinstance(value, dict) or value.get("role") not in ("user", "assistant", _SYSTEM):
        return []
    return messages_of({"messages": [value]}) or [Message(value["role"], "")]


def _manner(value: Any) -> str:
    is_amidst = isinstance(value, dict) and value.get("role") == _SYSTEM
    return _AMIDST if is_amidst else ""


def _plain(messages: Sequence[ChatMessage], manner: str) -> Any:
    first = messages[0]
    if first.role == _SYSTEM:
        if manner == _AMIDST:
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
    """Return a content as clients write it: a text as a text."""
    if content is None or isinstance(content, str):
        return content or ""
    return [_block(part) for part in content if not isinstance(part, ToolCallSlot)]


def _blocks(message: ChatMessage) -> list[Body]:
    return [_block(item) for item in in_order(message)]


def _block(item: Part | ToolCall) -> Body:
    meta = item.meta if isinstance(item.meta, dict) else {}
    match item:
        case TextPart():
            cited = {"citations": meta["citations"]} if "citations" in meta else {}
            return {"type": "text", "text": item.text, **cited}
        case ThinkingPart():
            signed = {"signature": meta["signature"]} if "signature" in meta else {}
            return {"type": "thinking", "thinking": item.text, **signed}
        case ToolCall(id=id_, function=function):
            given = argument(function.arguments)
            return {"type": "tool_use", "id": id_, "name": function.name, "input": given}
        case ImagePart(data=None):
            return {"type": "image", "source": {"type": "url", "url": item.url}}
        case ImagePart():
            source = {"type": "base64", "media_type": item.media_type, "data": item.data}
            return {"type": "image", "source": source}
        case UnknownPart():
            block = argument(item.data)
            return block if isinstance(block, dict) else {"type": item.kind}


def _normal(value: Any) -> Any:
    """Return a piece with all texts as blocks, and no member that is null."""
    told = _told(value)
    if told is not None:
        return {_SYSTEM: _listed(told)}
    return {**value, "content": _listed(value.get("content"))} if isinstance(value, dict) else value


def _listed(content: Any) -> Any:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [*map(_whole, content)] if isinstance(content, list) else content


def _whole(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    kept = {name: inner for name, inner in block.items() if inner is not None}
    return {**kept, "content": _listed(kept["content"])} if "content" in kept else kept


SAYING = PieceCodec(name=NAME, messages=_messages, plain=_plain, manner=_manner, normal=_normal)


@dataclass(slots=True)
class _Answer:
    """Puts together the message that a client sends back."""

    id: str = ""
    _blocks: dict[Any, Body] = field(default_factory=dict)
    _more: dict[Any, dict[str, list[str]]] = field(default_factory=dict)
    """What has been added to members of a block, by its index."""
    _usage: dict[str, int] = field(default_factory=dict)
    _stop_reason: str = ""
    _model: str | None = None
    _is_whole: bool = False

    def event(self, event: Any) -> None:
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

    def whole(self, body: dict[str, Any]) -> None:
        self._head(body)
        self._is_whole = isinstance(body["content"], list)
        self._blocks = dict(enumerate(body["content"]))

    def answered(self) -> ParsedResponse:
        blocks = [self._finished(index) for index in self._blocks]
        if not self._stop_reason and not self._is_whole:
            return ParsedResponse(
                id=self.id, partial=(_told_in(blocks, "thinking"), _told_in(blocks))
            )
        called = any(isinstance(one, dict) and one.get("type") == "tool_use" for one in blocks)
        reason = self._stop_reason or ("tool_use" if called else "end_turn")
        finish = Finish(stop_reason=reason, usage=usage_of(self._usage), model=self._model)
        said = {"role": "assistant", "content": blocks}
        return ParsedResponse(
            id=self.id, finish=finish, pieces=[SAYING.piece(said)] if blocks else ()
        )

    def _head(self, message: Body) -> None:
        self.id, self._model = text(message, "id"), text(message, "model") or None
        self._stop_reason = text(message, "stop_reason")
        self._count(message.get("usage"))

    def _delta(self, index: Any, delta: Body) -> None:
        """Add to a block: what streams is a text, whatever its kind."""
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        if delta.get("type") == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
            return
        more = self._more.setdefault(index, {})
        for name, piece in delta.items():
            if name != "type" and isinstance(piece, str):
                more.setdefault(name, []).append(piece)

    def _finished(self, index: Any) -> Any:
        block = self._blocks[index]
        if index not in self._more:
            return block
        block = dict(block)
        for name, pieces in self._more[index].items():
            added = "".join(pieces)
            if name != "partial_json":
                block[name] = text(block, name) + added
            elif added:
                block["input"] = argument(added)
        return block

    def _count(self, usage: Any) -> None:
        """Take counts; they are totals, so later ones stand for earlier ones."""
        for name in usage if isinstance(usage, dict) else ():
            if (known := count(usage, name)) is not None:
                self._usage[name] = known


def _told_in(blocks: Sequence[Any], kind: str = "text") -> str:
    said = [b for b in blocks if isinstance(b, dict) and b.get("type") == kind]
    return "\n\n".join(filter(None, (text(block, kind) for block in said)))


PROTOCOL = protocol_of(SAYING, _asks, _take_apart, _put_together, _Answer)
