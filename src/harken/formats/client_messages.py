"""`messages_in`: the messages in any value that a client or a program uses for messages.

A value may have the shape of Anthropic Messages, OpenAI Chat Completions (also their legacy
functions), OpenAI Responses, Gemini, Ollama or Harken itself; it may be one message, a list, the
body of a request or a response, and a dict or a client's object. Its shape is recognized by its
members. It is read by the lossless codec of its protocol in `harken.formats.wire`:

- All content is in the fields or the `extra` of the messages, so their hashes cover it.
- Data of the occurrence (ids, signatures, cache marks, the exact form) is in `meta`, not hashed.
- A value of no known shape becomes one "other" part with its JSON. It is reported, once for each
  kind, as a warning of the logger `harken.messages`, or to the `report` of the caller.

So `messages_in` never raises, and `messages_out` returns the exact values.

Source: docs/formats/wire.md, "Messages of any client".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias, TypeGuard

from harken.core import canonical
from harken.core.events import TranscriptEntry
from harken.core.messages import (
    ChatMessage,
    Message,
    Role,
    UnknownPart,
    check_message,
    split_occurrence,
)
from harken.errors import FormatError
from harken.formats.first_part import add_meta, take_meta, with_place_for_meta
from harken.formats.message_shape import Shape, find_messages, find_shape
from harken.formats.plain_value import safe_repr, to_plain_value
from harken.formats.wire import (
    anthropic,
    gemini,
    messages_v1,
    ollama,
    openai_chat,
    openai_responses,
)
from harken.formats.wire.piece_codec import PieceCodec

_logger = logging.getLogger("harken.messages")
_WIRE_KEY = "wire"
"""The member of the `meta` of a first part: `protocol`, `form`, and the number of `messages`."""
_CODECS: Mapping[Shape, PieceCodec] = {
    codec.name: codec
    for codec in (
        anthropic.CODEC,
        openai_chat.CODEC,
        openai_responses.CODEC,
        gemini.CODEC,
        ollama.CODEC,
        messages_v1.CODEC,
    )
}
OWN_SHAPE: Final = messages_v1.NAME
_FALLBACKS: Sequence[Shape] = (openai_chat.NAME, ollama.NAME)
"""Shapes that are tried for a message that its own shape does not understand."""
_ROLE_ALIASES = {"model": "assistant", "ai": "assistant", "human": "user"}
Report: TypeAlias = Callable[[str], None]


def messages_in(
    value: object, *, role: Role = "user", shape: Shape = "", report: Report | None = None
) -> list[Message]:
    """Return the messages in a value of any client, oldest first. Never raises.

    role: the role of a text, and of a message without a role.
    shape: the protocol of the value, such as `anthropic-messages`; recognized if empty.
    report: called for each value that is kept as opaque JSON. By default, a warning is logged once
    for each kind of such values.

    >>> message = messages_in({"role": "model", "parts": [{"text": "Hi"}]})[0]
    >>> message.role, message.content
    ('assistant', 'Hi')
    """
    tell = report or _warn_once
    try:
        if is_conversation(value):
            items = (messages_in(item, role=role, shape=shape, report=tell) for item in value)
            return [message for messages in items for message in messages]
        return [*_iter_messages(value, role, shape, tell)]
    except Exception as error:  # noqa: BLE001 - a program that logs must not fail.
        name = type(value).__name__
        tell(f"a value of type {name} could not be read as messages: {error!r:.200}")
        return [_opaque_message(_opaque_json(value), role)]


def is_conversation(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list of messages, each of which is read by itself."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def messages_out(messages: Sequence[ChatMessage], shape: Shape = OWN_SHAPE) -> list[Any]:
    """Return the values of messages in the shape of a protocol: the inverse of `messages_in`.

    Messages that `messages_in` read from values of this protocol give exactly these values.
    Raises ValueError for an unknown shape, and FormatError for a message that it cannot express.
    """
    codec = _CODECS.get(shape)
    if codec is None:
        raise ValueError(f"shape must be one of {', '.join(_CODECS)}, not {shape!r}")
    values: list[Any] = []
    index = 0
    while index < len(messages):
        first, wire = take_meta(messages[index], _WIRE_KEY)
        count, form = 1, None
        if isinstance(wire, dict) and wire.get("protocol") == shape:
            count, form = wire.get("messages", 1), wire.get("form")
        group = [first, *messages[index + 1 : index + count]]
        if len(group) < count:
            raise FormatError(shape, f"a value of {count} messages is incomplete")
        values.append(codec.write(group, form))
        index += count
    return values


def read_shape(message: ChatMessage) -> Shape:
    """Return the protocol of the value that a message was read from, if the message has its form.

    Return an empty string if the message alone determines the value, or is none of a client.
    """
    _, wire = take_meta(message, _WIRE_KEY)
    shape = wire.get("protocol") if isinstance(wire, dict) else None
    return shape if isinstance(shape, str) else ""


def _iter_messages(value: object, role: Role, shape: Shape, report: Report) -> Iterable[Message]:
    if isinstance(value, str):
        yield Message(role, str(value))
    elif isinstance(value, Message | TranscriptEntry):
        yield _copy_message(value, report)
    else:
        plain = to_plain_value(value, partial(_report_opaque, report))
        values = find_messages(plain)
        if values is None:
            yield from _read(plain, role, shape, report)
            return
        for item, default_role, item_shape in values:
            yield from _read(item, default_role or role, shape or item_shape, report)


def _read(value: Any, role: Role, shape: Shape, report: Report) -> Sequence[Message]:
    """Return the messages of one JSON value."""
    if isinstance(value, str):
        return [Message(role, value)]
    shape = shape or find_shape(value, role)
    for name in dict.fromkeys((shape, *(_FALLBACKS if shape == OWN_SHAPE else ()))):
        codec = _CODECS.get(name)
        messages = None if codec is None else _read_as(codec, value, role)
        if messages is not None:
            return messages
    names = ", ".join(sorted(value))[:80] if isinstance(value, dict) else type(value).__name__
    report(f"a message of an unknown shape is kept as it is ({names})")
    data = canonical.to_json_line(value).decode("utf-8", "surrogatepass")
    wire = {"protocol": shape or OWN_SHAPE, "form": {"as": "other"}}
    return [add_meta(_opaque_message(data, role), {_WIRE_KEY: wire})]


def _read_as(codec: PieceCodec, value: Any, role: Role) -> Sequence[Message] | None:
    """Return the messages of a value in a protocol. Return None if it is not of the protocol."""
    usual = _with_usual_role(value, role)
    messages, form = codec.read(codec.piece(usual))
    if isinstance(form, dict) and form.get("as") == "other":
        return None
    first = with_place_for_meta(messages[0])  # A form stands in the `meta` of a part.
    if usual != value or first is not messages[0]:
        messages = [first, *messages[1:]]
        form = codec.form(messages, codec.piece(value))
    if form is None and len(messages) == 1:
        return messages
    wire: dict[str, Any] = {"protocol": codec.name, "form": form}
    if len(messages) > 1:
        wire["messages"] = len(messages)
    return [add_meta(messages[0], {_WIRE_KEY: wire}), *messages[1:]]


def _with_usual_role(value: Any, role: Role) -> Any:
    """Return a message with a role that every protocol knows, if it has a role at all."""
    if not isinstance(value, dict) or "parts" in value:
        return value
    own = value.get("role")
    if own is None and "content" in value and "type" not in value:
        return {**value, "role": role}
    alias = _ROLE_ALIASES.get(own) if isinstance(own, str) else None
    return {**value, "role": alias} if alias else value


def _copy_message(message: ChatMessage, report: Report) -> Message:
    """Return a copy of a message of Harken, valid in any case."""
    copy = Message(
        role=message.role,
        content=list(message.content) if isinstance(message.content, list) else message.content,
        tool_calls=message.tool_calls or None,
        tool_call_id=message.tool_call_id,
        name=message.name,
        is_error=message.is_error,
    )
    try:
        check_message(copy)
        split_occurrence(copy)
    except (TypeError, ValueError, AttributeError) as error:
        report(f"a message is not valid and is kept as it is: {error}")
        plain = to_plain_value(copy, report)
        return _opaque_message(canonical.to_json_line(plain).decode("utf-8", "surrogatepass"))
    if isinstance(copy.content, str):
        return Message(**{**_members(copy), "content": str(copy.content)})
    return copy


def _members(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in Message.__struct_fields__}


def _opaque_message(data: str, role: Role = "user") -> Message:
    """Return a message with JSON text that no protocol understands."""
    return Message(role, [UnknownPart("", data)])


def _opaque_json(value: object) -> str:
    """Return the JSON text of a value that could not be read, or of its `repr`. Never raises."""
    for get_plain in (lambda: to_plain_value(value, _ignore), lambda: safe_repr(value)):
        with suppress(Exception):
            return canonical.to_json_line(get_plain()).decode("utf-8", "surrogatepass")
    return '""'


def _ignore(kind: str) -> None:
    del kind


def _report_opaque(report: Report, kind: str) -> None:
    report(f"a value of type {kind} is kept as text: it has no members")


@lru_cache(maxsize=1024)
def _warn_once(text: str) -> None:
    _logger.warning("%s", text)
