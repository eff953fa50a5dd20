"""The conversation around an edit: from the request to the result of the call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harken.core.messages import Message, ThinkingPart, ToolCall, parts_of, text_of
from harken.edits.file_edit import Change, Replacement, split_lines
from harken.edits.tools import find_edits
from harken.terminal.styled_text import Line, clean_text
from harken.terminal.text import one_line

if TYPE_CHECKING:
    from harken.attribution.explanation import ConversationMessage

_MAX_RESULT_LINES = 20
_MAX_EDIT_LINES = 200
_MAX_ARGUMENT_CHARS = 200
_NAMES = {"user": "user", "assistant": "agent", "tool": "result", "system": "system"}


def conversation_lines(messages: Sequence[ConversationMessage], call_id: str) -> Iterator[Line]:
    """Yield the lines of messages. The call with the edit is shown in full, others on one line."""
    for item in messages:
        message = item.entry.message
        mark = "asked" if item.is_request else _NAMES.get(message.role, message.role)
        time = (item.entry.time or "")[:16].replace("T", " ")
        yield []
        yield [("bold green" if item.is_request else "bold", mark), ("dim", f"  {time}")]
        yield from _message_lines(message, call_id)


def _message_lines(message: Message, call_id: str) -> Iterator[Line]:
    for part in parts_of(message.content):
        if isinstance(part, ThinkingPart) and part.text.strip():
            yield from (_indented(line, "dim") for line in part.text.strip().split("\n"))
    lines = text_of(message.content).strip("\n").split("\n")
    limit = _MAX_RESULT_LINES if message.role == "tool" else len(lines)
    if lines != [""]:
        yield from (_indented(line) for line in lines[:limit])
    if len(lines) > limit:
        yield _indented(f"... {len(lines) - limit} more lines", "dim")
    for call in message.tool_calls or ():
        yield from _call_lines(call, is_edit=call.id == call_id)


def _call_lines(call: ToolCall, *, is_edit: bool) -> Iterator[Line]:
    name, arguments = call.function.name, call.function.arguments
    edits = find_edits(name, arguments) if is_edit else []
    if not edits:
        yield _indented(f"[{name}] {one_line(arguments, _MAX_ARGUMENT_CHARS)}", "cyan")
        return
    yield _indented(f"[{name}]", "bold cyan")
    for edit in edits:
        yield _indented(edit.path, "cyan")
        for change in edit.changes:
            yield from _change_lines(change)


def _change_lines(change: Change) -> Iterator[Line]:
    old = split_lines(change.old) if isinstance(change, Replacement) else []
    new = split_lines(change.new if isinstance(change, Replacement) else change.text)
    rows = [("red", f"-{line}") for line in old] + [("green", f"+{line}") for line in new]
    for style, text in rows[:_MAX_EDIT_LINES]:
        yield _indented(text, style)
    if len(rows) > _MAX_EDIT_LINES:
        yield _indented(f"... {len(rows) - _MAX_EDIT_LINES} more lines", "dim")


def _indented(text: str, style: str = "") -> Line:
    return [("", "  "), (style, clean_text(text))]
