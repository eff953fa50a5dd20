"""A cache of decoded packs, and direct reads of messages from a pack.

Content never changes under its name, so a decoded pack stays valid until objects are removed. A
process that removes objects raises the *generation* in the same transaction. Every reader and
writer checks the generation first, and clears the cache if it was raised. Threads may share a
cache.

Messages can be read directly from a pack if everything that a delta needs is in the same pack.
Names only serve to find objects elsewhere; objects that were written together are found by their
position, without names and hashes, and the checksum of the pack proves their integrity. The result
equals that of reading by names, or is None.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, get_args

from harken.core import canonical
from harken.core.commits import ArtifactRef, decode_delta
from harken.core.messages import Message, MessageContent, Role, join_occurrence
from harken.errors import ObjectCorrupted, StoreError
from harken.store.base import Name, ObjectKind
from harken.store.sqlite.database import SqliteConnection
from harken.store.sqlite.name_index import find_numbers, key_prefix, select_artifacts
from harken.store.sqlite.pack import (
    ELSEWHERE,
    MARK,
    Body,
    Pack,
    PackCorrupted,
    decode_artifact_kinds,
    decode_pack,
)
from harken.store.sqlite.side_tables import read_stand_ins

T = TypeVar("T")


def read_messages(
    pack: Pack, position: int, indexes: Collection[int] | None = None
) -> dict[int, Message] | None:
    """Return the messages of the delta at a position, by their indexes, or some of them.

    Return None if it needs objects of other packs, or is invalid: then it must be read by names.
    """
    try:
        return _read_messages(pack, position, indexes)
    except (LookupError, TypeError, ValueError, StopIteration, AttributeError):
        return None


def _read_messages(
    pack: Pack, position: int, indexes: Collection[int] | None
) -> dict[int, Message] | None:
    if pack.kind(position) is not ObjectKind.DELTA:
        return None
    entries, led = (
        decode_delta(pack.read_marked_body(position).replace(MARK, b"")),
        pack.mark_targets(position),
    )
    if not _is_one_mark_each([entry.message for entry in entries], led):
        return None
    messages: dict[int, Message] = {}
    for index, (entry, message_position) in enumerate(zip(entries, led, strict=True)):
        if indexes is not None and index not in indexes:
            continue
        if message_position == ELSEWHERE:
            return None
        role, parts = _read_message(pack, message_position)
        if not parts or ELSEWHERE in parts:
            return None
        values = [canonical.from_json(pack.read_marked_body(part)) for part in parts]
        messages[index] = join_occurrence(MessageContent(role, values), entry.occurrence)
    return messages


def _read_message(pack: Pack, position: int) -> tuple[Any, Sequence[int]]:
    """Return the role and the part positions of a message. No parts: it must be read by names."""
    body, led = pack.read_marked_body(position), pack.mark_targets(position)
    role = _SINGLE_PART_MESSAGES.get(body)
    if role is None:
        message: dict[str, Any] = canonical.from_json(body.replace(MARK, b""))
        is_complete = _is_one_mark_each(message["parts"], led) and ELSEWHERE not in led
        role, led = message["role"], led if is_complete else []
    kinds = [pack.kind(part_position) for part_position in (position, *led)]
    is_valid = kinds[0] is ObjectKind.MESSAGE and kinds.count(ObjectKind.PART) == len(led)
    return role, led if is_valid else []


def _is_one_mark_each(names: Sequence[str], led: Sequence[int]) -> bool:
    """Whether each name is a mark, and there are no other marks."""
    return len(names) == len(led) and not any(names)


_SINGLE_PART_MESSAGES = {
    b'{"parts":["\x01"],"role":"%s"}' % role.encode(): role for role in get_args(Role)
}
"""The stored form of messages with one part, as most have."""
_KINDS_BY_PREFIX = {
    "": frozenset({ObjectKind.PART, ObjectKind.MESSAGE}),
    "art-": frozenset({ObjectKind.DELTA, ObjectKind.SEQUENCE, ObjectKind.RAW, ObjectKind.FILE}),
    "ctx-": frozenset({ObjectKind.COMMIT}),
}
"""The kinds of objects by name prefix."""
_NO_PACK: tuple[int, Pack | None] = (0, None)
GENERATION_BYTES = 32 * 1024 * 1024
"""The size of each of the two generations of the cache."""
_RAW_WEIGHT = 8
"""Raw packs weigh so many times more: they are read sequentially, and only once."""
MAX_KNOWN_NAMES = 50_000
"""The number of existing objects whose kinds are remembered."""
_ROW_SQL = """
SELECT id, data, (SELECT min(id) FROM pack WHERE id > ?1)
FROM pack WHERE id <= ?1 ORDER BY id DESC LIMIT 1
"""


class PackCache:
    """Recently read packs, by the names of their objects."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._generation = 0
        self._young: dict[str, Pack] = {}
        """By the known names.

        Those of parts and messages are computed when one of them is requested.
        """
        self._old: dict[str, Pack] = {}
        self._size = 0
        self._starts: list[int] = []
        """The sorted first numbers of the younger packs. `_ends` has their ends, and the packs."""
        self._ends: dict[int, tuple[int, Pack]] = {}
        self._used_rows: set[int] = set()
        self._known_kinds: dict[str, ObjectKind] = {}
        """The kinds of objects that exist, also if their packs are not cached any more."""
        self.stand_ins: Mapping[str, str] = {}
        """Purged name -> name of its stand-in."""
        self.has_evicted = False
        """Whether the store has evicted objects."""

    def clear_if_stale(self, connection: SqliteConnection) -> None:
        """Clear the cache if objects were removed. Called first in each transaction."""
        if connection.is_removing:
            return
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version == connection.version:
            return
        generation = connection.execute("SELECT max(generation) FROM state").fetchone()[0]
        if not isinstance(generation, int):
            raise StoreError(self._path, "is damaged: its generation is missing")
        if generation > self._generation:
            new_stand_ins = read_stand_ins(connection)
            (evicts,) = connection.execute("SELECT EXISTS (SELECT 1 FROM evicted)").fetchone()
            with self._lock:
                if generation > self._generation:
                    self._clear()
                    self._known_kinds = {}
                    self.stand_ins, self.has_evicted = new_stand_ins, bool(evicts)
                    self._generation = generation  # Last: other threads read it first.
        connection.generation, connection.version = generation, version

    @property
    def generation(self) -> int:
        """The generation of `stand_ins`. 0 before the file was read."""
        return self._generation

    def get(self, name: str) -> Pack | None:
        """Return the cached pack of an object, or None."""
        return self._young.get(name) or self._old.get(name)

    def find_cached_kinds(self, names: set[str]) -> dict[str, ObjectKind | None]:
        """Return the kinds of those of these names that are known to exist."""
        known_kinds = self._known_kinds
        kinds: dict[str, ObjectKind | None] = {
            name: known_kinds[name] for name in names if name in known_kinds
        }
        for packs in (self._old, self._young):
            for name in names & packs.keys():
                pack = packs[name]
                kinds[name] = pack.kind(pack.places[name])
        return kinds

    def note_kinds(self, connection: SqliteConnection, kinds: Mapping[str, ObjectKind]) -> None:
        """Remember objects that exist.

        A file that grows needs all its chunks again, and sessions repeat texts of their project.
        """
        with self._lock:
            if connection.generation == self._generation and not connection.is_removing:
                if len(self._known_kinds) > MAX_KNOWN_NAMES:
                    self._known_kinds = {}  # Not in place: other threads may look up names in it.
                self._known_kinds.update(kinds)

    def add(self, connection: SqliteConnection, numbers: tuple[int, int], pack: Pack) -> None:
        """Cache a pack that holds all numbers from the first, up to and without the second."""
        with self._lock:
            if connection.generation != self._generation or connection.is_removing:
                return  # It was read before objects were removed.
            if self._size > GENERATION_BYTES:
                young = self._young
                self._clear()
                self._old = young
            if numbers[0] not in self._ends:
                insort(self._starts, numbers[0])
            self._ends[numbers[0]] = numbers[1], pack
            self._young |= dict.fromkeys(pack.places, pack)
            self._size += pack.size_bytes * (_RAW_WEIGHT if pack.is_raw else 1)

    def load(self, connection: SqliteConnection, numbers: Iterable[int]) -> None:
        """Load the packs with these numbers into the cache, unless they are damaged."""
        for number in sorted(set(numbers)):
            # Damage is reported by `find`, if an object of the pack is requested.
            with suppress(PackCorrupted):
                self._load_pack(connection, number)

    def find_kinds(
        self, connection: SqliteConnection, names: Sequence[str], number: int
    ) -> dict[str, ObjectKind]:
        """Return the kinds of at least those of these names that the pack with this number holds.

        If all names are those of artifacts, a pack that is not cached is not decoded: it stores the
        names of its artifacts, and all of them are returned, since a batch may need those of the
        whole store. Nothing is returned of a damaged pack.
        """
        with suppress(PackCorrupted):
            pack, _ = self._find_pack(number)
            if pack is None and all(name.startswith("art-") for name in names):
                row = connection.execute(_ROW_SQL, [number]).fetchone()
                return {} if row is None else decode_artifact_kinds(row[1])
            pack, _ = self._load_pack(connection, number)
            return {name: pack.kind(pack.places[name]) for name in names if name in pack.places}
        return {}

    def find(self, connection: SqliteConnection, name: str, numbers: Iterable[int]) -> Body | None:
        """Return an object that should be in one of these packs, or None.

        Raises ObjectCorrupted if it may have been in a damaged pack.
        """
        pack, damage = self.get(name), ""
        for number in numbers if pack is None else ():
            try:
                candidate, _ = self._load_pack(connection, number)
                self._cache_names(connection, candidate, name)
                if name in candidate.places:
                    pack = candidate
                    break
            except PackCorrupted as error:
                damage = f"pack {number}: {error}"
        if pack is not None:
            try:
                kind, body = pack.read_object(pack.places[name])
                # The objects of a delta are requested next: compute their names.
                if kind is ObjectKind.DELTA:
                    self._cache_names(connection, pack, "")
                return kind, body
            # The pack may have been written on another machine.
            except (ValueError, LookupError) as error:
                damage = f"it cannot be reassembled: {error}"
        if damage:
            raise ObjectCorrupted(self._path, name, reason=damage)
        return None

    def locate(self, connection: SqliteConnection, name: str) -> tuple[Pack, int] | None:
        """Return the pack of an artifact and its position there, or None if it cannot be read."""
        pack = self.get(name)
        if pack is None:
            with suppress(PackCorrupted):
                for number in find_numbers(connection, [name]).get(name, ()):
                    pack, _ = self._load_pack(connection, number)
        position = None if pack is None else pack.places.get(name)
        return None if pack is None or position is None else (pack, position)

    def read_deltas(
        self, connection: SqliteConnection, names: Iterable[ArtifactRef]
    ) -> dict[ArtifactRef, list[Message]]:
        """Return the messages of deltas whose pack has all their objects, without other deltas."""
        by_delta: dict[ArtifactRef, list[Message]] = {}
        for name in names:
            if name not in by_delta and name not in self.stand_ins:
                place = self.locate(connection, name)
                messages = None if place is None else read_messages(*place)
                if messages is not None:
                    by_delta[name] = list(messages.values())
        return by_delta

    def read_delta_messages(
        self, connection: SqliteConnection, indexes: Mapping[ArtifactRef, Collection[int]]
    ) -> dict[ArtifactRef, dict[int, Message]]:
        """Return some messages of deltas whose pack has all their objects, without other deltas."""
        by_delta: dict[ArtifactRef, dict[int, Message]] = {}
        for name in indexes.keys() - self.stand_ins.keys():
            place = self.locate(connection, name)
            messages = None if place is None else read_messages(*place, indexes[name])
            if messages is not None:
                by_delta[name] = messages
        return by_delta

    def iter_names(
        self, connection: SqliteConnection, entries: Iterable[tuple[bytes, int]]
    ) -> Iterator[str]:
        """Yield the names of artifacts by their keys and pack numbers.

        Artifacts of a damaged pack are left out.
        """
        names: dict[bytes, list[str]] = {}
        end = 0
        for key, number in sorted(entries, key=itemgetter(1)):
            if number >= end:
                names, end = {}, number + 1
                with suppress(PackCorrupted):
                    pack, end = self._load_pack(connection, number)
                    for name in pack.places:
                        if name.startswith("art-"):
                            names.setdefault(key_prefix(name), []).append(name)
            yield from names.get(key, ())

    def find_evicted(self, connection: SqliteConnection, prefix: str) -> set[Name]:
        """Return the evicted names of artifacts that start with this prefix."""
        if not self.has_evicted or not prefix.startswith("art-"):
            return set()
        query = "SELECT name FROM evicted WHERE name BETWEEN ? AND ?"
        return {name for (name,) in connection.execute(query, [prefix, prefix + "g"])}

    def find_artifacts(
        self, connection: SqliteConnection, digits: str, limit: int
    ) -> list[ArtifactRef]:
        """Return at most `limit` names of artifacts that start with these digits, in order."""
        prefix = f"art-{digits}"
        matches: set[Name] = {
            name
            for name, stand_in in self.stand_ins.items()
            if stand_in and name.startswith(prefix)
        }
        matches |= self.find_evicted(connection, prefix)
        by_key = (
            list(group) for _, group in groupby(select_artifacts(connection, digits), itemgetter(0))
        )
        while entries := [entry for group in islice(by_key, max(limit, 1)) for entry in group]:
            names = self.iter_names(connection, entries)
            matches.update(name for name in names if name[4:].startswith(digits))
            if len(matches) >= limit:
                break
        return [ArtifactRef(name) for name in sorted(matches)[:limit]]

    def pop_used_rows(self) -> list[int]:
        """Return the rows that were read since the last call."""
        with self._lock:
            numbers, self._used_rows = sorted(self._used_rows), set()
        return numbers

    def _cache_names(self, connection: SqliteConnection, pack: Pack, name: str) -> None:
        """Cache the names in a pack that are of the same kind as this one. Raises PackCorrupted."""
        try:
            is_new = pack.name_all(_KINDS_BY_PREFIX[name[:-64]])
        except (ValueError, LookupError) as error:
            raise PackCorrupted(f"its names cannot be computed: {error}") from None
        if is_new:
            with self._lock:
                if connection.generation == self._generation and not connection.is_removing:
                    self._young |= dict.fromkeys(pack.places, pack)

    def _load_pack(self, connection: SqliteConnection, number: int) -> tuple[Pack, int]:
        """Return the pack that holds a number, and the end of its numbers.

        Raises PackCorrupted.
        """
        cached_pack, end = self._find_pack(number)
        if cached_pack is not None:
            return cached_pack, end
        row = connection.execute(_ROW_SQL, [number]).fetchone()
        if row is None:
            raise PackCorrupted("the pack is missing")
        first, data, following = row
        pack = decode_pack(data)
        self._used_rows.add(first)
        # The last row is never a merged one: the next pack gets the next number.
        end = following or first + 1
        self.add(connection, (first, end), pack)
        return pack, end

    def _find_pack(self, number: int) -> tuple[Pack | None, int]:
        """Return the cached pack that holds a number, or None, and the end of its numbers."""
        starts, ends = self._starts, self._ends  # Other threads may replace both meanwhile.
        index = bisect_right(starts, number) - 1
        end, pack = ends.get(starts[index], _NO_PACK) if index >= 0 else _NO_PACK
        return (pack if number < end else None), end

    def _clear(self) -> None:
        self._young, self._old, self._size = {}, {}, 0
        self._starts, self._ends = [], {}


def decode_bodies(
    store: str | Path, bodies: Mapping[str, Body], decode: Callable[[bytes], T]
) -> dict[ArtifactRef, T]:
    """Decode the bodies of artifacts.

    Raises ObjectCorrupted: the pack may have been written on another machine.
    """
    decoded: dict[ArtifactRef, T] = {}
    for name, (_, body) in bodies.items():
        try:
            decoded[ArtifactRef(name)] = decode(body)
        except ValueError as error:
            raise ObjectCorrupted(store, name, reason=f"it cannot be read: {error}") from None
    return decoded
