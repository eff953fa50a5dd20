"""Writing: batches become packs, entries of the index and rows, all of a batch or nothing.

One idea: what waits for the disk waits together. Threads that write while another one's transaction
runs are put into the next one, all of them; it is one wait for the disk, however many they are. A
batch that is refused fails alone.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from harken.core.clock import Clock
from harken.core.commits import ArtifactRef, CommitId
from harken.errors import ObjectCorrupted, ObjectNotFound, StoreError, StoreLocked
from harken.store.base import ObjectKind, StoredObject
from harken.store.batch import BatchCommit, Contents, fits
from harken.store.purge import bring
from harken.store.sqlite import commit_table, pack_table, side_tables
from harken.store.sqlite import side_tables as tombs
from harken.store.sqlite.database import Database, SqliteConnection
from harken.store.sqlite.name_index import enter, places, slices
from harken.store.sqlite.pack import EncodedPack
from harken.store.sqlite.pack_cache import PackCache

MARK_US = 600 * 1_000_000
"""How often it is noted how far the numbers of packs are: so that one knows how old things are."""


@dataclass(slots=True)
class _Turn:
    """A batch that waits to be written."""

    contents: Contents
    ready: threading.Lock = field(default_factory=threading.Lock)
    """Held until the batch is written, or its thread is to write for all that wait."""
    leads: bool = False
    is_done: bool = False
    error: BaseException | None = None


@dataclass(slots=True)
class _Known:
    """What is there of some names."""

    kinds: dict[str, ObjectKind | None] = field(default_factory=dict)
    """What is there and whole; None: it was purged."""
    elsewhere: dict[str, ObjectKind | None] = field(default_factory=dict)
    """What a backing store has: one can name it, and who has it may write it again."""
    damaged: set[str] = field(default_factory=set)
    """What should be there."""


class Writer:
    """Writes the batches of one process."""

    def __init__(self, database: Database, opened: PackCache, clock: Clock) -> None:
        self._database, self._opened, self._clock = database, opened, clock
        self._lock = threading.Lock()
        self._waiting: list[_Turn] = []
        self._is_led = False
        self._marked_us: int | None = None

    def write(self, contents: Contents) -> None:
        """Write a batch, together with those of other threads. As `Store.write`."""
        turn = _Turn(contents)
        turn.ready.acquire()
        with self._lock:
            self._waiting.append(turn)
            turn.leads, self._is_led = not self._is_led, True
        try:
            if not turn.leads:
                turn.ready.acquire()
            if not turn.is_done:
                self._lead(turn)
        except BaseException:  # this thread was interrupted: others must not wait for it
            self._leave(turn)
            raise
        if turn.error is not None:
            raise turn.error

    def _lead(self, own: _Turn) -> None:
        """Write for all that wait."""
        with self._lock:
            group, self._waiting = self._waiting, []
        try:
            self._write_all(group)
        except BaseException:  # somebody interrupted this thread, and means no other
            with self._lock:
                self._waiting = [turn for turn in group if turn is not own] + self._waiting
            group = [own]
            raise
        finally:
            with self._lock:
                self._pass_on()
            for turn in group:
                turn.is_done = True
                turn.ready.release()

    def _pass_on(self) -> None:
        """Let somebody else lead, if anybody waits."""
        self._is_led = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].ready.release()

    def _leave(self, turn: _Turn) -> None:
        with self._lock:
            if turn in self._waiting:
                self._waiting.remove(turn)
                if turn.leads:
                    self._pass_on()

    def _write_all(self, group: list[_Turn]) -> None:
        """Write several batches in one transaction; where that fails, each in one of its own."""
        try:
            self._write(group)
        except Exception as error:  # noqa: BLE001 - raised in the threads that it concerns
            if len(group) > 1 and not isinstance(error, StoreLocked):
                for turn in group:
                    turn.error = None
                    self._write_all([turn])
            else:
                for turn in group:
                    turn.error = error

    def _write(self, group: list[_Turn]) -> None:
        """Write what is new in these batches; say of each what is wrong with it."""
        with self._database.writing() as connection:
            self._opened.look(connection)
            read = self._write_in(connection, group)
        for number, pack in read:
            self._opened.keep(connection, (number, number + 1), pack.pack)

    def bring(self, connection: SqliteConnection, contents: Contents) -> None:
        """Write a batch with tombstones, in a transaction that raises the generation."""

        def there(name: str) -> bool:
            asked = Contents(derived={"": ArtifactRef(name)})
            known = self._known(connection, [asked])
            return bool(known.kinds or self._elsewhere(connection, [name]))

        bring(str(self._database.path), contents, there)
        for name, stone in contents.tombstones.items():
            tombs.set_tombstone(connection, name, stone)
        before, turn = self._opened.stand_ins, _Turn(contents)
        stand_ins = {name: stone.stand_in for name, stone in contents.tombstones.items()}
        self._opened.stand_ins = {**before, **stand_ins}
        try:
            self._write_in(connection, [turn])
            if turn.error is not None:
                raise turn.error
        except BaseException:
            self._opened.stand_ins = before
            raise

    def _write_in(
        self, connection: SqliteConnection, group: list[_Turn]
    ) -> list[tuple[int, EncodedPack]]:
        """Write batches in the transaction that is open; return the packs and their numbers."""
        known = self._known(connection, [turn.contents for turn in group])
        new: dict[str, StoredObject] = {}
        for turn in group:
            try:
                added = self._new(turn.contents, known)
            except StoreError as error:
                turn.error = error
            else:
                new |= added
                known.kinds |= {name: thing.kind for name, thing in added.items()}
        read = list(pack_table.add(connection, new.values()))
        numbers = {name: number for number, pack in read for name in pack.things}
        enter(connection, numbers)
        accepted = [turn.contents for turn in group if turn.error is None]
        for contents in accepted:
            for name, stone in contents.tombstones.items():
                if stone.stand_in in numbers:
                    numbers[name] = numbers[stone.stand_in]
        _enter_commits(connection, accepted, numbers, known.damaged)
        for contents in accepted:
            self._enter(connection, contents, numbers)
        if numbers:
            self._mark(connection, max(numbers.values()))
        return read

    def _enter(
        self, connection: SqliteConnection, contents: Contents, numbers: Mapping[str, int]
    ) -> None:
        """Write what else there is to a batch, beside its things and its commits."""
        if contents.derived:
            side_tables.enter_derived(connection, contents.derived)
        loose = contents.things.keys() - numbers.keys()
        if loose:
            self._note_again(connection, contents, loose)
        if self._opened.evicts:
            rows = [(name,) for name in contents.things]
            connection.executemany("DELETE FROM evicted WHERE name = ?", rows)

    def _new(self, contents: Contents, known: _Known) -> dict[str, StoredObject]:
        """Return the things that are not there yet. Raises where something needed is missing."""
        kinds = known.kinds
        new: dict[str, StoredObject] = {}
        for name, thing in contents.things.items():
            if name in kinds:
                continue
            if name in self._opened.stand_ins:
                raise ObjectNotFound(self._database.path, name)  # it was purged, and then collected
            for need in thing.needs:
                if need in new:
                    fitting = fits(thing, new[need].kind)
                elif need in kinds:
                    fitting = fits(thing, kinds[need])
                else:
                    fitting = need in known.elsewhere and fits(thing, known.elsewhere[need])
                if not fitting:
                    raise ObjectNotFound(self._database.path, need, needed_by=name)
            new[name] = thing
        for key, ref in contents.derived.items():
            if ref not in new and ref not in kinds:
                raise ObjectNotFound(self._database.path, ref, needed_by=key)
        return new

    def _known(self, connection: SqliteConnection, several: Sequence[Contents]) -> _Known:
        """Find out what is there of what batches have, need and derive."""
        names: set[str] = set()
        needed: set[str] = set()
        for contents in several:
            names.update(contents.things, contents.derived.values())
            needed.update(*[thing.needs for thing in contents.things.values()])
        names |= needed
        known = _Known()
        missing: list[str] = []
        opened, stand_ins = self._opened, self._opened.stand_ins
        for name in names:
            if (pack := opened.get(name)) is not None:
                known.kinds[name] = pack.kind(pack.places[name])
            elif stand_ins.get(name):
                known.kinds[name] = None
            else:
                missing.append(name)
        found = sorted(places(connection, missing).items(), key=lambda place: place[1][-1])
        for some in slices(found):  # pack by pack: a cache is smaller than a store
            self._opened.open(connection, [numbers[-1] for _, numbers in some])
            for name, numbers in some:
                kind = self._opened.kind(name)
                if kind is None:
                    with suppress(ObjectCorrupted):  # written again, it is whole again
                        body = self._opened.find(connection, name, numbers[::-1])
                        kind = body and body[0]
                if kind is None:
                    known.damaged.add(name)
                else:
                    known.kinds[name] = kind
        if self._opened.evicts:
            known.elsewhere = self._elsewhere(connection, needed - known.kinds.keys())
        return known

    def _elsewhere(
        self, connection: SqliteConnection, names: Collection[str]
    ) -> dict[str, ObjectKind | None]:
        """Return those of these names that a backing store has, and their kinds."""
        found: dict[str, ObjectKind | None] = {}
        for some in slices(names if self._opened.evicts else ()):
            marks = ",".join("?" * len(some))
            query = f"SELECT name, kind FROM evicted WHERE name IN ({marks})"  # noqa: S608 - marks
            rows = connection.execute(query, some).fetchall()
            found |= {name: ObjectKind(kind) for name, kind in rows}
        return found

    def _note_again(
        self, connection: SqliteConnection, contents: Contents, loose: Collection[str]
    ) -> None:
        """Note what was written again and nothing else of the batch needs: it is young again."""
        needed = {name for thing in contents.things.values() for name in thing.needs}
        again = [name for name in loose if name not in needed]
        (marked,) = connection.execute("SELECT max(pack) FROM mark").fetchone()
        number = pack_table.last_number(connection)
        for name, numbers in places(connection, again).items():
            if (
                max(numbers) <= (marked or 0)
                and contents.things[name].kind is not ObjectKind.COMMIT
            ):
                query = "INSERT OR REPLACE INTO again (name, pack) VALUES (?, ?)"
                connection.execute(query, [name, number])

    def _mark(self, connection: SqliteConnection, number: int) -> None:
        """Note from time to time how far the numbers are, and what was read lately."""
        now_us = self._clock()
        if self._marked_us is None:
            (self._marked_us,) = connection.execute("SELECT max(time_us) FROM mark").fetchone()
        if self._marked_us is None or now_us - self._marked_us >= MARK_US:
            mark(connection, now_us, number)
            rows = [(first, now_us) for first in self._opened.used()]
            query = "INSERT OR REPLACE INTO used (pack, time_us) VALUES (?, ?)"
            connection.executemany(query, rows)
            self._marked_us = now_us


def _enter_commits(
    connection: SqliteConnection,
    several: Sequence[Contents],
    numbers: Mapping[str, int],
    damaged: Collection[str],
) -> None:
    """Write the rows of commits that are new; of one that was damaged, say where it is now."""
    new: dict[CommitId, BatchCommit] = {}
    for contents in several:
        for one in contents.commits:
            if one.id in numbers:
                new.setdefault(one.id, one)
    for name in new.keys() & damaged:
        if commit_table.mend(connection, name, numbers[name]):
            del new[name]
    commit_table.add(connection, [(one, numbers[name]) for name, one in new.items()])


def mark(connection: sqlite3.Connection, now_us: int, number: int) -> None:
    """Note that all numbers up to this one were given before now."""
    query = "INSERT OR REPLACE INTO mark (time_us, pack) VALUES (?, ?)"
    connection.execute(query, [now_us, number])
