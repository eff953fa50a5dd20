"""`PostgresStore`: a store in PostgreSQL, for many processes and machines at once.

PostgreSQL has all names, commits and mutable data, and is the truth about what exists. The other
objects are in packs, small ones in a table and large ones in object storage.

Source: docs/formats/store-postgresql.md; docs/design/022-server-stores.md has faults and costs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from harken.core import canonical, structs
from harken.core import commits as values
from harken.core.arguments import check_arguments
from harken.core.clock import parse_rfc3339
from harken.core.commits import ArtifactRef, CommitId, CommitNotes, DeltaEntry, Hash, HeadName
from harken.errors import NameNotFound, NotesConflict, ObjectNotFound
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
    StoreFinding,
    StoreStats,
    Tombstone,
    WriteBatch,
    compute_stats,
)
from harken.store.batch import BatchContents, validate_batch
from harken.store.branches import (
    HEAD_PREFIXES,
    check_branch,
    check_head,
    check_head_name,
    check_source,
)
from harken.store.postgresql import queries, schema
from harken.store.postgresql.address import parse_address
from harken.store.postgresql.change_table import PostgresChangeTable
from harken.store.postgresql.check import iter_findings
from harken.store.postgresql.database import PostgresDatabase, Transaction
from harken.store.postgresql.gc import GarbageCollection
from harken.store.postgresql.iteration import iter_objects
from harken.store.postgresql.names import (
    decode_text,
    encode_text,
    hash_text,
    is_full_name,
    to_digest,
    to_digests,
)
from harken.store.postgresql.packs.folder import PackFolder
from harken.store.postgresql.packs.packing import MAX_INLINE_BYTES, Packing
from harken.store.postgresql.packs.reader import ObjectReader, decode_notes
from harken.store.postgresql.purge import Purge
from harken.store.postgresql.writer import BatchWriter, copy_contents, set_head, spare
from harken.store.raw_files import RawFiles
from harken.store.retention import check_policy
from harken.store.sqlite.pack_cache import decode_bodies

_ARTIFACT_KINDS = frozenset(
    {ObjectKind.DELTA, ObjectKind.SEQUENCE, ObjectKind.RAW, ObjectKind.FILE}
)
_COMMITS_PER_READ = 4096
_LOWEST, _HIGHEST = b"", b"\xff"


@check_arguments
class PostgresStore(PostgresChangeTable):
    """A store at a URL: `postgresql://user@host/database?packs=s3://bucket/prefix`.

    Threads and processes may share it. The tables are created if there are none. A lost connection
    is replaced for `patience_s`; then StoreUnavailable is raised. Packs of more than
    `max_inline_bytes` are in the object storage, if the URL names one. Raises ConfigError,
    InvalidStore, StoreVersionUnsupported, StoreUnavailable, StoreError.
    """

    def __init__(
        self, url: str, *, patience_s: float = 30.0, max_inline_bytes: int = MAX_INLINE_BYTES
    ) -> None:
        address = parse_address(url)
        self.address = address.text
        """The URL without secrets."""
        folder = PackFolder(address, patience_s) if address.packs else None
        self._database = PostgresDatabase(address, patience_s)
        self._packing = Packing(self._database, folder, max_inline_bytes)
        self._reader = ObjectReader(self._database, folder)
        self._raw_files = RawFiles(self.address, self._reader.read_bodies)
        self._writer = BatchWriter(self._database, self._packing, self._reader, self._raw_files)

    def write(self, batch: WriteBatch) -> None:
        self._writer.write(lambda: validate_batch(batch))

    def write_named(self, contents: BatchContents) -> None:
        """Write contents with names that the caller computed. They are not verified."""
        self._writer.write(lambda: copy_contents(contents), is_verified=True)

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        bodies = self._reader.read_bodies(names, ObjectKind.PART, ObjectKind.MESSAGE)
        return {Hash(name): body for name, (_, body) in bodies.items()}

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[DeltaEntry]]:
        bodies = self._reader.read_bodies(names, ObjectKind.DELTA)
        return decode_bodies(self.address, bodies, values.decode_delta)

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        bodies = self._reader.read_bodies(names, ObjectKind.SEQUENCE)
        return decode_bodies(self.address, bodies, values.decode_sequence)

    def raw(self, name: ArtifactRef) -> bytes:
        return b"".join(self.read_chunks(name))

    def raws(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, bytes]:
        bodies = self._reader.read_bodies(names, ObjectKind.RAW)
        return {ArtifactRef(name): body for name, (_, body) in bodies.items()}

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        return self._raw_files.read_chunks(name)

    def chunk_names(self, name: ArtifactRef) -> list[ArtifactRef]:
        return self._raw_files.chunk_names(name)

    def find_derived(self, keys: Iterable[str]) -> dict[str, ArtifactRef]:
        by_digest = {hash_text(key): key for key in keys}
        query = "SELECT key, digest FROM derived WHERE key = ANY(%s)"
        rows = self._database.fetch(query, [sorted(by_digest)])
        return {by_digest[key]: ArtifactRef(f"art-{digest.hex()}") for key, digest in rows}

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, StoredCommit]:
        digests = to_digests(name for name in names if is_full_name(name, "ctx-"))
        commits: dict[CommitId, StoredCommit] = {}
        for start in range(0, len(digests), _COMMITS_PER_READ):
            batch = digests[start : start + _COMMITS_PER_READ]
            query = f"{schema.COMMITS} WHERE h.digest = ANY(%s)"
            for row in self._database.fetch(query, [batch]):
                stored = self._reader.build_commit(*row)
                commits[stored.id] = stored
        return commits

    def existing_commits(self, names: Iterable[CommitId]) -> set[CommitId]:
        """Return the commits among these that exist. Their content is not read."""
        digests = to_digests(name for name in names if is_full_name(name, "ctx-"))
        query = "SELECT digest FROM history WHERE digest = ANY(%s)"
        return queries.to_commit_ids(self._database.fetch(query, [digests]), set)

    def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
        limit = NO_LIMIT if depth is None else min(depth, NO_LIMIT)
        digest = to_digest(name) if is_full_name(name, "ctx-") else b""
        rows = self._database.fetch(schema.CHAIN, [digest, max(limit, 1)])
        if not rows:
            raise self._no_commit(name)
        commits = [self._reader.build_commit(*row) for row in rows][: max(limit, 0)]
        parent = commits[-1].commit.parent if commits else None
        if parent is not None and len(commits) < limit:
            raise ObjectNotFound(self.address, parent, needed_by=commits[-1].id)
        return commits

    def common_ancestor(self, one: CommitId, other: CommitId) -> CommitId | None:
        """Return the last commit in the histories of both commits, or None.

        Only rows are read, one for each commit in between. Raises NameNotFound.
        """
        for name in (one, other):
            if not self.existing_commits([name]):
                raise self._no_commit(name)
        rows = self._database.fetch(queries.COMMON_ANCESTOR, [to_digest(one), to_digest(other)])
        return next(iter(queries.to_commit_ids(rows, list)), None)

    def commit_links(self) -> list[CommitLink]:
        """Return the links of all commits, the last written first. Only rows are read."""
        rows = self._database.fetch(
            "SELECT digest, parent, time_us, principal FROM history ORDER BY seq DESC"
        )
        return [
            CommitLink(
                CommitId(f"ctx-{digest.hex()}"),
                None if parent is None else CommitId(f"ctx-{parent.hex()}"),
                time_us,
                decode_text(principal),
            )
            for digest, parent, time_us, principal in rows
        ]

    def children(self, name: CommitId) -> list[CommitId]:
        if not is_full_name(name, "ctx-"):
            return []
        query = "SELECT digest FROM history WHERE parent = %s ORDER BY time_us, seq"
        return queries.to_commit_ids(self._database.fetch(query, [to_digest(name)]), list)

    def latest_commit(self, principal: str, at: str) -> CommitId | None:
        parameters = [hash_text(principal), parse_rfc3339(at)]
        rows = self._database.fetch(queries.LATEST, parameters * 2)
        return next(iter(queries.to_commit_ids(rows, list)), None)

    def newest_commits(self, limit: int = 20, *, before: CommitId | None = None) -> list[CommitId]:
        if before is None:
            query = "SELECT digest FROM history ORDER BY seq DESC LIMIT %s"
            return queries.to_commit_ids(self._database.fetch(query, [_clamp(limit)]), list)
        digest = to_digest(before) if is_full_name(before, "ctx-") else b""
        rows = self._database.fetch("SELECT seq FROM history WHERE digest = %s", [digest])
        if not rows:
            raise self._no_commit(before)
        query = "SELECT digest FROM history WHERE seq < %s ORDER BY seq DESC LIMIT %s"
        parameters = [rows[0][0], _clamp(limit)]
        return queries.to_commit_ids(self._database.fetch(query, parameters), list)

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        return queries.find_names(self._database, beginning, _clamp(limit))

    def update_notes(
        self, name: CommitId, notes: CommitNotes, *, was: CommitNotes | None = None
    ) -> None:
        values.check_notes(notes)

        def update(tx: Transaction) -> None:
            digest = to_digest(name) if is_full_name(name, "ctx-") else b""
            row = tx.execute(
                "SELECT notes FROM history WHERE digest = %s FOR UPDATE", [digest]
            ).fetchone()
            if row is None:
                raise self._no_commit(name, tx)
            if was is not None and decode_notes(row[0]) != was:
                raise NotesConflict(self.address, name)
            body = canonical.to_canonical_bytes(notes)
            tx.execute("UPDATE history SET notes = %s WHERE digest = %s", [body, digest])
            tx.execute("DELETE FROM label WHERE digest = %s", [digest])
            labels = sorted({encode_text(label) for label in notes.labels})
            if labels:
                query = "INSERT INTO label (name, digest) SELECT unnest(%s::bytea[]), %s"
                tx.execute(query, [labels, digest])
            spare(tx, [name])

        self._database.write(update, once=was is not None)

    def branches(self, prefix: str = "") -> dict[str, CommitId]:
        return {
            name: CommitId(f"ctx-{head.hex()}")
            for name, head in queries.read_heads(self._database, prefix)
            if not name.startswith(HEAD_PREFIXES)
        }

    def find_branch(self, name: str) -> CommitId | None:
        if name.startswith(HEAD_PREFIXES):
            return None
        query = "SELECT head FROM head WHERE name = %s"
        rows = self._database.fetch(query, [encode_text(name)])
        return next(iter(queries.to_commit_ids(rows, list)), None)

    def move_branch(self, name: str, to: CommitId | None, *, expected: CommitId | None) -> None:
        check_branch(name)

        def move(tx: Transaction) -> None:
            head = queries.lock_head(tx, name)
            actual = None if head is None else CommitId(f"ctx-{head.hex()}")
            check_head(self.address, {name: actual} if actual else {}, name, expected)
            if to is None:
                tx.execute("DELETE FROM head WHERE name = %s", [encode_text(name)])
                return
            query = "SELECT 1 FROM history WHERE digest = %s"
            is_name = is_full_name(to, "ctx-")
            if not is_name or tx.execute(query, [to_digest(to)]).fetchone() is None:
                raise self._no_commit(to, tx)
            set_head(tx, name, to, is_new=head is None)
            spare(tx, [to])

        self._database.write(move, once=True)

    def heads(self, prefix: str = "") -> dict[HeadName, ArtifactRef]:
        return {
            HeadName(name): ArtifactRef(f"art-{head.hex()}")
            for name, head in queries.read_heads(self._database, prefix)
            if name.startswith(HEAD_PREFIXES)
        }

    def move_head(self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None) -> None:
        check_head_name(name)

        def move(tx: Transaction) -> None:
            head = queries.lock_head(tx, name)
            actual = None if head is None else ArtifactRef(f"art-{head.hex()}")
            check_head(self.address, {name: actual} if actual else {}, name, expected)
            self._check_artifacts(tx, {name: to})
            set_head(tx, name, to, is_new=head is None)
            spare(tx, [to])

        self._database.write(move, once=True)

    def set_heads(self, heads: Mapping[HeadName, ArtifactRef | None]) -> None:
        for name in heads:
            check_source(name)
        new = {name: head for name, head in sorted(heads.items()) if head is not None}

        def set_all(tx: Transaction) -> None:
            self._check_artifacts(tx, new)
            removed = [encode_text(name) for name, head in heads.items() if head is None]
            tx.execute("DELETE FROM head WHERE name = ANY(%s)", [removed])
            query = """
                INSERT INTO head (name, head) SELECT * FROM unnest(%s::bytea[], %s::bytea[])
                ON CONFLICT (name) DO UPDATE SET head = excluded.head
            """
            tx.execute(query, [list(map(encode_text, new)), list(map(to_digest, new.values()))])
            spare(tx, [*new.values()])

        self._database.write(set_all)

    def commits_by_label(self, label: str | None = None) -> dict[str, list[CommitId]]:
        condition, parameters = (
            ("", []) if label is None else ("WHERE l.name = %s", [encode_text(label)])
        )
        rows = self._database.fetch(
            f"SELECT l.name, h.digest FROM label l JOIN history h USING (digest) {condition} "  # noqa: S608 - ours
            "ORDER BY l.name, h.time_us, h.seq",
            parameters,
        )
        by_label: dict[str, list[CommitId]] = {}
        for name, digest in rows:
            by_label.setdefault(decode_text(name), []).append(CommitId(f"ctx-{digest.hex()}"))
        return by_label

    def set_retention(self, names: Mapping[CommitId | ArtifactRef, RetentionPolicy | None]) -> None:
        for policy in filter(None, names.values()):
            check_policy(policy)

        def set_all(tx: Transaction) -> None:
            existing = self._find_retainable(tx, names)
            for name in names:
                if name not in existing:
                    raise NameNotFound("commit or artifact", name, sorted(existing)[:3])
            tx.execute("DELETE FROM retention WHERE digest = ANY(%s)", [to_digests(names)])
            rows = [(n, policy) for n, policy in names.items() if policy is not None]
            columns = [
                [to_digest(name) for name, _ in rows],
                [name[:-64] for name, _ in rows],
                [policy.policy for _, policy in rows],
                [policy.until for _, policy in rows],
            ]
            query = """
                INSERT INTO retention (digest, prefix, policy, until)
                SELECT * FROM unnest(%s::bytea[], %s::text[], %s::text[], %s::text[])
            """
            tx.execute(query, columns)
            spare(tx, list(names))

        self._database.write(set_all)

    def retention(self) -> dict[CommitId | ArtifactRef, RetentionPolicy]:
        return {
            ArtifactRef(name): policy for name, policy in queries.read_retention(self._database)
        }

    def collect(
        self,
        roots: Collection[Name],
        *,
        now: str,
        grace_s: float = 3600,
        dry_run: bool = False,
        on_progress: Progress | None = None,
    ) -> GcResult:
        sweep = GarbageCollection(
            database=self._database,
            reader=self._reader,
            packing=self._packing,
            roots=to_digests(roots),
            now_us=parse_rfc3339(now),
            grace_s=grace_s,
            on_progress=on_progress,
        )
        return sweep.plan() if dry_run else sweep.run()

    def purge(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        """Replace the content of objects for good. As `Store.purge`.

        Raises PurgeIncomplete if the bytes may still be on a disk or in a versioned bucket.
        """
        purge = Purge(self._database, self._reader, self._packing)
        purge.run(stand_ins, tombstone)

    def tombstones(self) -> dict[Name, Tombstone]:
        return dict(self._writer.read_tombstones().by_name)

    def iter_objects(self) -> Iterator[StoredObject]:
        return iter_objects(self._database, self._reader)

    def findings(self, on_progress: Progress | None = None) -> Iterator[StoreFinding]:
        """Yield the problems of the store. Nothing is changed."""
        return iter_findings(self, self._database, self._reader, on_progress)

    def stats(self) -> StoreStats:
        stored_bytes = queries.measure(self._database)
        return structs.replace(compute_stats(self.iter_objects()), stored_bytes=stored_bytes)

    def close(self) -> None:
        self._database.close()

    def _check_artifacts(self, tx: Transaction, heads: Mapping[HeadName, ArtifactRef]) -> None:
        """Raise ObjectNotFound unless these artifacts exist."""
        existing = queries.find_kinds(tx, heads.values())
        for name, head in heads.items():
            if existing.get(head) not in _ARTIFACT_KINDS:
                raise ObjectNotFound(self.address, head, needed_by=name)

    @staticmethod
    def _find_retainable(tx: Transaction, names: Iterable[Name]) -> set[Name]:
        """Return the commits and artifacts among these names that exist."""
        names = list(names)
        digests = to_digests(name for name in names if is_full_name(name, "ctx-"))
        rows = tx.execute("SELECT digest FROM history WHERE digest = ANY(%s)", [digests])
        kinds = queries.find_kinds(tx, [name for name in names if is_full_name(name, "art-")])
        artifacts = {name for name, kind in kinds.items() if kind in _ARTIFACT_KINDS}
        return {f"ctx-{digest.hex()}" for (digest,) in rows.fetchall()} | artifacts

    def _no_commit(self, name: str, tx: Transaction | None = None) -> NameNotFound:
        """Return the error of a commit that does not exist. A transaction needs no connection."""
        query = "SELECT digest FROM history ORDER BY seq DESC LIMIT 3"
        rows = self._database.fetch(query) if tx is None else tx.execute(query).fetchall()
        return NameNotFound("commit", name, queries.to_commit_ids(rows, list))


def _clamp(limit: int) -> int:
    return max(0, min(limit, NO_LIMIT))
