"""Eviction from the file: remove parts and raw bytes that another store has.

Only objects without needs are removed. Messages, deltas and commits stay, so all references are
known locally: needed objects can be told from others, and a history can be read. The records of
tickets and imported files stay, too, so that they can be listed. An evicted name
counts as existing: written objects may need it.

Source: docs/formats/store.md, "Eviction".
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeAlias

from harken.store.base import EvictionResult, Name, ObjectKind
from harken.store.sqlite import pack_table, side_tables
from harken.store.sqlite.database import SqliteConnection
from harken.store.sqlite.graph import Graph, Node, build_graph, remove_objects
from harken.store.sqlite.name_index import iter_batches
from harken.store.sqlite.side_tables import read_artifact_heads, read_retention, replace_rows

_BATCH_SIZE = 256
Verify: TypeAlias = Callable[[Sequence[Name]], Iterable[Name]]
"""Returns those of these parts and raw artifacts that the backing store has, verified."""


class EvictableStore(Protocol):
    """The part of `SqliteStore` that eviction needs."""

    path: Path

    def snapshot(self) -> AbstractContextManager[SqliteConnection]:
        """Read a consistent snapshot of the file."""
        ...

    def removing(self) -> AbstractContextManager[SqliteConnection]:
        """Hold a transaction that removes objects."""
        ...


def evict(store: EvictableStore, most_bytes: int, is_there: Verify) -> EvictionResult:
    """Evict the least recently used objects until all packs take at most `most_bytes`.

    Pinned objects stay, and so do objects that the backing store lacks. Raises StoreError.
    """
    with store.snapshot() as connection:
        graph = build_graph(str(store.path), connection)
        (total,) = connection.execute("SELECT coalesce(sum(length(data)), 0) FROM pack").fetchone()
        candidates = list(_iter_least_used(connection, graph))
    object_count, size = 0, 0.0
    for batch in iter_batches(candidates, _BATCH_SIZE):
        if total - size <= most_bytes:
            break
        by_name = {graph.name(node): node for node in batch}
        existing = [name for name in is_there(list(by_name)) if name in by_name]
        selected = list(
            _take_until_size(graph, (by_name[name] for name in existing), total - size - most_bytes)
        )
        with store.removing() as connection:
            retained = _find_retained(connection, graph)
            names = [graph.name(node) for node in selected if not retained[node]]
            removed = remove_objects(str(store.path), connection, names, {})
            rows = [(name, graph.kinds[by_name[name]]) for name in removed]
            replace_rows(connection, "evicted", rows)
        object_count += len(removed)
        size += sum(graph.sizes[by_name[name]] for name in removed)
    return EvictionResult(object_count, int(size))


def find_evicted_needs(store: EvictableStore, names: Iterable[Name]) -> list[Name]:
    """Return the transitive needs of these names that were evicted."""
    with store.snapshot() as connection:
        graph = build_graph(str(store.path), connection)
        reachable = graph.reach(map(graph.node, names))
        rows = connection.execute("SELECT name FROM evicted ORDER BY name").fetchall()
    candidates = ((name, graph.find(name)) for (name,) in rows)
    return [name for name, node in candidates if node is not None and reachable[node]]


def _find_retained(connection: sqlite3.Connection, graph: Graph) -> bytearray:
    """Return, by node, whether it is retained.

    Retained are pinned objects and their needs, stand-ins of purged content, and records of heads.
    """
    policies = read_retention(connection).items()
    retained_names = [name for name, policy in policies if policy.policy in ("pin", "replicate")]
    retained_names += filter(None, side_tables.read_stand_ins(connection).values())
    retained = graph.reach(map(graph.node, retained_names))
    versions = graph.reach(map(graph.node, read_artifact_heads(connection).values()))
    for node, needs in enumerate(graph.needs):
        if versions[node] and graph.kinds[node] == ObjectKind.SEQUENCE and needs:
            retained[needs[0]] = True  # Tickets and files are listed without the backing store.
    return retained


def _iter_least_used(connection: sqlite3.Connection, graph: Graph) -> Iterator[Node]:
    """Yield parts and raw bytes that are not pinned, least recently used first."""
    retained = _find_retained(connection, graph)
    marks = connection.execute("SELECT pack, time_us FROM mark ORDER BY pack, time_us").fetchall()
    used_us_by_number: dict[int, int] = dict(connection.execute("SELECT pack, time_us FROM used"))
    used_us_by_pack: dict[int, int] = {}
    for row in pack_table.iter_rows(connection):
        index = bisect_left(marks, (row.first, 0))
        written_us = marks[index][1] if index < len(marks) else 2**62
        used_us_by_pack[row.end - 1] = max(used_us_by_number.get(row.first, 0), written_us)
    leaves = (
        node
        for node in graph
        if graph.kinds[node] in (ObjectKind.PART, ObjectKind.RAW) and not retained[node]
    )
    yield from sorted(leaves, key=lambda node: (used_us_by_pack.get(graph.numbers[node], 0), node))


def _take_until_size(graph: Graph, nodes: Iterable[Node], size_bytes: float) -> Iterator[Node]:
    """Yield nodes until their sizes reach `size_bytes`."""
    for node in nodes:
        if size_bytes <= 0:
            return
        yield node
        size_bytes -= graph.sizes[node]
