"""`openai-responses`: the wire protocol of OpenAI's Responses API.

The instructions are the piece `{"instructions": text}`; any other piece is an item, and so is each
item of a response. The ids of items are in no key, because clients assign new ids to their own
items and omit the ids of others.

Source: docs/formats/wire.md, "openai-responses"; docs/formats/codex.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.events import Usage
from harken.core.messages import ChatMessage, Message, ToolCallSlot, UnknownPart, text_of
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import get_count, get_objects, get_text
from harken.formats.json_records import get_object as inner
from harken.formats.providers.openai_responses import (
    CALL_TYPES,
    OCCURRENCE_MEMBERS,
    OUTPUT_TYPES,
    build_answer_message,
    build_items,
    is_answer,
    keep_structure,
    parse_input_item,
)
from harken.formats.wire.base import Body, ParsedRequest, ParsedResponse, PieceLookup
from harken.formats.wire.json_slices import (
    BodySlices,
    build_body,
    get_shape,
    parse_slice,
    slice_body,
    starts_with,
)
from harken.formats.wire.piece_codec import PieceCodec, build_protocol, to_standalone_message
from harken.formats.wire.response_reader import format_error

NAME = "openai-responses"
_INSTRUCTIONS = "instructions"
_INPUT = "input"
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.done")
_EMPTY: tuple[Any, ...] = (None, [])
_CONTENT_TYPES = CALL_TYPES | OUTPUT_TYPES | {"message", "reasoning"}
"""The types of items that are messages, thinking, calls and results."""


def _is_model_path(path: str) -> bool:
    return path.rstrip("/").endswith("/responses")


def _parse_request(path: str, body: bytes, known: PieceLookup | None = None) -> ParsedRequest:
    del path
    cutting = slice_body(NAME, body, CODEC.identify, known)
    model = cutting.take_model()
    instruction_texts = [
        b'{"instructions":%b}' % text for text in _take_text(cutting, _INSTRUCTIONS)
    ]
    items = cutting.take_array(_INPUT)
    if items is None:
        items = [b'{"role":"user","content":%b}' % lone for lone in _take_text(cutting, _INPUT)]
        cutting.shape[_INPUT] = "text"
        if not items:
            raise FormatError(NAME, "it has no input")
    pieces = cutting.pieces(items, _INPUT, leading=map(cutting.piece, instruction_texts))
    if not instruction_texts and items and _instructions_content(parse_slice(items[0])) is not None:
        cutting.shape[_INSTRUCTIONS] = False
    return cutting.build_request(model, pieces, cutting.take_tools(_build_tool))


def _take_text(cutting: BodySlices, name: str) -> list[bytes]:
    """Extract a member that is a text. Return an empty list, and keep the member, if it is not."""
    is_text = starts_with(cutting.members.get(name), b'"')
    return [bytes(cutting.members.pop(name))] if is_text else []


def _instructions_content(value: Any) -> Any:
    """Return the content of an instructions piece. Return None if the piece is an item."""
    return value[_INSTRUCTIONS] if isinstance(value, dict) and {*value} == {_INSTRUCTIONS} else None


def _build_body(request: ParsedRequest, values: Sequence[Any]) -> Body:
    shape, items = get_shape(request), [*values]
    members: Body = {}
    if (
        items
        and shape.get(_INSTRUCTIONS) is not False
        and _instructions_content(items[0]) is not None
    ):
        members = items.pop(0)
    is_text = shape.get(_INPUT) == "text"
    return build_body(
        request, {**members, _INPUT: items[0]["content"] if is_text else items}, _build_tool
    )


def _build_tool(tool: Mapping[str, Any]) -> Body:
    description = {"description": tool["description"]} if tool.get("description") else {}
    schema = tool.get("parameters") or {}
    return {"type": "function", "name": tool["name"], **description, "parameters": schema}


def _parse_messages(value: Any) -> list[Message]:
    instructions = _instructions_content(value)
    if instructions is not None:
        return [Message("system", instructions)] if isinstance(instructions, str) else []
    if not isinstance(value, dict) or not (get_text(value, "type") or get_text(value, "role")):
        return []
    kind = get_text(value, "type")
    if kind.endswith("_output") and kind not in OUTPUT_TYPES:
        data = canonical.to_json_line(value).decode()
        return [Message("tool", [UnknownPart(kind, data)], tool_call_id=get_text(value, "call_id"))]
    return [
        build_answer_message([value]) if is_answer(value) else parse_input_item(value, None).message
    ]


def _manner(value: Any) -> str:
    return _INSTRUCTIONS if _instructions_content(value) is not None else ""


def _build_piece(messages: Sequence[ChatMessage], manner: str) -> Any:
    (message,) = messages
    if manner == _INSTRUCTIONS:
        return {_INSTRUCTIONS: text_of(message.content)}
    if message.role == "tool" and isinstance(message.content, list):
        match message.content:
            case [UnknownPart(kind=kind, data=data)] if kind.endswith("_output"):
                if kind not in OUTPUT_TYPES:
                    return canonical.from_json(data.encode())
    return next(iter(build_items([ConversationEntry(to_standalone_message(message))])), {})


def _normalize_piece(value: Any) -> Any:
    """Return an item with all texts as blocks, without its id, its status and empty members."""
    if not isinstance(value, dict) or _instructions_content(value) is not None:
        return value
    members = {name: inner for name, inner in value.items() if inner not in _EMPTY}
    members.pop("status", None)
    if members.get("type") != "item_reference" and (
        get_text(members, "call_id") or "role" in members or _has_reasoning(members)
    ):
        members.pop("id", None)
    if "role" in members:
        members.setdefault("type", "message")
    block = "output_text" if members.get("role") == "assistant" else "input_text"
    for name in ("content", "output"):
        if isinstance(members.get(name), str):
            members[name] = [{"type": block, "text": members[name]}]
        elif isinstance(members.get(name), list):
            members[name] = [*map(_without_empty, members[name])]
    return members


def _has_reasoning(item: Body) -> bool:
    return get_text(item, "type") == "reasoning" and len(item) > len(("type", "id"))


def _without_empty(block: Any) -> Any:
    """Return a block without empty members, such as annotations and logprobs."""
    if not isinstance(block, dict):
        return block
    return {name: inner for name, inner in block.items() if inner not in _EMPTY}


def _piece_content(value: Any) -> Any:
    """Return a normalized item without ids, encrypted thinking and the client's own data."""
    value = _normalize_piece(value)
    if not isinstance(value, dict) or _instructions_content(value) is not None:
        return value
    if get_text(value, "type") not in _CONTENT_TYPES:
        return value  # The item is stored as its JSON text.
    members = {name: inner for name, inner in value.items() if name not in OCCURRENCE_MEMBERS}
    if members.get("role") == "system":
        members["role"] = "developer"
    return members


