"""Purging: stand-ins are added and the originals removed in one transaction, then the bytes.

Afterwards the old bytes are still in packs, and in free space of the tables' files. So the packs
are rewritten and the tables, too (`VACUUM FULL`). A purge that was interrupted before that is
completed by the next one. What a store cannot reach is said by an error: old versions in a bucket.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import psycopg

from harken.core.clock import parse_rfc3339
from harken.core.commits import decode_commit
from harken.errors import PurgeIncomplete, StoreError
from harken.store.base import Name, ObjectKind, StoredObject, Tombstone
from harken.store.postgresql.database import (
    Connection,
    PostgresDatabase,
    SingleConnection,
    Transaction,
)
from harken.store.postgresql.gc import exclusive_connection
from harken.store.postgresql.marking import Marks
from harken.store.postgresql.names import encode_text, hash_text, to_digest, to_digests
from harken.store.postgresql.packs.packing import Packing
from harken.store.postgresql.packs.reader import ObjectReader
from harken.store.postgresql.packs.rewriting import Rewriter
from harken.store.postgresql.writer import (
    fetch_tombstones,
    insert_objects,
    insert_tombstones,
    raise_generation,
)
from harken.store.purge import PurgePlan, plan_purge

_TABLES = ("pack", "object", "history", "label", "head", "derived", "upload")
"""The tables that may have had purged bytes, or names that follow from them."""
_NEEDED = """
SELECT digest FROM object o WHERE NOT EXISTS (SELECT 1 FROM derivable d WHERE d.digest = o.digest)
UNION ALL SELECT digest FROM history
UNION ALL SELECT digest FROM retention
UNION ALL SELECT head FROM head
UNION ALL SELECT stand_in FROM tombstone WHERE prefix <> 'ctx-'
"""


class Purge:
    """A purge of one store."""

    def __init__(self, database: PostgresDatabase, reader: ObjectReader, packing: Packing) -> None:
        self._database, self._reader, self._packing = database, reader, packing

    def run(self, stand_ins: Mapping[Name, bytes], tombstone: Tombstone) -> None:
        """Replace objects for good. As `Store.purge`. Raises PurgeIncomplete, StoreError."""
        with exclusive_connection(self._database) as connection:

            def replace(tx: Transaction) -> None:
                # Writers hold the connections of the pool while they wait for this transaction.
                fetcher = SingleConnection(self._database.place, connection)
                reader = ObjectReader(fetcher, self._packing.folder)
                plan = plan_purge(
                    self._database.place,
                    stand_ins,
                    tombstone,
                    find_object=reader.find_object,
                    tombstones=fetch_tombstones(fetcher).by_name,
                )
                existing = reader.read_objects(plan.contents.objects)
                self._replace(tx, connection, plan, existing)

            self._database.write_on(connection, replace)
            self._reader.clear()
            try:
                Rewriter(self._database, self._reader, self._packing).rewrite_dirty()
                self._remove_uploads()
                self._rewrite_tables(connection)
            except (StoreError, psycopg.Error) as error:
                reason = self._database.address.hide(str(error))
                raise PurgeIncomplete(self._database.place, reason=reason) from error
        self._check_versions()

    def _replace(
        self, tx: Transaction, connection: Connection, plan: PurgePlan, existing: Collection[Name]
    ) -> None:
        """Add the stand-ins, remove the originals, and forget all derived artifacts.

        existing: the stand-ins that are stored already.
        """
        new = {
            name: obj
            for name, obj in plan.contents.objects.items()
            if name not in plan.tombstones and name not in existing
        }
        insert_objects(tx, new, self._packing.encode(new.values()))
        insert_tombstones(tx, plan.tombstones)
        raise_generation(tx)
        for name, stone in plan.tombstones.items():
            if name.startswith("ctx-") and stone.stand_in in plan.contents.objects:
                _update_history(tx, name, plan.contents.objects[stone.stand_in])
        _remove_objects(tx, to_digests(plan.originals))
        self._remove_derived(tx, connection)

    @staticmethod
    def _remove_derived(tx: Transaction, connection: Connection) -> None:
        """Remove derived artifacts, which may contain anything, and objects that only they need."""
        if tx.execute("SELECT 1 FROM derived LIMIT 1").fetchone() is None:
            return
        derivable = Marks(connection, "derivable")
        derivable.add("SELECT digest FROM derived")
        tx.execute("DELETE FROM derived")
        needed = Marks(connection, "needed")
        needed.add(_NEEDED)
        rows = tx.execute(
            "SELECT digest FROM derivable d WHERE NOT EXISTS "
            "(SELECT 1 FROM needed n WHERE n.digest = d.digest)"
        ).fetchall()
        _remove_objects(tx, [digest for (digest,) in rows])

    def _remove_uploads(self) -> None:
        """Remove the objects of packs that were rewritten, also by interrupted purges."""
        folder = self._packing.folder
        if folder is not None:
            rows = self._database.fetch("SELECT location FROM upload WHERE is_abandoned")
            folder.remove(location for (location,) in rows)

    @staticmethod
    def _rewrite_tables(connection: Connection) -> None:
        """Rewrite the files of tables without free space. Waits for readers and writers."""
        for table in _TABLES:
            connection.execute(f"VACUUM (FULL) {table}")

    def _check_versions(self) -> None:
        """Raise PurgeIncomplete if the bucket keeps removed objects."""
        folder = self._packing.folder
        if folder is None:
            return
        if not folder.keeps_removed:
            key = folder.new_key()
            self._packing.register(key)
            folder.write([(key, b"")])
            folder.remove([key])
        if folder.keeps_removed:
            raise PurgeIncomplete(
                self._database.place,
                reason=f"the bucket of {folder.place} is versioned and keeps the removed packs as "
                "old versions",
                advice="delete the noncurrent versions under this prefix, and let a lifecycle rule "
                "expire them",
            )


def _remove_objects(tx: Transaction, digests: Collection[bytes]) -> None:
    rows = tx.execute(
        "DELETE FROM object WHERE digest = ANY(%s) RETURNING pack", [list(digests)]
    ).fetchall()
    packs = sorted({number for (number,) in rows if number is not None})
    tx.execute("UPDATE pack SET is_dirty = true WHERE id = ANY(%s)", [packs])


def _update_history(tx: Transaction, name: Name, stand_in: StoredObject) -> None:
    """Copy principal and time of a stand-in to the row of its commit."""
    assert stand_in.kind is ObjectKind.COMMIT
    commit = decode_commit(stand_in.body)
    row = [encode_text(commit.principal), hash_text(commit.principal)]
    tx.execute(
        "UPDATE history SET principal = %s, principal_key = %s, time_us = %s WHERE digest = %s",
        [*row, parse_rfc3339(commit.created_at), to_digest(name)],
    )
