"""Written: a message in full, as text. The one way in which messages are shown whole.

Where `words` has what a person reads, this has all that a model reads: every part, in order, a
part after the other, what is no text as a mark in angle brackets; and the ids of calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harken.core.messages import (
    CallPlace,
    ChatMessage,
    ImagePart,
    OtherPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
)
from harken.views.words import call_text


def heading(message: ChatMessage) -> str:
    """Return a message's role; of a result also its tool, the id of its call, whether it failed.

    >>> from harken.core.messages import Message
    >>> heading(Message("tool", "no", tool_call_id="c1", name="look", is_error=True))
    'tool look (c1, error)'
    """
    notes = [message.tool_call_id or "", "error" if message.is_error else ""]
    shown = ", ".join(filter(None, notes))
    return " ".join(filter(None, [message.role, message.name, f"({shown})" if shown else ""]))


def written(message: ChatMessage) -> str:
    r"""Return all parts and calls of a message in order, each on lines of its own.

    >>> from harken.core.messages import Message
    >>> print(written(Message("assistant", [ThinkingPart("hm"), TextPart("Look:\n1")])))
    <thinking hm>
    Look:
    1
    """
    return "\n".join(map(_part, in_order(message)))


def in_order(message: ChatMessage) -> Iterator[Part | ToolCall]:
    """Yield parts and calls in order; calls without a place stand after the content."""
    calls = {call.id: call for call in message.tool_calls or ()}
    if isinstance(message.content, str) and message.content:
        yield TextPart(message.content)
    for part in message.content if isinstance(message.content, list) else ():
        if isinstance(part, CallPlace):
            if part.id in calls:
                yield calls.pop(part.id)
        else:
            yield part
    yield from calls.values()


def tool_names(schemas: Iterable[Mapping[str, Any]]) -> str:
    """Return the names in tool schemas, whichever provider's form they have.

    >>> tool_names([{"name": "look"}, {"type": "function", "function": {"name": "task"}}])
    'look, task'
    """
    functions = (schema.get("function", schema) for schema in schemas)
    return ", ".join(
        str(function.get("name", "?")) if isinstance(function, Mapping) else "?"
        for function in functions
    )


def count(n: int, one: str, several: str | None = None) -> str:
    """Return how many there are of something.

    >>> count(1, "message"), count(2, "message"), count(2, "stretch", "stretches")
    ('1 message', '2 messages', '2 stretches')
    """
    return f"{n} {one if n == 1 else several or one + 's'}"


def size_text(size_bytes: int) -> str:
    """Return a size as a person writes it.

    >>> size_text(120), size_text(1234), size_text(2_500_000)
    ('120 B', '1.2 KB', '2.4 MB')
    """
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size_kb = size_bytes / 1024
    return f"{size_kb:.1f} KB" if size_kb < 1024 else f"{size_kb / 1024:.1f} MB"


def _part(part: Part | ToolCall) -> str:
    match part:
        case TextPart():
            return part.text or "<empty text>"
        case ThinkingPart():
            return _mark("thinking", part.text)
        case ImagePart():
            return _mark("image", _image(part))
        case OtherPart():
            return _mark("block", f"{part.kind}, {size_text(_length(part.data))}")
        case ToolCall():
            kind = "call" if part.type == "function" else f"{part.type} call"
            return f"{_mark(kind, part.id)} {call_text(part)}"


def _mark(kind: str, what: str) -> str:
    return f"<{kind} {what}".rstrip() + ">"


def _image(part: ImagePart) -> str:
    """Say what kind of image it is, and where it is or how large."""
    is_inside = part.url is not None and part.url.startswith("data:")
    data = part.url.partition(",")[2] if is_inside and part.url else part.data
    size = None if data is None else size_text(len(data.rstrip("=")) * 3 // 4)
    return ", ".join(filter(None, [part.media_type, None if is_inside else part.url, size]))


def _length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
