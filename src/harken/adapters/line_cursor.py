"""`LineCursor`: the lines of a conversation that a reader has not seen yet."""

from __future__ import annotations

from typing import NamedTuple


class NewLines(NamedTuple):
    """The lines to read."""

    lines: list[bytes]
    is_restart: bool
    """Whether the lines begin at the beginning, because the earlier ones are not valid any more."""


class LineCursor:
    """A position in the lines of a conversation, which only grow while they are the same list."""

    def __init__(self) -> None:
        self._lines: list[bytes] | None = None
        self._count = 0

    def advance(self, lines: list[bytes]) -> NewLines:
        """Return the lines after the position, and move to their end.

        lines: those that `StoredConversation.get_lines` returned.
        """
        is_restart = lines is not self._lines or len(lines) < self._count
        start = 0 if is_restart else self._count
        new = lines[start:]  # Another thread may append meanwhile.
        self._lines, self._count = lines, start + len(new)
        return NewLines(new, is_restart)
