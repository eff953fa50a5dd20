"""Row ids of messages, in the order of their times.

Each stretch of time has a range of ids, which are assigned as messages are read. So the newest
messages are found without a sort, and messages of the same time have neighboring ids, which keeps
the full-text index small. Within a stretch, the times define the order. A full stretch continues
with the ids of the next one.

Source: docs/formats/facts.md, "Message ids".
"""

from __future__ import annotations

from typing import Any

import apsw

_TIME_BITS = 28
"""A stretch is 2**28 microseconds long: four and a half minutes."""
_STRETCH_SIZE_BITS = 12
_STRETCH_SIZE = 1 << _STRETCH_SIZE_BITS
"""Number of ids in a stretch."""


def get_stretch(number: int) -> int:
    """Return the stretch that an id belongs to."""
    return number >> _STRETCH_SIZE_BITS


def first_id(time_us: int) -> int:
    """Return the first id of the stretch of a time. Later messages have no smaller id.

    >>> first_id(1 << 28), first_id((1 << 29) - 1), first_id(-1)
    (4096, 4096, 0)
    """
    return max(time_us, 0) >> _TIME_BITS << _STRETCH_SIZE_BITS


def find_end_id(database: apsw.Connection, time_us: int) -> int:
    """Return an id greater than the ids of all messages up to a time."""
    end = first_id(time_us) + _STRETCH_SIZE
    while database.execute("SELECT 1 FROM messages WHERE id = ?", (end - 1,)).fetchone():
        end += _STRETCH_SIZE  # A full stretch may continue in the next one.
    return end


class MessageIdAllocator:
    """Allocates row ids of messages. The caller has begun a transaction."""

    def __init__(self, database: apsw.Connection) -> None:
        """Continue after the existing messages."""
        self._database = database
        self._next: dict[int, int] = {}
        """First id of a stretch -> its next free id; the end of the stretch if it is full."""

    def next(self, time_us: int) -> int:
        """Return the next row id for a time. Pass 0 if the time is unknown."""
        first = first_id(time_us)
        while (
            number := self._next.get(first) or self._next_free_id(first)
        ) == first + _STRETCH_SIZE:
            self._next[first] = number
            first = number
        self._next[first] = number + 1
        return number

    def _next_free_id(self, first: int) -> int:
        query = "SELECT ifnull(max(id), 0) + 1 FROM messages WHERE id < ?"
        rows: list[tuple[Any, ...]] = self._database.execute(
            query, (first + _STRETCH_SIZE,)
        ).fetchall()
        next_id: int = rows[0][0]
        return max(first, next_id)
