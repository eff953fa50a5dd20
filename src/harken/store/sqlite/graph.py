"""The dependency graph of a store's file, and the removal of objects.

Names become numbers when they are first seen, so a million objects fit into memory. All packs are
read once. A name without object (purged, or evicted) is in the graph too.

Objects are removed from their packs and from all tables that point to them. The caller holds a
transaction that raises the generation, and knows that no remaining object needs a removed one.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import msgspec

from harken.errors import ObjectCorrupted
from harken.store.base import Name, ObjectKind, Progress, StoredObject
from harken.store.batch import PREFIX_BY_KIND, parse_needs
from harken.store.sqlite import pack_table, side_tables
from harken.store.sqlite.name_index import delete_keys, find_numbers, key_prefix
from harken.store.sqlite.pack import Body, PackCorrupted, decode_objects

Node: TypeAlias = int
"""The number of a name in a graph."""


class Graph(msgspec.Struct):
    """A graph of names as nodes. Its attributes are indexed by node."""

    _nodes: dict[bytes, Node] = msgspec.field(default_factory=dict)
    _digests: list[bytes] = msgspec.field(default_factory=list)
    kinds: bytearray = msgspec.field(default_factory=bytearray)
    """0 for an object that does not exist."""
    numbers: array[int] = msgspec.field(default_factory=lambda: array("q"))
    """The highest number that an object may have been written under."""
    sizes: array[float] = msgspec.field(default_factory=lambda: array("d"))
    """The estimated share of an object in its pack, in bytes."""
    needs: list[tuple[Node, ...]] = msgspec.field(default_factory=list)

    def node(self, name: Name) -> Node:
        """Return the node of a full name, which is added if it is new."""
        digest = bytes.fromhex(name[-64:])
        node = self._nodes.get(digest)
        if node is None:
            node = self._nodes[digest] = len(self._digests)
            self._digests.append(digest)
            self.kinds.append(0)
            self.numbers.append(0)
            self.sizes.append(0.0)
            self.needs.append(())
        return node

    def find(self, name: Name) -> Node | None:
        """Return the node of a name, or None. The name may be any text."""
        try:
            return self._nodes.get(bytes.fromhex(name[-64:]))
        except ValueError:
            return None

    def name(self, node: Node) -> Name:
        """Return the full name of an existing object."""
        return PREFIX_BY_KIND.get(ObjectKind(self.kinds[node]), "") + self._digests[node].hex()

    def __iter__(self) -> Iterator[Node]:
        """Yield the nodes of existing objects."""
        return (node for node, kind in enumerate(self.kinds) if kind)

    def add_pack(self, row: pack_table.PackRow, objects: Mapping[Name, Body]) -> list[Node]:
        """Add the objects of a pack and return their nodes."""
        total_bytes = sum(len(body) for _, body in objects.values()) or 1
        nodes: list[Node] = []
        for name, (kind, body) in objects.items():
            node = self.node(name)
            self.kinds[node], self.numbers[node] = kind, row.end - 1
            self.sizes[node] += len(row.data) * len(body) / total_bytes
            self.needs[node] = tuple(map(self.node, parse_needs(kind, body)))
            nodes.append(node)
        return nodes

    def add_stand_ins(self, stand_ins: Mapping[Name, Name]) -> None:
        """Add an edge from each purged name to its stand-in."""
        for name, stand_in in stand_ins.items():
            if stand_in:
                self.needs[self.node(name)] = (self.node(stand_in),)

    def reach(self, roots: Iterable[Node], reached: bytearray | None = None) -> bytearray:
        """Return, by node, whether it is reachable from the roots. Extends `reached` if given."""
        starts = list(roots)  # Evaluating `roots` may add names.
        flags = bytearray() if reached is None else reached
        flags.extend(bytes(len(self._digests) - len(flags)))
        stack = [root for root in starts if not flags[root]]
        for root in stack:
            flags[root] = 1
        while stack:
            for node in self.needs[stack.pop()]:
                if not flags[node]:
                    flags[node] = 1
                    stack.append(node)
        return flags

    def sort_users_first(self, nodes: Iterable[Node]) -> list[Node]:
        """Sort nodes so that each precedes those that it needs.

        Independent nodes are in the order of their packs, the last first.
        """
        users = dict.fromkeys(nodes, 0)
        for node in users:
            for need in self.needs[node]:
                if need in users:
                    users[need] += 1
        heap = [(-self.numbers[node], node) for node, count in users.items() if not count]
        heapify(heap)
        ordered: list[Node] = []
        while heap:
            _, node = heappop(heap)
            ordered.append(node)
            for need in self.needs[node]:
                if need in users:
                    users[need] -= 1
                    if not users[need]:
                        heappush(heap, (-self.numbers[need], need))
        return ordered


def load_pack(store: str, row: pack_table.PackRow) -> dict[Name, Body]:
    """Decode a pack. Raises ObjectCorrupted, so that nothing is removed if a need is unreadable."""
    try:
        return decode_objects(row.data)
    except PackCorrupted as error:
        reason = f"{error}; `harken store fsck` lists all damage"
        raise ObjectCorrupted(store, f"pack {row.first}", reason=reason) from None


def build_graph(
    store: str, connection: sqlite3.Connection, on_progress: Progress | None = None
) -> Graph:
    """Build the graph of all objects in the file. Raises ObjectCorrupted."""
    graph = Graph()
    last = pack_table.last_number(connection)
    for row in pack_table.iter_rows(connection):
        graph.add_pack(row, load_pack(store, row))
        if on_progress is not None:
            on_progress(row.first, 2 * last)
    return graph


def remove_objects(
    store: str,
    connection: sqlite3.Connection,
    names: Collection[Name],
    led_from: Mapping[Name, Collection[Name]],
) -> list[Name]:
    """Remove objects from all packs that contain them, and return those that existed.

    `led_from` maps a stand-in to the purged commits whose rows point to it. Rows of the history
    stay:
    see `forget`. Raises ObjectCorrupted if a pack cannot be decoded.
    """
    removable = set(names)
    numbers = find_numbers(connection, removable)
    for name in removable & led_from.keys():
        for rows in find_numbers(connection, led_from[name]).values():
            numbers.setdefault(name, []).extend(rows)
    removed: set[Name] = set()
    for row in _read_rows(connection, numbers.values()):
        objects = load_pack(store, row)
        remaining = {name: body for name, body in objects.items() if name not in removable}
        if len(remaining) == len(objects):
            continue
        removed |= objects.keys() - remaining.keys()
        pack_table.replace_content(connection, row.first, _build_objects(remaining))
        same_key = {(name[:-64], key_prefix(name)) for name in remaining}
        delete_keys(
            connection,
            [
                (name, number)
                for name in objects.keys() - remaining.keys()
                if (name[:-64], key_prefix(name)) not in same_key
                for number in numbers.get(name, ())
                if row.first <= number < row.end
            ],
        )
    return [name for name in names if name in removed]


def remove_references(connection: sqlite3.Connection, names: Iterable[Name]) -> None:
    """Remove the rows of the history and the retention policies of removed objects."""
    removed_names = list(names)
    ids = [
        (id_,)
        for name in removed_names
        if name.startswith("ctx-")
        for (id_,) in connection.execute(
            "SELECT id FROM history WHERE substr(name, 1, 6) = ? AND name = ?",
            [key_prefix(name), bytes.fromhex(name[4:])],
        ).fetchall()
    ]
    connection.executemany("DELETE FROM label WHERE history = ?", ids)
    connection.executemany("DELETE FROM history WHERE id = ?", ids)
    side_tables.delete_retention(connection, removed_names)
    side_tables.delete_rows(connection, "again", removed_names)


def _read_rows(
    connection: sqlite3.Connection, numbers: Iterable[Iterable[int]]
) -> Iterable[pack_table.PackRow]:
    """Return the packs with these numbers, without duplicates, the last first."""
    by_first: dict[int, pack_table.PackRow] = {}
    for number in {number for group in numbers for number in group}:
        row = pack_table.find_row(connection, number)
        if row is not None and row.first <= number:
            by_first[row.first] = row
    return [by_first[first] for first in sorted(by_first, reverse=True)]


def _build_objects(bodies: Mapping[Name, Body]) -> list[StoredObject]:
    return [StoredObject(kind, name, body) for name, (kind, body) in bodies.items()]
