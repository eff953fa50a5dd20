"""`pydantic-messages-v1`: messages of pydantic-ai, as its `ModelMessagesTypeAdapter` writes them.

A line of JSON for each request or response, with its members in their order. A request has prompts
and the results of tools, so one line may be several messages of Harken. A line of the kind `change`
has members that replace those of the line before: the time at which a request was sent.

Source: docs/formats/framework-items.md, "Messages of pydantic-ai".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from harken.core import canonical
from harken.core.clock import normalize_rfc3339
from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
    text_of,
)
from harken.formats.base import ConversationEntry, Format
from harken.formats.frameworks.item_lines import encode_item, join_lines
from harken.formats.frameworks.item_reader import make_reader
from harken.formats.json_records import get_object, get_objects, get_text, to_safe_json
from harken.formats.tool_calls import (
    build_assistant_message,
    iter_items,
    normalize_content,
    parse_json_object,
)

NAME = "pydantic-messages-v1"
CHANGE = "change"
"""The `kind` of a line that changes the line before."""
_RESULTS = frozenset({"tool-return", "builtin-tool-return", "retry-prompt"})
_CALLS = frozenset({"tool-call", "builtin-tool-call"})
_FAILURES = frozenset({"failed", "denied", "interrupted", "retried"})
_EPOCH = "1970-01-01T00:00:00Z"


def apply_changes(items: Iterable[Any]) -> list[Any]:
    """Return the messages of lines, oldest first, with their changes.

    >>> apply_changes([{"kind": "request", "parts": []}, {"kind": "change", "members": {"a": 1}}])
    [{'kind': 'request', 'parts': [], 'a': 1}]
    """
    messages: list[Any] = []
    for item in items:
        if not isinstance(item, dict) or item.get("kind") != CHANGE:
            messages.append(item)
        elif messages and isinstance(messages[-1], dict):
            messages[-1] = {**messages[-1], **get_object(item, "members")}
    return messages


def outline_messages(items: Iterable[Any]) -> list[Message]:
    """Return the messages with their texts and calls only, to summarize and to count them."""
    return [_outline_part(part) for item in items for part in _get_parts(item)]


def _outline_part(part: dict[str, Any]) -> Message:
    kind = get_text(part, "part_kind")
    if kind in _CALLS:
        return Message("assistant", None, [_read_call(part)])
    text = _find_text(part.get("content"))
    if kind in _RESULTS:
        return Message("tool", text)
    if kind == "user-prompt":
        return Message("user", text)
    return Message("assistant" if kind in ("text", "thinking") else "system", text)


def _find_text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(map(_find_text, content))
    if isinstance(content, dict):
        return get_text(content, "content") or get_text(content, "text")
    return content if isinstance(content, str) else ""


def _get_parts(item: object) -> list[dict[str, Any]]:
    return get_objects(item, "parts") if isinstance(item, dict) else []


def _read_item(item: Any) -> Iterator[ConversationEntry]:
    if not isinstance(item, dict) or item.get("kind") == CHANGE:
        return
    time = _read_time(item.get("timestamp"))
    if item.get("kind") == "response":
        source = _read_source(item)
        for message in _read_response(_get_parts(item)):
            yield ConversationEntry(message, time, source if message.role == "assistant" else None)
            source = {"kind": "client"} if message.role == "assistant" else source
        return
    instructions = get_text(item, "instructions")
    source = {"instructions": instructions} if instructions else {}
    for part in _get_parts(item):
        time_of_part = _read_time(part.get("timestamp")) or time
        yield ConversationEntry(_read_request_part(part), time_of_part, source or None)


def _read_response(parts: Iterable[dict[str, Any]]) -> list[Message]:
    """Return the messages of a response: its answer, which results of native tools divide."""
    messages: list[Message] = []
    items: list[Part | ToolCall] = []
    for part in parts:
        if part.get("part_kind") == "builtin-tool-return":
            messages += [build_assistant_message(items)] if items else []
            messages.append(_read_result(part))
            items = []
        else:
            items.append(_read_response_part(part))
    if items or not messages:
        messages.append(build_assistant_message(items))
    return messages


def _read_source(item: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a response: its model, its usage, and the reason of its end."""
    usage = get_object(item, "usage")
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    members = {
        "model": item.get("model_name"),
        "id": item.get("provider_response_id"),
        "stop_reason": item.get("finish_reason"),
        "usage": {name: usage[name] for name in names if isinstance(usage.get(name), int)},
        "run_id": item.get("run_id"),
    }
    stated = {name: to_safe_json(value) for name, value in members.items() if value}
    return {"kind": "response", **stated}


def _read_response_part(part: dict[str, Any]) -> Part | ToolCall:
    kind = get_text(part, "part_kind")
    content = part.get("content")
    if kind in _CALLS:
        return _read_call(part)
    if kind == "text" and isinstance(content, str):
        return TextPart(content)
    if kind == "thinking" and isinstance(content, str):
        signature = get_text(part, "signature")
        return ThinkingPart(content, {"signature": signature} if signature else None)
    if kind == "file":
        return _read_content(content)
    return _keep(part, kind)


