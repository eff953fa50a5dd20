"""Conversion between messages and OpenTelemetry's messages for generative AI.

A message is a role and parts in both models; only results differ: an OpenTelemetry message may hold
several results beside other parts, and in Harken each is a separate message. Foreign input is
parsed as far as possible, and stored unchanged otherwise: no part is lost, and no input raises.

Source: open-telemetry/semantic-conventions-genai, `gen-ai-input-messages.json`,
`gen-ai-output-messages.json`, `gen-ai-system-instructions.json`, `gen-ai-tool-definitions.json`,
as of the version in `otel_attributes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from harken.core import canonical
from harken.core.messages import (
    ChatMessage,
    Content,
    FunctionCall,
    ImagePart,
    Message,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.json_records import Record, get_text, to_safe_json
from harken.formats.json_records import get_objects as items
from harken.formats.tool_calls import (
    build_assistant_message,
    iter_items,
    normalize_content,
    parse_json_object,
    replace_surrogates,
)

Json: TypeAlias = dict[str, Any]

_ROLES: Mapping[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
_DATA_URL_PATTERN = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)
_IS_ERROR = "is_error"
"""A member beyond the conventions that marks an error result."""


def message_to_otel(message: ChatMessage, finish_reason: str = "") -> Json:
    """Return a message as an input or output message.

    finish_reason: of an answer, a value of the conventions; omitted if empty.

    >>> message_to_otel(Message("user", "hi"))
    {'role': 'user', 'parts': [{'type': 'text', 'content': 'hi'}]}
    """
    parts = [_encode_item(item) for item in iter_items(message)]
    if message.role == "tool":
        parts = [_encode_result(message, parts)]
    record: Json = {"role": message.role, "parts": parts}
    if message.name and message.role != "tool":
        record["name"] = message.name
    if finish_reason:
        record["finish_reason"] = finish_reason
    return record


def instructions_to_otel(messages: Iterable[ChatMessage]) -> list[Json]:
    """Return the concatenated parts of system messages as system instructions."""
    return [_encode_item(item) for message in messages for item in iter_items(message)]


def tools_to_otel(tools: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return definitions of tools (`name`, `description`, `parameters`) as tool definitions."""
    names = ("name", "description", "parameters")
    return [
        {"type": "function", **{name: tool[name] for name in names if tool.get(name) is not None}}
        for tool in tools
    ]


def messages_from_otel(value: object, role: str = "user") -> list[Message]:
    """Return the messages in an attribute: a list of messages, or its JSON text.

    role: for messages without a role, and for a text that is no JSON.

    >>> messages_from_otel('[{"role":"user","parts":[{"type":"text","content":"hi"}]}]')[0].content
    'hi'
    """
    value = parse_attribute_value(value)
    if isinstance(value, dict):
        inner = value.get("messages")
        value = inner if isinstance(inner, list) else [value]
    if isinstance(value, str):
        return [Message(_parse_role(role), replace_surrogates(value))] if value else []
    messages: list[Message] = []
    for record in value if isinstance(value, list) else ():
        if isinstance(record, dict):
            messages += message_from_otel(record, role)
        elif isinstance(record, str):
            messages.append(Message(_parse_role(role), replace_surrogates(record)))
    return messages


def instructions_from_otel(value: object) -> list[Message]:
    """Return system instructions as system messages, one for each part."""
    value = parse_attribute_value(value)
    if isinstance(value, str):
        return [Message("system", replace_surrogates(value))] if value else []
    parts = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    messages: list[Message] = []
    for part in parts:
        if isinstance(part, dict) and ("parts" in part or "role" in part):
            messages += message_from_otel(part, "system")
        elif part not in (None, ""):
            messages.append(
                Message("system", normalize_content(_content_parts([_parse_part(part)])))
            )
    return messages


