"""Reads objects: from the tables which pack has an object, then the packs.

A pack never changes, and a rewritten one has a new number. So decoded packs are cached, and only
the tables say which objects exist. A pack that was rewritten between both steps is gone; the
object is then looked up again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from harken.core import canonical
from harken.core.commits import CommitId, CommitNotes, decode_commit
from harken.errors import ObjectCorrupted
from harken.store.base import Name, ObjectKind, StoredCommit, StoredObject
from harken.store.batch import compute_name, parse_needs
from harken.store.postgresql import schema
from harken.store.postgresql.database import Fetcher
from harken.store.postgresql.names import (
    has_prefix_of,
    is_full_name,
    to_digest,
    to_digests,
    to_name,
)
from harken.store.postgresql.packs.folder import PackFolder
from harken.store.sqlite.pack import Body, PackCorrupted, decode_objects

_CACHE_BYTES = 64 * 1024 * 1024
_NAMES_PER_READ = 4096
_PACKS_PER_READ = 64
_MAX_LOOKUPS = 5
"""A pack may be rewritten so often between a look-up and the read."""


class StoredPack(msgspec.Struct, frozen=True):
    """A row of the table of packs. The bytes are in it, or in the object storage."""

    id: int
    place: int
    data: bytes | None
    location: str | None


class DecodedPacks:
    """The packs that were decoded last. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._packs: dict[int, tuple[Mapping[Name, Body], int]] = {}
        self._size_bytes = 0

    def get(self, number: int) -> Mapping[Name, Body] | None:
        """Return the objects of a pack, or None."""
        with self._lock:
            entry = self._packs.pop(number, None)
            if entry is None:
                return None
            self._packs[number] = entry
            return entry[0]

    def add(self, number: int, objects: Mapping[Name, Body]) -> None:
        """Add a pack, and remove those that were not used for longest."""
        size_bytes = sum(len(body) + 200 for _, body in objects.values())
        with self._lock:
            if number in self._packs or size_bytes > _CACHE_BYTES:
                return
            self._packs[number] = objects, size_bytes
            self._size_bytes += size_bytes
            while self._size_bytes > _CACHE_BYTES:
                _, removed_bytes = self._packs.pop(next(iter(self._packs)))
                self._size_bytes -= removed_bytes

    def clear(self) -> None:
        """Remove all packs."""
        with self._lock:
            self._packs, self._size_bytes = {}, 0


