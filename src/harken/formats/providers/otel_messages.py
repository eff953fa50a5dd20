"""Messages as OpenTelemetry's conventions for generative AI write them, and back.

One idea: a message there is a role and parts, which is what a message is here; only results differ:
there a message may hold several, beside other parts, and here each is a message of its own. What
comes from others is read as far as it makes sense, and kept as it is beyond that: no part is lost,
and nothing raises.

Source: open-telemetry/semantic-conventions-genai, `gen-ai-input-messages.json`,
`gen-ai-output-messages.json`, `gen-ai-system-instructions.json`, `gen-ai-tool-definitions.json`,
as of the version in `gen_ai`.
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
from harken.formats.tool_calls import as_object, clean, content_of, in_order, spoken

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
_DATA_URL = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)
_IS_ERROR = "is_error"
"""A member beyond the conventions: that a result is a failure."""


def json_of(message: ChatMessage, finish_reason: str = "") -> Json:
    """Return a message as an input or output message.

    finish_reason: of an answer, in the conventions' words; empty: it is not written.

    >>> json_of(Message("user", "hi"))
    {'role': 'user', 'parts': [{'type': 'text', 'content': 'hi'}]}
    """
    parts = [_written(item) for item in in_order(message)]
    if message.role == "tool":
        parts = [_result(message, parts)]
    written: Json = {"role": message.role, "parts": parts}
    if message.name and message.role != "tool":
        written["name"] = message.name
    if finish_reason:
        written["finish_reason"] = finish_reason
    return written


def instructions_json(messages: Iterable[ChatMessage]) -> list[Json]:
    """Return system messages as system instructions: their parts, one after the other."""
    return [_written(item) for message in messages for item in in_order(message)]


def tools_json(tools: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return definitions of tools (`name`, `description`, `parameters`) as tool definitions."""
    known = ("name", "description", "parameters")
    return [
        {"type": "function", **{name: tool[name] for name in known if tool.get(name) is not None}}
        for tool in tools
    ]


def messages_of(value: object, role: str = "user") -> list[Message]:
    """Return the messages in an attribute: a list of messages, or the JSON text of one.

    role: of what does not say one, and of a text that is no JSON.

    >>> messages_of('[{"role":"user","parts":[{"type":"text","content":"hi"}]}]')[0].content
    'hi'
    """
    value = value_of(value)
    if isinstance(value, dict):
        inner = value.get("messages")
        value = inner if isinstance(inner, list) else [value]
    if isinstance(value, str):
        return [Message(_role(role), clean(value))] if value else []
    found: list[Message] = []
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict):
            found += message_of(one, role)
        elif isinstance(one, str):
            found.append(Message(_role(role), clean(one)))
    return found


def instructions_of(value: object) -> list[Message]:
    """Return system instructions as system messages, one for each part."""
    value = value_of(value)
    if isinstance(value, str):
        return [Message("system", clean(value))] if value else []
    parts = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
    found: list[Message] = []
    for part in parts:
        if isinstance(part, dict) and ("parts" in part or "role" in part):
            found += message_of(part, "system")
        elif part not in (None, ""):
            found.append(Message("system", content_of(_texts([_read(part)]))))
    return found


def tools_of(value: object) -> list[Json]:
    """Return tool definitions as `name`, `description`, `parameters`; what has no name is none."""
    value = value_of(value)
    found: list[Json] = []
    for tool in items({"tools": value}, "tools"):
        inner = tool.get("function")
        told = {**tool, **inner} if isinstance(inner, dict) else tool
        name = get_text(told, "name")
        if not name:
            continue
        schema: Json = next(
            (
                to_safe_json(told[key])
                for key in ("parameters", "input_schema", "parameters_json_schema")
                if isinstance(told.get(key), dict)
            ),
            {},
        )
        description = clean(get_text(told, "description"))
        found.append({"name": clean(name), "description": description, "parameters": schema})
    return found