def tools_from_otel(value: object) -> list[Json]:
    """Return tool definitions as `name`, `description`, `parameters`.

    Tools without a name are skipped.
    """
    value = parse_attribute_value(value)
    tools: list[Json] = []
    for tool in items({"tools": value}, "tools"):
        inner = tool.get("function")
        definition = {**tool, **inner} if isinstance(inner, dict) else tool
        name = get_text(definition, "name")
        if not name:
            continue
        schema: Json = next(
            (
                to_safe_json(definition[key])
                for key in ("parameters", "input_schema", "parameters_json_schema")
                if isinstance(definition.get(key), dict)
            ),
            {},
        )
        description = replace_surrogates(get_text(definition, "description"))
        tools.append(
            {"name": replace_surrogates(name), "description": description, "parameters": schema}
        )
    return tools


def message_from_otel(record: Record, role: str = "user") -> list[Message]:
    """Return the messages of one record: one message, and one for each result in it.

    The record may also have the form of clients: `content`, `tool_calls`, `tool_call_id`.
    """
    role = _parse_role(get_text(record, "role") or role)
    parts = record.get("parts")
    if not isinstance(parts, list):
        return _parse_flat_message(record, role)
    items_ = [_parse_part(part) for part in parts]
    if role == "tool":
        items_ = [
            item if isinstance(item, Message) else _tool_message(record, [item]) for item in items_
        ]
    return _split_results(role, items_, get_text(record, "name") or None)


def parse_attribute_value(value: object) -> Any:
    """Return the value of an attribute that may hold JSON as a text. Other texts stay unchanged.

    >>> parse_attribute_value("[1]"), parse_attribute_value("[hook]: no")
    ([1], '[hook]: no')
    """
    if isinstance(value, str) and value[:64].lstrip()[:1] in ("[", "{"):
        try:
            return canonical.from_json(value.encode("utf-8", "surrogatepass"))
        except ValueError:
            return value
    return value


def _parse_flat_message(record: Record, role: Role) -> list[Message]:
    """Parse a message in the form of Chat Completions or of older events."""
    content = parse_attribute_value(record.get("content"))
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    items_ = [_parse_part(block) for block in blocks]
    if role == "tool":
        return [_tool_message(record, [item for item in items_ if not isinstance(item, Message)])]
    items_ += [_parse_call(call) for call in items(record, "tool_calls")]
    return _split_results(role, items_, get_text(record, "name") or None)


def _split_results(
    role: Role, items_: Sequence[Part | ToolCall | Message], name: str | None
) -> list[Message]:
    """Return results as separate messages, and the items between them, in order."""
    messages: list[Message] = []
    pending: list[Part | ToolCall] = []
    for item in [*items_, None]:
        if item is not None and not isinstance(item, Message):
            pending.append(item)
            continue
        if pending:
            messages.append(_build_message(role, pending, name))
            pending = []
        if item is not None:
            messages.append(item)
    return messages or [Message(role, "", name=name)]


def _build_message(role: Role, items: Sequence[Part | ToolCall], name: str | None) -> Message:
    if role == "assistant" or any(isinstance(item, ToolCall) for item in items):
        message = build_assistant_message(items)
    else:
        message = Message(role, normalize_content(_content_parts(items)))
    return message if name is None else _with_name(message, name)


def _with_name(message: Message, name: str) -> Message:
    return Message(message.role, message.content, message.tool_calls, name=replace_surrogates(name))


def _tool_message(record: Record, parts: Sequence[Part | ToolCall]) -> Message:
    """Return the result for a complete message of role `tool`."""
    id_ = get_text(record, "tool_call_id") or get_text(record, "id")
    content: Content = normalize_content(_content_parts(parts)) if parts else ""
    name = get_text(record, "name") or None
    return Message("tool", content, tool_call_id=replace_surrogates(id_), name=name)


def _content_parts(items: Iterable[Part | ToolCall | Message]) -> list[Part]:
    return [item for item in items if not isinstance(item, ToolCall | Message)]


def _parse_role(name: str) -> Role:
    return _ROLES.get(name.lower(), "user")


