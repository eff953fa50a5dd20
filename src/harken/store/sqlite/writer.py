"""The writer of a store: turns batches into packs, index entries and rows, atomically.

Writes are grouped. Batches that threads write while another thread's transaction runs are all put
into the next transaction, so they wait for the disk only once. An invalid batch fails alone.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import msgspec

from harken.core.clock import Clock
from harken.core.commits import ArtifactRef, CommitId
from harken.errors import (
    NameNotFound,
    ObjectCorrupted,
    ObjectNotFound,
    StoreError,
    StoreLocked,
)
from harken.store.base import ObjectKind, StoredObject
from harken.store.batch import BatchCommit, BatchContents, is_allowed_need
from harken.store.branches import check_moves
from harken.store.purge import select_new_tombstones as bring
from harken.store.sqlite import commit_table, pack_table, side_tables
from harken.store.sqlite.database import SqliteConnection, SqliteDatabase
from harken.store.sqlite.name_index import find_numbers, insert_keys, iter_batches
from harken.store.sqlite.pack import EncodedPack
from harken.store.sqlite.pack_cache import PackCache

_BATCH_SIZE = 500
"""The number of names that are looked up in the index at once."""
MARK_US = 600 * 1_000_000
"""The interval at which the highest pack number is recorded, from which the age of objects
follows.
"""


class PurgedMeanwhile(Exception):
    """Content was purged since a batch was compared with purged content."""


class _Turn(msgspec.Struct):
    """A batch in the queue."""

    contents: BatchContents
    generation: int | None = None
    """That of the purged content with which the batch was compared."""
    ready: threading.Lock = msgspec.field(default_factory=threading.Lock)
    """Locked until the batch is written, or its thread has to write the queued batches."""
    leads: bool = False
    """Whether its thread has to write the queued batches."""
    error: BaseException | None = None


class _ExistingObjects(msgspec.Struct):
    """The existing objects among some names."""

    kinds: dict[str, ObjectKind | None] = msgspec.field(default_factory=dict)
    """The kinds of intact objects, or None for a purged object."""
    evicted: dict[str, ObjectKind | None] = msgspec.field(default_factory=dict)
    """The kinds of evicted objects: they may be referenced, and written again."""
    damaged: set[str] = msgspec.field(default_factory=set)
    """Names of damaged objects."""
    branches: dict[str, CommitId] = msgspec.field(default_factory=dict)
    """The heads of the branches that the batches move."""


class Writer:
    """Writes the batches of one process to the file."""

    def __init__(self, database: SqliteDatabase, cache: PackCache, clock: Clock) -> None:
        self._database, self._cache, self._clock = database, cache, clock
        self._lock = threading.Lock()
        self._waiting: list[_Turn] = []
        self._has_leader = False
        self._last_mark_us: int | None = None
        self._recent: dict[int, EncodedPack] = {}
        """The packs that were written last, by number. Used in a transaction only."""

    def write(self, contents: BatchContents, generation: int | None = None) -> None:
        """Write a batch, together with those of other threads. As `Store.write`.

        generation: that of the purged content with which the batch was compared. Raises
        PurgedMeanwhile if the file has another one. None for a batch that need not be compared.
        """
        turn = _Turn(contents, generation)
        turn.ready.acquire()
        try:
            with self._lock:
                self._waiting.append(turn)
                turn.leads, self._has_leader = not self._has_leader, True
            if not turn.leads:
                turn.ready.acquire()
            if turn.leads:
                self._write_queue(turn)
        except BaseException:  # This thread was interrupted: others must not wait for it.
            self._dequeue(turn)
            raise
        if turn.error is not None:
            raise turn.error

    def _write_queue(self, own_turn: _Turn) -> None:
        """Write all queued batches."""
        group: list[_Turn] = []
        try:
            with self._lock:
                group, self._waiting = self._waiting, []
            self._write_all(group)
        # Only this thread was interrupted, so the others write their batches themselves.
        except BaseException:
            with self._lock:
                self._waiting = [t for t in (*group, *self._waiting) if t is not own_turn]
            group = []
            raise
        finally:
            with self._lock:
                self._promote_next()
            for turn in group:
                turn.ready.release()

    def _promote_next(self) -> None:
        """Let the next waiting thread lead, if there is one."""
        self._has_leader = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].ready.release()

    def _dequeue(self, turn: _Turn) -> None:
        with self._lock:
            if turn in self._waiting:
                self._waiting.remove(turn)
                if turn.leads:
                    self._promote_next()

    def _write_all(self, group: list[_Turn]) -> None:
        """Write several batches in one transaction. If that fails, write each in its own."""
        try:
            self._write_group(group)
        except Exception as error:  # noqa: BLE001 - raised in the threads of the batches
            if len(group) > 1 and not isinstance(error, StoreLocked):
                for turn in group:
                    turn.error = None
                    self._write_all([turn])
            else:
                for turn in group:
                    turn.error = error

    def _write_group(self, group: list[_Turn]) -> None:
        """Write the new objects of these batches, and set the errors of invalid batches."""
        with self._database.writing() as connection:
            self._cache.clear_if_stale(connection)
            for turn in group:
                if turn.generation not in (None, connection.generation):
                    turn.error = PurgedMeanwhile()
            packs = self._write_batches(connection, [t for t in group if t.error is None])
        for number, pack in packs:
            self._cache.add(connection, (number, number + 1), pack.pack)

    def write_with_tombstones(
        self, connection: SqliteConnection, contents: BatchContents, generation: int | None
    ) -> None:
        """Write a batch with tombstones, in a transaction that raises the generation.

        generation: as for `write`. Raises PurgedMeanwhile before anything is changed.
        """
        if generation not in (None, connection.generation):
            raise PurgedMeanwhile

        def exists(name: str) -> bool:
            contents_of_name = BatchContents(derived={"": ArtifactRef(name)})
            existing = self._find_existing(connection, [contents_of_name])
            return bool(existing.kinds or self._find_evicted(connection, [name]))

        bring(str(self._database.path), contents, exists)
        for name, tombstone in contents.tombstones.items():
            side_tables.set_tombstone(connection, name, tombstone)
        old_stand_ins, turn = self._cache.stand_ins, _Turn(contents)
        stand_ins = {name: tombstone.stand_in for name, tombstone in contents.tombstones.items()}
        self._cache.stand_ins = {**old_stand_ins, **stand_ins}
        try:
            self._write_batches(connection, [turn])
            if turn.error is not None:
                raise turn.error
        except BaseException:
            self._cache.stand_ins = old_stand_ins
            raise

    def _write_batches(
        self, connection: SqliteConnection, group: list[_Turn]
    ) -> list[tuple[int, EncodedPack]]:
        """Write batches in the open transaction. Return the packs and their numbers."""
        existing = self._find_existing(connection, [turn.contents for turn in group])
        new: dict[str, StoredObject] = {}
        for turn in group:
            try:
                added = self._find_new(turn.contents, existing)
                self._check_moves(turn.contents, existing, added)
            except (StoreError, NameNotFound) as error:
                turn.error = error
            else:
                new |= added
                existing.kinds |= {name: obj.kind for name, obj in added.items()}
                existing.branches |= {n: move.to for n, move in turn.contents.moves.items()}
        packs = list(pack_table.insert_packs(connection, new.values(), self._recent))
        numbers = {name: number for number, pack in packs for name in pack.objects}
        insert_keys(connection, numbers)
        accepted = [turn.contents for turn in group if turn.error is None]
        for contents in accepted:
            for name, tombstone in contents.tombstones.items():
                if tombstone.stand_in in numbers:
                    numbers[name] = numbers[tombstone.stand_in]
        _insert_commits(connection, accepted, numbers, existing.damaged)
        for contents in accepted:
            self._write_extras(connection, contents, numbers)
        if numbers:
            self._record_mark(connection, max(numbers.values()))
        return packs

    def _check_moves(
        self, contents: BatchContents, existing: _ExistingObjects, new: Mapping[str, StoredObject]
    ) -> None:
        """Raise BranchConflict or NameNotFound unless the branches of a batch can be moved."""

        def has_commit(name: CommitId) -> bool:
            is_new = name in new and new[name].kind is ObjectKind.COMMIT
            # A purged commit has no kind, and its row.
            return is_new or existing.kinds.get(name, 0) in (ObjectKind.COMMIT, None)

        check_moves(self._database.path, existing.branches, contents.moves, has_commit)

    def _write_extras(
        self, connection: SqliteConnection, contents: BatchContents, numbers: Mapping[str, int]
    ) -> None:
        """Write derived artifacts and heads, and update the records of repeated objects."""
        if contents.derived:
            side_tables.enter_derived(connection, contents.derived)
        heads = {name: move.to for name, move in contents.moves.items()}
        side_tables.set_heads(connection, heads)
        repeated_names = contents.objects.keys() - numbers.keys()
        if repeated_names:
            self._record_repeats(connection, contents, repeated_names)
        if self._cache.has_evicted:
            side_tables.delete_rows(connection, "evicted", contents.objects)

    def _find_new(
        self, contents: BatchContents, existing: _ExistingObjects
    ) -> dict[str, StoredObject]:
        """Return the objects that do not exist yet. Raises ObjectNotFound if a need is missing."""
        kinds = existing.kinds
        new: dict[str, StoredObject] = {}
        for name, obj in contents.objects.items():
            if name in kinds:
                continue
            if name in self._cache.stand_ins:
                # The object was purged and then collected.
                raise ObjectNotFound(self._database.path, name)
            for need in obj.needs:
                if need in new:
                    has_need = is_allowed_need(obj, new[need].kind)
                elif need in kinds:
                    has_need = is_allowed_need(obj, kinds[need])
                else:
                    has_need = need in existing.evicted and is_allowed_need(
                        obj, existing.evicted[need]
                    )
                if not has_need:
                    raise ObjectNotFound(self._database.path, need, needed_by=name)
            new[name] = obj
        for key, ref in contents.derived.items():
            if ref not in new and ref not in kinds:
                raise ObjectNotFound(self._database.path, ref, needed_by=key)
        return new

    def _find_existing(
        self, connection: SqliteConnection, batches: Sequence[BatchContents]
    ) -> _ExistingObjects:
        """Look up the objects, needs and derived artifacts of batches."""
        names: set[str] = set()
        needed: set[str] = set()
        for contents in batches:
            names.update(contents.objects, contents.derived.values())
            names.update(move.to for move in contents.moves.values())
            needed.update(*[obj.needs for obj in contents.objects.values()])
        names |= needed
        existing = _ExistingObjects(self._cache.find_cached_kinds(names))
        for branch in {branch for contents in batches for branch in contents.moves}:
            existing.branches |= {
                name: CommitId(head)
                for name, head in side_tables.read_heads(connection, branch).items()
            }
        missing = names - existing.kinds.keys()
        for name in missing & self._cache.stand_ins.keys():
            if self._cache.stand_ins[name]:
                existing.kinds[name] = None
                missing.remove(name)
        self._find_stored(connection, missing, existing)
        if self._cache.has_evicted:
            existing.evicted = self._find_evicted(connection, needed - existing.kinds.keys())
        return existing

    def _find_stored(
        self, connection: SqliteConnection, names: set[str], existing: _ExistingObjects
    ) -> None:
        """Add the objects of these names that are in packs.

        A pack with some of them often has many more, which are not looked up in the index then.
        """
        unknown, known_kinds = set(names), dict[str, ObjectKind]()
        while unknown:
            batch = [unknown.pop() for _ in range(min(len(unknown), _BATCH_SIZE))]
            numbers = find_numbers(connection, batch)
            names_by_pack: dict[int, list[str]] = {}
            for name in numbers:
                names_by_pack.setdefault(numbers[name][-1], []).append(name)
            for number, pack_names in sorted(names_by_pack.items()):
                kinds = self._cache.find_kinds(connection, pack_names, number)
                others = unknown & kinds.keys()
                unknown -= others
                existing.kinds |= {name: kinds[name] for name in others}
                for name in pack_names:
                    kind = kinds.get(name) or self._find_kind(connection, name, numbers[name])
                    if kind is None:
                        existing.damaged.add(name)
                    else:
                        existing.kinds[name] = kind
                known_kinds |= {name: kinds[name] for name in names & kinds.keys()}
        self._cache.note_kinds(connection, known_kinds)

    def _find_kind(
        self, connection: SqliteConnection, name: str, numbers: Sequence[int]
    ) -> ObjectKind | None:
        """Return the kind of an object in one of these packs. Return None if it is damaged."""
        with suppress(ObjectCorrupted):  # A damaged object may be written again.
            body = self._cache.find(connection, name, numbers[::-1])
            return None if body is None else body[0]
        return None

    def _find_evicted(
        self, connection: SqliteConnection, names: Collection[str]
    ) -> dict[str, ObjectKind | None]:
        """Return the evicted names among these, with their kinds."""
        evicted: dict[str, ObjectKind | None] = {}
        for batch in iter_batches(names if self._cache.has_evicted else ()):
            marks = ",".join("?" * len(batch))
            query = f"SELECT name, kind FROM evicted WHERE name IN ({marks})"  # noqa: S608 - marks
            rows = connection.execute(query, batch).fetchall()
            evicted |= {name: ObjectKind(kind) for name, kind in rows}
        return evicted

    def _record_repeats(
        self, connection: SqliteConnection, contents: BatchContents, repeated_names: Collection[str]
    ) -> None:
        """Record objects that were written again and that the batch does not need, as recent."""
        needed = {name for obj in contents.objects.values() for name in obj.needs}
        unneeded = [name for name in repeated_names if name not in needed]
        (marked_number,) = connection.execute("SELECT max(pack) FROM mark").fetchone()
        number = pack_table.last_number(connection)
        rows = [
            (name, number)
            for name, numbers in find_numbers(connection, unneeded).items()
            if max(numbers) <= (marked_number or 0)
            and contents.objects[name].kind is not ObjectKind.COMMIT
        ]
        side_tables.replace_rows(connection, "again", rows)

    def _record_mark(self, connection: SqliteConnection, number: int) -> None:
        """Record the highest pack number and the recently read packs, at intervals."""
        now_us = self._clock()
        if self._last_mark_us is None:
            (self._last_mark_us,) = connection.execute("SELECT max(time_us) FROM mark").fetchone()
        if self._last_mark_us is None or now_us - self._last_mark_us >= MARK_US:
            record_mark(connection, now_us, number)
            rows = [(first, now_us) for first in self._cache.pop_used_rows()]
            query = "INSERT OR REPLACE INTO used (pack, time_us) VALUES (?, ?)"
            connection.executemany(query, rows)
            self._last_mark_us = now_us


def _insert_commits(
    connection: SqliteConnection,
    batches: Sequence[BatchContents],
    numbers: Mapping[str, int],
    damaged: Collection[str],
) -> None:
    """Insert the rows of new commits. The rows of damaged commits get the new pack number."""
    new: dict[CommitId, BatchCommit] = {}
    for contents in batches:
        for commit in contents.commits:
            if commit.id in numbers:
                new.setdefault(commit.id, commit)
    for name in new.keys() & damaged:
        if commit_table.update_pack(connection, name, numbers[name]):
            del new[name]
    commit_table.insert_commits(
        connection, [(commit, numbers[name]) for name, commit in new.items()]
    )


def record_mark(connection: sqlite3.Connection, now_us: int, number: int) -> None:
    """Record that all numbers up to this one were assigned before `now_us`."""
    side_tables.replace_rows(connection, "mark", [(now_us, number)])
