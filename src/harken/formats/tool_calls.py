"""Tool calls on the wire: ids, names and arguments that a provider takes, and where calls stand.

A model may write any name and any arguments, and a server may leave ids out or repeat them. What
is sent back must fit what providers check, and be the same each time: it follows from the call
and from the calls before it alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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

MAX_COUNT = 1 << 40
"""No answer has so many tokens: a count that says so is none."""
_DEPTH = 64
"""Arguments that are nested deeper are sent as text: servers and libraries have limits, too."""


@dataclass(frozen=True, slots=True)
class EncodedToolCall:
    """A call as it can be sent."""

    id: str
    name: str
    arguments: dict[str, Any]
    text: str
    """The arguments as JSON text: verbatim, where the model wrote an object."""
    meta: Meta
    """What varies with the call; nothing of it is sent unless the format knows what it is."""


class Ids(Protocol):
    """Gives each call of a conversation an id of its own."""

    def new(self, raw: str) -> str:
        """Return the id of the next call; the same calls in the same order get the same ids."""
        ...


@dataclass(slots=True)
class CallIds:
    """Gives each call of a conversation an id of its own, of at most `length` characters.

    An id that is well formed and new stays as it is.
    """

    length: int
    _taken: set[str] = field(default_factory=set)

    def new(self, raw: str) -> str:
        """Return the id of the next call; the same calls in the same order get the same ids."""
        base = wanted = well_formed(raw, self.length) or "call"
        count = 1
        while wanted in self._taken:
            count += 1
            end = f"_{count}"
            wanted = base[: self.length - len(end)] + end
        self._taken.add(wanted)
        return wanted


@dataclass(slots=True)
class ShortIds:
    """Gives each call an id of nine letters and digits, as Mistral and its templates demand.

    One that is such an id, and new, stays as it is.

    >>> ids = ShortIds()
    >>> ids.new("D681PevKs"), ids.new("call_0"), ids.new("call_0")
    ('D681PevKs', 'a49649a15', '2ec0689e5')
    """

    _taken: set[str] = field(default_factory=set)

    def new(self, raw: str) -> str:
        """Return the id of the next call; the same calls in the same order get the same ids."""
        wanted, count = raw, 0
        while not re.fullmatch("[a-zA-Z0-9]{9}", wanted) or wanted in self._taken:
            count += 1
            wanted = hashlib.sha256(clean(f"{count} {raw}").encode()).hexdigest()[:9]
        self._taken.add(wanted)
        return wanted


def well_formed(text: str, length: int) -> str:
    """Return a name or id with the letters that all providers take, cut to `length`.

    >>> well_formed("mcp/read file", 64)
    'mcp_read_file'
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", text)[:length]


def wire_call(call: ToolCall, ids: Ids, name_length: int) -> EncodedToolCall:
    """Return a call as it can be sent; arguments that are no JSON object stand below `input`."""
    text = call.function.arguments
    arguments = as_object(text)
    if arguments is None:
        arguments = {"input": clean(text)} if text.strip() else {}
        text = canonical.to_json_line(arguments).decode()
    name = well_formed(call.function.name, name_length) or "unknown"
    meta = call.meta if isinstance(call.meta, dict) else {}
    return EncodedToolCall(ids.new(call.id), name, arguments, clean(text), meta)


def as_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a text, such that it can be sent; None where it holds none."""
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        try:
            value = _plain(json.loads(text))
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, dict) or _is_deeper(value, _DEPTH):
        return None
    return value


def clean(text: str) -> str:
    """Return a text as UTF-8 can say it: a lone surrogate becomes a question mark."""
    if text.isascii():
        return str(text)
    return text.encode("utf-8", "replace").decode()


def _plain(value: Any) -> Any:
    """Return a JSON value without what only Python's reader lets through."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {clean(name): _plain(item) for name, item in value.items()}
    return value


def _is_deeper(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(
        levels == 0 or _is_deeper(item, levels - 1)
        for item in inner
        if isinstance(item, dict | list)
    )


@dataclass(slots=True)
class CallPositions:
    """Where calls stand among the parts of an answer that streams.

    Calls after all parts need no place, and that is the rule: so a call gets its place when a
    part follows it, and then every other call, too.
    """

    waiting: list[str] = field(default_factory=list)
    """Ids of calls that no part has followed yet."""
    _used: bool = False

    def part(self) -> list[PartDelta]:
        """Return what goes before the next part."""
        if not self.waiting:
            return []
        self._used = True
        due, self.waiting = self.waiting, []
        return [PartDelta(ToolCallSlot(id_)) for id_ in due]

    def call(self, id_: str) -> list[PartDelta]:
        """Return what goes before the next call."""
        if self._used:
            return [PartDelta(ToolCallSlot(id_))]
        self.waiting.append(id_)
        return []


def spoken(items: Sequence[Part | ToolCall]) -> Message:
    """Return the assistant message that says these parts and makes these calls, in this order.

    Calls that share an id have no places, and stand after all parts.

    >>> from harken.core.messages import FunctionCall
    >>> spoken([TextPart("I look."), ToolCall("c1", FunctionCall("look", "{}"))]).content
    'I look.'
    """
    calls = [item for item in items if isinstance(item, ToolCall)]
    parts = [item for item in items if not isinstance(item, ToolCall)]
    has_places = len({call.id for call in calls}) == len(calls)
    if has_places and any(isinstance(item, ToolCall) for item in items[: len(parts)]):
        placed = [ToolCallSlot(item.id) if isinstance(item, ToolCall) else item for item in items]
        return Message("assistant", placed, calls)
    return Message("assistant", content_of(parts), calls or None)


def in_order(message: ChatMessage) -> Iterator[Part | ToolCall]:
    """Yield the parts and calls of a message, each once, whatever the places say.

    A call without a place stands after all parts.

    >>> from harken.core.messages import FunctionCall
    >>> [type(item).__name__ for item in in_order(spoken([ToolCall("c", FunctionCall("f", "{}"))]))]
    ['ToolCall']
    """
    content, waiting = message.content, list(message.tool_calls or ())
    for part in [TextPart(content)] if isinstance(content, str) else content or ():
        if not isinstance(part, ToolCallSlot):
            yield part
            continue
        placed = next((call for call in waiting if call.id == part.id), None)
        if placed is not None:
            waiting.remove(placed)
            yield placed
    yield from waiting


def content_of(parts: Sequence[Part]) -> Content:
    """Return parts as a message has them: one plain text as a string, nothing as None."""
    if len(parts) == 1 and isinstance(parts[0], TextPart) and not parts[0].meta:
        return parts[0].text
    content: list[ContentPart] = [*parts]
    return content or None