def message_of(record: Record, role: str = "user") -> list[Message]:
    """Return what one message says: one message, and one for each result that it holds.

    It may also be written as clients write it: `content`, `tool_calls`, `tool_call_id`.
    """
    role = _role(get_text(record, "role") or role)
    parts = record.get("parts")
    if not isinstance(parts, list):
        return _flat(record, role)
    said = [_read(part) for part in parts]
    if role == "tool":
        said = [one if isinstance(one, Message) else _answered(record, [one]) for one in said]
    return _apart(role, said, get_text(record, "name") or None)


def value_of(value: object) -> Any:
    """Return the value of an attribute that may hold JSON as a text; another text stays one.

    >>> value_of('[1]'), value_of("[hook]: no")
    ([1], '[hook]: no')
    """
    if isinstance(value, str) and value[:64].lstrip()[:1] in ("[", "{"):
        try:
            return canonical.from_json(value.encode("utf-8", "surrogatepass"))
        except ValueError:
            return value
    return value


def _flat(record: Record, role: Role) -> list[Message]:
    """Read a message as Chat Completions, or an older event, has it."""
    content = value_of(record.get("content"))
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    said = [_read(block) for block in blocks]
    if role == "tool":
        return [_answered(record, [one for one in said if not isinstance(one, Message)])]
    said += [_call(call) for call in items(record, "tool_calls")]
    return _apart(role, said, get_text(record, "name") or None)


def _apart(
    role: Role, said: Sequence[Part | ToolCall | Message], name: str | None
) -> list[Message]:
    """Return the results, each a message of its own, and what was said beside them, in order."""
    found: list[Message] = []
    waiting: list[Part | ToolCall] = []
    for one in [*said, None]:
        if one is not None and not isinstance(one, Message):
            waiting.append(one)
            continue
        if waiting:
            found.append(_said(role, waiting, name))
            waiting = []
        if one is not None:
            found.append(one)
    return found or [Message(role, "", name=name)]


def _said(role: Role, items: Sequence[Part | ToolCall], name: str | None) -> Message:
    if role == "assistant" or any(isinstance(item, ToolCall) for item in items):
        message = spoken(items)
    else:
        message = Message(role, content_of(_texts(items)))
    return message if name is None else _named(message, name)


def _named(message: Message, name: str) -> Message:
    return Message(message.role, message.content, message.tool_calls, name=clean(name))


def _answered(record: Record, parts: Sequence[Part | ToolCall]) -> Message:
    """Return the result that a message of role `tool` is as a whole."""
    id_ = get_text(record, "tool_call_id") or get_text(record, "id")
    content: Content = content_of(_texts(parts)) if parts else ""
    name = get_text(record, "name") or None
    return Message("tool", content, tool_call_id=clean(id_), name=name)


def _texts(items: Iterable[Part | ToolCall | Message]) -> list[Part]:
    return [item for item in items if not isinstance(item, ToolCall | Message)]


def _role(name: str) -> Role:
    return _ROLES.get(name.lower(), "user")


def _read(part: object) -> Part | ToolCall | Message:
    """Return a part; a result is a message."""
    if isinstance(part, str):
        return TextPart(clean(part))
    if not isinstance(part, dict):
        return _other(part)
    kind = get_text(part, "type")
    content = part.get("content", part.get("text", part.get("thinking")))
    match kind:
        case "text" | "input_text" | "output_text" if isinstance(content, str):
            return TextPart(clean(content))
        case "reasoning" | "thinking" if isinstance(content, str):
            return ThinkingPart(clean(content), _meta(part))
        case "tool_call" | "tool_use" | "function":
            return _call(part)
        case "tool_call_response" | "tool_result":
            return _response(part)
        case "blob" | "uri" | "image_url" | "image":
            return _image(part) or _other(part)
    return _text_alone(part) or _other(part)


def _text_alone(part: Record) -> TextPart | None:
    """Return a part that says nothing but a text, as some write it without a type."""
    said = {name for name, value in part.items() if value is not None}
    value = part.get("text", part.get("content"))
    if said in ({"text"}, {"content"}) and isinstance(value, str):
        return TextPart(clean(value))
    return None


def _meta(part: Record) -> dict[str, Any] | None:
    signature = get_text(part, "signature")
    return {"signature": clean(signature)} if signature else None


