"""Writes batches, each in one transaction.

A batch of a few objects takes two round trips: one that locks and looks up, one that inserts and
commits. A large one uploads its packs in between, outside of any transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import msgspec

from harken.core import canonical, structs
from harken.core.commits import ArtifactRef, CommitId
from harken.errors import ObjectNotFound
from harken.store.base import Name, ObjectKind, StoredObject, Tombstone
from harken.store.batch import BatchContents, is_allowed_need
from harken.store.branches import check_moves
from harken.store.postgresql import schema
from harken.store.postgresql.database import Fetcher, PostgresDatabase, Transaction
from harken.store.postgresql.names import (
    decode_text,
    encode_text,
    has_prefix_of,
    hash_text,
    is_full_name,
    to_digest,
    to_digests,
)
from harken.store.postgresql.packs.packing import Packing, PreparedPack
from harken.store.postgresql.packs.reader import ObjectReader
from harken.store.purge import purge_new_content, select_new_tombstones
from harken.store.raw_files import RawFiles

_MAX_UPLOADS = 5
_TOUCH_AFTER = "10 minutes"
"""An object that was written so recently is not marked as written again."""
_INSERT_OBJECTS = """
WITH number (id) AS MATERIALIZED (
    SELECT CASE WHEN %s THEN nextval(pg_get_serial_sequence('pack', 'id')) END
), new (digest, kind, body, size_bytes, needs) AS (
    SELECT * FROM unnest(%s::bytea[], %s::smallint[], %s::bytea[], %s::int[], %s::text[])
), inserted AS (
    INSERT INTO object (digest, kind, pack, body, size_bytes, needs)
    SELECT digest, kind, number.id, body, size_bytes, needs::bytea[]
    FROM new, number ORDER BY digest
    ON CONFLICT DO NOTHING RETURNING 1
)
"""
_INSERT_PACK = """
INSERT INTO pack (id, place, data, location, size_bytes, is_dirty)
OVERRIDING SYSTEM VALUE
SELECT id, id, %s, %s, %s, (SELECT count(*) FROM inserted) < %s FROM number
"""
"""A pack is dirty if it has an object whose row names another pack."""
_INSERT_HISTORY = """
WITH inserted AS (
    INSERT INTO history (digest, parent, principal, principal_key, time_us, notes)
    SELECT digest, parent, principal, principal_key, time_us, notes
    FROM unnest(%s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bigint[], %s::bytea[])
        WITH ORDINALITY AS new (digest, parent, principal, principal_key, time_us, notes, number)
    ORDER BY number
    ON CONFLICT DO NOTHING RETURNING digest
)
INSERT INTO label (name, digest)
SELECT l.name, l.digest FROM unnest(%s::bytea[], %s::bytea[]) AS l (name, digest)
JOIN inserted ON inserted.digest = l.digest
ON CONFLICT DO NOTHING
"""


class TombstoneSet(msgspec.Struct, frozen=True):
    """All tombstones, as of a generation."""

    generation: int
    by_name: Mapping[Name, Tombstone]


class StaleTombstoneSet(Exception):
    """The tombstones have changed since they were read."""


class _NeedsUpload(Exception):
    """The new objects of a batch have to be uploaded first."""

    def __init__(self, objects: Sequence[StoredObject]) -> None:
        super().__init__()
        self.objects = objects


class _Existing(msgspec.Struct):
    """The existing objects, heads and commits among the names of a batch."""

    kinds: dict[bytes, ObjectKind | None]
    """The kind of the object that is read under a name. None if it was purged and collected."""
    purged: set[bytes]
    heads: dict[str, CommitId]
    commits: set[bytes]
    """The targets of moves that are commits."""

    def find_kind(self, name: Name) -> ObjectKind | None:
        """Return the kind of an existing object, or None."""
        kind = self.kinds.get(to_digest(name)) if is_full_name(name) else None
        return kind if kind is not None and has_prefix_of(name, kind) else None


class BatchWriter:
    """Writes the batches of one store."""

    def __init__(
        self, database: PostgresDatabase, packing: Packing, reader: ObjectReader, files: RawFiles
    ) -> None:
        self._database, self._packing, self._reader = database, packing, reader
        self._files = files
        self._tombstones: TombstoneSet | None = None

    def write(self, build: Callable[[], BatchContents], *, is_verified: bool = False) -> None:
        """Write a batch, which `build` returns anew for each attempt. As `Store.write`."""
        while True:
            tombstones = self._tombstones or self.read_tombstones()
            contents = build()
            purge_new_content(contents, tombstones.by_name, self._reader.find_object)
            if contents.files and not is_verified:
                self._files.check(contents)
            try:
                self._write_contents(contents, tombstones)
            except StaleTombstoneSet:
                self._tombstones = None
            else:
                if contents.tombstones:
                    self._tombstones = None
                return

    def read_tombstones(self) -> TombstoneSet:
        """Read all tombstones."""
        self._tombstones = fetch_tombstones(self._database)
        return self._tombstones

    def _write_contents(self, contents: BatchContents, tombstones: TombstoneSet) -> None:
        packs: list[PreparedPack] | None = None
        for _ in range(_MAX_UPLOADS):
            try:
                self._run(partial(self._write_in, contents, tombstones, packs), contents)
            except _NeedsUpload as needed:
                if packs:
                    self._packing.discard(packs)
                packs = self._packing.upload(needed.objects)
            else:
                return
        # Collections have refused each upload, so the table takes all of it.
        self._run(partial(self._write_in, contents, tombstones, [], inline=True), contents)

    def _run(self, work: Callable[[Transaction], None], contents: BatchContents) -> None:
        has_effect, has_purges = bool(contents.moves), bool(contents.tombstones)
        self._database.write(work, once=has_effect, alone=has_purges)

    def _write_in(
        self,
        contents: BatchContents,
        tombstones: TombstoneSet,
        packs: list[PreparedPack] | None,
        tx: Transaction,
        *,
        inline: bool = False,
    ) -> None:
        """Write a batch in an open transaction, with packs that were uploaded for it, if any."""
        if contents.tombstones:
            contents = copy_contents(contents)
        existing = self._look_up(tx, contents)
        if packs and not self._packing.claim(tx, packs):
            packs = []
        if tx.generation != tombstones.generation:
            raise StaleTombstoneSet
        if contents.tombstones:
            self._select_tombstones(contents, existing)
        new = self._find_new(contents, existing)
        self._check_moves(contents, existing, new)
        prepared = {name for pack in packs or () for name in pack.names}
        contents_of_packs = [obj for obj in new.values() if obj.kind is not ObjectKind.COMMIT]
        if any(obj.name not in prepared for obj in contents_of_packs):
            was_uploaded = packs is not None
            needs_upload = was_uploaded or self._packing.needs_upload(contents_of_packs)
            if needs_upload and not inline:
                raise _NeedsUpload(contents_of_packs)
            packs = self._packing.encode(contents_of_packs)
        insert_objects(tx, new, packs or [])
        self._insert_rest(tx, contents, existing, new)

    def _look_up(self, tx: Transaction, contents: BatchContents) -> _Existing:
        names: set[Name] = {*contents.objects, *contents.derived.values(), *contents.tombstones}
        names.update(move.to for move in contents.moves.values())
        names.update(stone.stand_in for stone in contents.tombstones.values())
        for obj in contents.objects.values():
            names.update(obj.needs)
        branches = sorted(encode_text(name) for name in contents.moves)
        heads = commits = None
        if branches:
            query = "SELECT name, head FROM head WHERE name = ANY(%s) ORDER BY name FOR UPDATE"
            heads = tx.execute(query, [branches])
            targets = to_digests(move.to for move in contents.moves.values())
            commits = tx.execute("SELECT digest FROM history WHERE digest = ANY(%s)", [targets])
        rows = tx.execute(schema.LOOKUP, [to_digests(names)]).fetchall()
        return _Existing(
            {row[0]: None if row[2] is None else ObjectKind(row[2]) for row in rows},
            {row[0] for row in rows if row[3]},
            {
                decode_text(name): CommitId(f"ctx-{head.hex()}")
                for name, head in (heads.fetchall() if heads else ())
            },
            {digest for (digest,) in (commits.fetchall() if commits else ())},
        )

    def _select_tombstones(self, contents: BatchContents, existing: _Existing) -> None:
        select_new_tombstones(
            self._database.place, contents, lambda name: existing.find_kind(name) is not None
        )

    def _find_new(self, contents: BatchContents, existing: _Existing) -> dict[Name, StoredObject]:
        """Return the objects that do not exist yet. Raises ObjectNotFound if a need is missing."""
        new: dict[Name, StoredObject] = {}
        place = self._database.place
        for name, obj in contents.objects.items():
            if existing.find_kind(name) is not None:
                continue
            if to_digest(name) in existing.purged:
                raise ObjectNotFound(place, name)  # It was purged, and then collected.
            for need in obj.needs:
                if need in contents.tombstones:
                    continue
                kind = new[need].kind if need in new else existing.find_kind(need)
                if kind is None or not is_allowed_need(obj, kind):
                    raise ObjectNotFound(place, need, needed_by=name)
            new[name] = obj
        for key, ref in contents.derived.items():
            if ref not in new and existing.find_kind(ref) is None:
                raise ObjectNotFound(place, ref, needed_by=f"the derived {key!r}")
        return new

    def _check_moves(
        self, contents: BatchContents, existing: _Existing, new: Mapping[Name, StoredObject]
    ) -> None:
        """Raise BranchConflict or NameNotFound unless the branches of a batch can be moved."""
        new_names = {commit.id for commit in contents.commits}

        def has_commit(name: CommitId) -> bool:
            is_stored = is_full_name(name, "ctx-") and to_digest(name) in existing.commits
            return is_stored or name in new_names

        check_moves(self._database.place, existing.heads, contents.moves, has_commit)

    def _insert_rest(
        self,
        tx: Transaction,
        contents: BatchContents,
        existing: _Existing,
        new: Mapping[Name, StoredObject],
    ) -> None:
        """Insert all but the objects: commits, derived artifacts, heads and tombstones."""
        insert_tombstones(tx, contents.tombstones)
        _insert_history(tx, contents)
        if contents.derived:
            query = """
                INSERT INTO derived (key, digest)
                SELECT key, digest FROM unnest(%s::bytea[], %s::bytea[]) AS new (key, digest)
                ORDER BY key ON CONFLICT (key) DO UPDATE SET digest = excluded.digest
            """
            by_key = {hash_text(key): to_digest(ref) for key, ref in contents.derived.items()}
            tx.execute(query, [[*by_key], [*by_key.values()]])
        for name, move in sorted(contents.moves.items()):
            set_head(tx, name, move.to, is_new=name not in existing.heads)
        needed = {need for obj in new.values() for need in obj.needs}
        repeated = to_digests(contents.objects.keys() - new.keys() - needed)
        if repeated:
            query = """
                UPDATE object SET touched = now()
                WHERE digest = ANY(%s) AND touched < now() - %s::interval
            """
            tx.execute(query, [repeated, _TOUCH_AFTER])
        spare(tx, [*contents.objects, *(move.to for move in contents.moves.values())])


def copy_contents(contents: BatchContents) -> BatchContents:
    """Return a copy that can be changed."""
    return structs.replace(
        contents,
        objects=dict(contents.objects),
        commits=list(contents.commits),
        files=dict(contents.files),
    )


def insert_objects(
    tx: Transaction, new: Mapping[Name, StoredObject], packs: Sequence[PreparedPack]
) -> None:
    """Insert the rows of new objects, and their packs."""
    commits = [obj for obj in new.values() if obj.kind is ObjectKind.COMMIT]
    if commits:
        tx.execute(f"{_INSERT_OBJECTS} SELECT 1", [False, *_object_columns(commits)])
    for pack in packs:
        objects = [new[name] for name in pack.names if name in new]
        row = [pack.data, pack.location, pack.size_bytes, len(pack.names)]
        tx.execute(_INSERT_OBJECTS + _INSERT_PACK, [True, *_object_columns(objects), *row])


def _object_columns(objects: Collection[StoredObject]) -> list[list[object]]:
    return [
        [to_digest(obj.name) for obj in objects],
        [int(obj.kind) for obj in objects],
        [obj.body if obj.kind is ObjectKind.COMMIT else None for obj in objects],
        [len(obj.body) for obj in objects],
        [_format_needs(obj.needs) for obj in objects],
    ]


def _format_needs(needs: Sequence[Name]) -> str | None:
    """Return the literal of an array: arrays of arrays have no different lengths."""
    quoted = [f'"\\\\x{need[-64:]}"' for need in needs]
    return f"{{{','.join(quoted)}}}" if needs else None


def _insert_history(tx: Transaction, contents: BatchContents) -> None:
    commits = contents.commits
    if not commits:
        return
    parents = [new.commit.parent for new in commits]
    labels = [(label, new.id) for new in commits for label in new.notes.labels]
    columns = [
        [to_digest(new.id) for new in commits],
        [None if parent is None else to_digest(parent) for parent in parents],
        [encode_text(new.commit.principal) for new in commits],
        [hash_text(new.commit.principal) for new in commits],
        [new.time_us for new in commits],
        [canonical.to_canonical_bytes(new.notes) for new in commits],
        [encode_text(label) for label, _ in labels],
        [to_digest(name) for _, name in labels],
    ]
    tx.execute(_INSERT_HISTORY, columns)


def fetch_tombstones(database: Fetcher) -> TombstoneSet:
    """Read all tombstones, and their generation."""
    rows = database.fetch(
        "SELECT s.generation, t.digest, t.prefix, t.record, t.stand_in "
        "FROM state s LEFT JOIN tombstone t ON true"
    )
    by_name = {
        f"{prefix}{digest.hex()}": decode_tombstone(prefix, record, stand_in)
        for _, digest, prefix, record, stand_in in rows
        if digest is not None
    }
    return TombstoneSet(rows[0][0], by_name)


def insert_tombstones(tx: Transaction, tombstones: Mapping[Name, Tombstone]) -> None:
    """Insert or replace tombstones, and raise the generation."""
    query = """
        INSERT INTO tombstone (digest, prefix, stand_in, record) VALUES (%s, %s, %s, %s)
        ON CONFLICT (digest) DO UPDATE SET stand_in = excluded.stand_in, record = excluded.record
    """
    for name, stone in tombstones.items():
        row = [to_digest(name), name[:-64], to_digest(stone.stand_in)]
        tx.execute(query, [*row, canonical.to_canonical_bytes(stone)])
    if tombstones:
        raise_generation(tx)


def raise_generation(tx: Transaction) -> None:
    """Let all writers read the tombstones again."""
    tx.execute("UPDATE state SET generation = generation + 1")


def decode_tombstone(prefix: str, record: bytes, stand_in: bytes | None) -> Tombstone:
    """Decode a tombstone. Its stand-in is that of the row, which a later purge may have changed."""
    members = canonical.from_json(record)
    if stand_in is not None:
        members["stand_in"] = f"{prefix}{stand_in.hex()}"
    return msgspec.convert(members, Tombstone)


def set_head(tx: Transaction, name: str, to: ArtifactRef | CommitId, *, is_new: bool) -> None:
    """Set a head with a locked row, or insert it. A concurrent insert fails."""
    if is_new:
        query = "INSERT INTO head (head, name) VALUES (%s, %s)"
    else:
        query = "UPDATE head SET head = %s WHERE name = %s"
    tx.execute(query, [to_digest(to), encode_text(name)])


def spare(tx: Transaction, names: Collection[Name]) -> None:
    """Let a collection that is running spare these objects and all that they need."""
    if tx.collection is not None:
        query = "INSERT INTO spared (digest) SELECT unnest(%s::bytea[])"
        tx.execute(query, [to_digests(names)])
