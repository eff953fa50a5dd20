"""Format tool calls and their results, folded.

A call is one line: `bash(ls -la)`. Its result is its first lines and the number of remaining ones;
a failure is red, a diff is colored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harken.agents.tree.actions import parse_arguments_or_empty
from harken.core.messages import Content
from harken.edits.file_edit import FileEdit
from harken.edits.tools import find_argument_change
from harken.terminal.styled_text import TAB, Line, clean_text, diff_lines, is_diff
from harken.terminal.text import indent, one_line
from harken.views.conversation.calls import describe_subject
from harken.views.conversation.differences import Work, compare_edit, is_hunk_heading
from harken.views.message_text import format_count, readable_text
from harken.world.tool import Tool

MAX_RESULT_LINES = 4
"""The maximum number of lines of a result."""
MAX_DIFF_LINES = 16
MAX_SHORT_LINES = 2
MAX_LINE_CHARS = 400
"""The maximum characters of a line: a minified file has thousands."""
_MAX_STEPS = 100_000
"""The steps that comparisons of one call may take: some hundredths of a second."""
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


class FoldedResult(msgspec.Struct, frozen=True):
    """The visible part of a result."""

    lines: list[Line]
    hidden_count: int
    """The number of lines that are left out or truncated."""


class Folding(msgspec.Struct, frozen=True):
    """Whether long texts are folded, and the text that refers to the folded lines."""

    is_full: bool = False
    """Whether results, thinking, prompts and arguments of calls are printed in full."""
    message: str = "/show {}"
    """The command that shows the message of this number in full."""
    thought: str = "Ctrl-T shows it"

    def truncate(
        self, lines: Sequence[str], limit: int, longest: int = MAX_LINE_CHARS
    ) -> tuple[list[str], int]:
        """Return the visible lines, and the number of lines that are left out or truncated."""
        if self.is_full:
            return [*lines], 0
        visible = lines if len(lines) <= limit + 1 else lines[:limit]
        truncated, truncated_count = truncate_lines(visible, longest)
        return truncated, len(lines) - len(visible) + truncated_count

    def format_omission(self, hidden_count: int, number: object, *, is_all: bool = False) -> Line:
        """Return the line that replaces the omitted lines of a message."""
        lines = format_count(hidden_count, "line" if is_all else "more line")
        return [("dim", f"{TAB[:2]}… {lines} ({self.message.format(clean_text(str(number)))})")]


IN_CHAT = Folding()
"""The folding of the chat."""


def format_call(name: str, arguments: str, tool: Tool | None = None) -> str:
    """Format a call on one line, with its subject instead of all arguments.

    >>> format_call("bash", '{"command": "ls"}')
    'bash(ls)'
    >>> format_call("task", '{"name": "Ann", "prompt": "Tea?"}')
    'task(Ann: Tea?)'
    """
    by_name = parse_arguments_or_empty(arguments)
    if not by_name:
        bare = arguments.strip()
        return f"{one_line(name)}({'' if bare in ('', '{}') else one_line(bare)})"
    subject = describe_subject(name, by_name, subject=_find_subject(by_name, tool))
    return f"{one_line(name)}({one_line(subject, 300)})"


def _find_subject(arguments: Mapping[str, Any], tool: Tool | None) -> str | None:
    """Return the argument that a call of this tool is about: its subject, or its required one."""
    if tool is None:
        return None
    required: Sequence[str] = tool.parameters.get("required", ())
    names = [*filter(None, [tool.subject]), *(required if len(required) == 1 else ())]
    return next((name for name in names if name in arguments), None)


def list_argument_lines(arguments: str) -> list[Line]:
    r"""Return all arguments of a call, one per line.

    >>> list_argument_lines('{"path": "a.txt", "content": "1\\n2"}')
    [[('dim', 'path: a.txt')], [('dim', 'content: 1')], [('dim', '  2')]]
    """
    by_name = parse_arguments_or_empty(arguments)
    if not by_name:
        return [[("dim", clean_text(line))] for line in arguments.splitlines()]
    texts = [f"{key}: {_whole_value(value)}" for key, value in by_name.items()]
    return [
        [("dim", clean_text(line))] for text in texts for line in indent(text, "  ").split("\n")
    ]


def _whole_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def list_change_lines(name: str, arguments: str) -> list[Line]:
    r"""Return the change of an edit, from its arguments: the removed and the added lines.

    >>> list_change_lines("edit", '{"path": "x", "old_string": "a\\nb", "new_string": "a\\nc"}')
    [[('dim', ' a')], [('red', '-b')], [('green', '+c')]]
    """
    change = find_argument_change(name, arguments)
    if change is None:
        return []
    lines = (
        _list_edit_lines(change.edits)
        if change.patch is None
        else change.patch.removesuffix("\n").split("\n")
    )
    visible = lines if len(lines) <= MAX_DIFF_LINES + 1 else lines[:MAX_DIFF_LINES]
    truncated, truncated_count = truncate_lines(visible)
    styled = diff_lines(truncated, "dim")
    if hidden_count := len(lines) - len(visible) + truncated_count:
        styled.append([("dim", f"… {format_count(hidden_count, 'more line')} of the change")])
    return styled


def _list_edit_lines(edits: Sequence[FileEdit]) -> list[str]:
    """Return the diffs of edits. The call itself names the file, if there is only one."""
    work = Work(_MAX_STEPS)
    differences = [compare_edit(edit, work, context_lines=1).lines for edit in edits]
    if len(edits) == 1:
        [lines] = differences
        return lines[1:] if is_hunk_heading(lines[0]) else lines
    headed = zip(edits, differences, strict=True)
    return [line for edit, lines in headed for line in (f"+++ {edit.path}", *lines)]


def plain_lines(text: str) -> list[str]:
    r"""Return the lines of a tool's output as a terminal would leave them standing.

    Colors are dropped, and of a line that was written over only its last state is there.

    >>> plain_lines("10%\r100%\r\n\x1b[31mred\x1b[0m\n")
    ['100%', 'red']
    """
    text = _COLOURS.sub("", text).replace("\r\n", "\n").rstrip("\n")
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]


def fold_result(
    content: Content,
    *,
    is_error: bool = False,
    was_read: bool = False,
    folding: Folding = IN_CHAT,
) -> FoldedResult:
    """Return the beginning of a result.

    For a result that was only read (`was_read`), only its size.

    A short result is complete.
    """
    text = readable_text(content)
    lines = plain_lines(text) if text.strip() else []
    in_diff = not is_error and is_diff(text)
    limit = MAX_DIFF_LINES if in_diff else 0 if was_read and not is_error else MAX_RESULT_LINES
    visible, hidden_count = folding.truncate(
        lines, limit if len(lines) > MAX_SHORT_LINES else MAX_SHORT_LINES
    )
    style = "red" if is_error else "dim"
    styled = (
        diff_lines(visible, "dim") if in_diff else [[(style, clean_text(line))] for line in visible]
    )
    return FoldedResult(styled, hidden_count)


def truncate_lines(lines: Sequence[str], limit: int = MAX_LINE_CHARS) -> tuple[list[str], int]:
    """Return lines of at most `limit` characters, and the number of truncated lines.

    >>> truncate_lines(["abcde", "abc"], 4)
    (['abc…', 'abc'], 1)
    """
    truncated = [line if len(line) <= limit else line[: limit - 1] + "…" for line in lines]
    return truncated, sum(len(line) > limit for line in lines)


def full_result(content: Content) -> list[Line]:
    """Return all lines of a result."""
    text = readable_text(content)
    lines = plain_lines(text)
    return diff_lines(lines) if is_diff(text) else [[("", clean_text(line))] for line in lines]
