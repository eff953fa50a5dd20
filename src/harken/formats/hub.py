"""Conversion between entries and events: `entries_of(events_of(entry)) == [entry]`.

Events carry a message by themselves, the same one that a stream of events of another runtime gives.
A message is written as events for other readers; these events are read as if they were foreign; and
only the difference is added in Harken's own member. So no data is stored twice, and none is lost.

A message is one event. An answer is one event for each of its parts, and the first event holds
their number. So messages stay separate when events are joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from harken.core import canonical
from harken.core.event_types.message_parser import parse_message
from harken.core.messages import (
    PART_TYPES,
    FunctionCall,
    ImagePart,
    Message,
    MessageContent,
    Occurrence,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
    join_occurrence,
    split_occurrence,
)
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.events import (
    INSTRUCTIONS,
    NAME,
    Event,
    HarkenExtension,
    OutputEvent,
    Payload,
    PromptEvent,
    ResponseEvent,
    SystemEvent,
    ThinkingEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from harken.formats.tool_calls import build_assistant_message, parse_json_object, replace_surrogates

_PurePart: TypeAlias = dict[str, Any]
_SERVER_TOOL = "server_tool_use"
_INTEGERS = range(-(2**63), 2**64)
"""Integers that CBOR encodes without a tag and that other readers accept."""


def events_from_entry(entry: ConversationEntry) -> list[Event]:
    """Return the events of an entry, one or more. Raises ValueError as `split_occurrence`."""
    pure, occurrence = split_occurrence(entry.message)
    payloads = _payloads(pure, occurrence)
    carried, carried_occurrence = split_occurrence(_message(payloads))
    is_carried = canonical.to_canonical_bytes(carried_occurrence) == canonical.to_canonical_bytes(
        occurrence
    )
    time = entry.time
    timestamp = time if time is None or replace_surrogates(time) == time else None
    extension = HarkenExtension(
        events=len(payloads),
        parts=_changed_parts(pure.parts, carried.parts),
        occurrence=None if is_carried else occurrence,
        source=entry.source,
        time=None if timestamp == time else time,
    )
    is_marked = pure.role == "assistant" or extension != HarkenExtension()
    first = Event(payloads[0], timestamp, extension if is_marked else None)
    return [first, *(Event(payload, timestamp) for payload in payloads[1:])]


def entries_from_events(events: Sequence[Event]) -> list[ConversationEntry]:
    """Return the entries of events, oldest first. Events that are no message are skipped.

    In events of other programs, consecutive answers, thoughts and calls are one message.
    Raises FormatError.
    """
    entries: list[ConversationEntry] = []
    index = 0
    while index < len(events):
        group = _message_events(events, index)
        if _is_message(group[0]):
            entries.append(_build_entry(group))
        index += len(group)
    return entries


def _message_events(events: Sequence[Event], start: int) -> Sequence[Event]:
    """Return the events of the message at an index, or the one event that is no message."""
    extension, end = events[start].extension, start + 1
    if extension is not None:
        end = start + extension.events
        group = events[start:end]
        followers = group[1:]
        if len(group) < extension.events or any(
            e.extension or not _is_answer_part(e) for e in followers
        ):
            raise FormatError(NAME, f"a message of {extension.events} events is incomplete")
        if followers and not _is_answer_part(group[0]):
            raise FormatError(NAME, f"a message of {extension.events} events is not an answer")
    elif _is_answer_part(events[start]) and _is_message(events[start]):
        while end < len(events) and _continues_answer(events[end]):
            end += 1
    return events[start:end]


def _is_answer_part(event: Event) -> bool:
    """Whether an event can be part of an answer."""
    kinds = ResponseEvent | ThinkingEvent | ToolCallEvent | OutputEvent
    return isinstance(event.payload, kinds)


def _continues_answer(event: Event) -> bool:
    return event.extension is None and _is_answer_part(event) and _is_message(event)


def _is_message(event: Event) -> bool:
    match event.payload:
        case SystemEvent(subtype=subtype):
            return subtype == INSTRUCTIONS
        case OutputEvent():
            return event.extension is not None
        case PromptEvent() | ResponseEvent() | ThinkingEvent() | ToolCallEvent():
            return True
        case ToolResultEvent():
            return True
    return False


def _build_entry(group: Sequence[Event]) -> ConversationEntry:
    extension, timestamp = group[0].extension, group[0].timestamp
    try:
        message = _message([event.payload for event in group])
        if extension is None:
            return ConversationEntry(message, timestamp)
        if extension.parts is not None or extension.occurrence is not None:
            message = _restore_message(message, extension)
    except (LookupError, TypeError, AttributeError, ValueError, StopIteration) as error:
        raise FormatError(NAME, f"a message that does not fit together ({error!r})") from None
    return ConversationEntry(
        message, timestamp if extension.time is None else extension.time, extension.source
    )


def _restore_message(message: Message, extension: HarkenExtension) -> Message:
    """Restore the message that the events alone do not carry.

    The result is validated, because the extension may be foreign.
    """
    pure, occurrence = split_occurrence(message)
    parts = pure.parts
    if extension.parts is not None:
        parts = [pure.parts[index] if p is None else p for index, p in enumerate(extension.parts)]
    message_ = join_occurrence(MessageContent(pure.role, parts), extension.occurrence or occurrence)
    validated = parse_message(msgspec.to_builtins(message_))
    split_occurrence(validated)
    return validated


def _changed_parts(
    parts: list[_PurePart], carried: list[_PurePart]
) -> list[_PurePart | None] | None:
    if parts == carried:
        return None
    if len(parts) != len(carried):
        return [*parts]
    return [
        None if part == carried_part else part
        for part, carried_part in zip(parts, carried, strict=True)
    ]


def _payloads(pure: MessageContent, occurrence: Occurrence) -> list[Payload]:
    match pure.role:
        case "user":
            return [PromptEvent(format_parts(pure.parts))]
        case "system":
            return [SystemEvent(INSTRUCTIONS, format_parts(pure.parts))]
        case "tool":
            result = pure.parts[0]
            id_ = replace_surrogates(occurrence.tool_call_id or "")
            return [ToolResultEvent(format_parts(result["content"]), id_, result["is_error"])]
    ids = iter(occurrence.calls)
    payloads = []
    for index, part in enumerate(pure.parts):
        id_ = replace_surrogates(next(ids)["id"]) if part["type"] == "tool_call" else ""
        payloads.append(_part_payload(part, id_, occurrence.metas.get(str(index))))
    return payloads or [ResponseEvent("")]


def format_parts(parts: Iterable[_PurePart]) -> str:
    r"""Return parts as text for people and foreign programs, with marks for all other parts.

    >>> format_parts(
    ...     [{"type": "text", "text": "See:"}, {"type": "image", "media_type": "image/png"}]
    ... )
    'See:\n\n[image image/png]'
    """
    return "\n\n".join(replace_surrogates(_format_part(part)) for part in parts)


def _format_part(part: _PurePart) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image", "media_type": kind}:
            return f"[image {kind or ''}".rstrip() + "]"
        case {"type": "tool_call", "name": name}:
            return f"[call of {name}]"
        case {"type": "other", "kind": kind}:
            return f"[{kind}]"
    return f"[{part['type']}]"


def _part_payload(part: _PurePart, id_: str, meta: dict[str, Any] | None) -> Payload:
    """Return the payload for one part of an answer."""
    match part["type"]:
        case "text":
            return ResponseEvent(replace_surrogates(part["text"]))
        case "thinking":
            signature = (meta or {}).get("signature")
            is_valid = (
                isinstance(signature, str)
                and signature
                and replace_surrogates(signature) == signature
            )
            return ThinkingEvent(replace_surrogates(part["text"]), signature if is_valid else None)
        case "tool_call":
            return ToolCallEvent(id_, replace_surrogates(part["name"]), _input(part["arguments"]))
        case "other":
            return _native_payload(part)
    return OutputEvent(canonical.to_canonical_bytes(part).decode())


def _native_payload(part: _PurePart) -> Payload:
    """Return the payload of a native block: a server tool call, or the block verbatim."""
    data = replace_surrogates(part["data"])
    block = parse_json_object(data)
    if block is None or block.get("type") != part["kind"] or part["kind"] in PART_TYPES:
        return OutputEvent(canonical.to_canonical_bytes(part).decode())
    match block:
        case {
            "type": "server_tool_use",
            "id": str(id_),
            "name": str(name),
            "input": dict(arguments),
        }:
            return ToolCallEvent(id_, name, _value_or_text(arguments, "{}"), server_tool=True)
    return OutputEvent(data)


def _input(arguments: str) -> Any:
    """Return arguments as a JSON value, or as text if they are not a plain JSON object."""
    value = parse_json_object(arguments)
    return (
        replace_surrogates(arguments)
        if value is None
        else _value_or_text(value, replace_surrogates(arguments))
    )


def _value_or_text(value: dict[str, Any], otherwise: str) -> Any:
    return value if _has_portable_integers(value) else otherwise


def _has_portable_integers(value: object) -> bool:
    """Whether all integers in a value are in the range that every CBOR reader supports."""
    if isinstance(value, dict):
        return all(map(_has_portable_integers, value.values()))
    if isinstance(value, list):
        return all(map(_has_portable_integers, value))
    return not isinstance(value, int) or value in _INTEGERS


def _message(payloads: Sequence[Payload]) -> Message:
    """Return the message that events carry without an extension."""
    match payloads[0]:
        case PromptEvent(content=content):
            return Message("user", content)
        case SystemEvent(message=message):
            return Message("system", message or "")
        case ToolResultEvent(content=content, tool_use_id=id_, is_error=is_error):
            return Message("tool", content, tool_call_id=id_ or None, is_error=is_error)
    return build_assistant_message([_item(payload) for payload in payloads])


def _item(payload: Payload) -> Part | ToolCall:
    match payload:
        case ResponseEvent(content=content):
            return TextPart(content)
        case ThinkingEvent(content=content, signature=signature):
            return ThinkingPart(content, {"signature": signature} if signature else None)
        case ToolCallEvent(id=id_, name=name, input=arguments, server_tool=False):
            text = (
                arguments
                if isinstance(arguments, str)
                else canonical.to_json_line(arguments).decode()
            )
            return ToolCall(id_, FunctionCall(name, text))
        case ToolCallEvent(id=id_, name=name, input=arguments):
            block = {"type": _SERVER_TOOL, "id": id_, "name": name, "input": arguments}
            return UnknownPart(_SERVER_TOOL, canonical.to_json_line(block).decode())
        case OutputEvent(raw=raw):
            return _parse_part(raw)
    raise AssertionError(payload)  # `_message_events` yields no other payloads.


def _parse_part(raw: str) -> Part:
    value = canonical.from_json(raw.encode())
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "image":
        return msgspec.convert(value, ImagePart)
    if kind == "other":
        return msgspec.convert(value, UnknownPart)
    return UnknownPart(str(kind or ""), raw)
