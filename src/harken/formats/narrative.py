"""`narrative-v1`: who said what, as Markdown, for people and for agents that cannot go on natively.

One idea: only Harken writes outside of fences, and a fence is longer than any run of backticks
inside it. So no text, whatever a model or a web page put into it, can end its fence, pretend that
somebody else speaks, or claim that something was cut. Names stand in headings, as code on one
line; control characters, and those that turn the direction of text, are written out.

Thoughts are left out, and long texts are cut, with how much is missing.

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
MOST_SAID = 20_000
"""How many characters of a text stand in a narrative."""
MOST_RESULT = 2_000
MOST_ARGUMENTS = 300
MOST_NAME = 80
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SPEAKERS = {"user": "User", "assistant": "Assistant", "system": "Instructions", "tool": "Result"}


def narrative(entries: Sequence[ConversationEntry]) -> str:
    r"""Return a conversation as Markdown; that of two in a row is that of both together.

    >>> from harken.core.messages import Message
    >>> print(narrative([ConversationEntry(Message("user", "Hi"), "2026-01-31T12:00:00Z")]))
    ## User, 2026-01-31T12:00:00Z
    <BLANKLINE>
    ```
    Hi
    ```
    <BLANKLINE>
    <BLANKLINE>
    """
    return "".join(f"{block}\n\n" for entry in entries for block in _blocks(entry))


def _blocks(entry: ConversationEntry) -> Iterator[str]:
    message = entry.message
    yield _heading(message, entry.time)
    if message.role == "tool":
        yield from _fenced(_shown(message), MOST_RESULT)
        return
    yield from _fenced(_shown(message), MOST_SAID)
    for call in message.tool_calls or ():
        yield f"calls {code(call.function.name)} {_arguments(call)}"


def _heading(message: ChatMessage, time: str | None) -> str:
    words = [_SPEAKERS[message.role]]
    if message.name:
        words.append(code(message.name))
    if message.role == "tool" and message.tool_call_id:
        words.append(f"of {code(message.tool_call_id)}")
    if message.is_error:
        words.append("(an error)")
    when = f", {_word(time)}" if time else ""
    return f"## {' '.join(words)}{when}"


def _arguments(call: ToolCall) -> str:
    text = call.function.arguments
    named = f"as {code(call.id)} " if call.id else ""
    cut = _missing(len(text) - MOST_ARGUMENTS)
    return f"{named}with {code(text, MOST_ARGUMENTS)}{f' {cut}' if cut else ''}"


def _shown(message: ChatMessage) -> str:
    """Return what a message shows: its texts, and marks for what is none."""
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    marks = [_mark(part) for part in content]
    return "\n\n".join(filter(None, [text_of(content), *marks]))


def _mark(part: ContentPart) -> str:
    match part:
        case ImagePart(media_type=kind):
            return f"[image {kind or ''}".rstrip() + "]"
        case UnknownPart(kind=kind):
            return f"[{kind or 'a block'}]"
        case TextPart() | ToolCallSlot():
            return ""
    return ""  # a thought


def _fenced(text: str, most: int) -> Iterator[str]:
    """Yield a text in a fence that it cannot end, and below it how much is missing."""
    if not text.strip():
        return
    shown = _harmless(text[:most])
    fence = "`" * max(3, _longest_run(shown) + 1)
    yield f"{fence}\n{shown}\n{fence}"
    cut = _missing(len(text) - most)
    if cut:
        yield cut


def code(text: str, most: int = MOST_NAME) -> str:
    """Return a text on one line, as code that it cannot end, at most so many characters."""
    line = " ".join(_harmless(text).split())
    shown = line if len(line) <= most else line[: most - 1] + "…"
    fence = "`" * (_longest_run(shown) + 1)
    padding = " " if shown.startswith("`") or shown.endswith("`") or not shown else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def _word(text: str) -> str:
    """Return a time as it is, and whatever else stands in its place as code."""
    return text if re.fullmatch(r"[0-9TZ:.+-]{1,40}", text) else code(text)


def _missing(characters: int) -> str:
    if characters < 1:
        return ""
    more = "character is" if characters == 1 else "characters are"
    return f"*({characters:,} more {more} not shown)*"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _harmless(text: str) -> str:
    text = text.replace("\r\n", "\n")
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _writes(entries: Sequence[ConversationEntry]) -> bytes:
    return narrative(entries).encode()


FORMAT = Format(name=NAME, media_type="text/markdown", writes=_writes, joins=b"".join)
