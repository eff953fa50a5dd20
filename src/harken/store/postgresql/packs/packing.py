"""Encodes objects as packs, and uploads large ones before the transaction that names them.

An upload begins with a committed row, its intent, and the transaction that names the pack removes
that row. A collection that removes an old intent, and then the object, thereby refuses the writer,
who writes again under a new key: no pack that a row names is ever removed as a leftover.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from harken.store.base import Name, ObjectKind, StoredObject
from harken.store.postgresql.database import PostgresDatabase, Transaction
from harken.store.postgresql.packs.folder import PackFolder
from harken.store.sqlite.pack import encode_pack, encode_packs

MAX_INLINE_BYTES = 64 * 1024
"""Larger packs are in the object storage, if there is one."""
_PACK_BYTES = 1024 * 1024
_PACK_OBJECTS = 4000


class PreparedPack(msgspec.Struct, frozen=True):
    """A pack that is encoded, and uploaded if it has a location."""

    names: Sequence[Name]
    size_bytes: int
    data: bytes | None
    location: str | None = None


class Packing:
    """Encodes and uploads the packs of a store."""

    def __init__(
        self, database: PostgresDatabase, folder: PackFolder | None, max_inline_bytes: int
    ) -> None:
        self._database, self.folder = database, folder
        self.max_inline_bytes = max_inline_bytes

    def needs_upload(self, objects: Collection[StoredObject]) -> bool:
        """Whether the packs of these objects may be too large for a table."""
        sizes = (len(obj.body) for obj in objects if obj.kind is not ObjectKind.COMMIT)
        return self.folder is not None and sum(sizes) > self.max_inline_bytes

    def encode(self, objects: Collection[StoredObject]) -> list[PreparedPack]:
        """Encode objects for the table. Commits are left out: their rows have them."""
        contents = [obj for obj in objects if obj.kind is not ObjectKind.COMMIT]
        return [
            PreparedPack(list(pack.objects), len(pack.data), pack.data)
            for pack in encode_packs(contents)
        ]

    def upload(self, objects: Collection[StoredObject]) -> list[PreparedPack]:
        """Encode objects, and upload the packs that are too large for the table.

        Raises StoreUnavailable, StoreWriteError. The intents of uploaded packs stay then.
        """
        packs = [self._encode_large(group) for group in _iter_groups(objects)]
        return self.upload_packs(packs)

    def upload_packs(self, packs: Sequence[PreparedPack]) -> list[PreparedPack]:
        """Upload the packs that are too large for the table. As `upload`."""
        folder = self.folder
        if folder is None:
            return list(packs)
        keys = {
            index: folder.new_key()
            for index, pack in enumerate(packs)
            if pack.size_bytes > self.max_inline_bytes
        }
        if keys:
            self.register(*keys.values())
            folder.write([(key, packs[index].data or b"") for index, key in keys.items()])
        return [
            PreparedPack(pack.names, pack.size_bytes, None, keys[index]) if index in keys else pack
            for index, pack in enumerate(packs)
        ]

    def register(self, *keys: str) -> None:
        """Commit the intents of uploads. A collection removes those that are never claimed."""
        query = "INSERT INTO upload (location) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING"
        self._database.read(lambda connection: connection.execute(query, [list(keys)]))

    def claim(self, tx: Transaction, packs: Sequence[PreparedPack]) -> bool:
        """Remove the intents of packs. Return whether all were there: if not, upload again."""
        keys = [pack.location for pack in packs if pack.location is not None]
        if not keys:
            return True
        query = "DELETE FROM upload WHERE location = ANY(%s) AND NOT is_abandoned RETURNING 1"
        return len(tx.execute(query, [keys]).fetchall()) == len(keys)

    def discard(self, packs: Sequence[PreparedPack]) -> None:
        """Remove uploaded packs that no row names. Raises StoreError."""
        keys = [pack.location for pack in packs if pack.location is not None]
        if keys and self.folder is not None:
            self.folder.remove(keys)
            query = "DELETE FROM upload WHERE location = ANY(%s)"
            self._database.read(lambda connection: connection.execute(query, [keys]))

    @staticmethod
    def _encode_large(objects: Sequence[StoredObject]) -> PreparedPack:
        pack = encode_pack(objects)
        return PreparedPack(list(pack.objects), len(pack.data), pack.data)


def _iter_groups(objects: Collection[StoredObject]) -> Iterator[list[StoredObject]]:
    """Yield the objects of each pack, in order."""
    group: list[StoredObject] = []
    size_bytes = 0
    for obj in objects:
        if obj.kind is ObjectKind.COMMIT:
            continue
        group.append(obj)
        size_bytes += len(obj.body)
        if size_bytes >= _PACK_BYTES or len(group) >= _PACK_OBJECTS:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group
