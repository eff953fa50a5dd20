"""Read the parts of OpenTelemetry's messages for generative AI, in any of their spellings.

`Members` tracks which members of a record are read. All others are content: those that no version
of the conventions has, a second spelling with another value, and members inside `function` and
`image_url`.

Source: as `harken.formats.providers.otel_messages`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harken.core import canonical, structs
from harken.core.event_types.message_parser import MESSAGE_KEYS, encode_extra
from harken.core.messages import (
    Content,
    FunctionCall,
    ImagePart,
    Message,
    Meta,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.json_records import Record, equal_json, get_text, to_safe_json
from harken.formats.tool_calls import normalize_content, replace_surrogates

DATA_URL_PATTERN = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)
IS_ERROR = "is_error"
"""A member beyond the conventions that marks an error result."""
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_THINKING_TYPES = frozenset({"reasoning", "thinking"})
_CALL_TYPES = frozenset({"tool_call", "tool_use", "function"})
_RESULT_TYPES = frozenset({"tool_call_response", "tool_result"})
_IMAGE_TYPES = frozenset({"blob", "uri", "image_url", "image"})
_TEXT_NAMES = ("content", "text", "thinking")
_RESULT_ID_NAMES = ("id", "tool_use_id", "tool_call_id")


class Members:
    """The members of a record that are not read yet."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._left = {name: value for name, value in record.items() if value is not None}

    def take(self, *names: str, kind: type | tuple[type, ...] = object) -> Any:
        """Return the first value of a kind under one of these spellings, or None.

        Equal values under other spellings are read, too; different ones stay.
        """
        values = (self._left[name] for name in names if name in self._left)
        value = next((value for value in values if isinstance(value, kind)), None)
        for name in names:
            if value is not None and name in self._left and equal_json(self._left[name], value):
                del self._left[name]
        return value

    def take_text(self, *names: str) -> str:
        """Return the first text under one of these spellings, or an empty string."""
        value = self.take(*names, kind=str)
        return replace_surrogates(value) if isinstance(value, str) else ""

    def take_members(self, name: str) -> Members:
        """Return the members of an inner object. `put_back` returns those that are not read."""
        value = self._left.pop(name) if isinstance(self._left.get(name), dict) else {}
        return Members(value)

    def put_back(self, name: str, inner: Members) -> None:
        """Put the members of an inner object that are not read back into this record."""
        if inner._left:
            self._left[name] = inner._left

    def put(self, name: str, value: Any) -> None:
        """Put a member back that was read, but is not understood."""
        self._left[name] = value

    def leftovers(self) -> Record:
        """Return the members that are not read, safe for every writer."""
        return {name: to_safe_json(value) for name, value in self._left.items()}


def parse_part(part: object) -> Part | ToolCall | Message:
    """Return a part, a call, or the message of a result. A part of another shape is unchanged."""
    if isinstance(part, str):
        return TextPart(replace_surrogates(part))
    if not isinstance(part, dict):
        return unknown_part(part)
    members = Members(part)
    item = _parse_known_part(part, members)
    if item is None:
        return unknown_part(part)
    leftovers = members.leftovers()
    if not leftovers:
        return item
    if isinstance(item, Message):
        other_part = unknown_part({"type": get_text(part, "type"), **leftovers})
        return structs.replace(item, content=[*_content_list(item.content), other_part])
    if not MESSAGE_KEYS.isdisjoint(leftovers):
        return unknown_part(part)
    extra: Any = encode_extra(leftovers)  # Each kind of part has another type of it.
    return structs.replace(item, extra=extra)


def parse_content_part(part: object) -> Part:
    """Return a part of a content that has neither calls nor results."""
    item = parse_part(part)
    return unknown_part(part) if isinstance(item, ToolCall | Message) else item


def unknown_part(part: object) -> UnknownPart:
    """Return a part that is stored as its JSON text."""
    kind = get_text(part, "type") if isinstance(part, dict) else ""
    return UnknownPart(replace_surrogates(kind) or "unknown", to_json_text(part))


