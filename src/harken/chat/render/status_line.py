"""The status line: model, usage and state, as far as there is room."""

from __future__ import annotations

import msgspec

from harken.chat.usage import UsageTotal, format_cost, format_tokens, format_tokens_in_out
from harken.core.events import Usage
from harken.terminal.pieces import TextRows
from harken.terminal.styled_text import Line, cell_width, clean_text, truncate_line
from harken.views.message_text import format_count

MAX_FOLDER_CELLS = 40


class Status(msgspec.Struct, frozen=True):
    """The contents of the status line."""

    model: str
    folder: str
    mode: str = ""
    """The permission mode. Empty without permissions."""
    context_tokens: int | None = None
    context_window: int | None = None
    """The size of the model's context window in tokens. None if it is not known."""
    cost: str = ""
    talks_with: str = ""
    """The agent that the user talks with, if it is not the first one."""
    hint: str = ""
    """A temporary hint that replaces the line."""

    def line(self, width: int) -> Line:
        """Return the line. On a narrow terminal the least important parts are left out first."""
        if self.hint:
            return truncate_line([("yellow", clean_text(self.hint))], width)
        parts = [  # The first element is the priority: the highest number is left out first.
            (-1, clean_text(self.talks_with)),
            (0, clean_text(self.model)),
            (3, clean_text(self.folder)),
            (1, self.mode),
            (2, self._context()),
            (4, self.cost),
        ]
        visible = [part for part in parts if part[1]]
        while len(visible) > 1 and cell_width(_join_parts(visible)) > width:
            visible.remove(max(visible))
        return truncate_line([("dim", _join_parts(visible))], width)

    def _context(self) -> str:
        if self.context_tokens is None:
            return ""
        if self.context_window is None:
            return f"{format_tokens(self.context_tokens)} context"
        return f"{self.context_tokens / self.context_window:.0%} of context"


def _join_parts(parts: list[tuple[int, str]]) -> str:
    return " · ".join(text for _, text in parts)


def context_tokens(usage: Usage | None) -> int | None:
    """Return the tokens of a context after this answer. Return None if they were not counted."""
    if usage is None or usage.input_tokens is None:
        return None
    return usage.input_tokens + (usage.output_tokens or 0)


def summary(sums: UsageTotal, seconds: float) -> TextRows:
    """Return the summary line of a turn."""
    cost = format_cost(sums) if sums.priced else ""
    agents = f"{len(sums.agents)} agents" if len(sums.agents) > 1 else ""
    calls = format_count(sums.actions, "call") if sums.actions else ""
    parts = [format_tokens_in_out(sums), cost, f"{seconds:.1f} s", calls, agents]
    return TextRows("summary", [[("dim", " · ".join(filter(None, parts)))]])


def folder_text(folder: str, home: str) -> str:
    """Return a folder for display, with `~`; a long path is truncated at its start.

    >>> folder_text("/home/ann/tea", "/home/ann"), folder_text("/a/b/" + "c" * 40, "/home/ann")
    ('~/tea', '…/cccccccccccccccccccccccccccccccccccccccc')
    """
    if home not in ("", "/") and (folder == home or folder.startswith(home + "/")):
        folder = "~" + folder[len(home) :]
    if len(folder) <= MAX_FOLDER_CELLS:
        return folder
    above, _, last = folder.rpartition("/")
    while above and len(last) + len(above.rpartition("/")[2]) < MAX_FOLDER_CELLS:
        above, _, name = above.rpartition("/")
        last = f"{name}/{last}"
    return f"…/{last}"
