"""`adk-events-v1`: the events of a session of Google's Agent Development Kit (ADK).

A line of JSON for each event, as its model writes it with the names of Google's protocol. The
content of an event is one of Gemini: an answer, calls, or results. Events without a content have no
message.

Source: docs/formats/framework-items.md, "Events of Google ADK".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from harken.core.clock import format_rfc3339, parse_rfc3339
from harken.core.messages import FunctionCall, Message, ToolCall
from harken.formats.base import ConversationEntry, Format
from harken.formats.client_messages import messages_in, messages_out, read_shape
from harken.formats.frameworks.item_lines import encode_item, join_lines
from harken.formats.frameworks.item_reader import make_reader
from harken.formats.json_records import get_count, get_object, get_objects, get_text, to_safe_json

NAME = "adk-events-v1"
_SHAPE = "gemini"
_USER = "user"


def outline_events(events: Iterable[Any]) -> list[Message]:
    """Return the messages of events with their texts and calls only, to summarize them."""
    return [
        message
        for event in events
        if isinstance(event, dict) and isinstance(event.get("content"), dict)
        for message in _outline_content(event["content"])
    ]


def _outline_content(content: dict[str, Any]) -> list[Message]:
    parts = get_objects(content, "parts")
    text = "\n".join(get_text(part, "text") for part in parts if "text" in part)
    if content.get("role") == "model":
        calls = [get_object(part, "functionCall") for part in parts if part.get("functionCall")]
        return [
            Message(
                "assistant",
                text or None,
                [
                    ToolCall(
                        get_text(call, "id"),
                        FunctionCall(
                            get_text(call, "name"),
                            encode_item(call.get("args")).decode("utf-8", "replace"),
                        ),
                    )
                    for call in calls
                ]
                or None,
            )
        ]
    results = [Message("tool", "") for part in parts if part.get("functionResponse")]
    return [*results, *([Message("user", text)] if text else [])]


def _read_event(event: Any) -> Iterator[ConversationEntry]:
    if not isinstance(event, dict) or not isinstance(event.get("content"), dict):
        return
    content = event["content"]
    parts = [_read_part(part) for part in get_objects(content, "parts")]
    role = get_text(content, "role") or _USER
    time, source = _read_time(event.get("timestamp")), _read_source(event)
    for message in messages_in({"role": role, "parts": parts}, shape=_SHAPE):
        yield ConversationEntry(message, time, source)
        source = {name: value for name, value in source.items() if name != "usage"}


def _read_part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part with its bytes in the usual base64, and not in that for addresses."""
    blob = part.get("inlineData")
    if not isinstance(blob, dict) or not isinstance(blob.get("data"), str):
        return part
    data = blob["data"].replace("-", "+").replace("_", "/")
    return {**part, "inlineData": {**blob, "data": data}}


def _read_source(event: dict[str, Any]) -> dict[str, Any]:
    counts = get_object(event, "usageMetadata")
    names = {
        "input_tokens": "promptTokenCount",
        "output_tokens": "candidatesTokenCount",
        "cache_read_tokens": "cachedContentTokenCount",
    }
    usage = {name: get_count(counts, member) for name, member in names.items()}
    members = {
        "author": event.get("author"),
        "event": event.get("id"),
        "invocation": event.get("invocationId"),
        "branch": event.get("branch"),
        "model": event.get("modelVersion"),
        "stop_reason": event.get("finishReason"),
        "usage": {name: count for name, count in usage.items() if count is not None},
    }
    return {name: to_safe_json(value) for name, value in members.items() if value}


def _read_time(value: object) -> str | None:
    """Return the time of seconds since 1970."""
    with suppress(ValueError, OverflowError):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return format_rfc3339(round(value * 1_000_000))
    return None


def _write(entries: Sequence[ConversationEntry]) -> bytes:
    events = (_write_entry(entry, number) for number, entry in enumerate(entries))
    return join_lines(map(encode_item, events))


def _write_entry(entry: ConversationEntry, number: int) -> dict[str, Any]:
    """Return the event of an entry. A conversation has the same events each time."""
    message = entry.message
    if read_shape(message) != _SHAPE and message.role == "system":
        message = Message("user", message.content)
    source = entry.source or {}
    is_answer = message.role == "assistant"
    return {
        "id": get_text(source, "event") or f"entry-{number}",
        "author": get_text(source, "author") or ("model" if is_answer else _USER),
        "invocationId": get_text(source, "invocation") or "earlier",
        "timestamp": parse_rfc3339(entry.time) / 1_000_000 if entry.time else 0.0,
        "content": messages_out([message], _SHAPE)[0],
    }


FORMAT = Format(
    name=NAME,
    media_type="application/jsonl",
    reads=make_reader(NAME, _read_event),
    writes=_write,
    joins=b"".join,
)
