"""Read OpenTelemetry's messages for generative AI; `otel_writer` writes them.

A message is a role and parts in both models; only results differ: an OpenTelemetry message may hold
several results beside other parts, and in Harken each is a separate message. Foreign input is
parsed as far as possible, and stored unchanged otherwise: no part and no member is lost, and no
input raises.

Source: open-telemetry/semantic-conventions-genai, `gen-ai-input-messages.json`,
`gen-ai-output-messages.json`, `gen-ai-system-instructions.json`, `gen-ai-tool-definitions.json`,
as of the version in `otel_attributes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from harken.core import canonical
from harken.core.event_types.message_parser import MESSAGE_KEY
from harken.core.messages import (
    Content,
    Message,
    Part,
    Role,
    ToolCall,
)
from harken.formats.first_part import add_leftover, take_leftover
from harken.formats.json_records import Record, equal_json, get_object, get_text, to_safe_json
from harken.formats.providers.otel_parts import (
    Members,
    parse_content_part,
    parse_part,
    unknown_part,
)
from harken.formats.tool_calls import build_assistant_message, normalize_content, replace_surrogates

Json: TypeAlias = dict[str, Any]

_ROLES: Mapping[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
_MESSAGE_BOOKKEEPING = ("id", "index", "finish_reason")
"""Members that number a message or describe its call."""
_SCHEMAS = ("parameters", "input_schema", "parameters_json_schema")


def messages_from_otel(value: object, role: str = "user") -> list[Message]:
    """Return the messages in an attribute: a list of messages, or its JSON text.

    role: for messages without a role, and for a text that is no JSON.

    >>> messages_from_otel('[{"role":"user","parts":[{"type":"text","content":"hi"}]}]')[0].content
    'hi'
    """
    records, _ = records_of(value)
    return [message for record in records for message in messages_of_record(record, role)]


def records_of(value: object) -> tuple[list[Any], Record]:
    """Return the records of messages in an attribute, and the other members of their container."""
    value = parse_attribute_value(value)
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        members = {name: inner for name, inner in value.items() if name != "messages"}
        return value["messages"], members
    if value in (None, ""):
        return [], {}
    return (value if isinstance(value, list) else [value]), {}


def messages_of_record(record: object, role: str) -> list[Message]:
    """Return the messages of one record: an object, a text, or any other value, unchanged."""
    if isinstance(record, dict):
        return message_from_otel(record, role)
    if isinstance(record, str):
        return [Message(_ROLES.get(role.lower(), "user"), replace_surrogates(record))]
    return [Message(_ROLES.get(role.lower(), "user"), [unknown_part(record)])]


def instructions_from_otel(value: object) -> list[Message]:
    """Return system instructions as system messages, one for each part."""
    value = parse_attribute_value(value)
    if value in (None, ""):
        return []
    messages: list[Message] = []
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict) and ("parts" in part or "role" in part):
            messages += message_from_otel(part, "system")
        elif part not in (None, ""):
            messages.append(Message("system", normalize_content([parse_content_part(part)])))
    return messages


def tools_from_otel(value: object) -> list[Json]:
    """Return tool definitions as `name`, `description`, `parameters`, and their other members.

    A definition without a name is unchanged.
    """
    value = parse_attribute_value(value)
    if not isinstance(value, list):
        return []
    return [_parse_tool(tool) for tool in value if isinstance(tool, dict)]


def _parse_tool(tool: Record) -> Json:
    members = Members(tool)
    function = members.take_members("function")
    name = function.take_text("name") or members.take_text("name")
    if not name:
        unchanged: Json = to_safe_json(tool)
        return unchanged
    if tool.get("type") == "function":
        members.take("type")
    description = function.take_text("description") or members.take_text("description")
    schema = function.take(*_SCHEMAS, kind=dict) or members.take(*_SCHEMAS, kind=dict) or {}
    members.put_back("function", function)
    fields = {"name": name, "description": description, "parameters": to_safe_json(schema)}
    return join_members([*members.leftovers().items(), *fields.items()])


def message_from_otel(record: Record, role: str = "user") -> list[Message]:
    """Return the messages of one record: one message, and one for each result in it.

    The record may also have the form of clients: `content`, `tool_calls`, `tool_call_id`.
    """
    members = Members(record)
    role = _take_role(members, role)
    messages = _parse_message(record, role, members)
    for name in _MESSAGE_BOOKKEEPING:
        members.take(name)
    # Attributes of events have names with dots, and are no members of a message.
    leftovers = {name: value for name, value in members.leftovers().items() if "." not in name}
    return with_members(messages, leftovers)


def with_members(messages: Sequence[Message], members: Record) -> list[Message]:
    """Return messages with other members of their record, in the `extra` of the first part."""
    if not members:
        return [*messages]
    first, leftover = take_leftover(messages[0])
    both = {**get_object(leftover, MESSAGE_KEY), **members}
    return [add_leftover(first, {MESSAGE_KEY: both}), *messages[1:]]


def _take_role(members: Members, default: str) -> Role:
    """Read the role. One of another name is read as the user's, and stays a member."""
    name = members.take("role", kind=str)
    role = _ROLES.get((name or default).lower())
    if role is None and name:
        members.put("role", name)
    return role or "user"


