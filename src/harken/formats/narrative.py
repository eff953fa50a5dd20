"""`narrative-v1`: a conversation as Markdown, for people and for agents that cannot resume it.

Only Harken writes outside of fences, and a fence is longer than any run of backticks inside it. So
no text of a model or a web page can end its fence, pretend to be another speaker, or claim that
text was truncated. Names stand in headings, as code on one line; control characters, and those that
change the direction of text, are escaped.

Thoughts are left out, and long texts are truncated with a note of how much is missing.

Source: docs/formats/narrative.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harken.core.messages import (
    ChatMessage,
    ContentPart,
    ImagePart,
    TextPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
    text_of,
)
from harken.formats.base import ConversationEntry, Format

NAME = "narrative-v1"
MAX_TEXT_CHARS = 20_000
"""The maximum number of characters of one text."""
MAX_RESULT_CHARS = 2_000
MAX_ARGUMENTS_CHARS = 300
MAX_NAME_CHARS = 80
_CONTROL_PATTERN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SPEAKERS = {"user": "User", "assistant": "Assistant", "system": "Instructions", "tool": "Result"}


def format_narrative(entries: Sequence[ConversationEntry]) -> str:
    r"""Return a conversation as Markdown. Narratives of consecutive parts can be concatenated.

    >>> from harken.core.messages import Message
    >>> print(format_narrative([ConversationEntry(Message("user", "Hi"), "2026-01-31T12:00:00Z")]))
    ## User, 2026-01-31T12:00:00Z
    <BLANKLINE>
    ```
    Hi
    ```
    <BLANKLINE>
    <BLANKLINE>
    """
    return "".join(f"{block}\n\n" for entry in entries for block in _format_blocks(entry))


def _format_blocks(entry: ConversationEntry) -> Iterator[str]:
    message = entry.message
    yield _format_heading(message, entry.time)
    if message.role == "tool":
        yield from _format_fenced(_visible_text(message), MAX_RESULT_CHARS)
        return
    yield from _format_fenced(_visible_text(message), MAX_TEXT_CHARS)
    for call in message.tool_calls or ():
        yield f"calls {format_code(call.function.name)} {_format_arguments(call)}"


def _format_heading(message: ChatMessage, time: str | None) -> str:
    words = [_SPEAKERS[message.role]]
    if message.name:
        words.append(format_code(message.name))
    if message.role == "tool" and message.tool_call_id:
        words.append(f"of {format_code(message.tool_call_id)}")
    if message.is_error:
        words.append("(an error)")
    time_suffix = f", {_format_time(time)}" if time else ""
    return f"## {' '.join(words)}{time_suffix}"


def _format_arguments(call: ToolCall) -> str:
    text = call.function.arguments
    id_text = f"as {format_code(call.id)} " if call.id else ""
    missing_note = _format_missing(len(text) - MAX_ARGUMENTS_CHARS)
    return (
        f"{id_text}with "
        f"{format_code(text, MAX_ARGUMENTS_CHARS)}{f' {missing_note}' if missing_note else ''}"
    )


def _visible_text(message: ChatMessage) -> str:
    """Return the visible text of a message, with marks for parts that are not text."""
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    marks = [_format_mark(part) for part in content]
    return "\n\n".join(filter(None, [text_of(content), *marks]))


def _format_mark(part: ContentPart) -> str:
    match part:
        case ImagePart(media_type=kind):
            return f"[image {kind or ''}".rstrip() + "]"
        case UnknownPart(kind=kind):
            return f"[{kind or 'a block'}]"
        case TextPart() | ToolCallSlot():
            return ""
    return ""  # Thoughts are left out.


def _format_fenced(text: str, limit: int) -> Iterator[str]:
    """Yield a text in a fence that it cannot end, and below it the number of missing characters."""
    if not text.strip():
        return
    visible = _escape_control(text[:limit])
    fence = "`" * max(3, _longest_run(visible) + 1)
    yield f"{fence}\n{visible}\n{fence}"
    missing_note = _format_missing(len(text) - limit)
    if missing_note:
        yield missing_note


def format_code(text: str, most: int = MAX_NAME_CHARS) -> str:
    """Return a text as inline code that it cannot end, of at most `most` characters."""
    line = " ".join(_escape_control(text).split())
    visible = line if len(line) <= most else line[: most - 1] + "…"
    fence = "`" * (_longest_run(visible) + 1)
    padding = " " if visible.startswith("`") or visible.endswith("`") or not visible else ""
    return f"{fence}{padding}{visible}{padding}{fence}"


def _format_time(text: str) -> str:
    """Return a time unchanged, and any other text as code."""
    return text if re.fullmatch(r"[0-9TZ:.+-]{1,40}", text) else format_code(text)


def _format_missing(characters: int) -> str:
    if characters < 1:
        return ""
    noun = "character is" if characters == 1 else "characters are"
    return f"*({characters:,} more {noun} not shown)*"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _escape_control(text: str) -> str:
    text = text.replace("\r\n", "\n")
    return _CONTROL_PATTERN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _write(entries: Sequence[ConversationEntry]) -> bytes:
    return format_narrative(entries).encode()


FORMAT = Format(name=NAME, media_type="text/markdown", writes=_write, joins=b"".join)
