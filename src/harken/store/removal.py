"""Taking things out of the file: out of their packs, and all that leads to them.

Whoever does this holds a transaction that raises the generation, and knows that nothing that stays
needs what goes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping

from harken.store import kept, packs
from harken.store.base import Name, Thing
from harken.store.graph import opened
from harken.store.index import key_of, leave, places
from harken.store.pack import Body


def remove(
    store: str,
    connection: sqlite3.Connection,
    names: Collection[Name],
    led_from: Mapping[Name, Collection[Name]],
) -> list[Name]:
    """Take things out of every pack that has them; return those that were there.

    `led_from`: the purged commits in whose place a thing is read; their rows lead to it. Rows of
    the history stay: see `forget`. Raises ObjectDamaged where a pack cannot be opened.
    """
    gone = set(names)
    numbers = places(connection, gone)
    for name in gone & led_from.keys():
        for rows in places(connection, led_from[name]).values():
            numbers.setdefault(name, []).extend(rows)
    there: set[Name] = set()
    for row in _rows(connection, numbers.values()):
        things = opened(store, row)
        left = {name: body for name, body in things.items() if name not in gone}
        if len(left) == len(things):
            continue
        there |= things.keys() - left.keys()
        packs.replace(connection, row.first, _things(left))
        same_key = {(name[:-64], key_of(name)) for name in left}
        leave(
            connection,
            [
                (name, number)
                for name in things.keys() - left.keys()
                if (name[:-64], key_of(name)) not in same_key
                for number in numbers.get(name, ())
                if row.first <= number < row.end
            ],
        )
    return [name for name in names if name in there]


def forget(connection: sqlite3.Connection, names: Iterable[Name]) -> None:
    """Take out what leads to things that are gone: rows of the history, and how they are kept."""
    gone = list(names)
    ids = [
        (id_,)
        for name in gone
        if name.startswith("ctx-")
        for (id_,) in connection.execute(
            "SELECT id FROM history WHERE substr(name, 1, 6) = ? AND name = ?",
            [key_of(name), bytes.fromhex(name[4:])],
        ).fetchall()
    ]
    connection.executemany("DELETE FROM label WHERE history = ?", ids)
    connection.executemany("DELETE FROM history WHERE id = ?", ids)
    kept.leave(connection, gone)
    connection.executemany("DELETE FROM again WHERE name = ?", [(name,) for name in gone])


def _rows(connection: sqlite3.Connection, numbers: Iterable[Iterable[int]]) -> Iterable[packs.Row]:
    """Yield the packs under these numbers, each once, the last first."""
    found: dict[int, packs.Row] = {}
    for number in {one for some in numbers for one in some}:
        row = packs.row_of(connection, number)
        if row is not None and row.first <= number:
            found[row.first] = row
    return [found[first] for first in sorted(found, reverse=True)]


def _things(bodies: Mapping[Name, Body]) -> list[Thing]:
    return [Thing(kind, name, body) for name, (kind, body) in bodies.items()]
