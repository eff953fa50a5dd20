"""Read OpenTelemetry's messages for generative AI; `otel_writer` writes them.

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

import msgspec

from harken.core import canonical
from harken.core.event_types.message_parser import (
    MESSAGE_KEY,
    MESSAGE_KEYS,
    decode_extra,
    encode_extra,
)
from harken.core.messages import (
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
DATA_URL_PATTERN = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)
IS_ERROR = "is_error"
"""A member beyond the conventions that marks an error result."""
_MESSAGE_MEMBERS = frozenset(
    {
        "role",
        "parts",
        "content",
        "tool_calls",
        "tool_call_id",
        "id",
        "name",
        "finish_reason",
        "index",
    }
)
"""The members of a message that are read, or that describe its call."""
_TEXT_MEMBERS = frozenset({"type", "content", "text", "thinking", "signature", "id"})
_CALL_MEMBERS = frozenset({"type", "id", "name", "arguments", "input", "function", "index"})
_RESULT_MEMBERS = frozenset(
    {
        "type",
        "id",
        "name",
        "tool_use_id",
        "tool_call_id",
        "response",
        "result",
        "content",
        "is_error",
    }
)
_IMAGE_MEMBERS = frozenset(
    {
        "type",
        "modality",
        "uri",
        "url",
        "image_url",
        "mime_type",
        "media_type",
        "content",
        "data",
    }
)
"""The members of a part that are read, in any of its forms. All others are content, too."""


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
    messages = _split_results(role, items_, get_text(record, "name") or None)
    return _with_unknown_members(messages, record)


def _with_unknown_members(messages: list[Message], record: Record) -> list[Message]:
    """Return the messages of a record with its other members, in the `extra` of the first part.

    Attributes of events have names with dots, and are no members of a message.
    """
    unknown = {
        name: to_safe_json(value)
        for name, value in record.items()
        if name not in _MESSAGE_MEMBERS and "." not in name and value is not None
    }
    if not unknown:
        return messages
    first = messages[0]
    parts = [*iter_items(first)] or [TextPart("")]
    members = {**decode_extra(parts[0].extra), MESSAGE_KEY: unknown}
    parts[0] = msgspec.structs.replace(parts[0], extra=encode_extra(members))
    return [_join_items(first, parts), *messages[1:]]


def _join_items(message: Message, items_: Sequence[Part | ToolCall]) -> Message:
    """Return a message with other parts and calls."""
    if message.role == "assistant" or message.tool_calls:
        joined = build_assistant_message(items_)
        content, calls = joined.content, joined.tool_calls
    else:
        content, calls = normalize_content(_content_parts(items_)), None
    return msgspec.structs.replace(message, content=content, tool_calls=calls)


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
        results = [
            _tool_message(record, [item for item in items_ if not isinstance(item, Message)])
        ]
        return _with_unknown_members(results, record)
    items_ += [_parse_part({"type": "tool_call", **call}) for call in items(record, "tool_calls")]
    messages = _split_results(role, items_, get_text(record, "name") or None)
    return _with_unknown_members(messages, record)


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
    """Parse a part. A result becomes a message. Unknown members are in the `extra`."""
    item = _parse_known_part(part)
    if not isinstance(part, dict) or isinstance(item, UnknownPart):
        return item
    unknown = {
        name: to_safe_json(value)
        for name, value in part.items()
        if name not in _known_members(item) and value is not None
    }
    if not unknown:
        return item
    if isinstance(item, Message):
        rest = _unknown_part({"type": get_text(part, "type"), **unknown})
        return msgspec.structs.replace(item, content=[*_content_list(item.content), rest])
    if not MESSAGE_KEYS.isdisjoint(unknown):
        return _unknown_part(part)
    return msgspec.structs.replace(item, extra=encode_extra(unknown))


def _known_members(item: Part | ToolCall | Message) -> frozenset[str]:
    match item:
        case Message():
            return _RESULT_MEMBERS
        case ToolCall():
            return _CALL_MEMBERS
        case ImagePart():
            return _IMAGE_MEMBERS
        case _:
            return _TEXT_MEMBERS


def _content_list(content: Content) -> list[Any]:
    return content if isinstance(content, list) else [TextPart(content)] if content else []


def _parse_known_part(part: object) -> Part | ToolCall | Message:
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
    is_error = part.get(IS_ERROR) is True
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
    inline = DATA_URL_PATTERN.match(url)
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