def to_json_text(value: object) -> str:
    """Encode a value as JSON text that every writer supports."""
    try:
        return replace_surrogates(
            canonical.to_json_line(to_safe_json(value)).decode("utf-8", "replace")
        )
    except (TypeError, ValueError, RecursionError):
        return "null"


def _parse_known_part(part: Record, members: Members) -> Part | ToolCall | Message | None:
    """Return a part of a known type, and read its members. Return None for any other part."""
    kind = members.take_text("type")
    has_text = any(isinstance(part.get(name), str) for name in _TEXT_NAMES)
    if kind in _TEXT_TYPES and has_text:
        return TextPart(_take_part_text(members))
    if kind in _THINKING_TYPES and has_text:
        text, signature = _take_part_text(members), members.take_text("signature")
        return ThinkingPart(text, {"signature": signature} if signature else None)
    if kind in _CALL_TYPES:
        return _parse_call(members)
    if kind in _RESULT_TYPES:
        return _parse_result(members)
    if kind in _IMAGE_TYPES:
        return _parse_image(part, kind, members)
    return _parse_untyped_text(part, members)


def _take_part_text(members: Members) -> str:
    members.take("id")
    return members.take_text(*_TEXT_NAMES)


def _parse_untyped_text(part: Record, members: Members) -> TextPart | None:
    """Parse a part with only a text member, which some programs write without a type."""
    names = {name for name, value in part.items() if value is not None}
    if names in ({"text"}, {"content"}) and isinstance(part.get(*names), str):
        return TextPart(members.take_text(*names))
    return None


def _parse_call(members: Members) -> ToolCall:
    """Parse a call in any of its forms: flat, or with a nested `function`."""
    function = members.take_members("function")
    id_ = members.take_text("id")
    members.take("index")
    name, arguments = function.take_text("name"), function.take("arguments", "input")
    name = name or members.take_text("name")
    if arguments is None:
        arguments = members.take("arguments", "input")
    if not isinstance(arguments, str):
        arguments = to_json_text(arguments) if arguments is not None else "{}"
    members.put_back("function", function)
    return ToolCall(id_, FunctionCall(name or "unknown", replace_surrogates(arguments)))


def _parse_result(members: Members) -> Message:
    value = members.take("response", "result", "content")
    ids = [id_ for name in _RESULT_ID_NAMES if (id_ := members.take_text(name))]
    content: Content
    if isinstance(value, list) and value and all(map(_is_part, value)):
        content = normalize_content([parse_content_part(item) for item in value])
    elif value is None or isinstance(value, str):
        content = replace_surrogates(value or "")
    else:
        content = to_json_text(value)
    other_ids = [id_ for id_ in ids[1:] if id_ != ids[0]]
    if other_ids:
        content = _with_meta(content, {"ids": other_ids})
    return Message(
        "tool",
        content,
        tool_call_id=ids[0] if ids else "",
        name=members.take_text("name") or None,
        is_error=members.take(IS_ERROR, kind=bool) is True,
    )


def _with_meta(content: Content, meta: Meta) -> Content:
    first, *other_parts = _content_list(content) or [TextPart("")]
    return [structs.replace(first, meta=meta), *other_parts]


def _content_list(content: Content) -> list[Any]:
    return content if isinstance(content, list) else [TextPart(content)] if content else []


def _is_part(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _parse_image(part: Record, kind: str, members: Members) -> ImagePart | None:
    """Parse an image in any of its forms. Return None if the part is no image."""
    inner = members.take_members("image_url")
    url = inner.take_text("url") or members.take_text("uri", "url", "image_url")
    members.put_back("image_url", inner)
    media_type = members.take_text("mime_type", "media_type")
    inline = DATA_URL_PATTERN.match(url)
    if inline is not None and media_type not in ("", inline[1]):
        inline = None  # The URL states another type.
    data = inline[2] if inline else "" if url else members.take_text("content", "data")
    media_type = media_type or (inline[1] if inline else "")
    is_image = get_text(part, "modality") == "image" or kind.startswith("image")
    if not (is_image or media_type.startswith("image/")) or not (data or url):
        return None
    if members.take("modality") not in (None, "image"):
        return None
    members.take("id")
    if data:
        return ImagePart(media_type or None, data)
    return ImagePart(media_type or None, url=url)