class ObjectReader:
    """The objects of a store by name."""

    def __init__(self, database: Fetcher, folder: PackFolder | None) -> None:
        self._database, self._folder = database, folder
        self._cache = DecodedPacks()

    def read_bodies(self, names: Iterable[Name], *kinds: ObjectKind) -> dict[Name, Body]:
        """Return the existing objects of these names and kinds. Raises ObjectCorrupted."""
        by_name = self.read_objects(names, kinds)
        return {name: (obj.kind, obj.body) for name, obj in by_name.items()}

    def find_object(self, name: Name) -> StoredObject | None:
        """Return the object that is read under a name, or None."""
        obj = self.read_objects([name]).get(name)
        needs = () if obj is None else parse_needs(obj.kind, obj.body)
        return None if obj is None else StoredObject(obj.kind, obj.name, obj.body, needs)

    def read_objects(
        self, names: Iterable[Name], kinds: Sequence[ObjectKind] = ()
    ) -> dict[Name, StoredObject]:
        """Return the objects that are read under names, by these names, without their needs."""
        full_names = list(dict.fromkeys(name for name in names if is_full_name(name)))
        results: dict[Name, StoredObject] = {}
        for start in range(0, len(full_names), _NAMES_PER_READ):
            batch = full_names[start : start + _NAMES_PER_READ]
            by_digest = self._read_digests(to_digests(batch), kinds)
            for name in batch:
                obj = by_digest.get(to_digest(name))
                if obj is not None and has_prefix_of(name, obj.kind):
                    results[name] = obj
        return results

    def find_packs(self, numbers: Iterable[int]) -> dict[int, StoredPack]:
        """Return the rows of packs by number."""
        query = "SELECT id, place, data, location FROM pack WHERE id = ANY(%s)"
        rows = self._database.fetch(query, [sorted(set(numbers))])
        return {row[0]: StoredPack(*row) for row in rows}

    def read_data(self, packs: Iterable[StoredPack]) -> dict[int, bytes | None]:
        """Return the bytes of packs by number, None for those that the storage has not."""
        data = {pack.id: pack.data for pack in packs}
        locations = {pack.id: pack.location for pack in packs if pack.location is not None}
        if locations and self._folder is not None:
            by_key = self._folder.read(locations.values())
            data |= {number: by_key[key] for number, key in locations.items()}
        return data

    def describe_pack(self, pack: StoredPack) -> str:
        """Return where the bytes of a pack are, for a message."""
        if pack.location is None:
            return f"pack {pack.id} of the table `pack`"
        place = (
            "no storage: the address has no `packs`" if self._folder is None else self._folder.place
        )
        return f"pack {pack.id}, {pack.location} in {place}"

    def clear(self) -> None:
        """Forget all packs that were read."""
        self._cache.clear()

    def _read_digests(
        self, digests: list[bytes], kinds: Sequence[ObjectKind]
    ) -> dict[bytes, StoredObject]:
        """Return the objects that are read under digests."""
        objects: dict[bytes, StoredObject] = {}
        missing, problem = digests, ""
        for _ in range(_MAX_LOOKUPS):
            rows = self._database.fetch(schema.BODIES, [missing])
            numbers = {row[3] for row in rows if row[3] is not None and _is_of(row[2], kinds)}
            packs, problem = self._load_packs(numbers)
            missing = []
            for digest, actual, number, pack, body in rows:
                if not _is_of(number, kinds):
                    continue
                kind = ObjectKind(number)
                name = to_name(kind, actual)
                if body is not None:
                    objects[digest] = self.check_commit(name, body)
                elif pack not in packs:
                    missing.append(digest)
                elif name in packs[pack] and packs[pack][name][0] is kind:
                    objects[digest] = StoredObject(kind, name, packs[pack][name][1])
                else:
                    raise ObjectCorrupted(
                        self._database.place, name, reason=f"pack {pack} lacks it"
                    )
            if not missing:
                return objects
        raise ObjectCorrupted(self._database.place, missing[0].hex(), reason=problem)

    def check_commit(self, name: Name, body: bytes) -> StoredObject:
        """Return the object of a commit. Raises ObjectCorrupted if the bytes are not its own."""
        kind = ObjectKind.COMMIT
        try:
            is_intact = compute_name(kind, body) == name
        except (LookupError, ValueError):
            is_intact = False
        if not is_intact:
            reason = "its row has other bytes"
            raise ObjectCorrupted(self._database.place, name, reason=reason)
        return StoredObject(kind, name, body)

    def load_packs(self, numbers: Iterable[int]) -> dict[int, Mapping[Name, Body]]:
        """Return the objects of packs by number, without those that have no row any more.

        Raises ObjectCorrupted if the bytes of a pack are missing or damaged.
        """
        packs: dict[int, Mapping[Name, Body]] = {}
        missing = set(numbers)
        for _ in range(_MAX_LOOKUPS):
            loaded, problem = self._load_packs(missing)
            packs |= loaded
            missing -= loaded.keys()
            missing &= self.find_packs(missing).keys() if missing else set()
            if not missing:
                return packs
        raise ObjectCorrupted(self._database.place, f"pack {min(missing)}", reason=problem)

    def _load_packs(self, numbers: set[int]) -> tuple[dict[int, Mapping[Name, Body]], str]:
        """Return the objects of packs, and the problem of the last one that is missing."""
        packs: dict[int, Mapping[Name, Body]] = {}
        for number in numbers:
            cached = self._cache.get(number)
            if cached is not None:
                packs[number] = cached
        unread, problem = sorted(numbers - packs.keys()), ""
        for start in range(0, len(unread), _PACKS_PER_READ):
            rows = self.find_packs(unread[start : start + _PACKS_PER_READ])
            data = self.read_data(rows.values())
            for number, row in rows.items():
                content = data[number]
                if content is None:
                    problem = f"{self.describe_pack(row)}, is missing"
                    continue
                try:
                    packs[number] = decode_objects(content)
                except PackCorrupted as error:
                    place = self.describe_pack(row)
                    reason = f"{error}"
                    raise ObjectCorrupted(self._database.place, place, reason=reason) from None
                self._cache.add(number, packs[number])
        return packs, problem or "its pack is missing"

    def build_commit(
        self, digest: bytes, notes: bytes, actual: bytes | None, body: bytes | None
    ) -> StoredCommit:
        """Return a commit of a row. Raises ObjectCorrupted."""
        name = CommitId(f"ctx-{digest.hex()}")
        if actual is None or body is None:
            raise ObjectCorrupted(self._database.place, name, reason="its content is missing")
        obj = self.check_commit(to_name(ObjectKind.COMMIT, actual), body)
        try:
            return StoredCommit(name, decode_commit(obj.body), decode_notes(notes))
        except ValueError as error:
            reason = f"it cannot be read: {error}"
            raise ObjectCorrupted(self._database.place, name, reason=reason) from None


def decode_notes(data: bytes) -> CommitNotes:
    """Decode the notes of a commit. Raises ValueError."""
    try:
        return _notes_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):  # They contain lone surrogates.
        return msgspec.convert(canonical.from_json(data), CommitNotes)


def _is_of(number: int, kinds: Sequence[ObjectKind]) -> bool:
    return not kinds or number in kinds


_notes_decoder = msgspec.json.Decoder(CommitNotes)
