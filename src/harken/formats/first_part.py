"""Content and metadata of a message beside its fields: the `extra` and `meta` of its first part.

Content of a native message that no field carries, its leftover, stands in the `extra` of the first
part or call, so the hash of the message covers it. `meta` holds data of the occurrence.

Source: docs/formats/wire.md, "Leftovers".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from harken.core import structs
from harken.core.event_types.message_parser import MESSAGE_KEYS, decode_extra, encode_extra
from harken.core.messages import ChatMessage, Message, Meta, Part, TextPart, ToolCall, ToolCallSlot
from harken.formats.tool_calls import iter_items, normalize_content

_Message = TypeVar("_Message", bound=ChatMessage)


def add_leftover(message: Message, leftover: Mapping[str, Any]) -> Message:
    """Return a message with a leftover in its first part or call."""
    return _replace_first(message, lambda extra: {**extra, **leftover})


def take_leftover(message: _Message) -> tuple[_Message | Message, dict[str, Any]]:
    """Return a message without its leftover, and the leftover."""
    first = next(iter_items(message), None)
    if first is None or not first.extra:
        return message, {}
    leftover = {n: v for n, v in decode_extra(first.extra).items() if n in MESSAGE_KEYS}
    if not leftover:
        return message, {}
    bare = _replace_first(
        message, lambda extra: {n: v for n, v in extra.items() if n not in MESSAGE_KEYS}
    )
    return _join_lone_text(bare), leftover


def with_place_for_meta(message: Message) -> Message:
    """Return an equal message with no empty `meta` in its first part or call.

    A message without parts and calls gets an empty text. `take_meta` then restores the message.
    """
    bare = with_first_part(message)
    items = [*iter_items(bare)]
    if items[0].meta == {}:
        empty: Any = msgspec.UNSET if isinstance(items[0], ToolCall) else None
        bare = _with_item(bare, items, structs.replace(items[0], meta=empty))
    return _join_lone_text(bare)


def with_first_part(message: Message) -> Message:
    """Return a message with an empty text if it has neither parts nor calls."""
    if message.content or message.tool_calls or message.content == "":
        return message
    return structs.replace(message, content="")


def has_meta(message: ChatMessage) -> bool:
    """Whether a part or a call of a message has a `meta` that is not empty."""
    return any(item.meta for item in iter_items(message))


def without_meta(message: Message) -> Message:
    """Return a message without the data of its occurrence, except ids and names."""
    content, calls = message.content, message.tool_calls
    if isinstance(content, list):
        content = [
            part if isinstance(part, ToolCallSlot) else structs.replace(part, meta=None)
            for part in content
        ]
    if calls:
        calls = [structs.replace(call, meta=msgspec.UNSET) for call in calls]
    return structs.replace(message, content=content, tool_calls=calls)


def add_meta(message: Message, meta: Meta) -> Message:
    """Return a message with a `meta` in its first part or call."""
    items = [*iter_items(message)] or [TextPart("")]
    old = items[0].meta if isinstance(items[0].meta, dict) else {}
    return _with_item(message, items, structs.replace(items[0], meta={**old, **meta}))


def take_meta(message: ChatMessage, name: str) -> tuple[ChatMessage, Any]:
    """Return a message without a member of the `meta` of its first part or call, and its value."""
    items = [*iter_items(message)]
    meta = items[0].meta if items else None
    if not isinstance(meta, dict) or name not in meta:
        return message, None
    remaining: Any = {key: value for key, value in meta.items() if key != name} or None
    if remaining is None and isinstance(items[0], ToolCall):
        remaining = msgspec.UNSET
    bare = _with_item(message, items, structs.replace(items[0], meta=remaining))
    return _join_lone_text(bare), meta[name]


def _join_lone_text(message: Message) -> Message:
    """Return a message with one plain text as a string."""
    match message.content:
        case [TextPart(meta=meta, extra=extra) as only] if not meta and not extra:
            return structs.replace(message, content=normalize_content([only]))
    return message


def _replace_first(message: ChatMessage, change: Any) -> Message:
    """Return a message in which the members of the first item's `extra` are changed."""
    items = [*iter_items(message)] or [TextPart("")]
    extra: Any = encode_extra(change(decode_extra(items[0].extra)))
    if extra is None and isinstance(items[0], ToolCall):
        extra = msgspec.UNSET
    return _with_item(message, items, structs.replace(items[0], extra=extra))


def _with_item(
    message: ChatMessage, items: Sequence[Part | ToolCall], first: Part | ToolCall
) -> Message:
    """Return a message with another first item."""
    members = {name: getattr(message, name) for name in Message.__struct_fields__}
    content, calls = message.content, list(message.tool_calls or ())
    if isinstance(first, ToolCall):
        index = next(index for index, call in enumerate(calls) if call is items[0])
        calls[index] = first
        return Message(**{**members, "tool_calls": calls})
    remaining = content[1:] if isinstance(content, list) else []
    return Message(**{**members, "content": [first, *remaining]})