def _parse_message(record: Record, role: Role, members: Members) -> list[Message]:
    parts = members.take("parts", kind=list)
    name = members.take_text("name") or None
    if role == "tool":
        id_ = members.take_text("tool_call_id") or get_text(record, "id")
        if parts is None:
            return [_tool_message(id_, name, _take_content(members))]
        items = [parse_part(part) for part in parts]
        messages = [
            item if isinstance(item, Message) else _tool_message(id_, name, [part])
            for part, item in zip(parts, items, strict=True)
        ]
        return messages or [Message(role, "", tool_call_id=id_, name=name)]
    if parts is None:
        calls = members.take("tool_calls", kind=list) or []
        parts = [*_take_content(members), *map(_with_call_type, calls)]
    items = [parse_part(part) for part in parts]
    if any(isinstance(item, ToolCall) for item in items) and not get_text(record, "role"):
        role = "assistant"
    if role != "assistant":
        pairs = zip(items, parts, strict=True)
        items = [unknown_part(p) if isinstance(i, ToolCall) else i for i, p in pairs]
    return _split_results(role, items, name)


def _take_content(members: Members) -> Sequence[Any]:
    """Return the blocks of a content in the form of clients: a text, a block, or a list of both."""
    content = parse_attribute_value(members.take("content"))
    return content if isinstance(content, list) else [] if content is None else [content]


def _with_call_type(call: object) -> object:
    return {"type": "tool_call", **call} if isinstance(call, dict) else call


def parse_attribute_value(value: object) -> Any:
    """Return the value of an attribute that may hold JSON as a text. Other texts stay unchanged.

    A member that an object has twice, with different values, has a number in its earlier name.

    >>> parse_attribute_value("[1]"), parse_attribute_value("[hook]: no")
    ([1], '[hook]: no')
    >>> parse_attribute_value('{"a":1,"a":2}')
    {'a': 2, 'a#1': 1}
    """
    if isinstance(value, str) and value[:64].lstrip()[:1] in ("[", "{"):
        try:
            data = value.encode("utf-8", "surrogatepass")
            return canonical.from_json(data, join_members)
        except ValueError:
            return value
    return value


def join_members(pairs: Iterable[tuple[str, Any]]) -> Json:
    """Return an object of members. An earlier value of a repeated name has a number in its name."""
    pairs = [*pairs]
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    for name, value in pairs:
        if not equal_json(members[name], value):
            number = next(n for n in range(1, len(pairs) + 1) if f"{name}#{n}" not in members)
            members[f"{name}#{number}"] = value
    return members


def _split_results(
    role: Role, items_: Sequence[Part | ToolCall | Message], name: str | None
) -> list[Message]:
    """Return results as separate messages, and the items between them, in order."""
    messages: list[Message] = []
    pending: list[Part | ToolCall] = []
    for item in [*items_, None]:
        if item is not None and not isinstance(item, Message):
            pending.append(item)
            continue
        if pending:
            messages.append(_build_message(role, pending, name))
            pending = []
        if item is not None:
            messages.append(item)
    return messages or [Message(role, "", name=name)]


def _build_message(role: Role, items: Sequence[Part | ToolCall], name: str | None) -> Message:
    if role == "assistant":
        message = build_assistant_message(items)
    else:
        parts = [item for item in items if not isinstance(item, ToolCall)]  # There are no others.
        message = Message(role, normalize_content(parts))
    return message if name is None else _with_name(message, name)


def _with_name(message: Message, name: str) -> Message:
    return Message(message.role, message.content, message.tool_calls, name=replace_surrogates(name))


def _tool_message(id_: str, name: str | None, blocks: Sequence[object]) -> Message:
    """Return the result for a complete message of role `tool`."""
    content: Content = normalize_content([*map(parse_content_part, blocks)]) if blocks else ""
    return Message("tool", content, tool_call_id=replace_surrogates(id_), name=name)