def _read_call(part: dict[str, Any]) -> ToolCall:
    arguments = part.get("args")
    if not isinstance(arguments, str):
        arguments = _encode(arguments if arguments is not None else {})
    return ToolCall(
        get_text(part, "tool_call_id"), FunctionCall(get_text(part, "tool_name"), arguments)
    )


def _read_request_part(part: dict[str, Any]) -> Message:
    kind = get_text(part, "part_kind")
    if kind in _RESULTS and (kind != "retry-prompt" or get_text(part, "tool_name")):
        return _read_result(part)
    if kind in ("user-prompt", "retry-prompt", "retry-feedback"):
        return Message("user", _read_contents(part.get("content")))
    if kind in ("system-prompt", "instruction") and isinstance(part.get("content"), str):
        return Message("system", part["content"])
    return Message("system", [_keep(part, kind)])


def _read_result(part: dict[str, Any]) -> Message:
    return Message(
        "tool",
        _read_contents(part.get("content"), is_result=True),
        tool_call_id=get_text(part, "tool_call_id"),
        name=get_text(part, "tool_name") or None,
        is_error=part.get("outcome") in _FAILURES or part.get("part_kind") == "retry-prompt",
    )


def _read_contents(content: Any, *, is_result: bool = False) -> Any:
    if isinstance(content, str):
        return content
    if is_result and not _has_files(content):
        return _encode(content)
    items = content if isinstance(content, list) else [content]
    return normalize_content([_read_content(item) for item in items]) or ""


def _has_files(content: Any) -> bool:
    items = content if isinstance(content, list) else [content]
    return any(
        isinstance(item, dict) and item.get("kind") in ("binary", "image-url") for item in items
    )


def _read_content(item: Any) -> Part:
    """Return the part of a text, a file or another content."""
    match item:
        case str():
            return TextPart(item)
        case {"kind": "text-content", "content": str(text)}:
            return TextPart(text)
        case {"kind": "image-url", "url": str(url)}:
            return ImagePart(url=url)
        case {"kind": "binary", "media_type": str(kind), "data": str(data)} if kind[:6] == "image/":
            return ImagePart(kind, data.replace("-", "+").replace("_", "/"))
        case dict():
            return _keep(item, get_text(item, "kind"))
    return UnknownPart("", _encode(item))


def _keep(part: dict[str, Any], kind: str) -> UnknownPart:
    return UnknownPart(kind, _encode(part))


def _encode(value: Any) -> str:
    return canonical.to_json_line(to_safe_json(value)).decode("utf-8", "surrogatepass")


def _read_time(value: object) -> str | None:
    with suppress(ValueError, OverflowError):
        return normalize_rfc3339(value) if isinstance(value, str) else None
    return None


def _write(entries: Sequence[ConversationEntry]) -> bytes:
    names: dict[str, str] = {}
    lines = [encode_item(_write_entry(entry, names)) for entry in entries]
    return join_lines(lines)


def _write_entry(entry: ConversationEntry, names: dict[str, str]) -> Mapping[str, Any]:
    """Return the message of an entry. names: those of tools by the ids of calls, added to."""
    message, time = entry.message, entry.time or _EPOCH
    text = text_of(message.content)
    if message.role == "assistant":
        parts = [part for item in iter_items(message) for part in _write_item(item, names)]
        return {"parts": parts, "timestamp": time, "kind": "response"}
    part: dict[str, Any]
    if message.role == "tool":
        id_ = message.tool_call_id or ""
        part = {
            "tool_name": message.name or names.get(id_, "tool"),
            "content": text,
            "tool_call_id": id_,
            "timestamp": time,
            "outcome": "failed" if message.is_error else "success",
            "part_kind": "tool-return",
        }
    else:
        kind = "system-prompt" if message.role == "system" else "user-prompt"
        part = {"content": text, "timestamp": time, "part_kind": kind}
    return {"parts": [part], "timestamp": time, "kind": "request"}


def _write_item(item: Part | ToolCall, names: dict[str, str]) -> Iterator[dict[str, Any]]:
    match item:
        case ToolCall(id=id_, function=function):
            names[id_] = function.name
            arguments: Any = parse_json_object(function.arguments)
            yield {
                "tool_name": function.name,
                "args": function.arguments if arguments is None else arguments,
                "tool_call_id": id_,
                "part_kind": "tool-call",
            }
        case TextPart(text=text):
            yield {"content": text, "part_kind": "text"}
        # Thinking of other models is not sent to a model, and files of answers are not, either.


FORMAT = Format(
    name=NAME,
    media_type="application/jsonl",
    reads=make_reader(NAME, _read_item),
    writes=_write,
    joins=b"".join,
)
