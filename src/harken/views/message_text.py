"""Words: what a person reads of a content, and whether two contents say the same.

An utterance reaches others as `[Jack]: text`. Such a label is form, not substance: a text that
differs from its original in nothing but a label with its author's name says the same.

Written: a message in full, as text. The one way in which messages are shown whole.

Where `words` has what a person reads, this has all that a model reads: every part, in order, a
part after the other, what is no text as a mark in angle brackets; and the ids of calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from harken.core.messages import (
    ChatMessage,
    Content,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
)
from harken.core.untrusted import from_outside

_LABEL = re.compile(r"\[([^\[\]\n]+)\]: ")


def readable_text(content: Content) -> str:
    r"""Return what a person reads: texts, and a mark for each image; thoughts are left out.

    >>> readable_text([ThinkingPart("hm"), TextPart("Look:"), ImagePart(media_type="image/png")])
    'Look:\n\n[image image/png]'
    """
    if content is None or isinstance(content, str):
        return content or ""
    return "\n\n".join(mark for part in content if (mark := _marked_part(part)))


def call_text(call: ToolCall) -> str:
    """Return a call as one text: tool and arguments, verbatim."""
    return f"{call.function.name} {call.function.arguments}"


def same_words(one: Content, other: Content, author: Collection[str] = ()) -> bool:
    """Whether two versions of one message say the same. `author`: all that its author is called.

    >>> same_words("[Jack]: Hi", "Hi", ["Jack"]), same_words("[Jill]: Hi", "Hi", ["Jack"])
    (True, False)

    Of an author without a name any label will do. A backslash that keeps a line from looking like
    a hook's comment is form, too.
    """
    if _unspoken(one) != _unspoken(other):
        return False
    a, b = from_outside(readable_text(one)), from_outside(readable_text(other))
    if a == b:
        return True
    bare_a, bare_b = without_label(a, author), without_label(b, author)
    return bare_a in (b, bare_b) or a == bare_b


def without_label(text: str, author: Collection[str]) -> str:
    """Return a text without the label that its author's name gave it.

    >>> without_label("[Jack]: Hi", ["Jack"]), without_label("[Jill]: Hi", ["Jack"])
    ('Hi', '[Jill]: Hi')
    """
    label = _LABEL.match(text)
    if label is None or (author and not any(_names(name, label[1]) for name in author)):
        return text
    return text[label.end() :]


def _marked_part(part: TextPart | ThinkingPart | ImagePart | UnknownPart | ToolCallSlot) -> str:
    match part:
        case TextPart():
            return part.text
        case ImagePart():
            return f"[image {part.url or part.media_type or ''}".rstrip() + "]"
        case UnknownPart():
            return f"[{part.kind}]"
        case ThinkingPart() | ToolCallSlot():
            return ""


def _unspoken(content: Content) -> list[ImagePart | UnknownPart]:
    """Return what is no text, without what varies from one occurrence to the next."""
    parts = content if isinstance(content, list) else []
    return [
        msgspec.structs.replace(part, meta=None)
        for part in parts
        if isinstance(part, ImagePart | UnknownPart)
    ]


def _names(name: str, label: str) -> bool:
    """Whether a label (`Jack`, `Jack whispers`) holds the name as words of its own."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", label) is not None


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
        if isinstance(part, ToolCallSlot):
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
        case UnknownPart():
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
