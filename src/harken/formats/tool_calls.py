"""Encoding of tool calls for providers: ids, names, arguments and the positions of calls.

A model may write any name and any arguments, and a server may omit or repeat ids. The encoded call
must pass the checks of providers and be the same in each request: it depends only on the call and
on the calls before it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from harken.core import canonical
from harken.core.messages import (
    ChatMessage,
    Content,
    ContentPart,
    Message,
    Meta,
    Part,
    TextPart,
    ToolCall,
    ToolCallSlot,
)
from harken.core.stream import PartDelta

TOKEN_COUNT_LIMIT = 1 << 40
"""Exclusive limit for token counts. A larger count is invalid."""
_MAX_DEPTH = 64
"""Arguments nested deeper are sent as text, because servers and libraries have limits."""


class EncodedToolCall(msgspec.Struct, frozen=True):
    """A tool call in the form that providers accept."""

    id: str
    name: str
    arguments: dict[str, Any]
    text: str
    """The arguments as JSON text: verbatim if the model wrote an object."""
    meta: Meta
    """Provider data of the call. Only members that the format knows are sent."""


class Ids(Protocol):
    """Assigns each call of a conversation a unique id."""

    def new(self, raw: str) -> str:
        """Return the id of the next call. The same calls in the same order get the same ids."""
        ...


class CallIds(msgspec.Struct):
    """Assigns each call of a conversation a unique id of at most `length` characters.

    A well-formed id that is not in use yet stays unchanged.
    """

    length: int
    _used_ids: set[str] = msgspec.field(default_factory=set)

    def new(self, raw: str) -> str:
        """Return the id of the next call. The same calls in the same order get the same ids."""
        base = candidate = sanitize_name(raw, self.length) or "call"
        count = 1
        while candidate in self._used_ids:
            count += 1
            end = f"_{count}"
            candidate = base[: self.length - len(end)] + end
        self._used_ids.add(candidate)
        return candidate


class ShortIds(msgspec.Struct):
    """Assigns each call an id of nine letters and digits, as Mistral and its templates require.

    An id of this form that is not in use yet stays unchanged.

    >>> ids = ShortIds()
    >>> ids.new("D681PevKs"), ids.new("call_0"), ids.new("call_0")
    ('D681PevKs', 'a49649a15', '2ec0689e5')
    """

    _used_ids: set[str] = msgspec.field(default_factory=set)

    def new(self, raw: str) -> str:
        """Return the id of the next call. The same calls in the same order get the same ids."""
        candidate, count = raw, 0
        while not re.fullmatch("[a-zA-Z0-9]{9}", candidate) or candidate in self._used_ids:
            count += 1
            candidate = hashlib.sha256(replace_surrogates(f"{count} {raw}").encode()).hexdigest()[
                :9
            ]
        self._used_ids.add(candidate)
        return candidate


def sanitize_name(text: str, length: int) -> str:
    """Replace characters that providers refuse in names and ids, and truncate to `length`.

    >>> sanitize_name("mcp/read file", 64)
    'mcp_read_file'
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text)[:length]


def encode_tool_call(call: ToolCall, ids: Ids, name_length: int) -> EncodedToolCall:
    """Return a call that can be sent. Arguments that are no JSON object are wrapped in `input`."""
    text = call.function.arguments
    arguments = parse_json_object(text)
    if arguments is None:
        arguments = {"input": replace_surrogates(text)} if text.strip() else {}
        text = canonical.to_json_line(arguments).decode()
    name = sanitize_name(call.function.name, name_length) or "unknown"
    meta = call.meta if isinstance(call.meta, dict) else {}
    return EncodedToolCall(ids.new(call.id), name, arguments, replace_surrogates(text), meta)


def parse_json_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object that can be sent. Return None if the text is not one."""
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        try:
            value = _sanitize_value(json.loads(text))
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, dict) or _is_deeper_than(value, _MAX_DEPTH):
        return None
    return value


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates with question marks, so that the text can be encoded as UTF-8."""
    if text.isascii():
        return str(text)
    return text.encode("utf-8", "replace").decode()


def _sanitize_value(value: Any) -> Any:
    """Return a JSON value without values that only Python's parser accepts."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_sanitize_value(item) for item in value]
    if isinstance(value, dict):
        return {replace_surrogates(name): _sanitize_value(item) for name, item in value.items()}
    return value


def _is_deeper_than(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(
        levels == 0 or _is_deeper_than(item, levels - 1)
        for item in inner
        if isinstance(item, dict | list)
    )


class CallPositions(msgspec.Struct):
    """Tracks the positions of calls among the parts of a streamed answer.

    By default, calls follow all parts and need no position. When a part follows a call, that call
    and every later call get a slot.
    """

    waiting: list[str] = msgspec.field(default_factory=list)
    """Ids of calls that no part has followed yet."""
    _has_slots: bool = False

    def before_part(self) -> list[PartDelta]:
        """Return the slots to emit before the next part."""
        if not self.waiting:
            return []
        self._has_slots = True
        due, self.waiting = self.waiting, []
        return [PartDelta(ToolCallSlot(id_)) for id_ in due]

    def before_call(self, id_: str) -> list[PartDelta]:
        """Return the slot to emit before the next call, if it needs one."""
        if self._has_slots:
            return [PartDelta(ToolCallSlot(id_))]
        self.waiting.append(id_)
        return []


def build_assistant_message(items: Sequence[Part | ToolCall]) -> Message:
    """Build the assistant message with these parts and calls, in this order.

    If calls share an id, they get no slots and follow all parts.

    >>> from harken.core.messages import FunctionCall
    >>> build_assistant_message(
    ...     [TextPart("I look."), ToolCall("c1", FunctionCall("look", "{}"))]
    ... ).content
    'I look.'
    """
    calls = [item for item in items if isinstance(item, ToolCall)]
    parts = [item for item in items if not isinstance(item, ToolCall)]
    has_places = len({call.id for call in calls}) == len(calls)
    if has_places and any(isinstance(item, ToolCall) for item in items[: len(parts)]):
        items_with_slots = [
            ToolCallSlot(item.id) if isinstance(item, ToolCall) else item for item in items
        ]
        return Message("assistant", items_with_slots, calls)
    return Message("assistant", normalize_content(parts), calls or None)


def iter_items(message: ChatMessage) -> Iterator[Part | ToolCall]:
    """Yield the parts and calls of a message, each once, in the order of the slots.

    A call without a slot follows all parts.

    >>> from harken.core.messages import FunctionCall
    >>> [
    ...     type(item).__name__
    ...     for item in iter_items(
    ...         build_assistant_message([ToolCall("c", FunctionCall("f", "{}"))])
    ...     )
    ... ]
    ['ToolCall']
    """
    content, waiting = message.content, list(message.tool_calls or ())
    for part in [TextPart(content)] if isinstance(content, str) else content or ():
        if not isinstance(part, ToolCallSlot):
            yield part
            continue
        matching_call = next((call for call in waiting if call.id == part.id), None)
        if matching_call is not None:
            waiting.remove(matching_call)
            yield matching_call
    yield from waiting


def normalize_content(parts: Sequence[Part]) -> Content:
    """Return parts as message content.

    A single plain text becomes a string, no parts become None.
    """
    match parts:
        case [TextPart(text=text, meta=meta, extra=extra)] if not meta and not extra:
            return text
    content: list[ContentPart] = [*parts]
    return content or None
