"""The table of packs: rows that hold what was written under a range of numbers.

One idea: a row holds the things of its own number and of all numbers up to the next row's, so rows
can be put together without a word to those who know the numbers. The last row is never put together
with others and never removed: the next one gets the number after it, and none is given twice.

Source: docs/formats/store.md, "Packs".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harken.store.base import StoredObject
from harken.store.sqlite.database import VERSION, version_of
from harken.store.sqlite.pack import (
    Body,
    EncodedPack,
    PackCorrupted,
    is_woven,
    packed,
    packs_of,
    unpacked,
)

BLOCK = 64
"""The small packs among so many numbers are put together when the next number is given."""
_SMALL_BYTES = 5 * 1024
_FULL_BYTES = 64 * 1024
"""Of packs that are compressed each alone: together they are half as long."""


@dataclass(frozen=True, slots=True)
class PackRow:
    """A pack as it lies in the table, with the numbers from `first` to `end`, which is left out."""

    first: int
    end: int
    data: bytes


@dataclass(frozen=True, slots=True)
class NumberedPack:
    """The number that a pack stands under, and what is in it."""

    first: int
    things: Mapping[str, Body]


def add(
    connection: sqlite3.Connection, things: Collection[StoredObject]
) -> Iterator[tuple[int, EncodedPack]]:
    """Write new things, those that others need before them; yield each pack and its number."""
    first = number = 0
    for pack in packs_of(things):
        # SQLite gives the number after that of the last row.
        added = connection.execute("INSERT INTO pack (data) VALUES (?)", [_told(connection, pack)])
        assert added.lastrowid is not None
        number = added.lastrowid
        first = first or number
        yield number, pack
    if number:
        compact(connection, first - 1, number)


def last_number(connection: sqlite3.Connection) -> int:
    """Return the highest number that was given; 0: none was."""
    (number,) = connection.execute("SELECT max(id) FROM pack").fetchone()
    return number or 0


def rows(connection: sqlite3.Connection, start: int = 0) -> Iterator[PackRow]:
    """Yield the packs from the one that holds a number, in order, as they are when asked for.

    Between two steps anything may be written: also then nothing that stays is left out, but what
    was put together meanwhile may come twice.
    """
    at = start
    while (row := row_of(connection, at)) is not None:
        yield row
        at = row.end


def row_of(connection: sqlite3.Connection, number: int) -> PackRow | None:
    """Return the pack that holds a number, else the first after it; None: there is none."""
    for query in (
        "SELECT id, data FROM pack WHERE id <= ? ORDER BY id DESC LIMIT 1",
        "SELECT id, data FROM pack WHERE id > ? ORDER BY id LIMIT 1",
    ):
        for first, data in connection.execute(query, [number]).fetchall():
            query = "SELECT min(id) FROM pack WHERE id > ?"
            (following,) = connection.execute(query, [first]).fetchone()
            end = following or first + 1
            if end > number:
                return PackRow(first, end, data)
    return None


def replace(connection: sqlite3.Connection, first: int, things: Sequence[StoredObject]) -> None:
    """Put what is left in the place of a pack; where nothing is, the row goes, unless it is last.

    The generation must be raised in the same transaction.
    """
    if things or first == last_number(connection):
        data = _told(connection, packed(list(things)))
        connection.execute("UPDATE pack SET data = ? WHERE id = ?", [data, first])
    else:
        connection.execute("DELETE FROM pack WHERE id = ?", [first])


def put_together(connection: sqlite3.Connection, run: Sequence[NumberedPack]) -> None:
    """Make one pack of several that stand side by side, each thing once."""
    if len(run) > 1:
        things: dict[str, StoredObject] = {}
        for one in run:
            for name, (kind, body) in one.things.items():
                things.setdefault(name, StoredObject(kind, name, body))
        first, last = run[0].first, run[-1].first
        data = _told(connection, packed(list(things.values())))
        connection.execute("UPDATE pack SET data = ? WHERE id = ?", [data, first])
        connection.execute("DELETE FROM pack WHERE id > ? AND id <= ?", [first, last])


def raise_generation(connection: sqlite3.Connection) -> None:
    """Say to all processes that something was taken away: they forget what they have read."""
    connection.execute("UPDATE state SET generation = generation + 1")


def compact(connection: sqlite3.Connection, before: int, last: int) -> None:
    """Put small packs together where the last number that was given ends blocks of numbers."""
    for block in range(before // BLOCK, last // BLOCK):
        _compact(connection, block * BLOCK, (block + 1) * BLOCK)


def _told(connection: sqlite3.Connection, pack: EncodedPack) -> bytes:
    """Return the bytes of a pack; of a form that not every Harken knows, the file says so first."""
    if is_woven(pack.data) and version_of(connection) < VERSION:
        connection.execute(f"PRAGMA user_version={VERSION}")
    return pack.data


def _compact(connection: sqlite3.Connection, start: int, end: int) -> None:
    """Put the small packs together that stand side by side among these numbers."""
    run: list[NumberedPack] = []
    size = 0
    query = "SELECT id, data FROM pack WHERE id >= ? AND id < ? ORDER BY id"
    for first, data in connection.execute(query, [start, end]).fetchall():
        things = _small(data)
        if not things or size + len(data) > _FULL_BYTES:
            put_together(connection, run)
            run, size = [], 0
        if things:
            run.append(NumberedPack(first, things))
            size += len(data)
    put_together(connection, run)


def _small(data: bytes) -> Mapping[str, Body]:
    """Return what is in a small pack; nothing for a large one, or one that is damaged."""
    if len(data) > _SMALL_BYTES:
        return {}
    try:
        return unpacked(data)
    except PackCorrupted:
        return {}
