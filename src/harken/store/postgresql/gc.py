"""Garbage collection, beside writers on any machine.

A collection begins by a row that makes all writers note what they write and name (`spared`). Then
the needed objects are marked, without a lock. The others are removed in short transactions that
hold up writers, users before their needs; each first marks what was noted meanwhile, with all that
it needs. So what a writer finds in its own transaction stays, and an interrupted collection leaves
a store that lacks nothing.

Afterwards the packs are rewritten without what was removed (`rewriting`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from psycopg.rows import TupleRow

from harken.core.commits import CommitId
from harken.errors import StoreError, StoreLocked
from harken.store.base import GcResult, ObjectKind, Progress
from harken.store.postgresql.database import Connection, PostgresDatabase, Transaction
from harken.store.postgresql.marking import Marks
from harken.store.postgresql.packs.packing import Packing
from harken.store.postgresql.packs.reader import ObjectReader
from harken.store.postgresql.packs.rewriting import Rewriter
from harken.store.postgresql.writer import raise_generation

_OBJECTS_PER_BATCH = 2000
_POLL_INTERVAL_S = 0.1
_MAX_PAUSE_S = 0.05
_UPLOAD_GRACE_S = 900
"""A younger upload is not taken for a leftover, whatever the grace of the collection."""
_KEPT_RECEIPTS = "1 day"
_ORDER = (
    ObjectKind.COMMIT,
    ObjectKind.SEQUENCE,
    ObjectKind.FILE,
    ObjectKind.RAW,
    ObjectKind.DELTA,
    ObjectKind.MESSAGE,
    ObjectKind.PART,
)
"""Users before their needs."""
_RETAINED = """
SELECT h.digest FROM history h LEFT JOIN retention r ON r.digest = h.digest
WHERE r.until IS NULL OR r.until::timestamptz > {now}
    OR EXISTS (SELECT 1 FROM label l WHERE l.digest = h.digest)
UNION ALL
SELECT digest FROM retention WHERE until IS NULL OR until::timestamptz > {now}
UNION ALL SELECT head FROM head
UNION ALL SELECT stand_in FROM tombstone WHERE prefix <> 'ctx-'
UNION ALL SELECT unnest(%(roots)s::bytea[])
UNION ALL
SELECT digest FROM object WHERE %(grace)s > 0
    AND touched > {now} - make_interval(secs => %(grace)s + 600)
"""
_NOW = "(timestamptz 'epoch' + %(now)s::bigint * interval '1 microsecond')"
_REMOVE = """
DELETE FROM object o WHERE o.digest = ANY(%s)
    AND NOT EXISTS (SELECT 1 FROM marked m WHERE m.digest = o.digest)
