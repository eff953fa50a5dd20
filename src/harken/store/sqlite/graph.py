"""The graph of a store's file: which thing needs which, and what is reached from where.

One idea: names become numbers when they are first seen, so a million things fit into memory. All
packs are read once. What is named and not there (purged, or kept elsewhere) is in the graph too.

Taking things out of the file: out of their packs, and all that leads to them.

Whoever does this holds a transaction that raises the generation, and knows that nothing that stays
needs what goes.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from harken.errors import ObjectCorrupted
from harken.store.base import Name, ObjectKind, StoredObject
from harken.store.batch import PREFIXES, needs_of
from harken.store.sqlite import pack_table, side_tables
from harken.store.sqlite.name_index import key_prefix, leave, places
from harken.store.sqlite.pack import Body, PackCorrupted, unpacked

Node: TypeAlias = int
"""The number of a name in a graph."""
Progress: TypeAlias = Callable[[int, int], None]
"""Told now and then how much is done, of how much."""


@dataclass(slots=True)
class Graph:
    """Names as nodes. What it has beside them is by node."""

    _nodes: dict[bytes, Node] = field(default_factory=dict)
    _digests: list[bytes] = field(default_factory=list)
    kinds: bytearray = field(default_factory=bytearray)
    """0 for what is not there."""
    numbers: array[int] = field(default_factory=lambda: array("q"))
    """The highest number that a thing may have been written under."""
    sizes: array[float] = field(default_factory=lambda: array("d"))
    """How many bytes of its pack a thing takes, about."""
    needs: list[tuple[Node, ...]] = field(default_factory=list)

    def node(self, name: Name) -> Node:
        """Return the node of a full name."""
        digest = bytes.fromhex(name[-64:])
        found = self._nodes.get(digest)
        if found is None:
            found = self._nodes[digest] = len(self._digests)
            self._digests.append(digest)
            self.kinds.append(0)
            self.numbers.append(0)
            self.sizes.append(0.0)
            self.needs.append(())
        return found

    def find(self, name: Name) -> Node | None:
        """Return the node of a name, if it is in the graph; any text may be asked for."""
        try:
            return self._nodes.get(bytes.fromhex(name[-64:]))
        except ValueError:
            return None

    def name(self, node: Node) -> Name:
        """Return the full name of a thing that is there."""
        return PREFIXES.get(ObjectKind(self.kinds[node]), "") + self._digests[node].hex()

    def __iter__(self) -> Iterator[Node]:
        """Yield the things that are there."""
        return (node for node, kind in enumerate(self.kinds) if kind)

    def take(self, row: pack_table.PackRow, things: Mapping[Name, Body]) -> list[Node]:
        """Add the things of a pack; return their nodes."""
        whole = sum(len(body) for _, body in things.values()) or 1
        found: list[Node] = []
        for name, (kind, body) in things.items():
            node = self.node(name)
            self.kinds[node], self.numbers[node] = kind, row.end - 1
            self.sizes[node] += len(row.data) * len(body) / whole
            self.needs[node] = tuple(map(self.node, needs_of(kind, body)))
            found.append(node)
        return found

    def replace(self, stand_ins: Mapping[Name, Name]) -> None:
        """Let what was purged need what stands for it."""
        for name, other in stand_ins.items():
            if other:
                self.needs[self.node(name)] = (self.node(other),)

    def reach(self, roots: Iterable[Node], reached: bytearray | None = None) -> bytearray:
        """Return, by node, whether it is a root or needed by one; `reached`: what is already."""
        starts = list(roots)  # some are new names
        found = bytearray() if reached is None else reached
        found.extend(bytes(len(self._digests) - len(found)))
        waiting = [root for root in starts if not found[root]]
        for root in waiting:
            found[root] = 1
        while waiting:
            for node in self.needs[waiting.pop()]:
                if not found[node]:
                    found[node] = 1
                    waiting.append(node)
        return found

    def users_first(self, some: Iterable[Node]) -> list[Node]:
        """Return nodes so that each stands before those of them that it needs.

        As far as that leaves a choice, in the order of their packs, the last first.
        """
        users = dict.fromkeys(some, 0)
        for node in users:
            for need in self.needs[node]:
                if need in users:
                    users[need] += 1
        free = [(-self.numbers[node], node) for node, count in users.items() if not count]
        heapify(free)
        found: list[Node] = []
        while free:
            _, node = heappop(free)
            found.append(node)
            for need in self.needs[node]:
                if need in users:
                    users[need] -= 1
                    if not users[need]:
                        heappush(free, (-self.numbers[need], need))
        return found


def load_pack(store: str, row: pack_table.PackRow) -> dict[Name, Body]:
    """Open a pack. Raises ObjectCorrupted: who cannot read what is needed removes nothing."""
    try:
        return unpacked(row.data)
    except PackCorrupted as error:
        reason = f"{error}; `harken store fsck` lists all damage"
        raise ObjectCorrupted(store, f"pack {row.first}", reason=reason) from None


def graph_of(
    store: str, connection: sqlite3.Connection, on_progress: Progress | None = None
) -> Graph:
    """Return the graph of all that is in the file. Raises ObjectCorrupted."""
    graph = Graph()
    last = pack_table.last_number(connection)
    for row in pack_table.rows(connection):
        graph.take(row, load_pack(store, row))
        if on_progress is not None:
            on_progress(row.first, 2 * last)
    return graph


def remove(
    store: str,
    connection: sqlite3.Connection,
    names: Collection[Name],
    led_from: Mapping[Name, Collection[Name]],
) -> list[Name]:
    """Take things out of every pack that has them; return those that were there.

    `led_from`: the purged commits in whose place a thing is read; their rows lead to it. Rows of
    the history stay: see `forget`. Raises ObjectCorrupted where a pack cannot be opened.
    """
    gone = set(names)
    numbers = places(connection, gone)
    for name in gone & led_from.keys():
        for rows in places(connection, led_from[name]).values():
            numbers.setdefault(name, []).extend(rows)
    there: set[Name] = set()
    for row in _rows(connection, numbers.values()):
        things = load_pack(store, row)
        left = {name: body for name, body in things.items() if name not in gone}
        if len(left) == len(things):
            continue
        there |= things.keys() - left.keys()
        pack_table.replace(connection, row.first, _things(left))
        same_key = {(name[:-64], key_prefix(name)) for name in left}
        leave(
            connection,
            [
                (name, number)
                for name in things.keys() - left.keys()
                if (name[:-64], key_prefix(name)) not in same_key
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
            [key_prefix(name), bytes.fromhex(name[4:])],
        ).fetchall()
    ]
    connection.executemany("DELETE FROM label WHERE history = ?", ids)
    connection.executemany("DELETE FROM history WHERE id = ?", ids)
    side_tables.leave(connection, gone)
    connection.executemany("DELETE FROM again WHERE name = ?", [(name,) for name in gone])


def _rows(
    connection: sqlite3.Connection, numbers: Iterable[Iterable[int]]
) -> Iterable[pack_table.PackRow]:
    """Yield the packs under these numbers, each once, the last first."""
    found: dict[int, pack_table.PackRow] = {}
    for number in {one for some in numbers for one in some}:
        row = pack_table.row_of(connection, number)
        if row is not None and row.first <= number:
            found[row.first] = row
    return [found[first] for first in sorted(found, reverse=True)]


def _things(bodies: Mapping[Name, Body]) -> list[StoredObject]:
    return [StoredObject(kind, name, body) for name, (kind, body) in bodies.items()]
