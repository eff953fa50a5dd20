"""The messages of a sample of Inspect AI, and the usage of its model calls.

Long texts are attachments, `attachment://HASH`, which are replaced by their texts. The input of a
model call may name ranges of a pool of messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.messages import (
    Content,
    FunctionCall,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.json_records import (
    Record,
    as_objects,
    get_count,
    get_object,
    get_objects,
    get_text,
    to_safe_json,
)
from harken.formats.runtimes.json_lines import normalize_time
from harken.formats.runtimes.steps import INSTRUCTIONS, PROMPT, SYSTEM
from harken.formats.tool_calls import build_assistant_message

_ATTACHMENT = "attachment://"
_MAX_DEPTH = 30
_DATA_URL = "data:"
_KINDS = {"system": INSTRUCTIONS, "user": SYSTEM, "tool": "tool_result", "assistant": "response"}


def resolve_attachments(
    value: Any, attachments: Mapping[str, Any], levels: int = _MAX_DEPTH
) -> Any:
    """Return a value with the texts of its attachments. An unknown reference stays."""
    if isinstance(value, str):
        if not value.startswith(_ATTACHMENT):
            return value
        text = attachments.get(value.removeprefix(_ATTACHMENT))
        return text if isinstance(text, str) else value
    if levels == 0:
        return value
    if isinstance(value, list):
        return [resolve_attachments(item, attachments, levels - 1) for item in value]
    if isinstance(value, dict):
        return {
            name: resolve_attachments(item, attachments, levels - 1) for name, item in value.items()
        }
    return value


class CallFacts(msgspec.Struct, frozen=True):
    """The facts that a model event reports of its answer."""

    source: dict[str, Any] = {}
    time: str | None = None

    @classmethod
    def from_event(cls, event: Record) -> CallFacts:
        """Return the facts of a model event."""
        output = get_object(event, "output")
        provider, _, model = get_text(event, "model").partition("/")
        response = get_object(get_object(event, "call"), "response")
        choice = next(iter(get_objects(output, "choices")), {})
        source = {
            "id": get_text(response, "id") or get_text(get_object(choice, "message"), "id"),
            "model": get_text(output, "model") or model or provider,
            "provider": provider if model else "",
            "stop_reason": get_text(choice, "stop_reason"),
            "usage": build_usage(get_object(output, "usage")),
            "error": get_text(event, "error"),
        }
        time = normalize_time(event.get("completed")) or normalize_time(event.get("timestamp"))
        return cls({name: value for name, value in source.items() if value}, time)


def build_usage(usage: Record) -> Record:
    """Return usage with disjoint counts. Of some providers, the input contains cached tokens.

    >>> build_usage({"input_tokens": 9, "output_tokens": 1, "total_tokens": 10,
    ...              "input_tokens_cache_read": 4})["input_tokens"]
    5
    """
    input_, output = get_count(usage, "input_tokens"), get_count(usage, "output_tokens")
    if input_ is None and output is None:
        return {}
    read = get_count(usage, "input_tokens_cache_read") or 0
    write = get_count(usage, "input_tokens_cache_write") or 0
    input_, output = input_ or 0, output or 0
    if get_count(usage, "total_tokens") == input_ + output:
        input_ = max(input_ - read - write, 0)
    counts: Record = {
        "input_tokens": input_,
        "output_tokens": output,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
    }
    reasoning = get_count(usage, "reasoning_tokens")
    cost = usage.get("total_cost")
    if reasoning is not None:
        counts["reasoning_tokens"] = reasoning
    if isinstance(cost, int | float) and not isinstance(cost, bool):
        counts["cost_usd"] = cost
    return counts


def parse_entry(
    message: Record, facts: CallFacts | None = None, time: str | None = None
) -> ConversationEntry | None:
    """Return a message with the facts of its call. Return None if it is no message."""
    role = get_text(message, "role")
    if role not in _KINDS:
        return None
    kind = PROMPT if role == "user" and get_text(message, "source") == "input" else _KINDS[role]
    source: dict[str, Any] = {"kind": kind}
    if get_text(message, "id"):
        source["message_id"] = get_text(message, "id")
    if role == "assistant":
        parsed = _parse_answer(message)
        if get_text(message, "model"):
            source["model"] = get_text(message, "model")
        if facts is not None:
            source |= facts.source
    elif role == "tool":
        parsed = _parse_result(message)
    else:
        parsed = Message(role, _parse_content(message.get("content")) or "")  # type: ignore[arg-type]
    return ConversationEntry(parsed, time or (facts.time if facts else None), source)


def _parse_answer(message: Record) -> Message:
    content = _parse_content(message.get("content"))
    parts: list[Part] = []
    if get_text(message, "reasoning"):  # In logs before content had parts with reasoning.
        parts.append(ThinkingPart(get_text(message, "reasoning")))
    if isinstance(content, str):
        parts += [TextPart(content)] if content else []
    else:
        parts += content or []  # type: ignore[arg-type]
    calls = [_parse_call(call) for call in get_objects(message, "tool_calls")]
    return build_assistant_message([*parts, *calls])


def _parse_call(call: Record) -> ToolCall:
    arguments = canonical.to_json_line(to_safe_json(get_object(call, "arguments"))).decode()
    return ToolCall(get_text(call, "id"), FunctionCall(get_text(call, "function"), arguments))


def _parse_result(message: Record) -> Message:
    error = message.get("error")
    content = _parse_content(message.get("content"))
    if isinstance(error, dict) and not content:
        content = get_text(error, "message")
    return Message(
        "tool",
        content,
        tool_call_id=get_text(message, "tool_call_id"),
        is_error=isinstance(error, dict),
    )


def _parse_content(value: object) -> Content:
    if value is None or isinstance(value, str):
        return value
    return [_parse_part(part) for part in as_objects(value)]


def _parse_part(part: Record) -> Part:
    match get_text(part, "type"):
        case "text":
            return TextPart(get_text(part, "text"))
        case "reasoning":
            return ThinkingPart(get_text(part, "reasoning") or get_text(part, "summary"))
        case "image":
            return _parse_image(get_text(part, "image"))
    return UnknownPart(get_text(part, "type"), canonical.to_json_line(to_safe_json(part)).decode())


def _parse_image(image: str) -> ImagePart:
    header, separator, data = image.partition(";base64,")
    if header.startswith(_DATA_URL) and separator:
        return ImagePart(header.removeprefix(_DATA_URL) or None, data)
    return ImagePart(None, url=image)


def expand_input(event: Record, pool: Sequence[Any]) -> list[Record]:
    """Return the input of a model event: its own messages, or those in ranges of the pool."""
    if event.get("input"):
        return get_objects(event, "input")
    messages: list[Any] = []
    refs = event.get("input_refs")
    for ref in refs if isinstance(refs, list) else ():
        if isinstance(ref, list) and len(ref) == 2 and all(isinstance(end, int) for end in ref):
            messages += pool[max(ref[0], 0) : max(ref[1], 0)]
        if len(messages) > len(pool):  # Ranges do not overlap; those of a hostile file may.
            break
    return as_objects(messages)
