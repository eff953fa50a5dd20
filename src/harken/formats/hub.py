"""Entries as events, and events as entries: `entries_of(events_of(entry)) == [entry]`.

One idea: what events say by themselves is a message already, the one that any stream of events of
another runtime gives. So a message is written as events for whoever reads them; these are read as
if they were foreign; and only what then differs is added in Harken's own member. Nothing has to
be said twice, and there is no case in which something is forgotten.

A message is one event, but for an answer: each of its parts is one, and the first says how many
there are. So messages stay apart, whatever is joined with what.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from harken.core import canonical
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
    message_from,
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
from harken.formats.tool_calls import as_object, clean, spoken

_PurePart: TypeAlias = dict[str, Any]
_SERVER_TOOL = "server_tool_use"
_INTEGERS = range(-(2**63), 2**64)
"""What CBOR says without a tag, as far as others can read it, too."""


def events_of(entry: ConversationEntry) -> list[Event]:
    """Return the events of an entry, one or more. Raises ValueError as `split`."""
    pure, occurrence = split_occurrence(entry.message)
    payloads = _payloads(pure, occurrence)
    said, varying = split_occurrence(_message(payloads))
    is_said = canonical.to_canonical_bytes(varying) == canonical.to_canonical_bytes(occurrence)
    time = entry.time
    timestamp = time if time is None or clean(time) == time else None
    own = HarkenExtension(
        events=len(payloads),
        parts=_unsaid(pure.parts, said.parts),
        occurrence=None if is_said else occurrence,
        source=entry.source,
        time=None if timestamp == time else time,
    )
    is_marked = pure.role == "assistant" or own != HarkenExtension()
    first = Event(payloads[0], timestamp, own if is_marked else None)
    return [first, *(Event(payload, timestamp) for payload in payloads[1:])]


def entries_of(events: Sequence[Event]) -> list[ConversationEntry]:
    """Return what events say, oldest first; what is no message is passed over.

    In events of others, answers, thoughts and calls that follow each other are one message.
    Raises FormatError.
    """
    found: list[ConversationEntry] = []
    at = 0
    while at < len(events):
        group = _group(events, at)
        if _is_message(group[0]):
            found.append(_entry(group))
        at += len(group)
    return found


def _group(events: Sequence[Event], at: int) -> Sequence[Event]:
    """Return the events of one message, or one that is none."""
    own, end = events[at].own, at + 1
    if own is not None:
        end = at + own.events
        group = events[at:end]
        rest = group[1:]
        if len(group) < own.events or any(e.own or not _is_spoken(e) for e in rest):
            raise FormatError(NAME, f"a message of {own.events} events is not whole")
        if rest and not _is_spoken(group[0]):
            raise FormatError(NAME, f"a message of {own.events} events is no answer")
    elif _is_spoken(events[at]) and _is_message(events[at]):
        while end < len(events) and _goes_on(events[end]):
            end += 1
    return events[at:end]


def _is_spoken(event: Event) -> bool:
    """Whether it can be a part of an answer."""
    kinds = ResponseEvent | ThinkingEvent | ToolCallEvent | OutputEvent
    return isinstance(event.payload, kinds)


def _goes_on(event: Event) -> bool:
    return event.own is None and _is_spoken(event) and _is_message(event)


def _is_message(event: Event) -> bool:
    match event.payload:
        case SystemEvent(subtype=subtype):
            return subtype == INSTRUCTIONS
        case OutputEvent():
            return event.own is not None
        case PromptEvent() | ResponseEvent() | ThinkingEvent() | ToolCallEvent():
            return True
        case ToolResultEvent():
            return True
    return False


def _entry(group: Sequence[Event]) -> ConversationEntry:
    own, timestamp = group[0].own, group[0].timestamp
    try:
        message = _message([event.payload for event in group])
        if own is None:
            return ConversationEntry(message, timestamp)
        if own.parts is not None or own.occurrence is not None:
            message = _exact(message, own)
    except (LookupError, TypeError, AttributeError, ValueError, StopIteration) as error:
        raise FormatError(NAME, f"a message that does not fit together ({error!r})") from None
    return ConversationEntry(message, timestamp if own.time is None else own.time, own.source)


def _exact(message: Message, own: HarkenExtension) -> Message:
    """Return the message that was meant, where events alone say less. Checked: it is foreign."""
    pure, occurrence = split_occurrence(message)
    parts = pure.parts
    if own.parts is not None:
        parts = [pure.parts[at] if p is None else p for at, p in enumerate(own.parts)]
    joined = join_occurrence(MessageContent(pure.role, parts), own.occurrence or occurrence)
    checked = message_from(msgspec.to_builtins(joined))
    split_occurrence(checked)
    return checked


def _unsaid(parts: list[_PurePart], said: list[_PurePart]) -> list[_PurePart | None] | None:
    if parts == said:
        return None
    if len(parts) != len(said):
        return [*parts]
    return [None if one == other else one for one, other in zip(parts, said, strict=True)]


def _payloads(pure: MessageContent, occurrence: Occurrence) -> list[Payload]:
    match pure.role:
        case "user":
            return [PromptEvent(readable(pure.parts))]
        case "system":
            return [SystemEvent(INSTRUCTIONS, readable(pure.parts))]
        case "tool":
            result = pure.parts[0]
            id_ = clean(occurrence.tool_call_id or "")
            return [ToolResultEvent(readable(result["content"]), id_, result["is_error"])]
    ids = iter(occurrence.calls)
    found = []
    for at, part in enumerate(pure.parts):
        id_ = clean(next(ids)["id"]) if part["type"] == "tool_call" else ""
        found.append(_spoken(part, id_, occurrence.metas.get(str(at))))
    return found or [ResponseEvent("")]


def readable(parts: Iterable[_PurePart]) -> str:
    r"""Return what a person or a foreign program reads of parts: texts, and marks for all else.

    >>> readable([{"type": "text", "text": "See:"}, {"type": "image", "media_type": "image/png"}])
    'See:\n\n[image image/png]'
    """
    return "\n\n".join(clean(_readable(part)) for part in parts)


def _readable(part: _PurePart) -> str:
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


def _spoken(part: _PurePart, id_: str, meta: dict[str, Any] | None) -> Payload:
    """Return a part of an answer as others read it."""
    match part["type"]:
        case "text":
            return ResponseEvent(clean(part["text"]))
        case "thinking":
            signature = (meta or {}).get("signature")
            is_one = isinstance(signature, str) and signature and clean(signature) == signature
            return ThinkingEvent(clean(part["text"]), signature if is_one else None)
        case "tool_call":
            return ToolCallEvent(id_, clean(part["name"]), _input(part["arguments"]))
        case "other":
            return _block(part)
    return OutputEvent(canonical.to_canonical_bytes(part).decode())


def _block(part: _PurePart) -> Payload:
    """Return a native block: a call of a server's tool, or the block itself where it is one."""
    data = clean(part["data"])
    block = as_object(data)
    if block is None or block.get("type") != part["kind"] or part["kind"] in PART_TYPES:
        return OutputEvent(canonical.to_canonical_bytes(part).decode())
    match block:
        case {"type": "server_tool_use", "id": str(id_), "name": str(name), "input": dict(given)}:
            return ToolCallEvent(id_, name, _plain(given, "{}"), server_tool=True)
    return OutputEvent(data)


