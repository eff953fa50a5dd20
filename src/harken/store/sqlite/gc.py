"""Collecting in the file: what nothing needs goes, beside writers that go on.

One idea: what is needed is found out on a snapshot, without keeping anybody waiting; then things
are taken out in short transactions, users before what they need. Each of these first looks at what
was written, named and kept since, and lets that and all that it needs stay. A writer that finds a
thing in its own transaction therefore finds it for good, and between two transactions the file is
whole: who is stopped there leaves a store that lacks nothing.

Source: docs/formats/store.md, "Collecting".

Giving back what is free: small packs are put together, and the file is written anew.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harken.core.clock import Clock
from harken.core.commits import CommitId
from harken.errors import StoreLocked, StoreWriteError
from harken.store.base import GcResult, Name, ObjectKind, RetentionPolicy
from harken.store.retention import has_expired, held
from harken.store.sqlite import pack_table, side_tables
from harken.store.sqlite import side_tables as tombs
from harken.store.sqlite.database import Database, SqliteConnection, speaking
from harken.store.sqlite.graph import Graph, Node, Progress, forget, graph_of, load_pack, remove
from harken.store.sqlite.side_tables import kept
from harken.store.sqlite.writer import MARK_US, mark

SMALL_BYTES = 5 * 1024


_TOGETHER_BYTES = 64 * 1024


_LEAST_RUN = 4
"""So few small packs side by side are not worth writing them again."""


_LEAST_FREE = 0.25


_LEAST_FREE_BYTES = 1024 * 1024


_WAIT_S = 0.05


def runs(connection: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """Yield where small packs stand side by side: the number of the first and of the last.

    The very last pack is in no run: see `packs`.
    """
    last = pack_table.last_number(connection)
    run: list[int] = []
    size = 0
    sizes = "SELECT id, length(data) FROM pack WHERE id < ? ORDER BY id"
    for first, size_bytes in connection.execute(sizes, [last]).fetchall():
        if size_bytes > SMALL_BYTES or size + size_bytes > _TOGETHER_BYTES:
            if len(run) >= _LEAST_RUN:
                yield run[0], run[-1]
            run, size = [], 0
        if size_bytes <= SMALL_BYTES:
            run.append(first)
            size += size_bytes
    if len(run) >= _LEAST_RUN:
        yield run[0], run[-1]


def put_together(store: str, connection: sqlite3.Connection, first: int, last: int) -> None:
    """Make one pack of those from the first to the last, as far as they are still small.

    Numbers stay what they are, so nobody who read them need forget anything.
    """
    run: list[pack_table.NumberedPack] = []
    size = 0
    for row in pack_table.rows(connection, first):
        size += len(row.data)
        is_over = row.first > last or row.first == pack_table.last_number(connection)
        if is_over or size > 2 * _TOGETHER_BYTES:
            break
        run.append(pack_table.NumberedPack(row.first, load_pack(store, row)))
    pack_table.put_together(connection, run)


@dataclass(frozen=True, slots=True)
class Unused:
    """The part of a file that holds nothing."""

    size_bytes: int
    """0 where it is too little for the file to be written anew."""
    room_bytes: int
    """How much must be free on the disk for the file to be written anew: SQLite makes two copies
    of what is used, one of them in its log."""


def unused(connection: sqlite3.Connection) -> Unused:
    """Return how much of the file is unused."""
    pragmas = ("freelist_count", "page_count", "page_size")
    free, pages, size = (connection.execute(f"PRAGMA {p}").fetchone()[0] for p in pragmas)
    is_much = free >= pages * _LEAST_FREE and free * size >= _LEAST_FREE_BYTES
    return Unused(free * size if is_much else 0, 2 * (pages - free) * size)


def write_anew(database: Database, patience_s: float) -> None:
    """Write the file anew without what is free, and empty the log beside it.

    Then no byte is left of what was taken out. Raises StoreLocked where others read or write for
    longer than one waits.
    """
    end = time.monotonic() + patience_s
    with speaking(database.path):
        connection = database.connection()
        connection.execute(f"PRAGMA busy_timeout={int(patience_s * 1000)}")
        try:
            connection.execute("VACUUM")
            # A reader that looks at an older state keeps what that is made of in the log.
            while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() > end:
                    raise StoreLocked(database.path)
                time.sleep(_WAIT_S)
        finally:
            connection.execute(f"PRAGMA busy_timeout={int(database.patience_s * 1000)}")


_AT_ONCE = 2048
"""How many things go in one transaction,"""
_PACKS_AT_ONCE = 24
"""and from how many packs."""
_RUNS_AT_ONCE = 8
_MOST_REST_S = 0.05


class CollectableStore(Protocol):
    """What is needed of a store in a file."""

    path: Path

    def snapshot(self) -> AbstractContextManager[SqliteConnection]:
        """See the file as it is now."""
        ...

    def removing(self) -> AbstractContextManager[SqliteConnection]:
        """Hold a transaction that takes things away."""
        ...

    def write_anew(self, patience_s: float) -> None:
        """Give back what is free. Raises StoreLocked."""
        ...


@dataclass(slots=True, kw_only=True)
class Sweep:
    """One collection."""

    store: CollectableStore
    roots: Collection[Name]
    """Names that stay, whatever else is true of them."""
    now_us: int
    before_us: int
    """What was written since stays. At or after `now_us`: nothing is too young."""
    clock: Clock
    on_progress: Progress | None = None
    _graph: Graph = field(default_factory=Graph)
    _reached: bytearray = field(default_factory=bytearray)
    _last: int = 0
    """The highest number of a pack that was seen."""
    _purged: dict[Name, list[Name]] = field(default_factory=dict)
    """What is read in the place of commits -> the commits."""

    def plan(self) -> GcResult:
        """Return what would go now; nothing is changed."""
        with self.store.snapshot() as connection:
            self._mark(connection)
        return self._collected(self._dead())

    def run(self) -> GcResult:
        """Take it out."""
        with self.store.removing() as connection:
            self._begin(connection)
        with self.store.snapshot() as connection:
            self._mark(connection)
        order = self._graph.users_first(self._dead())
        gone: list[Node] = []
        for some in self._shares(order):
            began_s = time.monotonic()
            with self.store.removing() as connection:
                gone += self._take(connection, some)
            if self.on_progress is not None:
                self.on_progress(len(order) + len(gone), 2 * len(order))
            time.sleep(min(time.monotonic() - began_s, _MOST_REST_S))  # others want to write, too
        with self.store.removing() as connection:
            self._forget_rest(connection)
        self._shrink()
        return self._collected(gone)

    def _begin(self, connection: sqlite3.Connection) -> None:
        """See to it that whatever is written again from now on is noted in `again`."""
        last = pack_table.last_number(connection)
        (marked,) = connection.execute("SELECT max(pack) FROM mark").fetchone()
        if last > (marked or 0):
            mark(connection, self.clock(), last)
        old = self._old(connection)
        connection.execute("DELETE FROM again WHERE pack < ?", [last + 1 if old is None else old])

    def _old(self, connection: sqlite3.Connection) -> int | None:
        """Return the highest number that is certainly old enough; None: nothing is too young."""
        if self.before_us >= self.now_us:
            return None
        old, marked_us = 0, None
        for time_us, number in connection.execute(
            "SELECT time_us, pack FROM mark ORDER BY time_us"
        ):
            old, marked_us = (number, time_us) if time_us <= self.before_us else (old, None)
        # Whoever writes so long after a mark makes the next one: there was no such write.
        is_quiet = marked_us is not None and marked_us + MARK_US <= self.before_us
        return pack_table.last_number(connection) if is_quiet else old

    def _mark(self, connection: sqlite3.Connection) -> None:
        """Find out what is needed."""
        graph = self._graph = graph_of(str(self.store.path), connection, self.on_progress)
        stand_ins = tombs.stand_ins(connection)
        graph.replace(stand_ins)
        for name, other in stand_ins.items():
            if name.startswith("ctx-"):
                self._purged.setdefault(other, []).append(name)
        self._last = pack_table.last_number(connection)
        roots = [node for name in self.roots if (node := graph.find(name)) is not None]
        others = (o for name, o in stand_ins.items() if o and not name.startswith("ctx-"))
        roots += map(graph.node, others)  # who writes the old content again will need it
        roots += self._young(connection)
        roots += self._kept(connection)
        self._reached = graph.reach(roots)

    def _young(self, connection: sqlite3.Connection) -> Iterator[Node]:
        """Yield what was written, or written again, so lately that it stays."""
        old = self._old(connection)
        if old is not None:
            yield from (node for node in self._graph if self._graph.numbers[node] > old)
            query = "SELECT name FROM again WHERE pack >= ?"
            yield from (self._graph.node(name) for (name,) in connection.execute(query, [old]))

    def _kept(self, connection: sqlite3.Connection) -> Iterator[Node]:
        """Yield the commits that stay for their own sake, and what is kept."""
        keeping = kept(connection)
        yield from map(self._graph.node, held(keeping, self.now_us))
        labelled = {id_ for (id_,) in connection.execute("SELECT history FROM label")}
        for id_, digest in connection.execute("SELECT id, name FROM history"):
            name = f"ctx-{digest.hex()}"
            if id_ in labelled or not has_expired(keeping.get(name), self.now_us):
                yield self._graph.node(name)

    def _dead(self) -> Iterator[Node]:
        return (node for node in self._graph if not self._reached[node])

    def _shares(self, order: Iterable[Node]) -> Iterator[list[Node]]:
        """Yield things in this order, as many as go in one transaction."""
        share: list[Node] = []
        numbers: set[int] = set()
        for node in order:
            share.append(node)
            numbers.add(self._graph.numbers[node])
            if len(share) == _AT_ONCE or len(numbers) == _PACKS_AT_ONCE:
                yield share
                share, numbers = [], set()
        if share:
            yield share

    def _take(self, connection: sqlite3.Connection, some: Collection[Node]) -> list[Node]:
        """Take things out, but for those that stay after all; return what went."""
        self._look_again(connection)
        by_name = {self._graph.name(node): node for node in some}
        commits = [name for name in by_name if name.startswith("ctx-")]
        self._spare(connection, commits)
        names = [name for name, node in by_name.items() if not self._reached[node]]
        there = remove(str(self.store.path), connection, names, self._purged)
        gone = [one for name in there for one in self._purged.get(name, [name])]
        forget(connection, gone)
        for name in gone:
            if name not in by_name:  # a purged commit: nothing stands for it any more
                tombs.leave_nothing(connection, name)
        return [by_name[name] for name in there]

    def _look_again(self, connection: sqlite3.Connection) -> None:
        """Let stay what was written since one last looked, or again, or kept, and what it needs."""
        graph = self._graph
        roots: list[Node] = []
        for row in pack_table.rows(connection, self._last + 1):
            roots += graph.take(row, load_pack(str(self.store.path), row))
        self._last = pack_table.last_number(connection)
        again = connection.execute("SELECT name FROM again").fetchall()
        roots += (graph.node(name) for (name,) in again)
        roots += map(graph.node, held(kept(connection), self.now_us))
        graph.reach(roots, self._reached)

    def _spare(self, connection: sqlite3.Connection, commits: Iterable[Name]) -> None:
        """Let commits stay that have a label now, or are kept as usual again."""
        keeping = kept(connection)
        for name in commits:
            for own in self._purged.get(name, [name]):
                if not self._may_go(connection, own, keeping):
                    self._graph.reach(
                        [self._graph.node(own), self._graph.node(name)], self._reached
                    )

    def _may_go(
        self, connection: sqlite3.Connection, name: Name, keeping: dict[Name, RetentionPolicy]
    ) -> bool:
        query = "SELECT 1 FROM history h JOIN label ON label.history = h.id WHERE h.name = ?"
        labelled = connection.execute(query, [bytes.fromhex(name[4:])]).fetchone()
        return labelled is None and has_expired(keeping.get(name), self.now_us)

    def _forget_rest(self, connection: sqlite3.Connection) -> None:
        """Forget how to find what is gone, and of what is elsewhere what nothing names."""
        self._look_again(connection)
        side_tables.forget_lost(connection)
        rows = connection.execute("SELECT name FROM evicted").fetchall()
        for (name,) in rows:
            node = self._graph.find(name)
            if node is None or not self._reached[node]:
                connection.execute("DELETE FROM evicted WHERE name = ?", [name])

    def _shrink(self) -> None:
        """Put small packs together; give free pages back where they are many and nobody waits."""
        with self.store.snapshot() as connection:
            found = list(runs(connection))
        for at in range(0, len(found), _RUNS_AT_ONCE):
            with self.store.removing() as connection:
                for first, last in found[at : at + _RUNS_AT_ONCE]:
                    put_together(str(self.store.path), connection, first, last)
        with self.store.snapshot() as connection:
            waste = unused(connection)
        free_bytes = shutil.disk_usage(self.store.path.parent).free
        if waste.size_bytes and free_bytes > waste.room_bytes:
            with suppress(StoreLocked, StoreWriteError):  # all is removed; `unused` says the rest
                self.store.write_anew(0)

    def _collected(self, gone: Iterable[Node]) -> GcResult:
        commits: list[CommitId] = []
        things, size = 0, 0.0
        for node in sorted(gone):
            size += self._graph.sizes[node]
            if self._graph.kinds[node] == ObjectKind.COMMIT:
                name = self._graph.name(node)
                commits += map(CommitId, self._purged.get(name, [name]))
            else:
                things += 1
        return GcResult(tuple(commits), things, int(size))
