"""`openai-responses`: the wire protocol of OpenAI's Responses API.

The instructions are the piece `{"instructions": text}`; any other piece is an item, and so is each
item of a response. The ids of items are in no key, because clients assign new ids to their own
items and omit the ids of others.

Source: docs/formats/wire.md, "openai-responses"; docs/formats/codex.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harken.core import canonical, structs
from harken.core.events import Usage
from harken.core.messages import ChatMessage, Message, ToolCallSlot, UnknownPart, text_of
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.json_records import get_count, get_objects, get_text
from harken.formats.json_records import get_object as inner
from harken.formats.providers.openai_item_content import (
    OUTPUT_TYPES,
    item_content,
    normalize_item,
)
from harken.formats.providers.openai_responses import (
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
_ANNOTATION, _ANNOTATIONS = "response.output_text.annotation.added", "annotations"


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
    if not isinstance(value, dict) or _instructions_content(value) is not None:
        return value
    return normalize_item(value)


def _piece_content(value: Any) -> Any:
    if not isinstance(value, dict) or _instructions_content(value) is not None:
        return value
    return item_content(value)


def _without_content_meta(message: Message) -> Message:
    """Return a message with only the structure of its items and blocks in `meta`."""
    content, calls = message.content, message.tool_calls
    if isinstance(content, list):
        content = [
            part
            if isinstance(part, ToolCallSlot)
            else structs.replace(part, meta=keep_structure(part.meta))
            for part in content
        ]
    if calls:
        calls = [
            structs.replace(call, meta=keep_structure(call.meta) or msgspec.UNSET) for call in calls
        ]
    return structs.replace(message, content=content, tool_calls=calls)


CODEC = PieceCodec(
    name=NAME,
    messages=_parse_messages,
    build=_build_piece,
    manner=_manner,
    normalize=_normalize_piece,
    content=_piece_content,
    bare=_without_content_meta,
)


class _ResponseAssembler(msgspec.Struct):
    """Assembles the items of a response."""

    _items: dict[Any, Body] = msgspec.field(default_factory=dict)
    _thought: dict[Any, list[str]] = msgspec.field(default_factory=dict)
    """The streamed texts of each item, by output index."""
    _text: dict[Any, list[str]] = msgspec.field(default_factory=dict)
    _annotations: dict[Any, list[Any]] = msgspec.field(default_factory=dict)
    """The streamed annotations of each block, by output index and content index."""
    _response: Body = msgspec.field(default_factory=dict)
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
        elif kind == _ANNOTATION:
            place = index, event.get("content_index")
            self._annotations.setdefault(place, []).append(event.get("annotation"))
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
        output = get_objects(response, "output")
        items = dict(enumerate(output)) if len(output) > len(self._items) else self._items
        items = {index: self._with_annotations(index, item) for index, item in items.items()}
        return ParsedResponse(id=id_, finish=finish, pieces=[*map(CODEC.piece, items.values())])

    def _with_annotations(self, index: Any, item: Body) -> Body:
        """Return an item with the annotations that its blocks lack."""
        if not self._annotations or not isinstance(item.get("content"), list):
            return item
        blocks = [
            block
            if not isinstance(block, dict) or block.get(_ANNOTATIONS)
            else {**block, _ANNOTATIONS: self._annotations[index, place]}
            if (index, place) in self._annotations
            else block
            for place, block in enumerate(item["content"])
        ]
        return {**item, "content": blocks}

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
