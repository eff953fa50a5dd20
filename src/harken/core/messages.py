"""Parts and messages: the input and output of a model.

A message is content plus the data of one occurrence (call ids, signatures, native ids). The two
are split and joined without loss: `join_occurrence(*split_occurrence(m)) == m`. Only the content is
hashed, so equal prompts and tool outputs are one object, independent of the call that they answer.
Members of a native block that no field carries are content: they stand in `extra`, and are hashed.
In a log a message is flat, with the names of the specification: `role`, `content`
(text, or a list of parts), `tool_calls`, `tool_call_id`, `name`.

Source: docs/formats/session-log.md, "Messages" and "Identity".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, get_args

import msgspec

from harken.core import canonical

Role: TypeAlias = Literal["user", "assistant", "tool", "system"]
Meta: TypeAlias = dict[str, Any]
"""Data of one occurrence of a part: signatures, native ids. It is not hashed."""
Extra: TypeAlias = str
"""Content of a native block that no field carries, hashed: a JSON object as canonical text."""


class _Part(
    msgspec.Struct,
    tag_field="type",
    omit_defaults=True,
    repr_omit_defaults=True,
    frozen=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """The base class of all kinds of parts. The JSON member `type` names the kind."""


class TextPart(_Part, tag="text", frozen=True):
    """Readable text."""

    text: str
    meta: Meta | None = None
    extra: Extra | None = None


class ThinkingPart(_Part, tag="thinking", frozen=True):
    """The thinking of a model; its signature or encrypted form is in `meta`."""

    text: str
    meta: Meta | None = None
    extra: Extra | None = None


class ImagePart(_Part, tag="image", frozen=True):
    """An image: `data` in base64, or a `url`."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    meta: Meta | None = None
    extra: Extra | None = None


class UnknownPart(_Part, tag="other", frozen=True):
    """A block of a kind that Harken does not model: its native kind and its JSON text, verbatim."""

    kind: str
    data: str
    meta: Meta | None = None
    extra: Extra | None = None


class ToolCallSlot(_Part, tag="call", frozen=True):
    """The position of a tool call among the parts; the call itself is in `tool_calls`."""

    id: str


Part: TypeAlias = TextPart | ThinkingPart | ImagePart | UnknownPart
ContentPart: TypeAlias = TextPart | ThinkingPart | ImagePart | UnknownPart | ToolCallSlot
Content: TypeAlias = str | list[ContentPart] | None


class FunctionCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The name of a tool and its arguments, verbatim as the model wrote them (JSON text)."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One call of a tool. `type` is `function`, or `custom` for tools that take free text."""

    id: str
    function: FunctionCall
    type: str = "function"
    meta: Meta | msgspec.UnsetType = msgspec.UNSET
    extra: Extra | msgspec.UnsetType = msgspec.UNSET


