"""`SqliteStore`: a store in one SQLite file, with packs of objects and an index of name prefixes.

A name follows from the bytes, so the index holds only 6 of its 32 bytes, and every result is
verified against the bytes. A wrong index entry makes an object missing, but never returns another.

Source: docs/formats/store.md; docs/design/004-context-store.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from harken.core import commits as values
from harken.core.arguments import check_arguments
from harken.core.clock import Clock, parse_rfc3339, system_clock
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, DeltaEntry, Hash, HeadName
from harken.core.messages import Message
from harken.errors import (
    NameNotFound,
    NotesConflict,
    ObjectCorrupted,
    ObjectNotFound,
    PurgeIncomplete,
    StoreError,
)
from harken.store.base import (
    NO_LIMIT,
    CommitLink,
    GcResult,
    Name,
    ObjectKind,
    Progress,
    RetentionPolicy,
    StoredCommit,
    StoredObject,
    StoreStats,
    Tombstone,
    UnusedSpace,
    WriteBatch,
    compute_stats,
)
from harken.store.batch import BatchContents, parse_needs, validate_batch
from harken.store.branches import check_branch, check_head, check_head_name, check_source
from harken.store.purge import purge_new_content
from harken.store.raw_files import RawFiles
from harken.store.retention import check_policy
from harken.store.sqlite import commit_table, pack_table, side_tables
from harken.store.sqlite.change_table import ChangeTable
from harken.store.sqlite.commit_table import CommitRow, clamp
from harken.store.sqlite.database import SqliteConnection, SqliteDatabase, read_version
from harken.store.sqlite.gc import Sweep, measure_unused, rewrite_file
from harken.store.sqlite.name_index import find_numbers, iter_batches, sort_by_pack
from harken.store.sqlite.pack import Body, PackCorrupted, decode_objects
from harken.store.sqlite.pack_cache import PackCache, decode_bodies
from harken.store.sqlite.purge import replace_objects
from harken.store.sqlite.writer import PurgedMeanwhile, Writer


@check_arguments
class SqliteStore(ChangeTable):
    """A store in the file at `path`, which is created if it does not exist.

    Threads and processes may share it. A writer waits `patience_s` for others and then raises
    StoreLocked. Raises InvalidStore, StoreVersionUnsupported, StoreWriteError, StoreError.
    """

    def __init__(
        self, path: str | Path, *, patience_s: float = 30.0, clock: Clock = system_clock
    ) -> None:
        self.path = Path(path)
        self._database = SqliteDatabase(self.path, patience_s)
        self._clock = clock
        self._pack_cache = PackCache(self.path)
        self._writer = Writer(self._database, self._pack_cache, clock)
        self._raw_files = RawFiles(self.path, self._read_bodies)

    @property
    def format_version(self) -> int:
        """The format version of the file: that of the newest form of anything in it."""
        with self._reading() as connection:
            return read_version(connection)

    def write_named(self, contents: BatchContents) -> None:
        """Write objects, each after its needs, whose names were computed: they are not verified."""
        self._write_contents(contents, verifies_files=False)

    def write(self, batch: WriteBatch) -> None:
        self._write_contents(validate_batch(batch), verifies_files=True)

    def _write_contents(self, contents: BatchContents, *, verifies_files: bool) -> None:
        """Write a batch, compared with all purged content: again if some was purged meanwhile."""
        for _ in range(100):
            batch = contents.copy()
            generation = self._purge_new(batch)
            if verifies_files and batch.files:
                self._raw_files.check(batch)
            with suppress(PurgedMeanwhile):
                if batch.tombstones:
                    with self.removing() as connection:
                        self._writer.write_with_tombstones(connection, batch, generation)
                else:
                    self._writer.write(batch, generation)
                return
        raise StoreError(self.path, "is an older copy of the file that was open")

    def _purge_new(self, contents: BatchContents) -> int | None:
        """Purge new content that contains purged content, as `Writer.write` requires it."""
        if not contents.files and all(o.kind != ObjectKind.RAW for o in contents.objects.values()):
            return None
        generation = self._pack_cache.generation
        if self._pack_cache.stand_ins:
            purge_new_content(contents, self.tombstones(), self._find_object)
        return generation

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        bodies = self._read_bodies(names, ObjectKind.PART, ObjectKind.MESSAGE)
        return {Hash(name): body for name, (_, body) in bodies.items()}

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        bodies = self._read_bodies(names, ObjectKind.DELTA)
        return decode_bodies(self.path, bodies, values.decode_delta)

    def messages(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[Message]]:
        """Return the messages of deltas whose pack has all their objects, without other deltas."""
        with self._reading() as connection:
            return self._pack_cache.read_deltas(connection, names)

    def messages_at(
        self, indexes: Mapping[ArtifactRef, Collection[int]]
    ) -> dict[ArtifactRef, dict[int, Message]]:
        """Return the messages of deltas at some indexes, as `messages`. Others are left out."""
        with self._reading() as connection:
            return self._pack_cache.read_delta_messages(connection, indexes)

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        bodies = self._read_bodies(names, ObjectKind.SEQUENCE)
        return decode_bodies(self.path, bodies, values.decode_sequence)

    def raws(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, bytes]:
        bodies = self._read_bodies(names, ObjectKind.RAW)
        return {ArtifactRef(name): body for name, (_, body) in bodies.items()}

    def raw(self, name: ArtifactRef) -> bytes:
        return b"".join(self.read_chunks(name))

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        return self._raw_files.read_chunks(name)

    def chunk_names(self, name: ArtifactRef) -> list[ArtifactRef]:
        """As `Store.chunk_names`. The chunks may be evicted."""
        return self._raw_files.chunk_names(name)

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        with self._reading() as connection:
            return side_tables.find_derived(connection, keys)

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        commits: dict[CommitId, StoredCommit] = {}
        with self._reading() as connection:
            for name in names:
                row = self._find_row(connection, name)
                if row is not None:
                    commits[name] = self._read_commit(connection, name, row)
        return commits

    def existing_commits(self, names: Iterable[CommitId]) -> set[CommitId]:
        """Return the commits among these that exist in the history. Their content is not read."""
        with self._reading() as connection:
            return {name for name in names if commit_table.find_row(connection, name) is not None}

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        limit = NO_LIMIT if depth is None else min(depth, NO_LIMIT)
        with self._reading() as connection:
            tip = self._get_row(connection, name)
            rows = commit_table.select_ancestors(connection, tip.id, limit)
            commits: list[StoredCommit] = []
            current: CommitId | None = name
            for batch in iter_batches(rows):
                self._pack_cache.load(connection, [row.pack for row in batch])
                for row in batch:
                    if current is None or not row.has_name(current):
                        raise ObjectCorrupted(self.path, name, reason="its chain leads elsewhere")
                    commits.append(self._read_commit(connection, current, row))
                    current = commits[-1].commit.parent
        if current is not None and len(commits) < limit:
            raise ObjectNotFound(self.path, current, needed_by=commits[-1].id)
        return commits

    def common_ancestor(self, one: CommitId, other: CommitId) -> CommitId | None:
        """Return the last commit in the histories of both commits, or None.

        Only rows are read, one for each commit in between. Raises NameNotFound.
        """
        with self._reading() as connection:
            ids = [self._get_row(connection, name).id for name in (one, other)]
            row = commit_table.find_common_ancestor(connection, *ids)
            return None if row is None else self._read_names(connection, [row])[0]

    def commit_links(self) -> list[CommitLink]:
        """Return the links of all commits, the last written first. Only rows are read."""
        with self._reading() as connection:
            return commit_table.select_links(connection)

    def children(self, name: CommitId) -> list[CommitId]:
        with self._reading() as connection:
            row = commit_table.find_row(connection, name)
            if row is None:
                return []
            where = "WHERE parent = ? ORDER BY time_us, id"
            rows = commit_table.select_rows(connection, where, [row.id])
            return self._read_names(connection, rows)

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        with self._reading() as connection:
            rows = commit_table.select_latest(connection, principal, parse_rfc3339(at))
            return next(iter(self._read_names(connection, rows)), None)

    def newest_commits(self, limit: int = 20, *, before: CommitId | None = None) -> list[CommitId]:
        with self._reading() as connection:
            end = NO_LIMIT if before is None else self._get_row(connection, before).id
            where = "WHERE id < ? ORDER BY id DESC LIMIT ?"
            rows = commit_table.select_rows(connection, where, [end, clamp(limit)])
            return self._read_names(connection, rows)

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        matches: list[CommitId | ArtifactRef] = []
        limit = clamp(limit)
        with self._reading() as connection:
            if beginning.startswith("art-") or "art-".startswith(beginning):
                matches += self._pack_cache.find_artifacts(connection, beginning[4:], limit)
            if beginning.startswith("ctx-") or "ctx-".startswith(beginning):
                left = limit - len(matches)
                rows = commit_table.select_by_prefix(connection, beginning[4:], left)
                matches += self._read_names(connection, rows)
        return matches

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        values.check_notes(notes)
        with self._changing() as connection:
            row = self._get_row(connection, name)
            if was is not None and self._read_commit(connection, name, row).notes != was:
                raise NotesConflict(self.path, name)
            commit_table.update_row_notes(connection, row, name, notes)

    def branches(self, prefix: str = "") -> dict[str, CommitId]:
        with self._reading() as connection:
            return side_tables.read_branches(connection, prefix)

    def find_branch(self, name: str) -> CommitId | None:
        with self._reading() as connection:
            return side_tables.read_branch(connection, name)

    def move_branch(self, name: str, to: CommitId | None, *, expected: CommitId | None) -> None:
        check_branch(name)
        with self._changing() as connection:
            check_head(self.path, side_tables.read_heads(connection, name), name, expected)
            if to is not None:
                self._get_row(connection, to)
            side_tables.set_heads(connection, {name: to})

    def heads(self, prefix: str = "") -> dict[HeadName, ArtifactRef]:
        with self._reading() as connection:
            return side_tables.read_artifact_heads(connection, prefix)

    def move_head(self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None) -> None:
        check_head_name(name)
        with self._changing() as connection:
            check_head(self.path, side_tables.read_heads(connection, name), name, expected)
            if not self._has_artifact(connection, to):
                raise ObjectNotFound(self.path, to, needed_by=name)
            side_tables.set_heads(connection, {name: to})

    def set_heads(self, heads: Mapping[HeadName, ArtifactRef | None]) -> None:
        with self._changing() as connection:
            for name, head in heads.items():
                check_source(name)
                if head is not None and not self._has_artifact(connection, head):
                    raise ObjectNotFound(self.path, head, needed_by=name)
            side_tables.set_heads(connection, heads)

    @contextmanager
    def _changing(self) -> Iterator[SqliteConnection]:
        """Hold a transaction that changes tables only."""
        with self._database.writing() as connection, side_tables.convert_mismatches(self.path):
            self._pack_cache.clear_if_stale(connection)
            yield connection

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        by_label: dict[str, list[CommitId]] = {}
        with self._reading() as connection:
            for text, row in commit_table.select_by_label(connection, label):
                by_label.setdefault(text, []).extend(self._read_names(connection, [row]))
        return by_label

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        for policy in filter(None, names.values()):
            check_policy(policy)
        with self._changing() as connection:
            for name in names:
                self._check_can_be_retained(connection, name)
            side_tables.enter_retention(connection, names)

    def retention(self) -> dict[CommitId | ArtifactRef, RetentionPolicy]:
        with self._reading() as connection:
            return side_tables.read_retention(connection)

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
            roots=[*roots, *self.branches().values(), *self.heads().values()],
            now_us=now_us,
            before_us=now_us - int(grace_s * 1_000_000),
            clock=self._clock,
            on_progress=on_progress,
        )
        try:
            return sweep.plan() if dry_run else sweep.run()
        # For example, invalid digits of a name in a table.
        except (ValueError, LookupError, TypeError) as error:
            reason = f"is damaged: {error}; `harken store fsck` lists all damage"
            raise StoreError(self.path, reason) from error

    def unused(self) -> UnusedSpace:
        """Return the unused bytes of the file, and the disk space that a rewrite needs."""
        with self.snapshot() as connection:
            return measure_unused(connection)

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        """Replace the content of objects for good. As `Store.purge`.

        Raises PurgeIncomplete if the file is in use for too long, or the disk is full. Any
        later purge completes it.
        """
        with self.removing() as connection:
            replace_objects(str(self.path), connection, stand_ins, tombstone, self._find_object)
        try:
            self.rewrite_file(self._database.patience_s)
        except StoreError as error:
            reason = str(error).removeprefix(f"{self.path}: ")
            raise PurgeIncomplete(self.path, reason=reason) from error

    def tombstones(self) -> dict[Name, Tombstone]:
        with self._reading() as connection:
            return side_tables.read_tombstones(connection)

    def iter_objects(self) -> Iterator[StoredObject]:
        with self._reading() as connection:
            row = pack_table.find_row(connection, 0)
        while row is not None:
            try:
                for name, (kind, body) in decode_objects(row.data).items():
                    yield StoredObject(kind, name, body, parse_needs(kind, body))
            except PackCorrupted as error:
                raise ObjectCorrupted(self.path, f"pack {row.first}", reason=str(error)) from None
            with self._reading() as connection:
                row = pack_table.find_row(connection, row.end)

    def stats(self) -> StoreStats:
        return compute_stats(self.iter_objects(), self.path)

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def removing(self) -> Iterator[SqliteConnection]:
        """Hold a transaction that may remove objects. All processes then clear their caches.

        No remaining object may need a removed one.
        """
        with self._changing() as connection:
            connection.is_removing = True
            try:
                yield connection
                pack_table.raise_generation(connection)
            finally:
                connection.is_removing = False
                connection.version = -1  # SQLite does not report a connection's own changes to it.
        with self._reading():
            pass

    def rewrite_file(self, patience_s: float) -> None:
        """Rewrite the file without unused pages. Raises StoreLocked if it stays in use."""
        rewrite_file(self._database, patience_s)

    @contextmanager
    def snapshot(self) -> Iterator[SqliteConnection]:
        """Read a consistent snapshot of the file, also for checks and copies."""
        with self._database.reading() as connection, side_tables.convert_mismatches(self.path):
            self._pack_cache.clear_if_stale(connection)
            yield connection

    _reading = snapshot

    def _read_bodies(self, names: Iterable[str], *kinds: ObjectKind) -> dict[str, Body]:
        """Return the existing objects of these names and kinds."""
        with self._reading() as connection:
            stand_ins = self._pack_cache.stand_ins
            actual_names = {name: stand_ins.get(name, name) for name in names}
            is_cached = {
                name: self._pack_cache.get(name) is not None for name in actual_names.values()
            }
            by_name = {
                name: self._pack_cache.find(connection, name, ())
                for name, cached in is_cached.items()
                if cached
            }
            missing = [name for name, cached in is_cached.items() if not cached]
            for batch in iter_batches(sort_by_pack(find_numbers(connection, missing))):
                self._pack_cache.load(connection, [numbers[-1] for _, numbers in batch])
                for name, numbers in batch:
                    by_name[name] = self._pack_cache.find(connection, name, reversed(numbers))
        bodies = ((name, by_name.get(actual_name)) for name, actual_name in actual_names.items())
        return {name: body for name, body in bodies if body and body[0] in kinds}

    def _find_object(self, name: Name) -> StoredObject | None:
        """Return the object that is read under a name, or None."""
        with self._reading() as connection:
            actual_name = self._pack_cache.stand_ins.get(name, name)
            numbers = find_numbers(connection, [actual_name, name])
            body = self._pack_cache.find(
                connection, actual_name, [*numbers.get(actual_name, ()), *numbers.get(name, ())]
            )
        return (
            None
            if body is None
            else StoredObject(body[0], actual_name, body[1], parse_needs(*body))
        )

    def _check_can_be_retained(self, connection: SqliteConnection, name: Name) -> None:
        if name.startswith("ctx-"):
            self._get_row(connection, CommitId(name))
            return
        is_evicted = name in self._pack_cache.find_evicted(connection, name)
        if not is_evicted and not self._has_artifact(connection, name):
            raise NameNotFound("commit or artifact", name, self.names_with_prefix("", 3))

    def _has_artifact(self, connection: SqliteConnection, name: Name) -> bool:
        """Whether an artifact exists. Its bytes are read only if its pack is not cached."""
        actual_name = self._pack_cache.stand_ins.get(name, name)
        return name.startswith("art-") and bool(
            self._pack_cache.get(actual_name) or self._find_object(name)
        )

    def _find_row(self, connection: SqliteConnection, name: CommitId) -> CommitRow | None:
        """Return the row of an existing commit, or None."""
        row = commit_table.find_row(connection, name)
        return row if row and self._find_body(connection, name, row) else None

    def _get_row(self, connection: SqliteConnection, name: CommitId) -> CommitRow:
        row = self._find_row(connection, name)
        if row is None:
            sample = commit_table.select_rows(connection, "ORDER BY id DESC LIMIT 3", [])
            raise NameNotFound("commit", name, self._read_names(connection, sample))
        return row

    def _find_body(
        self, connection: SqliteConnection, name: CommitId, row: CommitRow
    ) -> Body | None:
        actual_name = self._pack_cache.stand_ins.get(name, name)
        return self._pack_cache.find(connection, actual_name, [row.pack])

    def _read_commit(
        self, connection: SqliteConnection, name: CommitId, row: CommitRow
    ) -> StoredCommit:
        body = self._find_body(connection, name, row)
        if body is None:
            raise ObjectCorrupted(self.path, name, reason="its row leads elsewhere")
        try:
            notes = commit_table.unseal_notes(name, row.notes)
            return StoredCommit(name, values.decode_commit(body[1]), notes)
        except ValueError as error:
            raise ObjectCorrupted(self.path, name, reason=f"its notes: {error}") from None

    def _read_names(
        self, connection: SqliteConnection, rows: Iterable[CommitRow]
    ) -> list[CommitId]:
        """Return the names of rows. Raises ObjectCorrupted if a name was changed."""
        names: list[CommitId] = []
        for row in rows:
            name = CommitId(f"ctx-{row.name.hex()}")
            if not side_tables.is_sealed(name, row.notes) and not self._find_body(
                connection, name, row
            ):
                raise ObjectCorrupted(self.path, name, reason=f"row {row.id} leads elsewhere")
            names.append(name)
        return names
