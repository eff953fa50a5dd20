"""Mark-and-sweep garbage collection of a SQLite store, concurrent with writers.

The needed objects are determined on a snapshot, without blocking writers. Then the others are
removed in short transactions, users before their needs. Each transaction first looks at what was
written, named and retained since the snapshot, and spares that and all its needs. So an object that
a writer finds in its own transaction stays, and between two transactions the file is consistent:
an interrupted collection leaves a store that lacks nothing.

Source: docs/formats/store.md, "Garbage collection".

Afterwards space is reclaimed: small packs are merged, and the file is rewritten.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Protocol

import msgspec

from harken.core.clock import Clock
from harken.core.commits import CommitId
from harken.errors import StoreLocked, StoreWriteError
from harken.store.base import GcResult, Name, ObjectKind, Progress, RetentionPolicy, UnusedSpace
from harken.store.retention import active_names, has_expired
from harken.store.sqlite import pack_table, side_tables
from harken.store.sqlite.database import SqliteConnection, SqliteDatabase, convert_errors
from harken.store.sqlite.graph import (
    Graph,
    Node,
    build_graph,
    load_pack,
    remove_objects,
    remove_references,
)
from harken.store.sqlite.side_tables import read_artifact_heads, read_branches, read_retention
from harken.store.sqlite.writer import MARK_US, record_mark

SMALL_BYTES = 5 * 1024
_MERGED_PACK_BYTES = 64 * 1024
_MIN_RUN_PACKS = 4
"""Fewer adjacent small packs are not worth a merge."""
_MIN_FREE_SHARE = 0.25
_MIN_FREE_BYTES = 1024 * 1024
_POLL_INTERVAL_S = 0.05


def find_small_runs(connection: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each run of adjacent small packs.

    The last pack is in no run: see `pack_table`.
    """
    last = pack_table.last_number(connection)
    run: list[int] = []
    size = 0
    sizes = "SELECT id, length(data) FROM pack WHERE id < ? ORDER BY id"
    for first, size_bytes in connection.execute(sizes, [last]).fetchall():
        if size_bytes > SMALL_BYTES or size + size_bytes > _MERGED_PACK_BYTES:
            if len(run) >= _MIN_RUN_PACKS:
                yield run[0], run[-1]
            run, size = [], 0
        if size_bytes <= SMALL_BYTES:
            run.append(first)
            size += size_bytes
    if len(run) >= _MIN_RUN_PACKS:
        yield run[0], run[-1]


def merge_packs(store: str, connection: sqlite3.Connection, first: int, last: int) -> None:
    """Merge the packs from the first to the last, if they are still small.

    Numbers stay valid, so caches of other processes do too.
    """
    run: list[pack_table.NumberedPack] = []
    size = 0
    for row in pack_table.iter_rows(connection, first):
        size += len(row.data)
        is_end = row.first > last or row.first == pack_table.last_number(connection)
        if is_end or size > 2 * _MERGED_PACK_BYTES:
            break
        run.append(pack_table.NumberedPack(row.first, load_pack(store, row)))
    pack_table.merge_packs(connection, run)


def measure_unused(connection: sqlite3.Connection) -> UnusedSpace:
    """Return how many bytes of the file are unused."""
    pragmas = ("freelist_count", "page_count", "page_size")
    free, pages, size = (connection.execute(f"PRAGMA {p}").fetchone()[0] for p in pragmas)
    is_much = free >= pages * _MIN_FREE_SHARE and free * size >= _MIN_FREE_BYTES
    return UnusedSpace(free * size if is_much else 0, 2 * (pages - free) * size)


def rewrite_file(database: SqliteDatabase, patience_s: float) -> None:
    """Rewrite the file without unused pages, and truncate its log.

    Then no byte of removed objects remains. Raises StoreLocked if other connections read or write
    for longer than `patience_s`.
    """
    deadline_s = time.monotonic() + patience_s
    with convert_errors(database.path):
        connection = database.connection()
        connection.execute(f"PRAGMA busy_timeout={int(patience_s * 1000)}")
        try:
            connection.execute("VACUUM")
            # A reader of an older snapshot keeps its pages in the log.
            while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > deadline_s:
                    raise StoreLocked(database.path)
                time.sleep(_POLL_INTERVAL_S)
        finally:
            connection.execute(f"PRAGMA busy_timeout={int(database.patience_s * 1000)}")


_OBJECTS_PER_BATCH = 2048
"""The maximum number of objects that one transaction removes,"""
_PACKS_PER_BATCH = 24
"""and of the packs that it changes."""
_RUNS_PER_BATCH = 8
_MAX_PAUSE_S = 0.05


class CollectableStore(Protocol):
    """The part of `SqliteStore` that a collection needs."""

    path: Path

    def snapshot(self) -> AbstractContextManager[SqliteConnection]:
        """Read a consistent snapshot of the file."""
        ...

    def removing(self) -> AbstractContextManager[SqliteConnection]:
        """Hold a transaction that removes objects."""
        ...

    def rewrite_file(self, patience_s: float) -> None:
        """Rewrite the file without unused pages. Raises StoreLocked."""
        ...