class ChatMessage(Protocol):
    """The attributes of every message, in a log or alone."""

    @property
    def role(self) -> Role: ...
    @property
    def content(self) -> Content: ...
    @property
    def tool_calls(self) -> list[ToolCall] | None: ...
    @property
    def tool_call_id(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def is_error(self) -> bool: ...


class Message(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """A message outside of a log. In a log it is a `TranscriptEntry` with the same members."""

    role: Role
    content: Content = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False


class Occurrence(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """The data of a message that is not part of its content hash."""

    shape: Literal["none", "text", "list", "placed"] = "text"
    """The flat form of the content: absent, a string, a list of parts followed by the calls,
    or a list with a slot for every call."""
    calls: list[dict[str, Any]] = []
    """For each tool call, in order: its `id`, and its `meta` if it has one."""
    metas: dict[str, Meta] = {}
    """Position of a content part (as text) -> its meta."""
    tool_call_id: str | None = None
    name: str | None = None


_DEFAULT_OCCURRENCE = Occurrence()
_TEXT_MEMBERS = {"text", "type"}
_ROLES = frozenset(get_args(Role))


class MessageContent(msgspec.Struct, frozen=True):
    """A role and its parts, as JSON values without ids. The hash of a message covers it."""

    role: Role
    parts: list[dict[str, Any]]


def text_of(content: Content) -> str:
    r"""Return the readable text of a content: its text parts, joined by a blank line.

    >>> text_of([ThinkingPart("hm"), TextPart("Hi"), TextPart("Jill")])
    'Hi\n\nJill'
    """
    if content is None or isinstance(content, str):
        return content or ""
    return "\n\n".join(part.text for part in content if isinstance(part, TextPart))


def parts_of(content: Content) -> list[Part]:
    """Return the parts of a content, without the slots of calls. A text is one part.

    >>> parts_of("Hi")
    [TextPart(text='Hi')]
    """
    if isinstance(content, str):
        return [TextPart(content)]
    return [part for part in content or () if not isinstance(part, ToolCallSlot)]


PART_TYPES: dict[str, type[msgspec.Struct]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (TextPart, ThinkingPart, ImagePart, UnknownPart, ToolCallSlot)
}


def replace_content_text(content: Content, text: str) -> Content:
    """Return a content with another text; its other parts stay. An empty text removes the text.

    >>> replace_content_text([TextPart("a"), TextPart("b")], "c")
    [TextPart(text='c')]
    """
    if not isinstance(content, list):
        return text or None
    parts: list[ContentPart] = [part for part in content if not isinstance(part, TextPart)]
    is_text = [isinstance(part, TextPart) for part in content]
    if True in is_text:
        index = is_text.index(True)
    else:
        index = sum(1 for part in content if isinstance(part, ThinkingPart))
    return [*parts[:index], *([TextPart(text)] if text else []), *parts[index:]] or None


def check_message(message: ChatMessage) -> None:
    """Raise ValueError or TypeError if a program built a message that no reader would accept.

    A `Message` does not check its members, because almost all come from checked sources.
    """
    if message.role not in _ROLES:
        raise ValueError(f"role must be one of {', '.join(get_args(Role))}, not {message.role!r}")
    content, calls = message.content, message.tool_calls
    is_list = isinstance(content, list) and all(isinstance(part, _Part) for part in content)
    if not (content is None or isinstance(content, str) or is_list):
        kind = type(content).__name__
        raise TypeError(f"content must be a str, a list of parts, or None, not of type {kind}")
    if not (calls is None or all(isinstance(call, ToolCall) for call in calls)):
        raise TypeError("tool_calls must be a list of ToolCall, or None")


def split_occurrence(message: ChatMessage) -> tuple[MessageContent, Occurrence]:
    """Split a message into its content and its occurrence.

    Insignificant details are dropped: an empty list of calls becomes None, `is_error` is kept only
    for results, and calls with slots are ordered by their slots. Raises ValueError if the slots do
    not match the calls one to one.
    """
    items, occurrence = split_parts(message)
    parts = [_content_value(item) for item in items]
    if message.role == "tool":
        parts = [{"type": "tool_result", "content": parts, "is_error": message.is_error}]
    return MessageContent(message.role, parts), occurrence


def split_parts(message: ChatMessage) -> tuple[list[Part | ToolCall], Occurrence]:
    """Return the parts and calls of a message in order, and its occurrence.

    Raises ValueError as `split_occurrence`.
    """
    content, calls = message.content, message.tool_calls or []
    if isinstance(content, str) and not calls:  # a fast path for most messages
        if message.tool_call_id is None and message.name is None:
            return [TextPart(content)], _DEFAULT_OCCURRENCE
        id_, name = message.tool_call_id, message.name
        return [TextPart(content)], Occurrence(tool_call_id=id_, name=name)
    shape: Any = "none" if content is None else "text" if isinstance(content, str) else "list"
    metas: dict[str, Meta] = {}
    items: list[Part | ToolCall] = []
    if isinstance(content, list) and any(isinstance(item, ToolCallSlot) for item in content):
        shape, calls = "placed", _order_by_slots(content, calls)
    for item in _iter_items(content, calls):
        if not isinstance(item, ToolCall) and item.meta is not None:
            metas[str(len(items))] = item.meta
        items.append(item)
    occurrence = Occurrence(
        shape=shape,
        calls=[_occurrence_of_call(call) for call in calls],
        metas=metas,
        tool_call_id=message.tool_call_id,
        name=message.name,
    )
    return items, occurrence


def part_bytes(message: ChatMessage, items: Sequence[Part | ToolCall]) -> list[bytes]:
    """Return the canonical bytes of the parts that a message's hash covers.

    items: the result of `split_parts`.
    """
    bodies = [_content_bytes(item) for item in items]
    if message.role != "tool":
        return bodies
    is_error = b"true" if message.is_error else b"false"
    inside = b",".join(bodies)
    return [b'{"content":[%b],"is_error":%b,"type":"tool_result"}' % (inside, is_error)]


def join_occurrence(pure: MessageContent, occurrence: Occurrence) -> Message:
    """Join a content and an occurrence into a message: the inverse of `split_occurrence`.

    Both may come from untrusted sources. Raises ValueError, LookupError, TypeError or StopIteration
    if they do not match or have wrong types; a returned message is always valid.
    """
    parts, is_error = pure.parts, False
    if pure.role not in _ROLES:
        raise ValueError(f"unknown role {pure.role!r}")
    if (
        occurrence == _DEFAULT_OCCURRENCE
        and len(parts) == 1
        and pure.role != "tool"
        and {*parts[0]} == _TEXT_MEMBERS
    ):
        return Message(pure.role, _part_text(parts[0]))  # a fast path for most messages
    if pure.role == "tool":
        parts, is_error = pure.parts[0]["content"], pure.parts[0]["is_error"]
        if not isinstance(is_error, bool):
            raise TypeError(f"is_error is true or false, not {is_error!r}")
    varying = iter(occurrence.calls)
    calls: list[ToolCall] = []
    items: list[ContentPart] = []
    for index, part in enumerate(parts):
        if part["type"] == "tool_call":
            calls.append(_build_call(part, next(varying)))
            if occurrence.shape == "placed":
                items.append(ToolCallSlot(calls[-1].id))
        else:
            items.append(msgspec.convert({**part, "meta": occurrence.metas.get(str(index))}, Part))
    content: Content = items
    if occurrence.shape == "none":
        content = None
    elif occurrence.shape == "text":
        content = _part_text(*parts[: len(items)])
    return Message(
        role=pure.role,
        content=content,
        tool_calls=calls or None,
        tool_call_id=occurrence.tool_call_id,
        name=occurrence.name,
        is_error=is_error,
    )


def part_hash(part: Mapping[str, Any]) -> str:
    """Return the identity of one part: 64 hex digits."""
    return canonical.hash_value(canonical.PART_DOMAIN, part)


def message_hash(message: ChatMessage) -> str:
    """Return the identity of a message: its role and the hashes of its parts, 64 hex digits.

    >>> message_hash(Message("user", "hi")) == message_hash(Message("user", [TextPart("hi")]))
    True
    """
    items, _ = split_parts(message)
    hashes = [
        canonical.hash_bytes(canonical.PART_DOMAIN, body).hex()
        for body in part_bytes(message, items)
    ]
    body = message_bytes(message.role, hashes)
    return canonical.hash_bytes(canonical.MESSAGE_DOMAIN, body).hex()


def message_bytes(role: Role, part_hashes: Sequence[str]) -> bytes:
    """Return the canonical bytes that a message's hash covers."""
    names = ",".join([f'"{name}"' for name in part_hashes]).encode()
    return b'{"parts":[%b],"role":%b}' % (names, canonical.to_canonical_bytes(role))


def extend_context_hash(before: str, message: ChatMessage) -> str:
    """Return the rolling hash of a context extended by a message (`""`: the empty context)."""
    return extend_context_hash_with(before, message_hash(message))


def extend_context_hash_with(before: str, hash: str) -> str:
    """Return the rolling hash of a context extended by a message with this hash."""
    return canonical.hash_bytes(
        canonical.CONTEXT_DOMAIN, bytes.fromhex(before) + bytes.fromhex(hash)
    ).hex()


def _iter_items(content: Content, calls: list[ToolCall]) -> Iterator[Part | ToolCall]:
    """Yield parts and calls in order; calls without a slot follow the content."""
    if isinstance(content, str):
        yield TextPart(content)
    waiting = iter(calls)
    for item in content if isinstance(content, list) else ():
        yield next(waiting) if isinstance(item, ToolCallSlot) else item
    yield from waiting


def _order_by_slots(content: list[ContentPart], calls: list[ToolCall]) -> list[ToolCall]:
    """Return the calls in the order of their slots."""
    by_id = {call.id: call for call in calls}
    places = [item.id for item in content if isinstance(item, ToolCallSlot)]
    ids = [call.id for call in calls]
    if sorted(places) != sorted(ids) or len(by_id) < len(ids):
        raise ValueError(f"the content places calls {places}, the message makes {ids}")
    return [by_id[place] for place in places]


def _content_value(item: Part | ToolCall) -> dict[str, Any]:
    """Return a part as a JSON value with all fields of its kind, without ids and meta."""
    value = _field_values(item)
    return {**value, "extra": item.extra} if item.extra else value


def _field_values(item: Part | ToolCall) -> dict[str, Any]:
    """Return the fields of a part that are content, except `extra`."""
    match item:
        case ToolCall():
            return {
                "type": "tool_call",
                "kind": item.type,
                "name": item.function.name,
                "arguments": item.function.arguments,
            }
        case ImagePart():
            return {
                "type": "image",
                "media_type": item.media_type,
                "data": item.data,
                "url": item.url,
            }
        case UnknownPart():
            return {"type": "other", "kind": item.kind, "data": item.data}
        case ThinkingPart():
            return {"type": "thinking", "text": item.text}
        case TextPart():
            return {"type": "text", "text": item.text}


def _content_bytes(item: Part | ToolCall) -> bytes:
    """Return the canonical bytes of `_content_value`: its members sorted."""
    if item.extra:
        return canonical.to_canonical_bytes(_content_value(item))
    match item:
        case TextPart():
            return b'{"text":%b,"type":"text"}' % canonical.to_canonical_bytes(item.text)
        case ThinkingPart():
            return b'{"text":%b,"type":"thinking"}' % canonical.to_canonical_bytes(item.text)
        case ToolCall():
            return b'{"arguments":%b,"kind":%b,"name":%b,"type":"tool_call"}' % (
                canonical.to_canonical_bytes(item.function.arguments),
                canonical.to_canonical_bytes(item.type),
                canonical.to_canonical_bytes(item.function.name),
            )
    return canonical.to_canonical_bytes(_field_values(item))


def _occurrence_of_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id} if call.meta is msgspec.UNSET else {"id": call.id, "meta": call.meta}


def _build_call(part: Mapping[str, Any], varying: Mapping[str, Any]) -> ToolCall:
    function = FunctionCall(part["name"], part["arguments"])
    meta, extra = varying.get("meta", msgspec.UNSET), part.get("extra", msgspec.UNSET)
    call = ToolCall(varying["id"], function, part["kind"], meta, extra)
    for text in (function.name, function.arguments, call.id, call.type, call.extra or ""):
        if not isinstance(text, str):
            raise TypeError(f"a call has texts, not {text!r}")
    return call


def _part_text(part: Mapping[str, Any]) -> str:
    """Return the text of a text part. Raises TypeError for any other part."""
    text = part["text"]
    if part.get("type") != "text" or not isinstance(text, str) or "extra" in part:
        raise TypeError(f"a text part has only a text, not {text!r}")
    return text
