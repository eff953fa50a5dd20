"""Conversion between the parts of Gemini's protocol and the parts and results of messages.

A `functionResponse` is a result, a `functionCall` a call, any other part is a part. Content that no
field carries, also of unknown members, is in the `extra` of the part: it is found by comparison
with the part that would be built, so none is lost. Signatures and ids are data of the occurrence.

Source: docs/formats/gemini-cli.md, "Parts".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from harken.core import canonical, structs
from harken.core.event_types.message_parser import MESSAGE_KEYS, decode_extra, encode_extra
from harken.core.messages import (
    ChatMessage,
    Extra,
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
    parts_of,
)
from harken.formats.json_records import (
    Record,
    apply_members,
    changed_members,
    get_object,
    parse_json_text,
    to_safe_json,
)
from harken.formats.tool_calls import normalize_content, parse_json_object

METADATA_KEY = "gemini"
THOUGHTS, TOOL_CALLS = "thoughts", "toolCalls"
"""Members of the `extra` of a part with the members of its element of these lists of a chat."""
_RESERVED = MESSAGE_KEYS | {THOUGHTS, TOOL_CALLS}
SIGNATURES = frozenset({"thoughtSignature", "thought_signature"})
_OCCURRENCE_MEMBERS = {"functionCall": {"id"}, "functionResponse": {"id", "name"}}
"""Members of calls and responses that vary between occurrences of the same content."""
_RESPONSE = "functionResponse"
_AS_JSON, _AS_TEXT, _AS_OUTPUT = "json", "text", "output"
"""How the text of a result stands in its response, if not as `output`, or as `error` of a failure:
as a JSON value, as the response itself, or as `output` of a failure."""
_Item = TypeVar("_Item", bound=Part | ToolCall)


def is_response(block: object) -> bool:
    """Whether a part is the result of a call."""
    return isinstance(block, dict) and isinstance(block.get(_RESPONSE), dict)


def get_metadata(meta: Any) -> Record:
    """Return Gemini's metadata of a part, a call or an entry."""
    metadata = meta.get(METADATA_KEY) if isinstance(meta, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def part_content(block: Any) -> Any:
    """Return a part without signatures, ids and null members."""
    if not isinstance(block, dict):
        return block
    members = {n: v for n, v in block.items() if n not in SIGNATURES and v is not None}
    for kind in ("functionCall", _RESPONSE, "inlineData"):
        if isinstance(members.get(kind), dict):
            names = _OCCURRENCE_MEMBERS.get(kind, set())
            stated = {n: v for n, v in members[kind].items() if n not in names and v is not None}
            members[kind] = {"args": {}, **stated} if kind == "functionCall" else stated
    return members


def parse_part(block: Any) -> Part | ToolCall:
    """Return the part or the call of a part of a content."""
    item = _parse_known_part(block) if isinstance(block, dict) else None
    changes = changed_members(_build_plain(item), part_content(block)) if item is not None else None
    if item is None or changes is None or not _RESERVED.isdisjoint(changes):
        return parse_unknown_part(block)
    return _with_metadata(with_extra(item, changes), block)


def parse_input_part(block: Any) -> Part:
    """Return the part of a content that is no answer. A call or a result is an unknown part."""
    item = parse_part(block)
    return parse_unknown_part(block) if isinstance(item, ToolCall) else item


def parse_unknown_part(block: Any) -> UnknownPart:
    """Return a part that is stored as its JSON text."""
    if not isinstance(block, dict):
        return UnknownPart("", canonical.to_json_line(block).decode())
    stated = {name: value for name, value in block.items() if name not in SIGNATURES}
    part = UnknownPart(next(iter(stated), ""), canonical.to_json_line(stated).decode())
    return _with_metadata(part, block)


def _parse_known_part(block: Record) -> Part | ToolCall | None:
    match block:
        case {"functionCall": {"name": str(name), **call}}:
            arguments = canonical.to_json_line(call.get("args") or {}).decode()
            id_ = call.get("id")
            return ToolCall(id_ if isinstance(id_, str) else "", FunctionCall(name, arguments))
        case {"text": str(text), "thought": thought} if thought:
            return ThinkingPart(text, {METADATA_KEY: {}})
        case {"text": str(text)}:
            return TextPart(text)
        case {"inlineData": {"mimeType": str(kind), "data": str(data)}} if kind[:6] == "image/":
            return ImagePart(kind, data)
    return None


def _build_plain(item: Part | ToolCall) -> Record:
    """Return the content of the usual part of an item."""
    match item:
        case ToolCall(function=function):
            arguments = parse_json_text(function.arguments, {})
            return {"functionCall": {"name": function.name, "args": arguments}}
        case ThinkingPart():
            return {"text": item.text, "thought": True}
        case ImagePart():
            return {"inlineData": {"mimeType": item.media_type or "", "data": item.data}}
        case TextPart():
            return {"text": item.text}
        case UnknownPart():
            value = parse_json_text(item.data)
            return value if isinstance(value, dict) else {}


def _with_metadata(item: _Item, block: Record) -> _Item:
    """Return an item with the signatures and the null members of its part."""
    remaining = {
        name: to_safe_json(value)
        for name, value in block.items()
        if value is None or name in SIGNATURES
    }
    return structs.replace(item, meta={METADATA_KEY: remaining}) if remaining else item


def with_extra(item: _Item, members: Record) -> _Item:
    """Return an item with added members of its `extra`."""
    if not members:
        return item
    extra: Any = encode_extra(decode_extra(item.extra) | members)
    return structs.replace(item, extra=extra)


def part_members(extra: Extra | msgspec.UnsetType | None) -> Record:
    """Return the members of an `extra` that belong to the part itself."""
    members = decode_extra(extra)
    return {name: value for name, value in members.items() if name not in _RESERVED}


def build_call(call: ToolCall, id_: str | None, arguments: Any) -> Record:
    """Return the part of a call with these arguments."""
    id_member = {} if id_ is None else {"id": id_}
    function = {**id_member, "name": call.function.name, "args": arguments}
    block = apply_members({"functionCall": function}, part_members(call.extra))
    return {**block, **get_metadata(call.meta)}


def build_block(part: Part) -> Record | None:
    """Return a part in Gemini's form. Return None if it has no such form."""
    if isinstance(part, UnknownPart):
        value = parse_json_object(part.data)
        if value is None or next(iter(value), "") != part.kind:
            return None
        return {**value, **get_metadata(part.meta)}
    if isinstance(part, TextPart) or (isinstance(part, ImagePart) and part.data is not None):
        return build_native_block(part)
    return None


def build_native_block(part: Part) -> Record:
    """Return a part of Gemini as it was, also a thought."""
    block = apply_members(_build_plain(part), part_members(part.extra))
    return {**block, **get_metadata(part.meta)}


def response_content(block: Record) -> Any:
    """Return the content of a response, by which two results of a call are compared."""
    return part_content(block)[_RESPONSE]


def parse_result(
    blocks: Sequence[Any], id_: str, name: str, *, has_failed: bool = False
) -> Message:
    """Return the result of a call. Its first response is its text; all other parts follow.

    blocks: the parts of the result. id_, name: those of its call. has_failed: whether the client
    reports a failure.
    """
    index = next((index for index, block in enumerate(blocks) if is_response(block)), len(blocks))
    other_blocks = [*blocks[:index], *blocks[index + 1 :]]
    stated = part_content(blocks[index]) if index < len(blocks) else {}
    response = get_object(stated, _RESPONSE)
    payload = response.get("response")
    is_error = has_failed or (isinstance(payload, dict) and "error" in payload)
    text, manner = _read_payload(payload, is_error=is_error)
    changes = _response_changes(stated, text, manner, is_error=is_error)
    if changes is None:
        text, manner = canonical.to_json_line(payload).decode(), _AS_JSON
        changes = _response_changes(stated, text, manner, is_error=is_error) or {}
    if manner:
        changes[_RESPONSE] = {**get_object(changes, _RESPONSE), "response": manner}
    reserved = {name: changes.pop(name) for name in _RESERVED if name in changes}
    first = with_extra(TextPart(text), changes)
    if index < len(blocks):
        first = _with_metadata(first, blocks[index])
    remaining = [*([reserved] if reserved else []), *other_blocks]
    content = normalize_content([first, *map(parse_input_part, remaining)])
    return Message("tool", content, tool_call_id=id_, name=name or None, is_error=is_error)


def _read_payload(payload: Any, *, is_error: bool) -> tuple[str, str]:
    """Return the text of a response, and its manner."""
    if isinstance(payload, dict) and payload:
        output = payload.get("output", payload.get("error"))
        if not isinstance(output, str):
            return canonical.to_json_line(payload).decode(), _AS_JSON
        return output, _AS_OUTPUT if is_error and "error" not in payload else ""
    if isinstance(payload, str):
        return payload, _AS_TEXT
    if not payload:
        return "", ""
    return canonical.to_json_line(payload).decode(), _AS_JSON


def _response_changes(stated: Record, text: str, manner: str, *, is_error: bool) -> Record | None:
    """Return the members of a response that the usual one lacks.

    Return None if they cannot be expressed with this manner.
    """
    usual = {_RESPONSE: {"response": _build_payload(text, manner, is_error=is_error)}}
    changes = changed_members(usual, stated)
    inner = changes.get(_RESPONSE) if changes else None
    if manner and isinstance(inner, dict) and "response" in inner:
        return None
    return changes


def _build_payload(text: str, manner: object, *, is_error: bool) -> Any:
    match manner:
        case "json":
            return parse_json_text(text, {"output": text})
        case "text":
            return text
        case "output":
            return {"output": text}
    return {"error" if is_error else "output": text}


def build_result_parts(message: ChatMessage, id_: str | None, name: str) -> list[Record]:
    """Return the parts of a result. `id_` and `name` are those of its call."""
    first, *other_parts = parts_of(message.content) or [TextPart("")]
    appended = other_parts if isinstance(first, TextPart) else [first, *other_parts]
    blocks = [block for part in appended if (block := build_block(part)) is not None]
    text, members = "", Record()
    if isinstance(first, TextPart):
        text, members = first.text, part_members(first.extra)
    inner = members.get(_RESPONSE, {})
    if inner is None:
        return blocks  # The result had no response.
    inner = inner if isinstance(inner, dict) else {}
    manner = inner.get("response")
    if isinstance(manner, str):
        inner = {name: value for name, value in inner.items() if name != "response"}
    payload = _build_payload(text, manner, is_error=message.is_error)
    call_members = {"name": name} if id_ is None else {"id": id_, "name": name}
    response = {_RESPONSE: {**call_members, "response": payload}}
    block = apply_members(response, {**members, _RESPONSE: inner})
    return [{**block, **get_metadata(first.meta)}, *blocks]
