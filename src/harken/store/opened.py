"""Packs that were opened: what is read once is soon read again, by the next of several questions.

One idea: what a name stands for never changes, so what was opened stays true, until somebody takes
things away. Who does so raises the *generation* in the same transaction; whoever reads or writes
looks first whether it was raised, and forgets everything if so. Threads may share this.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from harken.errors import ObjectDamaged
from harken.store.database import Connection
from harken.store.index import key_of
from harken.store.pack import Body, Damaged, unpacked
from harken.store.tombs import stand_ins

KEPT_BYTES = 32 * 1024 * 1024
"""So much is kept twice: of what is older, and of what is younger."""
_ROW = """
SELECT id, data, (SELECT min(id) FROM pack WHERE id > ?1)
FROM pack WHERE id <= ?1 ORDER BY id DESC LIMIT 1
"""


class Opened:
    """Things by their full names, as far as they were read lately."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._generation = 0
        self._young: dict[str, Body] = {}
        self._old: dict[str, Body] = {}
        self._size = 0
        self._starts: list[int] = []
        """Of the ranges of numbers whose things are at hand, sorted; `_ends` has their ends."""
        self._ends: dict[int, int] = {}
        self._used: set[int] = set()
        self.stand_ins: Mapping[str, str] = {}
        """Of what was purged: what is read in its place."""
        self.evicts = False
        """Whether the store knows of things that it does not hold."""

    def look(self, connection: Connection) -> None:
        """Forget everything if somebody took things away; in a transaction, before all else."""
        if connection.takes_away:
            return
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version == connection.version:
            return
        (generation,) = connection.execute("SELECT generation FROM state").fetchone()
        if generation > self._generation:
            replaced = stand_ins(connection)
            (evicts,) = connection.execute("SELECT EXISTS (SELECT 1 FROM evicted)").fetchone()
            with self._lock:
                if generation > self._generation:
                    self._forget()
                    self._generation, self.stand_ins = generation, replaced
                    self.evicts = bool(evicts)
        connection.generation, connection.version = generation, version

    def get(self, name: str) -> Body | None:
        """Return a thing if it is at hand."""
        return self._young.get(name) or self._old.get(name)

    def keep(
        self, connection: Connection, numbers: tuple[int, int], things: Mapping[str, Body]
    ) -> None:
        """Have the things of a pack at hand: all with these numbers, the second left out."""
        size = sum([200 + len(body) for _, body in things.values()])
        with self._lock:
            if connection.generation != self._generation or connection.takes_away:
                return  # they were read before something was taken away
            if self._size > KEPT_BYTES:
                young = self._young
                self._forget()
                self._old = young
            self._young.update(things)
            self._size += size
            if numbers[0] not in self._ends:
                insort(self._starts, numbers[0])
            self._ends[numbers[0]] = numbers[1]

    def open(self, connection: Connection, numbers: Iterable[int]) -> None:
        """Have the packs with these numbers at hand, as far as they are whole."""
        for number in sorted(set(numbers)):
            if not self._is_at_hand(number):
                try:
                    self._read(connection, number)
                except Damaged:
                    continue  # reported by `find`, if anybody wants something of it

    def find(self, connection: Connection, name: str, numbers: Iterable[int]) -> Body | None:
        """Return a thing that should be in one of these packs; None: it is in none.

        Raises ObjectDamaged where it may have been in one that is damaged.
        """
        found, damage = self.get(name), ""
        for number in numbers if found is None else ():
            try:
                found = self._read(connection, number)[0].get(name)
            except Damaged as error:
                damage = f"pack {number}: {error}"
            if found is not None:
                return found
        if found is None and damage:
            raise ObjectDamaged(self._path, name, reason=damage)
        return found

    def names(self, connection: Connection, at: Iterable[tuple[bytes, int]]) -> Iterator[str]:
        """Yield the names of artifacts, given their beginnings and the numbers of their packs.

        What is in a damaged pack has no name any more.
        """
        names: dict[bytes, list[str]] = {}
        end = 0
        for key, number in sorted(at, key=lambda place: place[1]):
            if number >= end:
                try:
                    things, (_, end) = self._read(connection, number)
                except Damaged:
                    things, end = {}, number + 1
                names = {}
                for name in things:
                    if name.startswith("art-"):
                        names.setdefault(key_of(name), []).append(name)
            yield from names.get(key, ())

    def used(self) -> list[int]:
        """Return the rows that were read since one last asked."""
        with self._lock:
            found, self._used = sorted(self._used), set()
        return found

    def _read(self, connection: Connection, number: int) -> tuple[dict[str, Body], tuple[int, int]]:
        """Open one pack; return what is in it, and its numbers. Raises Damaged."""
        row = connection.execute(_ROW, [number]).fetchone()
        if row is None:
            raise Damaged("it is not there")
        first, data, following = row
        # The last row was put together of no others: what is written next has the next number.
        numbers = (first, following or first + 1)
        things = unpacked(data)
        self._used.add(first)
        self.keep(connection, numbers, things)
        return things, numbers

    def _is_at_hand(self, number: int) -> bool:
        starts, ends = self._starts, self._ends  # others may replace both meanwhile
        at = bisect_right(starts, number) - 1
        return at >= 0 and number < ends.get(starts[at], 0)

    def _forget(self) -> None:
        self._young, self._old, self._size = {}, {}, 0
        self._starts, self._ends = [], {}
