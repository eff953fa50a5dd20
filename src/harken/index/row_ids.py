"""Numbers of messages, which are in the order in which they were said.

One idea: each stretch of time has a range of numbers, which it gives out as messages are read. So
the last that was said is found without a look at the others, and what was said together has numbers
near each other, which take little room in the index. Within a stretch, times tell the order. One
that is full goes on with the numbers of the next.

Source: docs/formats/facts.md, "Numbers of messages".
"""

from __future__ import annotations

from typing import Any

import apsw

_TIME_BITS = 28
"""A stretch is 2**28 microseconds: four and a half minutes."""
_ROOM_BITS = 12
_ROOM = 1 << _ROOM_BITS
"""So many numbers a stretch has."""


def stretch_of(number: int) -> int:
    """Return to which stretch a number belongs."""
    return number >> _ROOM_BITS


def first_number(time_us: int) -> int:
    """Return the first number of the stretch of a time: what was said later has none below.

    >>> first_number(1 << 28), first_number((1 << 29) - 1), first_number(-1)
    (4096, 4096, 0)
    """
    return max(time_us, 0) >> _TIME_BITS << _ROOM_BITS


def end_of_numbers(database: apsw.Connection, time_us: int) -> int:
    """Return a number that is greater than that of all that was said until a time."""
    end = first_number(time_us) + _ROOM
    while database.execute("SELECT 1 FROM messages WHERE id = ?", (end - 1,)).fetchone():
        end += _ROOM  # it was full, so it may have gone on
    return end


class Numbers:
    """The numbers that are free. Whoever makes it has begun a transaction."""

    def __init__(self, database: apsw.Connection) -> None:
        """Go on after the messages that are there."""
        self._database = database
        self._next: dict[int, int] = {}
        """The first number of a stretch -> its next free one; its end: it is full."""

    def next(self, time_us: int) -> int:
        """Return the number of a message that was said at a time; 0: nobody knows when."""
        first = first_number(time_us)
        while (number := self._next.get(first) or self._free(first)) == first + _ROOM:
            self._next[first] = number
            first = number
        self._next[first] = number + 1
        return number

    def _free(self, first: int) -> int:
        query = "SELECT ifnull(max(id), 0) + 1 FROM messages WHERE id < ?"
        rows: list[tuple[Any, ...]] = self._database.execute(query, (first + _ROOM,)).fetchall()
        after: int = rows[0][0]
        return max(first, after)
