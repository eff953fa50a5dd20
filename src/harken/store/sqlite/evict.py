"""Eviction in the file: parts and raw bytes go from here where another store has them.

One idea: only what needs nothing goes. Messages, deltas and commits stay, so what leads where is
known here for good: what is needed can still be told from what is not, and a history can be read.
A name that went counts as there: what is written may need it.

Source: docs/formats/store.md, "Eviction".
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from harken.store.base import Name, ObjectKind
from harken.store.sqlite import pack_table
from harken.store.sqlite.database import SqliteConnection
from harken.store.sqlite.graph import Graph, Node, graph_of, remove
from harken.store.sqlite.name_index import slices
from harken.store.sqlite.side_tables import kept

_AT_ONCE = 256
Verify: TypeAlias = Callable[[Sequence[Name]], Iterable[Name]]
"""Returns those of these parts and raw artifacts that the backing store has, whole."""


@dataclass(frozen=True, slots=True)
class EvictionResult:
    """What went from here."""

    things: int = 0
    size_bytes: int = 0
    """How much smaller the packs are, about."""


class EvictableStore(Protocol):
    """What is needed of a store in a file."""

    path: Path

    def snapshot(self) -> AbstractContextManager[SqliteConnection]:
        """See the file as it is now."""
        ...

    def removing(self) -> AbstractContextManager[SqliteConnection]:
        """Hold a transaction that takes things away."""
        ...


def evict(store: EvictableStore, most_bytes: int, is_there: Verify) -> EvictionResult:
    """Take out what was used least lately, until all packs take at most so many bytes.

    What is pinned stays, and so does what the backing store does not have. Raises StoreError.
    """
    with store.snapshot() as connection:
        graph = graph_of(str(store.path), connection)
        (total,) = connection.execute("SELECT coalesce(sum(length(data)), 0) FROM pack").fetchone()
        candidates = list(_least_used(connection, graph))
    things, size = 0, 0.0
    for some in slices(candidates, _AT_ONCE):
        if total - size <= most_bytes:
            break
        by_name = {graph.name(node): node for node in some}
        there = [name for name in is_there(list(by_name)) if name in by_name]
        wanted = list(_enough(graph, (by_name[name] for name in there), total - size - most_bytes))
        with store.removing() as connection:
            held = _held(connection, graph)
            names = [graph.name(node) for node in wanted if not held[node]]
            gone = remove(str(store.path), connection, names, {})
            rows = [(name, graph.kinds[by_name[name]]) for name in gone]
            connection.executemany(
                "INSERT OR REPLACE INTO evicted (name, kind) VALUES (?, ?)", rows
            )
        things += len(gone)
        size += sum(graph.sizes[by_name[name]] for name in gone)
    return EvictionResult(things, int(size))


def needed_elsewhere(store: EvictableStore, names: Iterable[Name]) -> list[Name]:
    """Return what these need, however deep, and what is not here."""
    with store.snapshot() as connection:
        graph = graph_of(str(store.path), connection)
        reached = graph.reach(map(graph.node, names))
        rows = connection.execute("SELECT name FROM evicted ORDER BY name").fetchall()
    found = ((name, graph.find(name)) for (name,) in rows)
    return [name for name, node in found if node is not None and reached[node]]


def _held(connection: sqlite3.Connection, graph: Graph) -> bytearray:
    """Return, by node, whether it is pinned, or needed by something that is."""
    keeping = kept(connection).items()
    stay = [name for name, one in keeping if one.policy in ("pin", "replicate")]
    return graph.reach(map(graph.node, stay))


def _least_used(connection: sqlite3.Connection, graph: Graph) -> Iterator[Node]:
    """Yield parts and raw bytes that are not held; those used least lately first."""
    held = _held(connection, graph)
    marks = connection.execute("SELECT pack, time_us FROM mark ORDER BY pack, time_us").fetchall()
    used: dict[int, int] = dict(connection.execute("SELECT pack, time_us FROM used"))
    last: dict[int, int] = {}
    for row in pack_table.rows(connection):
        at = bisect_left(marks, (row.first, 0))
        written_us = marks[at][1] if at < len(marks) else 2**62
        last[row.end - 1] = max(used.get(row.first, 0), written_us)
    leaves = (
        node
        for node in graph
        if graph.kinds[node] in (ObjectKind.PART, ObjectKind.RAW) and not held[node]
    )
    yield from sorted(leaves, key=lambda node: (last.get(graph.numbers[node], 0), node))


def _enough(graph: Graph, nodes: Iterable[Node], size_bytes: float) -> Iterator[Node]:
    """Yield nodes until they take so many bytes."""
    for node in nodes:
        if size_bytes <= 0:
            return
        yield node
        size_bytes -= graph.sizes[node]
