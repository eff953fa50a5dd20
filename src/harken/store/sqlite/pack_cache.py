"""Packs that were opened: what is read once is soon read again, by the next of several questions.

One idea: what a name stands for never changes, so what was opened stays true, until somebody takes
things away. Who does so raises the *generation* in the same transaction; whoever reads or writes
looks first whether it was raised, and forgets everything if so. Threads may share this.

Messages straight from a pack: where all that a delta needs stands in the same one.

One idea: a name is there to find a thing elsewhere. What was written together is found by its
place, so that neither names nor hashes are needed; the sum of the pack says that all is as it was
written. It gives what reading by names gives, or nothing.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args

from harken.core import canonical
from harken.core.commits import decode_delta
from harken.core.messages import Message, MessageContent, Role, join_occurrence
from harken.errors import ObjectCorrupted, StoreError
from harken.store.base import ObjectKind
from harken.store.sqlite.database import SqliteConnection
from harken.store.sqlite.name_index import key_prefix, places
from harken.store.sqlite.pack import ELSEWHERE, MARK, Body, Pack, PackCorrupted, decode_pack
from harken.store.sqlite.side_tables import stand_ins


def messages_in(pack: Pack, at: int) -> list[Message] | None:
    """Return the messages of the delta at a place.

    None: it needs something from elsewhere, or is not as it should be: then names say what is it.
    """
    try:
        return _messages(pack, at)
    except (LookupError, TypeError, ValueError, StopIteration, AttributeError):
        return None


def _messages(pack: Pack, at: int) -> list[Message] | None:
    if pack.kind(at) is not ObjectKind.DELTA:
        return None
    entries, led = decode_delta(pack.marked(at).replace(MARK, b"")), pack.led(at)
    if not _one_each([entry.message for entry in entries], led):
        return None
    found: list[Message] = []
    for entry, place in zip(entries, led, strict=True):
        role, parts = _shape(pack, place)
        if not parts or ELSEWHERE in parts:
            return None
        values = [canonical.from_json(pack.marked(part)) for part in parts]
        found.append(join_occurrence(MessageContent(role, values), entry.occurrence))
    return found


def _shape(pack: Pack, at: int) -> tuple[Any, Sequence[int]]:
    """Return the role of a message and the places of its parts; no parts: names must say them."""
    body, led = pack.marked(at), pack.led(at)
    role = _PLAIN.get(body)
    if role is None:
        shape: dict[str, Any] = canonical.from_json(body.replace(MARK, b""))
        role, led = shape["role"], led if _one_each(shape["parts"], led) else []
    kinds = [pack.kind(one) for one in (at, *led)]
    fits = kinds[0] is ObjectKind.MESSAGE and kinds.count(ObjectKind.PART) == len(led)
    return role, led if fits else []


def _one_each(names: Sequence[str], led: Sequence[int]) -> bool:
    """Whether each name is a mark, and there is no other mark, and none leads elsewhere."""
    return len(names) == len(led) and not any(names) and ELSEWHERE not in led


_PLAIN = {b'{"parts":["\x01"],"role":"%s"}' % role.encode(): role for role in get_args(Role)}
"""What most messages are: one part."""


_ALIKE = {
    "": frozenset({ObjectKind.PART, ObjectKind.MESSAGE}),
    "art-": frozenset({ObjectKind.DELTA, ObjectKind.SEQUENCE, ObjectKind.RAW, ObjectKind.FILE}),
    "ctx-": frozenset({ObjectKind.COMMIT}),
}
"""Which kinds have names that begin so."""
_NONE: tuple[int, Pack | None] = (0, None)
KEPT_BYTES = 32 * 1024 * 1024
"""So much is kept twice: of what is older, and of what is younger."""
_RAW_COUNTS = 8
"""So many times as much count pieces of files: they are read in their order, and then no more."""
_ROW = """
SELECT id, data, (SELECT min(id) FROM pack WHERE id > ?1)
FROM pack WHERE id <= ?1 ORDER BY id DESC LIMIT 1
"""


class PackCache:
    """Packs by the names of what is in them, as far as they were read lately."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._generation = 0
        self._young: dict[str, Pack] = {}
        """By the names that are known: those of objects are, when one of them was asked for."""
        self._old: dict[str, Pack] = {}
        self._size = 0
        self._starts: list[int] = []
        """The first numbers of the younger packs, sorted; `_ends` has their ends, and the packs."""
        self._ends: dict[int, tuple[int, Pack]] = {}
        self._used: set[int] = set()
        self.stand_ins: Mapping[str, str] = {}
        """Of what was purged: what is read in its place."""
        self.evicts = False
        """Whether the store knows of things that it does not hold."""

    def look(self, connection: SqliteConnection) -> None:
        """Forget everything if somebody took things away; in a transaction, before all else."""
        if connection.takes_away:
            return
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version == connection.version:
            return
        generation = connection.execute("SELECT max(generation) FROM state").fetchone()[0]
        if not isinstance(generation, int):
            raise StoreError(self._path, "is damaged: nothing says what was taken away")
        if generation > self._generation:
            replaced = stand_ins(connection)
            (evicts,) = connection.execute("SELECT EXISTS (SELECT 1 FROM evicted)").fetchone()
            with self._lock:
                if generation > self._generation:
                    self._forget()
                    self._generation, self.stand_ins = generation, replaced
                    self.evicts = bool(evicts)
        connection.generation, connection.version = generation, version

    def get(self, name: str) -> Pack | None:
        """Return the pack that a thing is in, if it is at hand under this name."""
        return self._young.get(name) or self._old.get(name)

    def kind(self, name: str) -> ObjectKind | None:
        """Return what a thing is, if it is at hand."""
        pack = self.get(name)
        return None if pack is None else pack.kind(pack.places[name])

    def keep(self, connection: SqliteConnection, numbers: tuple[int, int], pack: Pack) -> None:
        """Have a pack at hand, that holds all with these numbers, the second left out."""
        with self._lock:
            if connection.generation != self._generation or connection.takes_away:
                return  # it was read before something was taken away
            if self._size > KEPT_BYTES:
                young = self._young
                self._forget()
                self._old = young
            if numbers[0] not in self._ends:
                insort(self._starts, numbers[0])
            self._ends[numbers[0]] = numbers[1], pack
            self._young |= dict.fromkeys(pack.places, pack)
            self._size += pack.size_bytes * (_RAW_COUNTS if pack.is_raw else 1)

    def open(self, connection: SqliteConnection, numbers: Iterable[int]) -> None:
        """Have the packs with these numbers at hand, as far as they are whole."""
        for number in sorted(set(numbers)):
            with suppress(PackCorrupted):  # reported by `find`, if anybody wants something of it
                self._pack(connection, number)

    def find(self, connection: SqliteConnection, name: str, numbers: Iterable[int]) -> Body | None:
        """Return a thing that should be in one of these packs; None: it is in none.

        Raises ObjectCorrupted where it may have been in one that is damaged.
        """
        pack, damage = self.get(name), ""
        for number in numbers if pack is None else ():
            try:
                found, _ = self._pack(connection, number)
                self._name(connection, found, name)
                if name in found.places:
                    pack = found
                    break
            except PackCorrupted as error:
                damage = f"pack {number}: {error}"
        if pack is not None:
            try:
                kind, body = pack.thing(pack.places[name])
                if kind is ObjectKind.DELTA:  # its objects have names now, and are asked for next
                    self._name(connection, pack, "")
                return kind, body
            except (ValueError, LookupError) as error:  # another machine may have packed it
                damage = f"it cannot be put together: {error}"
        if damage:
            raise ObjectCorrupted(self._path, name, reason=damage)
        return None

    def place(self, connection: SqliteConnection, name: str) -> tuple[Pack, int] | None:
        """Return the pack that an artifact is in, and its place there; None: it is not whole."""
        pack = self.get(name)
        if pack is None:
            with suppress(PackCorrupted):
                for number in places(connection, [name]).get(name, ()):
                    pack, _ = self._pack(connection, number)
        at = None if pack is None else pack.places.get(name)
        return None if pack is None or at is None else (pack, at)

    def names(self, connection: SqliteConnection, at: Iterable[tuple[bytes, int]]) -> Iterator[str]:
        """Yield the names of artifacts, given their beginnings and the numbers of their packs.

        What is in a damaged pack has no name any more.
        """
        names: dict[bytes, list[str]] = {}
        end = 0
        for key, number in sorted(at, key=itemgetter(1)):
            if number >= end:
                names, end = {}, number + 1
                with suppress(PackCorrupted):
                    pack, end = self._pack(connection, number)
                    for name in pack.places:
                        if name.startswith("art-"):
                            names.setdefault(key_prefix(name), []).append(name)
            yield from names.get(key, ())

    def used(self) -> list[int]:
        """Return the rows that were read since one last asked."""
        with self._lock:
            found, self._used = sorted(self._used), set()
        return found

    def _name(self, connection: SqliteConnection, pack: Pack, name: str) -> None:
        """Have those names of a pack at hand that are like this one. Raises Damaged."""
        try:
            is_new = pack.name_all(_ALIKE[name[:-64]])
        except (ValueError, LookupError) as error:
            raise PackCorrupted(f"its names cannot be computed: {error}") from None
        if is_new:
            with self._lock:
                if connection.generation == self._generation and not connection.takes_away:
                    self._young |= dict.fromkeys(pack.places, pack)

    def _pack(self, connection: SqliteConnection, number: int) -> tuple[Pack, int]:
        """Return the pack that holds what has a number, and where its numbers end.

        Raises Damaged.
        """
        starts, ends = self._starts, self._ends  # others may replace both meanwhile
        at = bisect_right(starts, number) - 1
        end, pack = ends.get(starts[at], _NONE) if at >= 0 else _NONE
        if pack is not None and number < end:
            return pack, end
        row = connection.execute(_ROW, [number]).fetchone()
        if row is None:
            raise PackCorrupted("it is not there")
        first, data, following = row
        pack = decode_pack(data)
        self._used.add(first)
        # The last row was put together of no others: what is written next has the next number.
        end = following or first + 1
        self.keep(connection, (first, end), pack)
        return pack, end

    def _forget(self) -> None:
        self._young, self._old, self._size = {}, {}, 0
        self._starts, self._ends = [], {}
