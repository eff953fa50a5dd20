"""Packs that were opened: what is read once is soon read again, by the next of several questions.

Nothing in a pack ever changes, so what was opened stays true. Threads may share it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from harken.errors import ObjectDamaged
from harken.store.base import Kind
from harken.store.pack import Damaged, unpacked

Body: TypeAlias = tuple[Kind, bytes]
KEPT_BYTES = 16 * 1024 * 1024
"""So much is kept twice: of what is older, and of what is younger."""
_AT_ONCE = 200


class Opened:
    """Things by their full names, as far as they were read lately."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._young: dict[str, Body] = {}
        self._old: dict[str, Body] = {}
        self._packs: set[int] = set()
        self._size = 0

    def get(self, name: str) -> Body | None:
        """Return a thing if it is at hand."""
        return self._young.get(name) or self._old.get(name)

    def keep(self, pack: int, things: Mapping[str, Body]) -> None:
        """Have the things of a pack at hand."""
        size = sum([200 + len(body) for _, body in things.values()])
        if self._size > KEPT_BYTES:
            self._old, self._young, self._packs, self._size = self._young, {}, set(), 0
        self._young.update(things)
        self._packs.add(pack)
        self._size += size

    def open(self, connection: sqlite3.Connection, packs: Iterable[int]) -> None:
        """Have these packs at hand, as far as they are whole and there is room."""
        wanted = iter(list(dict.fromkeys(pack for pack in packs if pack not in self._packs)))
        while some := list(islice(wanted, _AT_ONCE)):
            marks = ",".join("?" * len(some))
            rows = connection.execute(
                f"SELECT id, data FROM pack WHERE id IN ({marks})",  # noqa: S608 - question marks
                some,
            )
            for pack, data in rows:
                try:
                    self.keep(pack, unpacked(data))
                except Damaged:
                    continue  # reported by `find`, if anybody wants something of it

    def find(self, connection: sqlite3.Connection, name: str, packs: Iterable[int]) -> Body | None:
        """Return a thing that should be in one of these packs; None: it is in none.

        Raises ObjectDamaged where it may have been in one that is damaged.
        """
        found, damage = self.get(name), ""
        for pack in packs if found is None else ():
            row = connection.execute("SELECT data FROM pack WHERE id = ?", [pack]).fetchone()
            try:
                things = unpacked(row[0] if row else b"")
            except Damaged as error:
                damage = f"pack {pack}: {error}"
                continue
            self.keep(pack, things)
            if name in things:
                return things[name]
        if found is None and damage:
            raise ObjectDamaged(self._path, name, reason=damage)
        return found

    def names(self, connection: sqlite3.Connection, beginning: str, pack: int) -> list[str]:
        """Return the names in a pack that begin so, as they stand. Raises ObjectDamaged."""
        row = connection.execute("SELECT data FROM pack WHERE id = ?", [pack]).fetchone()
        try:
            things = unpacked(row[0] if row else b"")
        except Damaged as error:
            raise ObjectDamaged(self._path, beginning, reason=f"pack {pack}: {error}") from None
        return [name for name in things if name.startswith(beginning)]
