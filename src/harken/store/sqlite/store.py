"""The store in one SQLite file: packs of things, and an index from the beginnings of names to them.

One idea: a name follows from the bytes, so the index holds 6 of its 32 bytes only, and every answer
is checked against the bytes. A wrong index entry makes a thing missing, never another one.

Source: docs/formats/store.md; docs/design/004-context-store.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from harken.core import commits as values
from harken.core.arguments import check_arguments
from harken.core.clock import Clock, parse_rfc3339, system_clock
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, DeltaEntry, Hash
from harken.core.messages import Message
from harken.errors import (
    NameNotFound,
    NotesConflict,
    ObjectCorrupted,
    ObjectNotFound,
    PurgeIncomplete,
    StoreError,
)
from harken.store import chunking
from harken.store.base import (
    GcResult,
    Name,
    ObjectKind,
    RetentionPolicy,
    StoredCommit,
    StoredObject,
    StoreStats,
    Tombstone,
    WriteBatch,
    stats,
)
from harken.store.batch import Contents, contents_of, file_from, needs_of
from harken.store.purge import inherit
from harken.store.retention import check_keeping
from harken.store.sqlite import commit_table, pack_table
from harken.store.sqlite import purge as replacement
from harken.store.sqlite import side_tables as derived
from harken.store.sqlite import side_tables as kept
from harken.store.sqlite import side_tables as tombs
from harken.store.sqlite.commit_table import CommitRow
from harken.store.sqlite.database import Database, SqliteConnection, version_of
from harken.store.sqlite.gc import Sweep, Unused, unused, write_anew
from harken.store.sqlite.graph import Progress
from harken.store.sqlite.name_index import artifacts, places, slices
from harken.store.sqlite.pack import Body, PackCorrupted, unpacked
from harken.store.sqlite.pack_cache import PackCache, messages_in
from harken.store.sqlite.side_tables import is_sealed
from harken.store.sqlite.writer import Writer

T = TypeVar("T")
_NO_LIMIT = 2**62


@check_arguments
class SqliteStore:
    """A store in the file at `path`, which is made where there is none.

    Threads and processes may share it. A writer waits `patience_s` for others and then raises
    StoreLocked. Raises InvalidStore, StoreVersionUnsupported, StoreWriteError, StoreError.
    """

    def __init__(
        self, path: str | Path, *, patience_s: float = 30.0, clock: Clock = system_clock
    ) -> None:
        self.path = Path(path)
        self._database = Database(self.path, patience_s)
        self._clock = clock
        self._opened = PackCache(self.path)
        self._writer = Writer(self._database, self._opened, clock)

    @property
    def format_version(self) -> int:
        """The version of the file: that of the newest form of anything in it."""
        with self._reading() as connection:
            return version_of(connection)

    def write_named(self, contents: Contents) -> None:
        """Write what was named where its bytes were made: that the names fit is not checked.

        What is needed stands before what needs it. As `write`, for what is much; it is not at hand
        afterwards without being read.
        """
        if contents.files:
            inherit(contents, self.tombstones(), self._thing)
        self._writer.write(contents)

    def write(self, batch: WriteBatch) -> None:
        contents = contents_of(batch)
        if contents.files:
            inherit(contents, self.tombstones(), self._thing)
            self._check_files(contents)
        if contents.tombstones:
            with self.removing() as connection:
                self._writer.bring(connection, contents)
        else:
            self._writer.write(contents)

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        found = self._found(names, ObjectKind.PART, ObjectKind.MESSAGE)
        return {Hash(name): body for name, (_, body) in found.items()}

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        found = self._found(names, ObjectKind.DELTA)
        return {
            ArtifactRef(n): self._read(n, body, values.decode_delta) for n, body in found.items()
        }

    def messages(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[Message]]:
        """Return the messages of deltas, as far as they stand beside them; others are left out."""
        found: dict[ArtifactRef, list[Message]] = {}
        with self._reading() as connection:
            for name in names:
                if name not in found and name not in self._opened.stand_ins:
                    place = self._opened.place(connection, name)
                    read = None if place is None else messages_in(*place)
                    if read is not None:
                        found[name] = read
        return found

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        found = self._found(names, ObjectKind.SEQUENCE)
        read = values.decode_sequence
        return {ArtifactRef(n): self._read(n, body, read) for n, body in found.items()}

    def raw(self, name: ArtifactRef) -> bytes:
        return b"".join(self.read_chunks(name))

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        for kind, body in self._found([name], ObjectKind.RAW, ObjectKind.FILE).values():
            if kind is ObjectKind.RAW:
                return iter([body])
            cut = file_from(body)  # under another name, where it stands for one that was purged
            return chunking.checked(str(self.path), cut.name, self._joined(name, cut.pieces))
        raise ObjectNotFound(self.path, name)

    def pieces_of(self, name: ArtifactRef) -> list[ArtifactRef]:
        """Return the raw artifacts that make up a file, in order; raw bytes are one by themselves.

        They may be elsewhere. Raises ObjectNotFound.
        """
        for kind, body in self._found([name], ObjectKind.RAW, ObjectKind.FILE).values():
            return [name] if kind is ObjectKind.RAW else file_from(body).pieces
        raise ObjectNotFound(self.path, name)

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        with self._reading() as connection:
            return derived.find(connection, keys)

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        found: dict[CommitId, StoredCommit] = {}
        with self._reading() as connection:
            for name in names:
                row = self._row(connection, name)
                if row is not None:
                    found[name] = self._stored(connection, name, row)
        return found

    def have(self, names: Iterable[CommitId]) -> set[CommitId]:
        """Return those of these commits that are there, as the history says: nothing is read."""
        with self._reading() as connection:
            return {name for name in names if commit_table.row_of(connection, name) is not None}

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        limit = _NO_LIMIT if depth is None else min(depth, _NO_LIMIT)
        with self._reading() as connection:
            rows = commit_table.ancestors(connection, self._known(connection, name).id, limit)
            found: list[StoredCommit] = []
            at: CommitId | None = name
            for some in slices(rows):
                self._opened.open(connection, [row.pack for row in some])
                for row in some:
                    if at is None or not row.is_of(at):
                        raise ObjectCorrupted(self.path, name, reason="its chain leads elsewhere")
                    found.append(self._stored(connection, at, row))
                    at = found[-1].commit.parent
        if at is not None and len(found) < limit:
            raise ObjectNotFound(self.path, at, needed_by=found[-1].id)
        return found

    def children(self, name: CommitId) -> list[CommitId]:
        with self._reading() as connection:
            row = commit_table.row_of(connection, name)
            if row is None:
                return []
            where = "WHERE parent = ? ORDER BY time_us, id"
            return self._names(connection, commit_table.some(connection, where, [row.id]))

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        until_us = parse_rfc3339(at)
        with self._reading() as connection:
            found = self._names(connection, commit_table.latest(connection, principal, until_us))
        return found[0] if found else None

    def newest_commits(self, limit: int = 20) -> list[CommitId]:
        with self._reading() as connection:
            rows = commit_table.some(connection, "ORDER BY id DESC LIMIT ?", [_bounded(limit)])
            return self._names(connection, rows)

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        found: list[CommitId | ArtifactRef] = []
        limit = _bounded(limit)
        with self._reading() as connection:
            if beginning.startswith("art-") or "art-".startswith(beginning):
                found += self._artifacts(connection, beginning[4:], limit)
            if beginning.startswith("ctx-") or "ctx-".startswith(beginning):
                rows = commit_table.beginning(connection, beginning[4:], limit - len(found))
                found += self._names(connection, rows)
        return found

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        values.check_notes(notes)
        with self._database.writing() as connection:
            self._opened.look(connection)
            row = self._known(connection, name)
            if was is not None and self._stored(connection, name, row).notes != was:
                raise NotesConflict(self.path, name)
            commit_table.annotate(connection, row, name, notes)

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        found: dict[str, list[CommitId]] = {}
        with self._reading() as connection:
            for text, row in commit_table.labelled(connection, label):
                found.setdefault(text, []).extend(self._names(connection, [row]))
        return found

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        for keeping in names.values():
            if keeping is not None:
                check_keeping(keeping)
        with self._database.writing() as connection:
            self._opened.look(connection)
            for name in names:
                self._check_can_be_kept(connection, name)
            kept.enter_retention(connection, names)

    def retention(self) -> dict[CommitId | ArtifactRef, RetentionPolicy]:
        with self._reading() as connection:
            return {ArtifactRef(name): one for name, one in kept.kept(connection).items()}

    def collect(
        self,
        roots: Collection[Name],
        *,
        now: str,
        grace_s: float = 3600,
        dry_run: bool = False,
        on_progress: Progress | None = None,
    ) -> GcResult:
        now_us = parse_rfc3339(now)
        sweep = Sweep(
            store=self,
            roots=roots,
            now_us=now_us,
            before_us=now_us - int(grace_s * 1_000_000),
            clock=self._clock,
            on_progress=on_progress,
        )
        try:
            return sweep.plan() if dry_run else sweep.run()
        except (ValueError, LookupError, TypeError) as error:  # e.g. digits of a name in a table
            text = f"is damaged: {error}; `harken store fsck` lists all damage"
            raise StoreError(self.path, text) from error

    def unused(self) -> Unused:
        """Return how much of the file is unused, and the room that it takes to shrink it."""
        with self.snapshot() as connection:
            return unused(connection)

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        """As `Store.purge`.

        Raises PurgeIncomplete where others use the file for too long, or the disk is full: purge
        again then, whatever it is.
        """
        with self.removing() as connection:
            replacement.replace(str(self.path), connection, stand_ins, tombstone, self._thing)
        try:
            self.write_anew(self._database.patience_s)
        except StoreError as error:
            reason = str(error).removeprefix(f"{self.path}: ")
            raise PurgeIncomplete(self.path, reason=reason) from error

    def tombstones(self) -> dict[Name, Tombstone]:
        with self._reading() as connection:
            return tombs.tombstones(connection)

    def iter_objects(self) -> Iterator[StoredObject]:
        with self._reading() as connection:
            row = pack_table.row_of(connection, 0)
        while row is not None:
            try:
                for name, (kind, body) in unpacked(row.data).items():
                    yield StoredObject(kind, name, body, needs_of(kind, body))
            except PackCorrupted as error:
                raise ObjectCorrupted(self.path, f"pack {row.first}", reason=str(error)) from None
            with self._reading() as connection:
                row = pack_table.row_of(connection, row.end)

    def stats(self) -> StoreStats:
        return stats(self.iter_objects(), self.path)

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def snapshot(self) -> Iterator[SqliteConnection]:
        """Read the file as it is now, whatever is written meanwhile: for checks and copies."""
        with self._reading() as connection:
            yield connection

    @contextmanager
    def removing(self) -> Iterator[SqliteConnection]:
        """Hold a transaction that may take things away: then all processes forget what they read.

        What is taken away must not be needed by anything that stays.
        """
        with self._database.writing() as connection:
            self._opened.look(connection)
            connection.takes_away = True
            try:
                yield connection
                pack_table.raise_generation(connection)
            finally:
                connection.takes_away = False
                connection.version = -1  # SQLite does not tell a connection of its own changes
        with self._reading():
            pass

    def write_anew(self, patience_s: float) -> None:
        """Give back what is free in the file. Raises StoreLocked where others use it for longer."""
        write_anew(self._database, patience_s)

    @contextmanager
    def _reading(self) -> Iterator[SqliteConnection]:
        with self._database.reading() as connection:
            self._opened.look(connection)
            yield connection

    def _found(self, names: Iterable[str], *kinds: ObjectKind) -> dict[str, Body]:
        """Return the things of these names that are there, of these kinds."""
        with self._reading() as connection:
            replaced = self._opened.stand_ins
            asked = {name: replaced.get(name, name) for name in names}
            at_hand = {name: self._opened.get(name) is not None for name in asked.values()}
            found = {
                name: self._opened.find(connection, name, ())
                for name, is_at_hand in at_hand.items()
                if is_at_hand
            }
            missing = [name for name, is_at_hand in at_hand.items() if not is_at_hand]
            for some in slices(places(connection, missing).items() if missing else ()):
                self._opened.open(connection, [numbers[-1] for _, numbers in some])
                for name, numbers in some:
                    found[name] = self._opened.find(connection, name, reversed(numbers))
        bodies = ((name, found.get(other)) for name, other in asked.items())
        return {name: body for name, body in bodies if body and body[0] in kinds}

    def _read(self, name: str, body: Body, decode: Callable[[bytes], T]) -> T:
        """Decode what was found. Raises ObjectCorrupted: another machine may have packed it."""
        try:
            return decode(body[1])
        except ValueError as error:
            raise ObjectCorrupted(self.path, name, reason=f"it cannot be read: {error}") from None

    def _thing(self, name: Name) -> StoredObject | None:
        """Return what is read under a name; None: nothing is."""
        with self._reading() as connection:
            own = self._opened.stand_ins.get(name, name)
            numbers = places(connection, [own, name])
            found = self._opened.find(
                connection, own, [*numbers.get(own, ()), *numbers.get(name, ())]
            )
        return None if found is None else StoredObject(found[0], own, found[1], needs_of(*found))

    def _check_can_be_kept(self, connection: SqliteConnection, name: Name) -> None:
        if name.startswith("ctx-"):
            self._known(connection, CommitId(name))
        elif name not in self._evicted(connection, name) and (
            not name.startswith("art-") or self._thing(name) is None
        ):
            raise NameNotFound("commit or artifact", name, self.names_with_prefix("", 3))

    def _joined(self, name: ArtifactRef, pieces: Sequence[ArtifactRef]) -> Iterator[bytes]:
        for piece in pieces:
            found = self._found([piece], ObjectKind.RAW)
            if not found:
                raise ObjectNotFound(self.path, piece, needed_by=name)
            yield found[piece][1]

    def _check_files(self, contents: Contents) -> None:
        """Raise where a new file is not what its name says, or a piece of it is missing."""
        there = self._found(contents.files, ObjectKind.RAW, ObjectKind.FILE)
        for name, pieces in contents.files.items():
            if name not in there:
                own = (contents.things.get(piece) for piece in pieces)
                bodies = (
                    [thing.body]
                    if thing and thing.kind is ObjectKind.RAW
                    else self._joined(name, [piece])
                    for piece, thing in zip(pieces, own, strict=True)
                )
                for _ in chunking.checked(str(self.path), name, (one for b in bodies for one in b)):
                    pass

    def _row(self, connection: SqliteConnection, name: CommitId) -> CommitRow | None:
        """Return the row of a commit that is there."""
        row = commit_table.row_of(connection, name)
        return row if row and self._body(connection, name, row) else None

    def _known(self, connection: SqliteConnection, name: CommitId) -> CommitRow:
        row = self._row(connection, name)
        if row is None:
            some = commit_table.some(connection, "ORDER BY id DESC LIMIT 3", [])
            raise NameNotFound("commit", name, self._names(connection, some))
        return row

    def _body(self, connection: SqliteConnection, name: CommitId, row: CommitRow) -> Body | None:
        other = self._opened.stand_ins.get(name, name)
        return self._opened.find(connection, other, [row.pack])

    def _stored(self, connection: SqliteConnection, name: CommitId, row: CommitRow) -> StoredCommit:
        found = self._body(connection, name, row)
        if found is None:
            raise ObjectCorrupted(self.path, name, reason="its row leads elsewhere")
        try:
            notes = commit_table.notes_from(name, row.notes)
            return StoredCommit(name, values.decode_commit(found[1]), notes)
        except ValueError as error:
            raise ObjectCorrupted(self.path, name, reason=f"its notes: {error}") from None

    def _names(self, connection: SqliteConnection, rows: Iterable[CommitRow]) -> list[CommitId]:
        """Return the names of rows. Raises ObjectCorrupted for a name that is not as written."""
        found: list[CommitId] = []
        for row in rows:
            name = CommitId(f"ctx-{row.name.hex()}")
            if not is_sealed(name, row.notes) and not self._body(connection, name, row):
                raise ObjectCorrupted(self.path, name, reason=f"row {row.id} leads elsewhere")
            found.append(name)
        return found

    def _evicted(self, connection: SqliteConnection, beginning: str) -> set[Name]:
        """Return the names of artifacts that begin so and are elsewhere."""
        if not self._opened.evicts or not beginning.startswith("art-"):
            return set()
        query = "SELECT name FROM evicted WHERE name BETWEEN ? AND ?"
        return {name for (name,) in connection.execute(query, [beginning, beginning + "g"])}

    def _artifacts(
        self, connection: SqliteConnection, digits: str, limit: int
    ) -> list[ArtifactRef]:
        beginning, stand_ins = f"art-{digits}", self._opened.stand_ins.items()
        found = {name for name, other in stand_ins if other and name.startswith(beginning)}
        found |= self._evicted(connection, beginning)
        by_key = (list(same) for _, same in groupby(artifacts(connection, digits), itemgetter(0)))
        while some := [place for same in islice(by_key, max(limit, 1)) for place in same]:
            names = self._opened.names(connection, some)
            found.update(name for name in names if name[4:].startswith(digits))
            if len(found) >= limit:
                break
        return [ArtifactRef(name) for name in sorted(found)[:limit]]


def _bounded(limit: int) -> int:
    return max(0, min(limit, _NO_LIMIT))