class Sweep(msgspec.Struct, kw_only=True):
    """A garbage collection."""

    store: CollectableStore
    roots: Collection[Name]
    """Names that stay."""
    now_us: int
    before_us: int
    """Objects written later stay. At or after `now_us`: all objects are old enough."""
    clock: Clock
    on_progress: Progress | None = None
    _graph: Graph = msgspec.field(default_factory=Graph)
    _reached: bytearray = msgspec.field(default_factory=bytearray)
    _last: int = 0
    """The highest pack number that was scanned."""
    _purged: dict[Name, list[Name]] = msgspec.field(default_factory=dict)
    """Stand-in -> the purged commits that it replaces."""

    def plan(self) -> GcResult:
        """Return the result of a collection now. Nothing is changed."""
        with self.store.snapshot() as connection:
            self._mark(connection)
        return self._build_result(self._iter_dead())

    def run(self) -> GcResult:
        """Remove all unneeded objects."""
        with self.store.removing() as connection:
            self._begin(connection)
        with self.store.snapshot() as connection:
            self._mark(connection)
        dead_nodes = self._graph.sort_users_first(self._iter_dead())
        removed: list[Node] = []
        for batch in self._iter_batches(dead_nodes):
            start_s = time.monotonic()
            with self.store.removing() as connection:
                removed += self._remove_batch(connection, batch)
            if self.on_progress is not None:
                self.on_progress(len(dead_nodes) + len(removed), 2 * len(dead_nodes))
            time.sleep(min(time.monotonic() - start_s, _MAX_PAUSE_S))  # Other writers get a turn.
        with self.store.removing() as connection:
            self._remove_dangling(connection)
        self._shrink()
        return self._build_result(removed)

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Ensure that every object written again from now on is recorded in table `again`."""
        last_number = pack_table.last_number(connection)
        (marked_number,) = connection.execute("SELECT max(pack) FROM mark").fetchone()
        if last_number > (marked_number or 0):
            record_mark(connection, self.clock(), last_number)
        old_number = self._find_old_number(connection)
        limit = last_number + 1 if old_number is None else old_number
        rows = connection.execute("SELECT name FROM again WHERE pack < ?", [limit]).fetchall()
        side_tables.delete_rows(connection, "again", (name for (name,) in rows))

    def _find_old_number(self, connection: sqlite3.Connection) -> int | None:
        """Return the highest pack number that is certainly old enough, or None if all are."""
        if self.before_us >= self.now_us:
            return None
        old_number, marked_us = 0, None
        for time_us, number in connection.execute(
            "SELECT time_us, pack FROM mark ORDER BY time_us"
        ):
            old_number, marked_us = (
                (number, time_us) if time_us <= self.before_us else (old_number, None)
            )
        # A writer adds a new mark after this time, so nothing was written since the last mark.
        is_quiet = marked_us is not None and marked_us + MARK_US <= self.before_us
        return pack_table.last_number(connection) if is_quiet else old_number

    def _mark(self, connection: sqlite3.Connection) -> None:
        """Mark the needed objects."""
        graph = self._graph = build_graph(str(self.store.path), connection, self.on_progress)
        stand_ins = side_tables.read_stand_ins(connection)
        graph.add_stand_ins(stand_ins)
        for name, stand_in in stand_ins.items():
            if name.startswith("ctx-"):
                self._purged.setdefault(stand_in, []).append(name)
        self._last = pack_table.last_number(connection)
        roots = [node for name in self.roots if (node := graph.find(name)) is not None]
        object_stand_ins = (
            stand_in_
            for name, stand_in_ in stand_ins.items()
            if stand_in_ and not name.startswith("ctx-")
        )
        roots += map(graph.node, object_stand_ins)  # A later write of the old content needs them.
        roots += self._iter_young(connection)
        roots += self._iter_retained(connection)
        self._reached = graph.reach(roots)

    def _iter_young(self, connection: sqlite3.Connection) -> Iterator[Node]:
        """Yield objects that were written, or written again, too recently to be removed."""
        old_number = self._find_old_number(connection)
        if old_number is not None:
            yield from (node for node in self._graph if self._graph.numbers[node] > old_number)
            query = "SELECT name FROM again WHERE pack >= ?"
            yield from (
                self._graph.node(name) for (name,) in connection.execute(query, [old_number])
            )

    def _iter_retained(self, connection: sqlite3.Connection) -> Iterator[Node]:
        """Yield the commits that are roots, and the objects with a retention policy."""
        policies = read_retention(connection)
        yield from map(self._graph.node, active_names(policies, self.now_us))
        labelled_ids = {id_ for (id_,) in connection.execute("SELECT history FROM label")}
        for id_, digest in connection.execute("SELECT id, name FROM history"):
            name = f"ctx-{digest.hex()}"
            if id_ in labelled_ids or not has_expired(policies.get(name), self.now_us):
                yield self._graph.node(name)

    def _iter_dead(self) -> Iterator[Node]:
        return (node for node in self._graph if not self._reached[node])

    def _iter_batches(self, order: Iterable[Node]) -> Iterator[list[Node]]:
        """Yield batches of objects in this order, each for one transaction."""
        batch: list[Node] = []
        numbers: set[int] = set()
        for node in order:
            batch.append(node)
            numbers.add(self._graph.numbers[node])
            if len(batch) == _OBJECTS_PER_BATCH or len(numbers) == _PACKS_PER_BATCH:
                yield batch
                batch, numbers = [], set()
        if batch:
            yield batch

    def _remove_batch(self, connection: sqlite3.Connection, nodes: Collection[Node]) -> list[Node]:
        """Remove objects, except those that became needed since. Return the removed ones."""
        self._mark_new(connection)
        by_name = {self._graph.name(node): node for node in nodes}
        commits = [name for name in by_name if name.startswith("ctx-")]
        self._spare_roots(connection, commits)
        names = [name for name, node in by_name.items() if not self._reached[node]]
        removed_names = remove_objects(str(self.store.path), connection, names, self._purged)
        removed_originals = [
            original for name in removed_names for original in self._purged.get(name, [name])
        ]
        remove_references(connection, removed_originals)
        for name in removed_originals:
            if name not in by_name:  # A purged commit was removed with its stand-in.
                side_tables.clear_stand_in(connection, name)
        return [by_name[name] for name in removed_names]

    def _mark_new(self, connection: sqlite3.Connection) -> None:
        """Mark objects written or retained since the last call, with all their needs."""
        graph = self._graph
        roots: list[Node] = []
        for row in pack_table.iter_rows(connection, self._last + 1):
            roots += graph.add_pack(row, load_pack(str(self.store.path), row))
        self._last = pack_table.last_number(connection)
        repeated_names = connection.execute("SELECT name FROM again").fetchall()
        roots += (graph.node(name) for (name,) in repeated_names)
        roots += map(graph.node, active_names(read_retention(connection), self.now_us))
        roots += map(graph.node, read_artifact_heads(connection).values())
        graph.reach(roots, self._reached)

    def _spare_roots(self, connection: sqlite3.Connection, commits: Iterable[Name]) -> None:
        """Mark commits that have a branch, a label or the default retention again."""
        policies, heads = read_retention(connection), {*read_branches(connection).values()}
        for name in commits:
            for original in self._purged.get(name, [name]):
                if original in heads or not self._can_remove(connection, original, policies):
                    self._graph.reach(
                        [self._graph.node(original), self._graph.node(name)], self._reached
                    )

    def _can_remove(
        self, connection: sqlite3.Connection, name: Name, policies: dict[Name, RetentionPolicy]
    ) -> bool:
        query = "SELECT 1 FROM history h JOIN label ON label.history = h.id WHERE h.name = ?"
        label_row = connection.execute(query, [bytes.fromhex(name[4:])]).fetchone()
        return label_row is None and has_expired(policies.get(name), self.now_us)

    def _remove_dangling(self, connection: sqlite3.Connection) -> None:
        """Remove dangling index entries, and evicted names that are no longer needed."""
        self._mark_new(connection)
        side_tables.delete_dangling_derived(connection)
        rows = connection.execute("SELECT name FROM evicted").fetchall()
        nodes = {name: self._graph.find(name) for (name,) in rows}
        unneeded = [name for name, node in nodes.items() if node is None or not self._reached[node]]
        side_tables.delete_rows(connection, "evicted", unneeded)

    def _shrink(self) -> None:
        """Merge small packs. Rewrite the file if much is free and no other process uses it."""
        with self.store.snapshot() as connection:
            found_runs = list(find_small_runs(connection))
        for start in range(0, len(found_runs), _RUNS_PER_BATCH):
            with self.store.removing() as connection:
                for first, last in found_runs[start : start + _RUNS_PER_BATCH]:
                    merge_packs(str(self.store.path), connection, first, last)
        with self.store.snapshot() as connection:
            waste = measure_unused(connection)
        free_bytes = shutil.disk_usage(self.store.path.parent).free
        if waste.size_bytes and free_bytes > waste.room_bytes:
            # All objects are removed already; `unused` reports the space.
            with suppress(StoreLocked, StoreWriteError):
                self.store.rewrite_file(0)

    def _build_result(self, nodes: Iterable[Node]) -> GcResult:
        commits: list[CommitId] = []
        object_count, size = 0, 0.0
        for node in sorted(nodes):
            size += self._graph.sizes[node]
            if self._graph.kinds[node] == ObjectKind.COMMIT:
                name = self._graph.name(node)
                commits += map(CommitId, self._purged.get(name, [name]))
            else:
                object_count += 1
        return GcResult(tuple(commits), object_count, int(size))