def _without_content_meta(message: Message) -> Message:
    """Return a message with only the structure of its items and blocks in `meta`."""
    content, calls = message.content, message.tool_calls
    if isinstance(content, list):
        content = [
            part
            if isinstance(part, ToolCallSlot)
            else msgspec.structs.replace(part, meta=keep_structure(part.meta))
            for part in content
        ]
    if calls:
        calls = [
            msgspec.structs.replace(call, meta=keep_structure(call.meta) or msgspec.UNSET)
            for call in calls
        ]
    return msgspec.structs.replace(message, content=content, tool_calls=calls)


CODEC = PieceCodec(
    name=NAME,
    messages=_parse_messages,
    build=_build_piece,
    manner=_manner,
    normalize=_normalize_piece,
    content=_piece_content,
    bare=_without_content_meta,
)


@dataclass(slots=True)
class _ResponseAssembler:
    """Assembles the items of a response."""

    _items: dict[Any, Body] = field(default_factory=dict)
    _thought: dict[Any, list[str]] = field(default_factory=dict)
    """The streamed texts of each item, by output index."""
    _text: dict[Any, list[str]] = field(default_factory=dict)
    _response: Body = field(default_factory=dict)
    """The response object of the last events."""

    def add_event(self, event: Any) -> None:
        """Add the next event."""
        kind, index = event.get("type"), event.get("output_index")
        if kind == "response.output_item.done":
            self._items[index] = dict(event["item"])
        elif kind in _THOUGHTS:
            self._thought.setdefault(index, []).append(str(event["delta"]))
        elif kind in _TEXTS:
            self._text.setdefault(index, []).append(str(event["delta"]))
        elif isinstance(event.get("response"), dict):
            self._response = {**self._response, **event["response"]}

    def add_body(self, body: Body) -> None:
        """Add a complete response."""
        self._response = dict(body)

    def finish(self) -> ParsedResponse:
        """Return the parsed response."""
        response = self._response
        id_, status = get_text(response, "id"), get_text(response, "status")
        if status == "failed":
            return ParsedResponse(id=id_, error=format_error(response), partial=self._partial())
        if status not in ("completed", "incomplete"):
            return ParsedResponse(id=id_, partial=self._partial())
        reason = get_text(inner(response, "incomplete_details"), "reason") or status
        model = get_text(response, "model") or None
        finish = Finish(stop_reason=reason, usage=_usage(inner(response, "usage")), model=model)
        items = [*self._items.values()] or get_objects(response, "output")
        return ParsedResponse(id=id_, finish=finish, pieces=[CODEC.piece(item) for item in items])

    def _partial(self) -> tuple[str, str]:
        """Return thinking and text of the complete items and of the current one."""
        thoughts, texts = dict(self._thought), dict(self._text)
        for index, item in self._items.items():
            blocks = get_objects(item, "summary") or get_objects(item, "content")
            target = thoughts if get_text(item, "type") == "reasoning" else texts
            target[index] = [get_text(block, "text") for block in blocks] or target.get(index, [])
        return _join_texts(thoughts), _join_texts(texts)


def _join_texts(texts: Mapping[Any, Sequence[str]]) -> str:
    return "\n\n".join(filter(None, map("".join, texts.values())))


def _usage(counts: Body) -> Usage | None:
    usage = Usage(
        input_tokens=get_count(counts, "input_tokens"),
        output_tokens=get_count(counts, "output_tokens"),
        cache_read_tokens=get_count(inner(counts, "input_tokens_details"), "cached_tokens"),
    )
    return usage if usage != Usage() else None


PROTOCOL = build_protocol(CODEC, _is_model_path, _parse_request, _build_body, _ResponseAssembler)