def _parse_part(part: object) -> Part | ToolCall | Message:
    """Parse a part. A result becomes a message."""
    if isinstance(part, str):
        return TextPart(replace_surrogates(part))
    if not isinstance(part, dict):
        return _unknown_part(part)
    kind = get_text(part, "type")
    content = part.get("content", part.get("text", part.get("thinking")))
    match kind:
        case "text" | "input_text" | "output_text" if isinstance(content, str):
            return TextPart(replace_surrogates(content))
        case "reasoning" | "thinking" if isinstance(content, str):
            return ThinkingPart(replace_surrogates(content), _signature_meta(part))
        case "tool_call" | "tool_use" | "function":
            return _parse_call(part)
        case "tool_call_response" | "tool_result":
            return _parse_response(part)
        case "blob" | "uri" | "image_url" | "image":
            return _parse_image(part) or _unknown_part(part)
    return _parse_untyped_text(part) or _unknown_part(part)


def _parse_untyped_text(part: Record) -> TextPart | None:
    """Parse a part with only a text member, which some programs write without a type."""
    names = {name for name, value in part.items() if value is not None}
    value = part.get("text", part.get("content"))
    if names in ({"text"}, {"content"}) and isinstance(value, str):
        return TextPart(replace_surrogates(value))
    return None


def _signature_meta(part: Record) -> dict[str, Any] | None:
    signature = get_text(part, "signature")
    return {"signature": replace_surrogates(signature)} if signature else None


def _parse_call(part: Record) -> ToolCall:
    """Parse a call in any of its forms: flat, or with a nested `function`."""
    inner = part.get("function")
    members = {**part, **inner} if isinstance(inner, dict) else part
    arguments = members.get("arguments", members.get("input"))
    if not isinstance(arguments, str):
        arguments = _to_json_text(arguments) if arguments is not None else "{}"
    name = replace_surrogates(get_text(members, "name")) or "unknown"
    return ToolCall(
        replace_surrogates(get_text(part, "id")), FunctionCall(name, replace_surrogates(arguments))
    )


def _parse_response(part: Record) -> Message:
    value = next(
        (part[key] for key in ("response", "result", "content") if part.get(key) is not None), ""
    )
    id_ = get_text(part, "id") or get_text(part, "tool_use_id") or get_text(part, "tool_call_id")
    name = get_text(part, "name") or None
    is_error = part.get(_IS_ERROR) is True
    content: Content
    if isinstance(value, str):
        content = replace_surrogates(value)
    elif isinstance(value, list) and value and all(_is_part(item) for item in value):
        content = normalize_content(_content_parts(_parse_part(item) for item in value))
    else:
        content = _to_json_text(value)
    return Message(
        "tool", content, tool_call_id=replace_surrogates(id_), name=name, is_error=is_error
    )


def _is_part(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _parse_image(part: Record) -> ImagePart | None:
    """Parse an image in any of its forms. Return None if the part is no image."""
    inner = part.get("image_url")
    url = (
        get_text(part, "uri") or get_text(part, "url") or (inner if isinstance(inner, str) else "")
    )
    if isinstance(inner, dict):
        url = get_text(inner, "url")
    media_type = get_text(part, "mime_type") or get_text(part, "media_type")
    inline = _DATA_URL_PATTERN.match(url)
    data = inline[2] if inline else get_text(part, "content") or get_text(part, "data")
    media_type = media_type or (inline[1] if inline else "")
    is_image = get_text(part, "modality") == "image" or get_text(part, "type").startswith("image")
    if not (is_image or media_type.startswith("image/")) or not (data or url):
        return None
    if data:
        return ImagePart(replace_surrogates(media_type) or None, replace_surrogates(data))
    return ImagePart(replace_surrogates(media_type) or None, url=replace_surrogates(url))


def _unknown_part(part: object) -> UnknownPart:
    kind = get_text(part, "type") if isinstance(part, dict) else ""
    return UnknownPart(replace_surrogates(kind) or "unknown", _to_json_text(part))


def _to_json_text(value: object) -> str:
    """Encode a value as JSON text that every writer supports."""
    try:
        return replace_surrogates(
            canonical.to_json_line(to_safe_json(value)).decode("utf-8", "replace")
        )
    except (TypeError, ValueError, RecursionError):
        return "null"


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
    inline = _DATA_URL_PATTERN.match(image.url or "")
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
        record[_IS_ERROR] = True
    return record
