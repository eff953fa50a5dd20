"""Rewrites packs: without objects that were removed, or several small ones as one.

A new pack is complete before one transaction lets the rows of its objects name it and removes the
old one. A reader that still has the old number looks the object up again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harken.errors import ObjectCorrupted, StoreError
from harken.store.base import Name, ObjectKind, StoredObject
from harken.store.batch import parse_needs
from harken.store.postgresql.database import PostgresDatabase, RetryTransaction, Transaction
from harken.store.postgresql.names import to_digest, to_name
from harken.store.postgresql.packs.packing import Packing, PreparedPack
from harken.store.postgresql.packs.reader import ObjectReader
from harken.store.sqlite.pack import Body, encode_pack

_MERGED_BYTES = 1024 * 1024
"""The stored bytes of packs that are merged into one in object storage."""
_MERGED_INLINE_BYTES = 48 * 1024
"""The same without object storage."""
_SMALL_BYTES = 12 * 1024
"""Larger packs of a table stay as they are if there is no object storage."""
_MAX_MERGED_PACKS = 2000
_MIN_MERGED_PACKS = 4
_ABANDONED_DAYS = 7
"""The time for which a removed key is removed again: a paused writer may still write it."""


class Rewriter:
    """Rewrites the packs of a store. One process does it at a time."""

    def __init__(self, database: PostgresDatabase, reader: ObjectReader, packing: Packing) -> None:
        self._database, self._reader, self._packing = database, reader, packing

    def rewrite_dirty(self) -> None:
        """Rewrite all packs that have removed objects. A damaged one stays as it is."""
        for (number,) in self._database.fetch("SELECT id FROM pack WHERE is_dirty ORDER BY id"):
            try:
                self._rewrite([number])
            except ObjectCorrupted:
                continue  # A check reports it.

    def merge_small(self) -> None:
        """Merge small packs, in the order of writing."""
        has_folder = self._packing.folder is not None
        limit = self._packing.max_inline_bytes if has_folder else _SMALL_BYTES
        query = """
            SELECT id, size_bytes FROM pack WHERE data IS NOT NULL AND size_bytes <= %s
            ORDER BY place, id
        """
        enough = _MERGED_BYTES if has_folder else _MERGED_INLINE_BYTES
        group: list[int] = []
        size_bytes = 0
        for number, pack_bytes in self._database.fetch(query, [limit]):
            group.append(number)
            size_bytes += pack_bytes
            if size_bytes >= enough or len(group) >= _MAX_MERGED_PACKS:
                self._merge(group)
                group, size_bytes = [], 0
        if size_bytes > (self._packing.max_inline_bytes if has_folder else _SMALL_BYTES):
            self._merge(group)

    def remove_leftovers(self, now_us: int, grace_s: float) -> None:
        """Remove uploads that no transaction named in time, and packs that were rewritten."""
        folder = self._packing.folder
        if folder is None:
            return
        # From here on, the transaction of a writer that comes back fails.
        query = """
            UPDATE upload SET is_abandoned = true WHERE NOT is_abandoned AND started <
                timestamptz 'epoch' + %s::bigint * interval '1 microsecond'
                - make_interval(secs => %s)
        """
        self._database.write(lambda tx: tx.execute(query, [now_us, grace_s]).rowcount)
        rows = self._database.fetch("SELECT location FROM upload WHERE is_abandoned")
        folder.remove(location for (location,) in rows)
        query = """
            DELETE FROM upload
            WHERE is_abandoned AND started < now() - make_interval(days => %s)
        """
        self._database.write(lambda tx: tx.execute(query, [_ABANDONED_DAYS]).rowcount)

    def _merge(self, numbers: Sequence[int]) -> None:
        if len(numbers) < _MIN_MERGED_PACKS:
            return
        try:
            self._rewrite(numbers)
        except ObjectCorrupted:
            return  # A check reports it; the packs stay as they are.

    def _rewrite(self, numbers: Sequence[int]) -> None:
        """Replace packs by one with their live objects."""
        packs = self._reader.load_packs(numbers)
        live = self._find_live(numbers)
        objects = list(_iter_objects(numbers, packs, live))
        missing = {name for names in live.values() for name in names} - {o.name for o in objects}
        if missing:
            raise ObjectCorrupted(
                self._database.place, min(missing), reason="the pack that its row names lacks it"
            )
        prepared: list[PreparedPack] = []
        if objects:
            pack = encode_pack(objects)
            prepared = self._packing.upload_packs(
                [PreparedPack(list(pack.objects), len(pack.data), pack.data)]
            )
        removed = self._database.write(lambda tx: self._replace(tx, numbers, prepared))
        if removed and self._packing.folder is not None:
            self._packing.folder.remove(removed)

    def _find_live(self, numbers: Sequence[int]) -> dict[int, set[Name]]:
        query = "SELECT pack, kind, digest FROM object WHERE pack = ANY(%s)"
        live: dict[int, set[Name]] = {}
        for number, kind, digest in self._database.fetch(query, [list(numbers)]):
            live.setdefault(number, set()).add(to_name(ObjectKind(kind), digest))
        return live

    def _replace(
        self, tx: Transaction, numbers: Sequence[int], packs: Sequence[PreparedPack]
    ) -> list[str]:
        """Let rows name the new pack, and remove the old ones. Return their keys."""
        if not self._packing.claim(tx, packs):
            raise StoreError(self._database.place, "a collection removed a new pack; run it again")
        for pack in packs:
            query = """
                WITH new AS (
                    INSERT INTO pack (place, data, location, size_bytes)
                    SELECT min(place), %s, %s, %s FROM pack WHERE id = ANY(%s) RETURNING id
                )
                UPDATE object SET pack = new.id FROM new
                WHERE object.pack = ANY(%s) AND object.digest = ANY(%s)
            """
            digests = [to_digest(name) for name in pack.names]
            row = [pack.data, pack.location, pack.size_bytes, list(numbers), list(numbers), digests]
            tx.execute(query, row)
        others = tx.execute("SELECT 1 FROM object WHERE pack = ANY(%s) LIMIT 1", [list(numbers)])
        if others.fetchone() is not None:
            raise RetryTransaction
        query = "DELETE FROM pack WHERE id = ANY(%s) RETURNING location"
        rows = tx.execute(query, [list(numbers)]).fetchall()
        keys = [location for (location,) in rows if location is not None]
        query = "INSERT INTO upload (location, is_abandoned) SELECT unnest(%s::text[]), true"
        tx.execute(query, [keys])
        return keys


def _iter_objects(
    numbers: Iterable[int],
    packs: Mapping[int, Mapping[Name, Body]],
    live: Mapping[int, set[Name]],
) -> Iterable[StoredObject]:
    """Yield the live objects of packs, in order."""
    for number in numbers:
        for name, (kind, body) in packs.get(number, {}).items():
            if name in live.get(number, ()):
                yield StoredObject(kind, name, body, parse_needs(kind, body))
