"""The messages of Ollama's chat API: images beside the text, and arguments as objects.

Only the conversion of messages: requests to Ollama are recorded through its OpenAI protocol.

Source: docs/formats/wire.md, "ollama"; https://docs.ollama.com/api/chat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from harken.core import canonical
from harken.core.messages import (
    ChatMessage,
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
from harken.formats.json_records import get_object, get_objects, get_text
from harken.formats.tool_calls import build_assistant_message, iter_items, normalize_content
from harken.formats.wire.base import Body
from harken.formats.wire.piece_codec import PieceCodec, parse_arguments

NAME = "ollama"
_ROLES: Mapping[str, Role] = {role: role for role in get_args(Role)}
_EMPTY: tuple[Any, ...] = (None, [], "")


def _parse_messages(value: Any) -> list[Message]:
    role = _ROLES.get(get_text(value, "role")) if isinstance(value, dict) else None
    if role is None:
        return []
    items: list[Part | ToolCall] = [*_parse_parts(value)]
    if role == "assistant":
        return [
            build_assistant_message([*items, *map(_parse_call, get_objects(value, "tool_calls"))])
        ]
    content = normalize_content([part for part in items if not isinstance(part, ToolCall)])
    if role == "tool":
        id_, name = get_text(value, "tool_call_id"), get_text(value, "tool_name")
        return [Message("tool", content or "", tool_call_id=id_, name=name or None)]
    return [Message(role, content or "")]


def _parse_parts(value: Body) -> list[Part]:
    parts: list[Part] = []
    if get_text(value, "thinking"):
        parts.append(ThinkingPart(get_text(value, "thinking")))
    if get_text(value, "content"):
        parts.append(TextPart(get_text(value, "content")))
    images = value.get("images")
    texts = images if isinstance(images, list) else []
    return [*parts, *(ImagePart(data=image) for image in texts if isinstance(image, str))]


def _parse_call(call: Body) -> ToolCall:
    function = get_object(call, "function")
    arguments = canonical.to_json_line(function.get("arguments") or {}).decode()
    return ToolCall(get_text(call, "id"), FunctionCall(get_text(function, "name"), arguments))


def _build_piece(messages: Sequence[ChatMessage], manner: str) -> Any:
    del manner
    (message,) = messages
    items = [*iter_items(message)]
    texts = [item.text for item in items if isinstance(item, TextPart)]
    body: Body = {"role": message.role, "content": "\n\n".join(texts)}
    thoughts = [item.text for item in items if isinstance(item, ThinkingPart)]
    if thoughts:
        body["thinking"] = "\n\n".join(thoughts)
    images = [item.data or item.url for item in items if isinstance(item, ImagePart)]
    if images:
        body["images"] = images
    calls = [_build_call(item) for item in items if isinstance(item, ToolCall)]
    if calls:
        body["tool_calls"] = calls
    if message.role == "tool" and message.name:
        body["tool_name"] = message.name
    if any(isinstance(item, UnknownPart) for item in items):
        raise ValueError("a native block of another protocol")
    return body


def _build_call(call: ToolCall) -> Body:
    function = {"name": call.function.name, "arguments": parse_arguments(call.function.arguments)}
    return {"id": call.id, "function": function} if call.id else {"function": function}


def _normalize_piece(value: Any) -> Any:
    """Return a message without empty members."""
    if not isinstance(value, dict):
        return value
    return {name: inner for name, inner in value.items() if inner not in _EMPTY}


def _piece_content(value: Any) -> Any:
    """Return a normalized message without ids and the name of a result's tool."""
    value = _normalize_piece(value)
    if not isinstance(value, dict):
        return value
    names = ("tool_name", "tool_call_id") if value.get("role") == "tool" else ()
    members = {name: inner for name, inner in value.items() if name not in names}
    if isinstance(members.get("tool_calls"), list):
        members["tool_calls"] = [*map(_call_content, members["tool_calls"])]
    return members


def _call_content(call: Any) -> Any:
    if not isinstance(call, dict):
        return call
    members = {name: inner for name, inner in call.items() if name != "id"}
    return {**members, "type": members.get("type", "function")}


CODEC = PieceCodec(
    name=NAME,
    messages=_parse_messages,
    build=_build_piece,
    normalize=_normalize_piece,
    content=_piece_content,
    has_ids=False,
)