def _call(part: Record) -> ToolCall:
    """Read a call in any of its forms: flat, or with a `function` of its own."""
    inner = part.get("function")
    told = {**part, **inner} if isinstance(inner, dict) else part
    arguments = told.get("arguments", told.get("input"))
    if not isinstance(arguments, str):
        arguments = _json(arguments) if arguments is not None else "{}"
    name = clean(get_text(told, "name")) or "unknown"
    return ToolCall(clean(get_text(part, "id")), FunctionCall(name, clean(arguments)))


def _response(part: Record) -> Message:
    value = next(
        (part[key] for key in ("response", "result", "content") if part.get(key) is not None), ""
    )
    id_ = get_text(part, "id") or get_text(part, "tool_use_id") or get_text(part, "tool_call_id")
    name = get_text(part, "name") or None
    is_error = part.get(_IS_ERROR) is True
    content: Content
    if isinstance(value, str):
        content = clean(value)
    elif isinstance(value, list) and value and all(_is_part(one) for one in value):
        content = content_of(_texts(_read(one) for one in value))
    else:
        content = _json(value)
    return Message("tool", content, tool_call_id=clean(id_), name=name, is_error=is_error)


def _is_part(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _image(part: Record) -> ImagePart | None:
    """Return an image in any of its forms; None: it is something else."""
    inner = part.get("image_url")
    url = (
        get_text(part, "uri") or get_text(part, "url") or (inner if isinstance(inner, str) else "")
    )
    if isinstance(inner, dict):
        url = get_text(inner, "url")
    media_type = get_text(part, "mime_type") or get_text(part, "media_type")
    inline = _DATA_URL.match(url)
    data = inline[2] if inline else get_text(part, "content") or get_text(part, "data")
    media_type = media_type or (inline[1] if inline else "")
    is_image = get_text(part, "modality") == "image" or get_text(part, "type").startswith("image")
    if not (is_image or media_type.startswith("image/")) or not (data or url):
        return None
    if data:
        return ImagePart(clean(media_type) or None, clean(data))
    return ImagePart(clean(media_type) or None, url=clean(url))


def _other(part: object) -> UnknownPart:
    kind = get_text(part, "type") if isinstance(part, dict) else ""
    return UnknownPart(clean(kind) or "unknown", _json(part))


def _json(value: object) -> str:
    """Return JSON as a text that every writer can say."""
    try:
        return clean(canonical.to_json_line(to_safe_json(value)).decode("utf-8", "replace"))
    except (TypeError, ValueError, RecursionError):
        return "null"


def _written(item: Part | ToolCall) -> Json:
    match item:
        case TextPart():
            return {"type": "text", "content": clean(item.text)}
        case ThinkingPart():
            return {"type": "reasoning", "content": clean(item.text)}
        case ToolCall():
            raw = item.function.arguments
            arguments: Any = as_object(raw)
            name = clean(item.function.name)
            if arguments is None:
                arguments = clean(raw)
            return {"type": "tool_call", "id": clean(item.id), "name": name, "arguments": arguments}
        case ImagePart():
            return _image_json(item)
        case UnknownPart():
            inner = as_object(item.data) or {"content": clean(item.data)}
            return {"type": clean(item.kind), **inner}


def _image_json(image: ImagePart) -> Json:
    inline = _DATA_URL.match(image.url or "")
    data = image.data or (inline[2] if inline else None)
    media_type = image.media_type or (inline[1] if inline else None)
    told: Json = {"modality": "image", **({"mime_type": media_type} if media_type else {})}
    if data is None:
        return {"type": "uri", **told, "uri": clean(image.url or "")}
    return {"type": "blob", **told, "content": clean(data)}


def _result(message: ChatMessage, parts: list[Json]) -> Json:
    """Return a result: its text, or its parts where it is more than a text."""
    response: Any = parts
    if isinstance(message.content, str) or message.content is None:
        response = clean(message.content or "")
    written: Json = {"type": "tool_call_response", "id": clean(message.tool_call_id or "")}
    if message.name:
        written["name"] = clean(message.name)
    written["response"] = response
    if message.is_error:
        written[_IS_ERROR] = True
    return written
