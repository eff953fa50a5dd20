"""Write messages as OpenTelemetry's messages for generative AI; `otel_messages` reads them.

A message is a role and parts in both models. The result of a call is a part there.

Source: see `harken.formats.providers.otel_messages`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harken.core.event_types.message_parser import MESSAGE_KEY, block_members, decode_extra
from harken.core.messages import (
    ChatMessage,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.providers.otel_messages import Json
from harken.formats.providers.otel_parts import DATA_URL_PATTERN, IS_ERROR
from harken.formats.tool_calls import iter_items, parse_json_object, replace_surrogates


def message_to_otel(message: ChatMessage, finish_reason: str = "") -> Json:
    """Return a message as an input or output message.

    finish_reason: of an answer, a value of the conventions; omitted if empty.

    >>> from harken.core.messages import Message
    >>> message_to_otel(Message("user", "hi"))
    {'role': 'user', 'parts': [{'type': 'text', 'content': 'hi'}]}
    """
    items_ = [*iter_items(message)]
    parts = [{**_encode_item(item), **block_members(item.extra)} for item in items_]
    if message.role == "tool":
        parts = [_encode_result(message, parts)]
    record: Json = {"role": message.role, "parts": parts}
    if message.name and message.role != "tool":
        record["name"] = message.name
    if finish_reason:
        record["finish_reason"] = finish_reason
    members = decode_extra(items_[0].extra).get(MESSAGE_KEY) if items_ else None
    return {**record, **members} if isinstance(members, dict) else record


def instructions_to_otel(messages: Iterable[ChatMessage]) -> list[Json]:
    """Return the concatenated parts of system messages as system instructions."""
    return [
        {**_encode_item(item), **block_members(item.extra)}
        for message in messages
        for item in iter_items(message)
    ]


def tools_to_otel(tools: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return definitions of tools (`name`, `description`, `parameters`) as tool definitions."""
    names = ("name", "description", "parameters")
    return [
        {"type": "function", **{name: tool[name] for name in names if tool.get(name) is not None}}
        for tool in tools
    ]


def _encode_item(item: Part | ToolCall) -> Json:
    match item:
        case TextPart():
            return {"type": "text", "content": replace_surrogates(item.text)}
        case ThinkingPart():
            return {"type": "reasoning", "content": replace_surrogates(item.text)}
        case ToolCall():
            raw = item.function.arguments
            arguments: Any = parse_json_object(raw)
            name = replace_surrogates(item.function.name)
            if arguments is None:
                arguments = replace_surrogates(raw)
            return {
                "type": "tool_call",
                "id": replace_surrogates(item.id),
                "name": name,
                "arguments": arguments,
            }
        case ImagePart():
            return _encode_image(item)
        case UnknownPart():
            inner = parse_json_object(item.data) or {"content": replace_surrogates(item.data)}
            return {"type": replace_surrogates(item.kind), **inner}


def _encode_image(image: ImagePart) -> Json:
    inline = DATA_URL_PATTERN.match(image.url or "")
    data = image.data or (inline[2] if inline else None)
    media_type = image.media_type or (inline[1] if inline else None)
    members: Json = {"modality": "image", **({"mime_type": media_type} if media_type else {})}
    if data is None:
        return {"type": "uri", **members, "uri": replace_surrogates(image.url or "")}
    return {"type": "blob", **members, "content": replace_surrogates(data)}


def _encode_result(message: ChatMessage, parts: list[Json]) -> Json:
    """Return a result with its text, or with its parts if it has more than a text."""
    response: Any = parts
    if isinstance(message.content, str) or message.content is None:
        response = replace_surrogates(message.content or "")
    record: Json = {
        "type": "tool_call_response",
        "id": replace_surrogates(message.tool_call_id or ""),
    }
    if message.name:
        record["name"] = replace_surrogates(message.name)
    record["response"] = response
    if message.is_error:
        record[IS_ERROR] = True
    return record