RETURNING o.digest, o.kind, o.size_bytes, o.pack
"""


class _DeadObject(msgspec.Struct, frozen=True):
    """An object that nothing needs."""

    digest: bytes
    kind: ObjectKind
    size_bytes: int


class GarbageCollection(msgspec.Struct, kw_only=True):
    """A garbage collection."""

    database: PostgresDatabase
    reader: ObjectReader
    packing: Packing
    roots: Sequence[bytes]
    now_us: int
    grace_s: float
    """Objects written in the last so many seconds stay. Not positive: all are old enough."""
    on_progress: Progress | None = None

    def plan(self) -> GcResult:
        """Return the result of a collection now. Nothing is changed."""
        with self.database.converting_errors(), _own_connection(self.database) as connection:
            self._mark(connection)
            dead = _find_dead(connection)
            return _build_result(connection, dead, self._find_dead_commits(connection))

    def run(self) -> GcResult:
        """Remove all unneeded objects. Raises StoreLocked while another collection runs."""
        with exclusive_connection(self.database) as connection:
            with self.database.converting_errors():
                number = self.database.write_on(connection, self._begin)
                marks = self._mark(connection)
                dead = _order(connection, _find_dead(connection))
                doomed = self._find_dead_commits(connection)
            removed, commits = self._remove_all(connection, number, marks, dead)
            self.database.write_on(connection, self._end)
            rewriter = Rewriter(self.database, self.reader, self.packing)
            rewriter.rewrite_dirty()
            rewriter.merge_small()
            rewriter.remove_leftovers(self.now_us, max(self.grace_s, _UPLOAD_GRACE_S))
            names = [name for name in doomed if name in commits]
        return GcResult(
            tuple(CommitId(f"ctx-{digest.hex()}") for digest in names),
            sum(obj.kind is not ObjectKind.COMMIT for obj in removed),
            sum(obj.size_bytes for obj in removed),
        )

    def _begin(self, tx: Transaction) -> int:
        """Let all writers note their names from now on."""
        tx.execute("DELETE FROM spared")
        row = tx.execute(
            "UPDATE state SET collection = nextval(pg_get_serial_sequence('pack', 'id')) "
            "RETURNING collection"
        ).fetchone()
        assert row is not None
        return int(row[0])

    @staticmethod
    def _end(tx: Transaction) -> None:
        """Let writers note nothing more, and remove old receipts."""
        tx.execute("UPDATE state SET collection = NULL")
        tx.execute("DELETE FROM spared")
        query = "DELETE FROM receipt WHERE written < now() - %s::interval"
        tx.execute(query, [_KEPT_RECEIPTS])

    def _mark(self, connection: Connection) -> Marks:
        marks = Marks(connection, "marked")
        parameters = {"now": self.now_us, "grace": self.grace_s, "roots": list(self.roots)}
        marks.add(_RETAINED.format(now=_NOW), parameters)
        marks.analyze()
        return marks

    @staticmethod
    def _find_dead_commits(connection: Connection) -> list[bytes]:
        """Return the commits that are not marked, in the order of writing."""
        rows = connection.execute(
            "SELECT digest FROM history h WHERE NOT EXISTS "
            "(SELECT 1 FROM marked m WHERE m.digest = h.digest) ORDER BY seq"
        )
        return [digest for (digest,) in rows.fetchall()]

    def _remove_all(
        self, connection: Connection, number: int, marks: Marks, dead: Sequence[_DeadObject]
    ) -> tuple[list[_DeadObject], set[bytes]]:
        """Remove objects in batches. Return them, and the removed commits of the history."""
        removed: list[_DeadObject] = []
        commits: set[bytes] = set()
        for start in range(0, len(dead), _OBJECTS_PER_BATCH):
            batch = [obj.digest for obj in dead[start : start + _OBJECTS_PER_BATCH]]
            start_s = time.monotonic()

            def remove(tx: Transaction, batch: list[bytes] = batch) -> list[TupleRow]:
                self._check_number(tx, number)
                marks.add("SELECT digest FROM spared")
                tx.execute("DELETE FROM spared")
                return _remove_batch(tx, batch, commits)

            rows = self.database.write_on(connection, remove)
            removed += [_DeadObject(row[0], ObjectKind(row[1]), row[2]) for row in rows]
            if self.on_progress is not None:
                self.on_progress(start + len(batch), len(dead))
            time.sleep(min(time.monotonic() - start_s, _MAX_PAUSE_S))  # Others get a turn.
        return removed, commits

    def _check_number(self, tx: Transaction, number: int) -> None:
        if tx.collection != number:
            raise StoreError(self.database.place, "another collection has taken over; run it again")


def _remove_batch(tx: Transaction, batch: list[bytes], commits: set[bytes]) -> list[TupleRow]:
    """Remove the unmarked objects of a batch, and all that refers to them by name."""
    rows = tx.execute(_REMOVE, [batch]).fetchall()
    digests = [row[0] for row in rows]
    packs = sorted({row[3] for row in rows if row[3] is not None})
    tx.execute("UPDATE pack SET is_dirty = true WHERE id = ANY(%s)", [packs])
    tx.execute("DELETE FROM derived WHERE digest = ANY(%s)", [digests])
    # A purged commit goes with its stand-in, and its tombstone says so from then on.
    purged = tx.execute(
        "UPDATE tombstone SET stand_in = NULL WHERE stand_in = ANY(%s) RETURNING digest", [digests]
    ).fetchall()
    names = [*digests, *(digest for (digest,) in purged)]
    rows_of_commits = tx.execute(
        "DELETE FROM history WHERE digest = ANY(%s) RETURNING digest", [names]
    )
    tx.execute("DELETE FROM label WHERE digest = ANY(%s)", [names])
    tx.execute("DELETE FROM retention WHERE digest = ANY(%s)", [names])
    if purged:
        raise_generation(tx)
    commits.update(digest for (digest,) in rows_of_commits.fetchall())
    return rows


def _find_dead(connection: Connection) -> list[_DeadObject]:
    rows = connection.execute(
        "SELECT digest, kind, size_bytes FROM object o WHERE NOT EXISTS "
        "(SELECT 1 FROM marked m WHERE m.digest = o.digest)"
    )
    return [_DeadObject(digest, ObjectKind(kind), size) for digest, kind, size in rows.fetchall()]


def _build_result(
    connection: Connection, dead: Sequence[_DeadObject], commits: Sequence[bytes]
) -> GcResult:
    return GcResult(
        tuple(CommitId(f"ctx-{digest.hex()}") for digest in commits),
        sum(obj.kind is not ObjectKind.COMMIT for obj in dead),
        sum(obj.size_bytes for obj in dead),
    )


def _order(connection: Connection, dead: Sequence[_DeadObject]) -> list[_DeadObject]:
    """Return objects in the order of their removal: users before their needs."""
    ranks = {kind: rank for rank, kind in enumerate(_ORDER)}
    digests = [obj.digest for obj in dead if obj.kind is ObjectKind.COMMIT]
    rows = connection.execute(
        "SELECT coalesce(t.stand_in, h.digest), h.seq FROM history h "
        "LEFT JOIN tombstone t ON t.digest = h.digest "
        "WHERE coalesce(t.stand_in, h.digest) = ANY(%s)",
        [digests],
    )
    depths: dict[bytes, int] = {digest: -seq for digest, seq in rows.fetchall()}
    depths |= _order_sequences(
        connection, [obj.digest for obj in dead if obj.kind is ObjectKind.SEQUENCE]
    )
    return sorted(dead, key=lambda obj: (ranks[obj.kind], depths.get(obj.digest, 0)))


def _order_sequences(connection: Connection, digests: Sequence[bytes]) -> dict[bytes, int]:
    """Return the place of each sequence: one that contains another precedes it."""
    rows = connection.execute(
        "SELECT digest, needs FROM object WHERE digest = ANY(%s)", [list(digests)]
    ).fetchall()
    digests_of_rows = {digest for digest, _ in rows}
    members = {
        digest: [need for need in needs or () if need in digests_of_rows] for digest, needs in rows
    }
    return {digest: place for place, digest in enumerate(_sort_users_first(members))}


def _sort_users_first(members: Mapping[bytes, Sequence[bytes]]) -> list[bytes]:
    """Return keys in an order in which each precedes its members."""
    counts = dict.fromkeys(members, 0)
    for needs in members.values():
        for need in needs:
            counts[need] += 1
    ready = [digest for digest, count in counts.items() if count == 0]
    order: list[bytes] = []
    while ready:
        digest = ready.pop()
        order.append(digest)
        for need in members[digest]:
            counts[need] -= 1
            if counts[need] == 0:
                ready.append(need)
    return order


@contextmanager
def _own_connection(database: PostgresDatabase) -> Iterator[Connection]:
    connection = database.connect()
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def exclusive_connection(database: PostgresDatabase) -> Iterator[Connection]:
    """Hold the lock of collections and purges. Raises StoreLocked if another one runs too long."""
    deadline_s = time.monotonic() + database.patience_s
    with _own_connection(database) as connection:
        while True:
            with database.converting_errors():
                row = connection.execute(
                    "SELECT pg_try_advisory_lock(%s, 'state'::regclass::oid::int)", [_LOCK_CLASS]
                ).fetchone()
            if row is not None and row[0]:
                break
            if time.monotonic() > deadline_s:
                raise StoreLocked(database.place)
            time.sleep(_POLL_INTERVAL_S)
        yield connection


_LOCK_CLASS = 0x4861726B
