"""The tool `todo`: a task list that an agent writes and reads in its own context.

The calls are the only state: the last list in the context of an agent is its list, also after a
resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from harken.world.result import InvalidArguments
from harken.world.tool import tool


class TodoItem(msgspec.Struct, frozen=True):
    """An item of the task list."""

    text: str
    status: Literal["open", "doing", "done"] = "open"


_MARKS = {"open": "[ ]", "doing": "[>]", "done": "[x]"}


@tool(reads_only=True)
def todo(items: list[TodoItem]) -> str:
    """Write down your list of things to do; it replaces the one before.

    Use it for work of several steps: put down all steps, keep one of them at `doing`, and write
    the list again when a step is done or the plan changes. The result is the list.
    """
    return format_todo_list(items)


def format_todo_list(items: Sequence[TodoItem]) -> str:
    """Format a list as text. Raises InvalidArguments if an item has no text.

    >>> print(format_todo_list([TodoItem("look", "done"), TodoItem("leap")]))
    [x] look
    [ ] leap
    1 of 2 done.
    """
    for number, item in enumerate(items, start=1):
        if not item.text.strip():
            raise InvalidArguments(f"todo: item {number} has no text")
    lines = [f"{_MARKS[item.status]} {' '.join(item.text.split())}" for item in items]
    doing_count = sum(item.status == "doing" for item in items)
    done_count = sum(item.status == "done" for item in items)
    lines.append(f"{done_count} of {len(items)} done." if items else "The list is empty.")
    if doing_count > 1:
        lines.append(f"{doing_count} items are at `doing`: prefer one at a time.")
    return "\n".join(lines)
