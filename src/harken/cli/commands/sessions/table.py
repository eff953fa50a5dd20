"""A table of sessions that fits the width of a terminal.

A name is not truncated while there is room for it, because other commands take it: a long one moves
the remaining cells of its line to the right. If not all columns fit, the least needed are left out
first and the title gets the remaining width. Output to a program is not limited.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import datetime

import msgspec
from rich.cells import cell_len

from harken.terminal.styled_text import shorten
from harken.terminal.text import one_line

MAX_TITLE = 60
"""The title in output that is not for a terminal."""
_MIN_TITLE = 20
_MIN_NAME = 24
"""On a terminal the column of names has a third of the width, but at least these cells."""
_GAP = "  "
_OPTIONAL_COLUMNS = ("size", "state", "project", "cost", "written")
"""The columns in the order in which they are left out."""
_MAX_PROJECT = 20
_RIGHT = frozenset({"size", "cost"})


class SessionRow(msgspec.Struct, frozen=True):
    """The texts of a session in the table."""

    name: str
    modified: str
    size: str
    cost: str
    project: str
    state: str
    title: str
    is_unfinished: bool = False
    """Whether its state is worth a word where there is no column for it."""


_COLUMNS = tuple(name for name in SessionRow.__struct_fields__ if name != "is_unfinished")


def table_lines(rows: Sequence[SessionRow], width: int | None) -> list[str]:
    """Return the lines of a table. width: in cells, or None if the output is not a terminal."""
    texts = [{name: one_line(getattr(row, name), 1000) for name in _COLUMNS} for row in rows]
    for text in texts:
        text["project"] = one_line(text["project"], _MAX_PROJECT)
    widths = {name: max((cell_len(text[name]) for text in texts), default=0) for name in _COLUMNS}
    visible = [name for name in _COLUMNS if name == "title" or widths[name]]
    if width is None:
        widths["title"] = MAX_TITLE
    else:
        widths["name"] = min(widths["name"], max(width // 3, _MIN_NAME))
        visible = _fit_columns(visible, widths, width)
        others = sum(widths[name] + len(_GAP) for name in visible if name != "title")
        widths["title"] = max(width - others, 0)
    for text, row in zip(texts, rows, strict=True):
        if row.is_unfinished and "state" not in visible:
            text["title"] = f"({text['state']}) {text['title']}"
    lines = [_line(text, visible, widths) for text in texts]
    return lines if width is None else [_truncate(line, width) for line in lines]


def _fit_columns(visible: list[str], widths: dict[str, int], width: int) -> list[str]:
    """Return the columns for which there is room beside a title."""
    for dropped in ("", *_OPTIONAL_COLUMNS):
        visible = [name for name in visible if name != dropped]
        others = sum(widths[name] + len(_GAP) for name in visible if name != "title")
        if others + min(_MIN_TITLE, widths["title"]) <= width:
            break
    return visible


def _line(text: dict[str, str], visible: Sequence[str], widths: dict[str, int]) -> str:
    cells = [_cell(text[name], widths[name], is_right=name in _RIGHT) for name in visible]
    cells[-1] = _truncate(cells[-1], widths[visible[-1]])
    return _GAP.join(cells).rstrip()


def _cell(text: str, width: int, *, is_right: bool) -> str:
    """Return a text filled up to the width of its column."""
    blanks = " " * (width - cell_len(text))
    return blanks + text if is_right else text + blanks


def _truncate(text: str, width: int) -> str:
    return shorten(text.rstrip(), width) if width > 0 else ""


def terminal_width() -> int | None:
    """Return the width of the output terminal. Return None if the output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def when_text(when: datetime, now: datetime) -> str:
    """Return a time as short as its distance allows; both in one zone.

    >>> from datetime import UTC
    >>> now = datetime(2026, 3, 5, 14, 30, tzinfo=UTC)
    >>> when_text(datetime(2026, 3, 5, 9, 5, tzinfo=UTC), now)
    'today 09:05'
    >>> when_text(datetime(2026, 1, 31, tzinfo=UTC), now), when_text(datetime(2025, 3, 5), now)
    ('Jan 31 00:00', '2025-03-05')
    """
    if when.date() == now.date():
        return f"today {when:%H:%M}"
    return f"{when:%b %d %H:%M}" if when.year == now.year else f"{when:%Y-%m-%d}"
