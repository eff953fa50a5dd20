"""Messages in the items of a list that LangGraph's serializer wrote, read without LangGraph.

The items are MessagePack. An object of LangChain is an extension value with the name of its class
and its members; it is read as data, and no class is imported. So the command line reads the threads
of any program, and a hostile file runs no code.

Items of another encoding, such as an encrypted one, have no messages.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from harken.adapters.records import TypedBytes
from harken.core.messages import FunctionCall, Message, Role, ToolCall, check_message
from harken.formats.base import ConversationEntry
from harken.formats.client_messages import messages_in

_PACKED = "msgpack"
_ROLES: dict[object, Role] = {
    "human": "user",
    "HumanMessageChunk": "user",
    "user": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "assistant": "assistant",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "function": "tool",
    "system": "system",
    "SystemMessageChunk": "system",
    "developer": "system",
}
_MAX_DEPTH = 64
_USAGE = ("input_tokens", "output_tokens")
_CACHE_COUNTS = {"cache_read": "cache_read_tokens", "cache_creation": "cache_write_tokens"}


class ForeignObject(msgspec.Struct, frozen=True):
    """An object of a program: the name of its class, and its members or arguments."""

    name: str
    members: Any


def read_entries(items: TypedBytes | None, time: str | None) -> list[ConversationEntry] | None:
    """Return the messages in items, or None if they are something else.

    time: when the items were added.
    """
    if items is None:
        return []
    values = _decode(items)
    if values is None:
        return None
    entries = [_to_entry(value, time) for value in values]
    return None if None in entries else [entry for entry in entries if entry is not None]


def _decode(items: TypedBytes) -> list[Any] | None:
    kind, data = items
    if kind != _PACKED:
        return None
    try:
        values = _Decoder().decode(data)
    except (ValueError, RecursionError, TypeError):
        return None
    return values if isinstance(values, list) else None


class _Decoder:
    """Decodes MessagePack with extension values, which may be nested."""

    def __init__(self) -> None:
        self._depth = 0

    def decode(self, data: bytes | memoryview) -> Any:
        return msgspec.msgpack.decode(data, ext_hook=self._decode_extension, strict=False)

    def _decode_extension(self, code: int, data: memoryview) -> Any:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        try:
            value = self.decode(data)
        finally:
            self._depth -= 1
        if isinstance(value, list) and len(value) >= 3 and isinstance(value[1], str):
            return ForeignObject(value[1], value[2])
        return value


def _to_entry(value: Any, time: str | None) -> ConversationEntry | None:
    """Return a message as an entry, or None if the value is no message."""
    members = value.members if isinstance(value, ForeignObject) else value
    if isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value):
        members = {"role": value[0], "content": value[1]}
    if not isinstance(members, dict) or "content" not in members:
        return None
    role = _ROLES.get(members.get("type") or members.get("role"))
    role = role or _ROLES.get(members.get("role"))
    if role is None:
        return None
    message = _to_message(members, role)
    return ConversationEntry(message, time, _to_source(members, role))


def _to_message(members: dict[str, Any], role: Role) -> Message:
    content = members["content"]
    calls = _to_calls(members.get("tool_calls"))
    text, parts = (content, None) if isinstance(content, str) else (None, content)
    message = Message(role, text)
    if parts:
        value = {"role": "user" if role == "tool" else role, "content": _to_plain(parts)}
        message = messages_in([value], report=lambda _: None)[0]
    name, call_id = members.get("name"), members.get("tool_call_id")
    message = msgspec.structs.replace(
        message,
        role=role,
        tool_calls=message.tool_calls or calls or None,
        tool_call_id=call_id if role == "tool" and isinstance(call_id, str) else None,
        name=name if isinstance(name, str) else None,
        is_error=role == "tool" and members.get("status") == "error",
    )
    try:
        check_message(message)
    except (TypeError, ValueError):
        return Message(role, _to_json(members))
    return message


def _to_calls(values: Any) -> list[ToolCall]:
    """Return the calls of an answer, in the form of LangChain or of OpenAI."""
    calls: list[ToolCall] = []
    for value in values if isinstance(values, list) else ():
        if not isinstance(value, dict):
            continue
        function = value.get("function")
        if isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
        else:
            name, arguments = value.get("name"), value.get("args")
        text = arguments if isinstance(arguments, str) else _to_json(arguments)
        calls.append(ToolCall(str(value.get("id") or ""), FunctionCall(str(name or ""), text)))
    return calls


def _to_source(members: dict[str, Any], role: Role) -> dict[str, Any]:
    """Return the facts about a message: its id, and the model and usage of an answer."""
    kind = {"assistant": "response", "tool": "tool_result", "user": "prompt"}.get(role, role)
    source: dict[str, Any] = {"kind": kind}
    if isinstance(members.get("id"), str):
        source["id"] = members["id"]
    if role != "assistant":
        return source
    metadata = members.get("response_metadata")
    if isinstance(metadata, dict):
        for name, keys in (
            ("model", ("model_name", "model")),
            ("stop_reason", ("finish_reason", "stop_reason")),
        ):
            text = next((metadata[key] for key in keys if isinstance(metadata.get(key), str)), None)
            if text:
                source[name] = text
    usage = members.get("usage_metadata")
    if isinstance(usage, dict):
        counts = {name: usage[name] for name in _USAGE if isinstance(usage.get(name), int)}
        details = usage.get("input_token_details")
        for key, name in _CACHE_COUNTS.items():
            if isinstance(details, dict) and isinstance(details.get(key), int):
                counts[name] = details[key]
        source["usage"] = counts
    return source


def _to_plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON data."""
    if depth > _MAX_DEPTH:
        return "..."
    if isinstance(value, ForeignObject):
        return _to_plain(value.members, depth + 1)
    if isinstance(value, dict):
        return {str(key): _to_plain(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(member, depth + 1) for member in value]
    return value if value is None or isinstance(value, str | int | float | bool) else repr(value)


def _to_json(value: Any) -> str:
    return json.dumps(_to_plain(value), ensure_ascii=False)
