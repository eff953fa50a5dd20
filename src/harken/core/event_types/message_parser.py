"""Parsing of messages from dicts with Harken's own member names.

A member that Harken does not know is content: it is kept verbatim in the `extra` of its part or
call, which is hashed, and a part of an unknown kind becomes an "other" part. So two messages that
differ in any member of their content have different ids.

Source: docs/formats/session-log.md, "Unknown values".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from harken.core import canonical
from harken.core.messages import PART_TYPES, Extra, FunctionCall, Message, ToolCall, ToolCallSlot
from harken.core.secrets.redaction import Credentials

MESSAGE_KEY, FORM_KEY = "message", "form"
MESSAGE_KEYS = frozenset({MESSAGE_KEY, FORM_KEY})
"""Members of the `extra` of a first part that describe its message. No block has them in its own
`extra`."""


def parse_message(data: Mapping[str, Any]) -> Message:
    """Convert a message dict (role, content, tool_calls, ...); members of the log are ignored.

    Raises ValueError (msgspec.ValidationError) if a member has the wrong type.
    """
    members = {
        name: fit_content(name, data[name])
        for name in Message.__struct_fields__
        if data.get(name) is not None
    }
    if isinstance(members.get("content"), str):
        members["content"] = str(members["content"])  # a LoggedString becomes a plain str
    return msgspec.convert(members, Message, from_attributes=True)


def redact_message(message: Message, credentials: Credentials | None) -> Message:
    """Return a message without credentials, if they are given."""
    if credentials is None:
        return message
    data = canonical.to_json_line(message)
    redacted = credentials.replace_in_bytes(data)
    return message if redacted == data else parse_message(canonical.from_json(redacted))


def fit_content(name: str, value: Any) -> Any:
    """Return the `content` or `tool_calls` of a message dict with known parts and members only.

    A part of an unknown kind becomes an "other" part; unknown members are moved to `extra`.
    """
    if not isinstance(value, list) or name not in {"content", "tool_calls"}:
        return value
    if name == "tool_calls":
        return [_fit_call(item) for item in value]
    return [_fit_part(item) for item in value]


def drop_unknown_members(kind: type[msgspec.Struct], value: Any) -> Any:
    """Return a dict with the members of `kind` only. Other values stay unchanged."""
    if not isinstance(value, dict):
        return value
    names = kind.__struct_encode_fields__
    return {name: inner for name, inner in value.items() if name in names}


def encode_extra(members: Mapping[str, Any]) -> Extra | None:
    """Return members as the text of an `extra`. Return None if there are none.

    >>> encode_extra({"b": 1, "a": None})
    '{"a":null,"b":1}'
    """
    return canonical.to_canonical_bytes(members).decode() if members else None


def decode_extra(extra: Extra | msgspec.UnsetType | None) -> dict[str, Any]:
    """Return the members of an `extra`, none if it is absent or not a JSON object."""
    if not isinstance(extra, str) or not extra:
        return {}
    try:
        value = canonical.from_json(extra.encode("utf-8", "surrogatepass"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def block_members(extra: Extra | msgspec.UnsetType | None) -> dict[str, Any]:
    """Return the members of an `extra` that belong to the block of its part."""
    members = decode_extra(extra)
    return {name: value for name, value in members.items() if name not in MESSAGE_KEYS}


def _fit_part(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        return part
    if kind not in PART_TYPES:
        return {"type": "other", "kind": kind, "data": canonical.to_json_line(part).decode()}
    known, unknown = _split_members(PART_TYPES[kind], part)
    if kind == ToolCallSlot.__struct_config__.tag:
        return known
    return _with_extra(known, unknown)


def _fit_call(call: Any) -> Any:
    if not isinstance(call, dict):
        return call
    known, unknown = _split_members(ToolCall, call)
    if isinstance(call.get("function"), dict):
        known["function"], unknown_inside = _split_members(FunctionCall, call["function"])
        if unknown_inside:
            unknown["function"] = unknown_inside
    return _with_extra(known, unknown)


def _split_members(
    kind: type[msgspec.Struct], value: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the members that a struct has, and the others."""
    names = {*kind.__struct_encode_fields__}
    if kind is not ToolCall and kind is not FunctionCall:
        names.add("type")
    known = {name: inner for name, inner in value.items() if name in names}
    return known, {name: inner for name, inner in value.items() if name not in names}


def _with_extra(known: dict[str, Any], unknown: Mapping[str, Any]) -> dict[str, Any]:
    if unknown:
        known["extra"] = encode_extra({**decode_extra(known.get("extra")), **unknown})
    return known