def _input(arguments: str) -> Any:
    """Return arguments as a value that all can read; what is no plain JSON object stays a text."""
    value = as_object(arguments)
    return clean(arguments) if value is None else _plain(value, clean(arguments))


def _plain(value: dict[str, Any], otherwise: str) -> Any:
    return value if _fits(value) else otherwise


def _fits(value: object) -> bool:
    """Whether all integers in a value are ones that every reader of CBOR has."""
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    if isinstance(value, list):
        return all(map(_fits, value))
    return not isinstance(value, int) or value in _INTEGERS


def _message(payloads: Sequence[Payload]) -> Message:
    """Return what events of one message say by themselves."""
    match payloads[0]:
        case PromptEvent(content=content):
            return Message("user", content)
        case SystemEvent(message=message):
            return Message("system", message or "")
        case ToolResultEvent(content=content, tool_use_id=id_, is_error=is_error):
            return Message("tool", content, tool_call_id=id_ or None, is_error=is_error)
    return spoken([_item(payload) for payload in payloads])


def _item(payload: Payload) -> Part | ToolCall:
    match payload:
        case ResponseEvent(content=content):
            return TextPart(content)
        case ThinkingEvent(content=content, signature=signature):
            return ThinkingPart(content, {"signature": signature} if signature else None)
        case ToolCallEvent(id=id_, name=name, input=given, server_tool=False):
            text = given if isinstance(given, str) else canonical.to_json_line(given).decode()
            return ToolCall(id_, FunctionCall(name, text))
        case ToolCallEvent(id=id_, name=name, input=given):
            block = {"type": _SERVER_TOOL, "id": id_, "name": name, "input": given}
            return UnknownPart(_SERVER_TOOL, canonical.to_json_line(block).decode())
        case OutputEvent(raw=raw):
            return _part_in(raw)
    raise AssertionError(payload)  # `_group` lets nothing else through


def _part_in(raw: str) -> Part:
    value = canonical.from_json(raw.encode())
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "image":
        return msgspec.convert(value, ImagePart)
    if kind == "other":
        return msgspec.convert(value, UnknownPart)
    return UnknownPart(str(kind or ""), raw)
