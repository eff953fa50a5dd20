"""The tool `todo`: what an agent means to do, written down where it will read it.

There is no state but the calls themselves: the last list in an agent's context is its list, also
after a resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harken.world.result import InvalidArguments
from harken.world.tool import tool


@dataclass(frozen=True, slots=True)
class TodoItem:
    """One thing to do."""

    text: str
    status: Literal["open", "doing", "done"] = "open"


_MARKS = {"open": "[ ]", "doing": "[>]", "done": "[x]"}


@tool(reads_only=True)
def todo(items: list[TodoItem]) -> str:
    """Write down your list of things to do; it replaces the one before.

    Use it for work of several steps: put down all steps, keep one of them at `doing`, and write
    the list again when a step is done or the plan changes. The result is the list.
    """
    return rendered(items)


def rendered(items: Sequence[TodoItem]) -> str:
    """Return a list as text. Raises InvalidArguments where an item says nothing.

    >>> print(rendered([TodoItem("look", "done"), TodoItem("leap")]))
    [x] look
    [ ] leap
    1 of 2 done.
    """
    for number, item in enumerate(items, start=1):
        if not item.text.strip():
            raise InvalidArguments(f"todo: item {number} has no text")
    lines = [f"{_MARKS[item.status]} {' '.join(item.text.split())}" for item in items]
    doing = sum(item.status == "doing" for item in items)
    done = sum(item.status == "done" for item in items)
    lines.append(f"{done} of {len(items)} done." if items else "The list is empty.")
    if doing > 1:
        lines.append(f"{doing} items are at `doing`: one at a time is easier to follow.")
    return "\n".join(lines)
