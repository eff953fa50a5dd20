"""Format messages as text for people, and compare texts while ignoring author labels.

Other agents receive an utterance as `[Jack]: text`. Texts that differ only in such a label with the
author's name count as equal.

`written` formats a complete message.

`readable_text` has what a person reads. `written` has all that a model reads: every part in order,
with non-text parts as marks in angle brackets, and the ids of calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from harken.core import structs
from harken.core.events import Evidence, RequestPart
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
from harken.core.untrusted import escape_hook_markers

_LABEL_PATTERN = re.compile(r"\[([^\[\]\n]+)\]: ")


def readable_text(content: Content) -> str:
    r"""Return the readable text of a content, with a mark for each image and without thoughts.

    >>> readable_text([ThinkingPart("hm"), TextPart("Look:"), ImagePart(media_type="image/png")])
    'Look:\n\n[image image/png]'
    """
    if content is None or isinstance(content, str):
        return content or ""
    return "\n\n".join(mark for part in content if (mark := _format_readable_part(part)))


def call_text(call: ToolCall) -> str:
    """Format a call as tool name and arguments, verbatim."""
    return f"{call.function.name} {call.function.arguments}"


def has_same_text(left: Content, right: Content, author: Collection[str] = ()) -> bool:
    """Whether two versions of a message have the same text. `author` has all names of the author.

    >>> has_same_text("[Jack]: Hi", "Hi", ["Jack"]), has_same_text("[Jill]: Hi", "Hi", ["Jack"])
    (True, False)

    For an author without a name, any label is ignored. A backslash that distinguishes a line from a
    hook's comment is ignored as well.
    """
    if _non_text_parts(left) != _non_text_parts(right):
        return False
    left_text, right_text = (
        escape_hook_markers(readable_text(left)),
        escape_hook_markers(readable_text(right)),
    )
    if left_text == right_text:
        return True
    bare_left, bare_right = strip_label(left_text, author), strip_label(right_text, author)
    return bare_left in (right_text, bare_right) or left_text == bare_right


def strip_label(text: str, author: Collection[str]) -> str:
    """Remove the label with the author's name from a text.

    >>> strip_label("[Jack]: Hi", ["Jack"]), strip_label("[Jill]: Hi", ["Jack"])
    ('Hi', '[Jill]: Hi')
    """
    label = _LABEL_PATTERN.match(text)
    if label is None or (author and not any(_has_name(name, label[1]) for name in author)):
        return text
    return text[label.end() :]


def _format_readable_part(
    part: TextPart | ThinkingPart | ImagePart | UnknownPart | ToolCallSlot,
) -> str:
    match part:
        case TextPart():
            return part.text
        case ImagePart():
            return f"[image {part.url or part.media_type or ''}".rstrip() + "]"
        case UnknownPart():
            return f"[{part.kind}]"
        case ThinkingPart() | ToolCallSlot():
            return ""


def _non_text_parts(content: Content) -> list[ImagePart | UnknownPart]:
    """Return the parts that are not text, without metadata that varies between occurrences."""
    parts = content if isinstance(content, list) else []
    return [
        structs.replace(part, meta=None)
        for part in parts
        if isinstance(part, ImagePart | UnknownPart)
    ]


def _has_name(name: str, label: str) -> bool:
    """Whether a label (`Jack`, `Jack whispers`) contains the name as a separate word."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", label) is not None


def heading(message: ChatMessage) -> str:
    """Format the role of a message; for a result also its tool, its call id and its status.

    >>> from harken.core.messages import Message
    >>> heading(Message("tool", "no", tool_call_id="c1", name="look", is_error=True))
    'tool look (c1, error)'
    """
    notes = [message.tool_call_id or "", "error" if message.is_error else ""]
    text = ", ".join(filter(None, notes))
    return " ".join(filter(None, [message.role, message.name, f"({text})" if text else ""]))


def format_message(message: ChatMessage) -> str:
    r"""Format all parts and calls of a message in order, each on its own lines.

    >>> from harken.core.messages import Message
    >>> print(format_message(Message("assistant", [ThinkingPart("hm"), TextPart("Look:\n1")])))
    <thinking hm>
    Look:
    1
    """
    return "\n".join(map(_format_part, iter_parts(message)))


def iter_parts(message: ChatMessage) -> Iterator[Part | ToolCall]:
    """Yield parts and calls in order; calls without a slot come after the content."""
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


def join_tool_names(schemas: Iterable[Mapping[str, Any]]) -> str:
    """Join the tool names of schemas in the format of any provider.

    >>> join_tool_names([{"name": "look"}, {"type": "function", "function": {"name": "task"}}])
    'look, task'
    """
    functions = (schema.get("function", schema) for schema in schemas)
    return ", ".join(
        str(function.get("name", "?")) if isinstance(function, Mapping) else "?"
        for function in functions
    )


def format_count(n: int, singular: str, plural: str | None = None) -> str:
    """Format a number with a noun in singular or plural.

    >>> (
    ...     format_count(1, "message"),
    ...     format_count(2, "message"),
    ...     format_count(2, "stretch", "stretches"),
    ... )
    ('1 message', '2 messages', '2 stretches')
    """
    return f"{n} {singular if n == 1 else plural or singular + 's'}"


def format_size(size_bytes: int) -> str:
    """Format a size with a unit.

    >>> format_size(120), format_size(1234), format_size(2_500_000)
    ('120 B', '1.2 KB', '2.4 MB')
    """
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size_kb = size_bytes / 1024
    return f"{size_kb:.1f} KB" if size_kb < 1024 else f"{size_kb / 1024:.1f} MB"


def _format_part(part: Part | ToolCall) -> str:
    match part:
        case TextPart():
            return part.text or "<empty text>"
        case ThinkingPart():
            return _format_mark("thinking", part.text)
        case ImagePart():
            return _format_mark("image", _describe_image(part))
        case UnknownPart():
            return _format_mark("block", f"{part.kind}, {format_size(_byte_length(part.data))}")
        case ToolCall():
            kind = "call" if part.type == "function" else f"{part.type} call"
            return f"{_format_mark(kind, part.id)} {call_text(part)}"


def _format_mark(kind: str, detail: str) -> str:
    return f"<{kind} {detail}".rstrip() + ">"


def _describe_image(part: ImagePart) -> str:
    """Describe an image: media type, and its URL or size."""
    is_inside = part.url is not None and part.url.startswith("data:")
    data = part.url.partition(",")[2] if is_inside and part.url else part.data
    size = None if data is None else format_size(len(data.rstrip("=")) * 3 // 4)
    return ", ".join(filter(None, [part.media_type, None if is_inside else part.url, size]))


def _byte_length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


_PARTS: dict[RequestPart, str] = {
    "messages": "messages that the program added for this request only",
    "system": "its system prompt",
    "tools": "its tools",
    "parameters": "parameters",
}
_SOURCES: dict[Evidence, str] = {
    "recorded": "Recorded",
    "partial": "Reported by the program that made the request, not recorded",
    "rebuilt": "Rebuilt from a transcript, not recorded",
}


def format_evidence(evidence: Evidence, missing: Collection[RequestPart]) -> str:
    """Return a sentence about how a request is known, or an empty text for a recorded one.

    >>> format_evidence("rebuilt", ["system"])
    'Rebuilt from a transcript, not recorded; unknown: its system prompt.'
    """
    if evidence == "recorded" and not missing:
        return ""
    parts = ", ".join(_PARTS[part] for part in missing)
    unknown = f"; unknown: {parts}" if parts else ""
    return f"{_SOURCES[evidence]}{unknown}."
