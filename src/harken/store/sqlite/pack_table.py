"""The table of packs, each of which holds the objects of a range of numbers.

A row holds the objects of its own number and of all numbers up to the next row's, so rows can be
merged without changing the index. The last row is never merged with others and never removed: the
next one gets the number after it, and no number is used twice.

Source: docs/formats/store.md, "Packs".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from harken.store.base import StoredObject
from harken.store.sqlite.database import VERSION, read_version
from harken.store.sqlite.pack import (
    Body,
    EncodedPack,
    PackCorrupted,
    decode_objects,
    encode_pack,
    encode_packs,
    has_raw_frame,
)

BLOCK = 64
"""Small packs in a block of so many numbers are merged when the block is complete."""
_SMALL_BYTES = 5 * 1024
_FULL_BYTES = 64 * 1024
"""The size of a merged pack, measured by packs that are compressed alone: merged they are half as
long.
"""


class PackRow(msgspec.Struct, frozen=True):
    """A row of the pack table, with the numbers from `first` up to and without `end`."""

    first: int
    end: int
    data: bytes


class NumberedPack(msgspec.Struct, frozen=True):
    """The number of a pack, and its content."""

    first: int
    objects: Mapping[str, Body]


def insert_packs(
    connection: sqlite3.Connection,
    objects: Collection[StoredObject],
    recent: dict[int, EncodedPack],
) -> Iterator[tuple[int, EncodedPack]]:
    """Write new objects, each after its needs. Yield each pack and its number.

    recent: the small packs that this process has written last, which need not be decoded to be
    merged. They are replaced by those that are not merged yet.
    """
    first = number = 0
    for pack in encode_packs(objects):
        # SQLite assigns the number after that of the last row.
        cursor = connection.execute(
            "INSERT INTO pack (data) VALUES (?)", [_raise_version_for(connection, pack)]
        )
        assert cursor.lastrowid is not None
        number = cursor.lastrowid
        first = first or number
        if len(pack.data) <= _SMALL_BYTES:
            recent[number] = pack
        yield number, pack
    if number and compact(connection, first - 1, number, recent):
        recent.clear()


def last_number(connection: sqlite3.Connection) -> int:
    """Return the highest pack number, which is 0 in an empty table."""
    (number,) = connection.execute("SELECT max(id) FROM pack").fetchone()
    return number or 0


def iter_rows(connection: sqlite3.Connection, start: int = 0) -> Iterator[PackRow]:
    """Yield the packs from the one that holds `start`, in order, each as it is when it is read.

    Packs may be written between two steps: nothing that stays is left out, but objects of packs
    that were merged meanwhile may be repeated.
    """
    number = start
    while (row := find_row(connection, number)) is not None:
        yield row
        number = row.end


def find_row(connection: sqlite3.Connection, number: int) -> PackRow | None:
    """Return the pack that holds a number, else the first after it, or None."""
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


def replace_content(
    connection: sqlite3.Connection, first: int, objects: Sequence[StoredObject]
) -> None:
    """Replace the content of a pack. An empty pack is removed, unless it is the last one.

    The generation must be raised in the same transaction.
    """
    if objects or first == last_number(connection):
        data = _raise_version_for(connection, encode_pack(list(objects)))
        connection.execute("UPDATE pack SET data = ? WHERE id = ?", [data, first])
    else:
        connection.execute("DELETE FROM pack WHERE id = ?", [first])


def merge_packs(connection: sqlite3.Connection, run: Sequence[NumberedPack]) -> None:
    """Merge adjacent packs into one without duplicate objects."""
    if len(run) > 1:
        objects: dict[str, StoredObject] = {}
        for pack in run:
            for name, (kind, body) in pack.objects.items():
                objects.setdefault(name, StoredObject(kind, name, body))
        first, last = run[0].first, run[-1].first
        data = _raise_version_for(connection, encode_pack(list(objects.values())))
        connection.execute("UPDATE pack SET data = ? WHERE id = ?", [data, first])
        connection.execute("DELETE FROM pack WHERE id > ? AND id <= ?", [first, last])


def raise_generation(connection: sqlite3.Connection) -> None:
    """Tell all processes to clear their caches, because objects were removed."""
    connection.execute("UPDATE state SET generation = generation + 1")


def compact(
    connection: sqlite3.Connection, before: int, last: int, recent: Mapping[int, EncodedPack]
) -> bool:
    """Merge small packs in the blocks of numbers that `last` completed. Return whether it did."""
    blocks = range(before // BLOCK, last // BLOCK)
    for block in blocks:
        _compact_block(connection, block * BLOCK, (block + 1) * BLOCK, recent)
    return bool(blocks)


def _raise_version_for(connection: sqlite3.Connection, pack: EncodedPack) -> bytes:
    """Return the bytes of a pack, and raise the file's version if the form requires it."""
    if has_raw_frame(pack.data) and read_version(connection) < VERSION:
        connection.execute(f"PRAGMA user_version={VERSION}")
    return pack.data


def _compact_block(
    connection: sqlite3.Connection, start: int, end: int, recent: Mapping[int, EncodedPack]
) -> None:
    """Merge adjacent small packs among these numbers."""
    run: list[NumberedPack] = []
    size = 0
    query = "SELECT id, data FROM pack WHERE id >= ? AND id < ? ORDER BY id"
    for first, data in connection.execute(query, [start, end]).fetchall():
        objects = _read_small(data, recent.get(first))
        if not objects or size + len(data) > _FULL_BYTES:
            merge_packs(connection, run)
            run, size = [], 0
        if objects:
            run.append(NumberedPack(first, objects))
            size += len(data)
    merge_packs(connection, run)


def _read_small(data: bytes, written: EncodedPack | None) -> Mapping[str, Body]:
    """Return the content of a small pack. It is empty for a large or damaged one.

    written: the pack that this process wrote under the number. Its bytes may be others by now.
    """
    if len(data) > _SMALL_BYTES:
        return {}
    if written is not None and written.data == data:
        return written.objects
    try:
        return decode_objects(data)
    except PackCorrupted:
        return {}
