"""The store in one SQLite file: packs of things, and an index from the beginnings of names to them.

One idea: a name follows from the bytes, so the index holds 6 of its 32 bytes only, and every answer
is checked against the bytes. A wrong index entry makes a thing missing, never another one.

Source: docs/formats/store.md; docs/design/004-context-store.md has the measurements.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec
from blake3 import blake3

from harken.core import codec
from harken.core import commits as values
from harken.core.clock import microseconds
from harken.core.commits import ArtifactRef, CommitId, Entry, Hash, Notes
from harken.errors import ObjectDamaged, ObjectMissing, UnknownName
from harken.store.base import Batch, Kind, Stored, Thing
from harken.store.contents import Contents, NewCommit, contents_of
from harken.store.database import Database, speaking
from harken.store.opened import Body, Opened
from harken.store.pack import SUM_BYTES, packs_of

KEY_BYTES = 6
_TABLES = {"": "object", "art-": "artifact", "ctx-": "history"}
_FULL = re.compile(r"(ctx-|art-)?[0-9a-f]{64}")
_DIGITS = re.compile(r"[0-9a-f]{0,64}")
_AT_ONCE = 500
T = TypeVar("T")
_ANCESTORS = """
WITH RECURSIVE up (id, parent, pack, notes, depth) AS (
    SELECT id, parent, pack, notes, 1 FROM history WHERE id = ?
    UNION ALL
    SELECT h.id, h.parent, h.pack, h.notes, depth + 1 FROM up JOIN history h ON h.id = up.parent
    WHERE h.id < up.id AND depth < ?
) SELECT pack, notes FROM up
"""


class SqliteStore:
    """A store in the file at `path`, which is made where there is none.

    Threads and processes may share it. A writer waits `patience_s` for others and then raises
    StoreLocked. Raises NotAStore, StoreTooNew, StoreWriteError, StoreError.
    """

    def __init__(self, path: str | Path, *, patience_s: float = 30.0) -> None:
        self.path = Path(path)
        self._database = Database(self.path, patience_s)
        self._opened = Opened(self.path)

    def write(self, batch: Batch) -> None:
        contents = contents_of(batch)
        with self._database.writing() as connection:
            new = self._new(contents)
            packs = list(packs_of(new.values()))
            places: dict[str, int] = {}
            for packed in packs:
                at = connection.execute("INSERT INTO pack (data) VALUES (?)", [packed.data])
                assert at.lastrowid is not None
                places |= dict.fromkeys(packed.things, at.lastrowid)
            _index(connection, places)
            for commit in contents.commits:
                if commit.id in new:
                    self._commit(connection, commit, places[commit.id])
        for packed in packs:
            self._opened.keep(places[next(iter(packed.things))], packed.things)

    def objects(self, names: Iterable[Hash]) -> dict[Hash, bytes]:
        found = self._found(names, Kind.PART, Kind.MESSAGE)
        return {Hash(name): body for name, (_, body) in found.items()}

    def deltas(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[Entry]]:
        found = self._found(names, Kind.DELTA)
        return {ArtifactRef(name): values.delta_from(body) for name, (_, body) in found.items()}

    def sequences(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, list[ArtifactRef]]:
        found = self._found(names, Kind.SEQUENCE)
        return {ArtifactRef(name): values.sequence_from(body) for name, (_, body) in found.items()}

    def raw(self, name: ArtifactRef) -> bytes:
        for _, body in self._found([name], Kind.RAW).values():
            return body
        raise ObjectMissing(self.path, name)

    def commits(self, names: Iterable[CommitId]) -> dict[CommitId, Stored]:
        found: dict[CommitId, Stored] = {}
        with speaking(self.path):
            for name in names:
                row = self._row(name)
                if row is not None:
                    found[name] = self._stored(name, *row[1:])
        return found

    def chain(self, name: CommitId, depth: int | None = None) -> list[Stored]:
        limit = 2**62 if depth is None else depth
        with speaking(self.path):
            id_ = self._id(name)
            connection = self._database.reading()
            rows = connection.execute(_ANCESTORS, [id_, limit]).fetchall() if limit > 0 else []
            found: list[Stored] = []
            at: CommitId | None = name
            for some in _slices(rows):
                self._opened.open(connection, [pack for pack, _ in some])
                for pack, notes in some:
                    if at is None:
                        raise ObjectDamaged(self.path, name, reason="its chain does not end")
                    found.append(self._stored(at, pack, notes))
                    at = found[-1].commit.parent
        if at is not None and len(found) < limit:
            raise ObjectMissing(self.path, at, needed_by=found[-1].id)
        return found

    def children(self, name: CommitId) -> list[CommitId]:
        with speaking(self.path):
            row = self._row(name)
            if row is None:
                return []
            return self._ids("WHERE parent = ? ORDER BY time_us, id", [row[0]])

    def latest(self, principal: str, at: str) -> CommitId | None:
        until_us = microseconds(at)
        with speaking(self.path):
            found = self._ids(
                "WHERE principal = (SELECT id FROM principal WHERE name = ?) AND time_us <= ?"
                " ORDER BY time_us DESC, id DESC LIMIT 1",
                [_bytes(principal), until_us],
            )
        return found[0] if found else None

    def newest(self, limit: int = 20) -> list[CommitId]:
        with speaking(self.path):
            return self._ids("ORDER BY id DESC LIMIT ?", [limit])

    def named(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        found: list[str] = []
        with speaking(self.path):
            for prefix in ("art-", "ctx-"):
                if beginning.startswith(prefix) or prefix.startswith(beginning):
                    digits = beginning[len(prefix) :]
                    found += self._beginning(prefix, digits, limit - len(found))
        return [ArtifactRef(name) for name in found]

    def annotate(self, name: CommitId, notes: Notes) -> None:
        values.check_notes(notes)
        with self._database.writing() as connection:
            id_ = self._id(name)
            row = (_sealed(name, notes), id_)
            connection.execute("UPDATE history SET notes = ? WHERE id = ?", row)
            connection.execute("DELETE FROM label WHERE history = ?", [id_])
            _label(connection, id_, notes)

    def labelled(self, label: str | None = None) -> dict[str, list[CommitId]]:
        which, given = ("", []) if label is None else ("WHERE label.name = ?", [_bytes(label)])
        found: dict[str, list[CommitId]] = {}
        with speaking(self.path):
            rows = self._database.reading().execute(
                "SELECT label.name, h.key, h.pack, h.id FROM label JOIN history h"  # noqa: S608
                f" ON h.id = label.history {which} ORDER BY label.name, h.time_us, h.id",
                given,
            )
            for name, key, pack, id_ in rows.fetchall():
                commit = self._name_at(key, pack, id_)
                found.setdefault(name.decode("utf-8", "surrogatepass"), []).append(commit)
        return found

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Read the file as it is now, whatever is written meanwhile: for checks and copies."""
        with speaking(self.path):
            connection = self._database.reading()
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    def _new(self, contents: Contents) -> dict[str, Thing]:
        """Return the things that are not there yet. Raises where something needed is missing."""
        new: dict[str, Thing] = {}
        needed = {name for thing in contents.things.values() for name in thing.needs}
        there = self._there(needed | contents.things.keys())
        for name, thing in contents.things.items():
            if name not in there:
                for need in thing.needs:
                    if need not in there and need not in new:
                        raise ObjectMissing(self.path, need, needed_by=name)
                new[name] = thing
        return new

    def _there(self, names: Iterable[str]) -> set[str]:
        """Return those of these names that are there and whole."""
        there = {name for name in names if self._opened.get(name)}
        connection = self._database.reading()
        for name, packs in self._places(name for name in names if name not in there).items():
            with suppress(ObjectDamaged):  # written again, it is whole again
                if self._opened.find(connection, name, packs):
                    there.add(name)
        return there

    def _found(self, names: Iterable[str], *kinds: Kind) -> dict[str, Body]:
        """Return the things of these names that are there, of these kinds."""
        found = {name: self._opened.get(name) for name in names}
        with speaking(self.path):
            connection = self._database.reading()
            places = self._places(name for name, body in found.items() if body is None)
            for some in _slices(places.items()):
                self._opened.open(connection, [packs[-1] for _, packs in some])
                for name, packs in some:
                    found[name] = self._opened.find(connection, name, reversed(packs))
        return {name: body for name, body in found.items() if body and body[0] in kinds}

    def _places(self, names: Iterable[str]) -> dict[str, list[int]]:
        """Return the packs in which things of these names may be."""
        found: dict[str, list[int]] = {}
        asked: dict[str, dict[bytes, list[str]]] = {table: {} for table in _TABLES.values()}
        for name in names:
            if _FULL.fullmatch(name):
                asked[_TABLES[name[:-64]]].setdefault(_key(name), []).append(name)
        for table, by_key in asked.items():
            for some in _slices(by_key):
                marks = ",".join("?" * len(some))
                rows = self._database.reading().execute(
                    f"SELECT key, pack FROM {table} WHERE key IN ({marks})",  # noqa: S608
                    some,
                )
                for key, pack in rows.fetchall():
                    for name in by_key[key]:
                        found.setdefault(name, []).append(pack)
        return found

    def _row(self, name: CommitId) -> tuple[int, int, bytes] | None:
        """Return the row id of a commit, its pack and its notes."""
        connection = self._database.reading()
        if not (_FULL.fullmatch(name) and name.startswith("ctx-")):
            return None
        rows = connection.execute("SELECT id, pack, notes FROM history WHERE key = ?", [_key(name)])
        for id_, pack, notes in rows.fetchall():
            if self._opened.find(connection, name, [pack]):
                return id_, pack, notes
        return None

    def _id(self, name: CommitId) -> int:
        row = self._row(name)
        if row is None:
            raise UnknownName("commit", name, self._ids("ORDER BY id DESC LIMIT 3", []))
        return row[0]

    def _stored(self, name: CommitId, pack: int, notes: bytes) -> Stored:
        found = self._opened.find(self._database.reading(), name, [pack])
        if found is None:
            raise ObjectDamaged(self.path, name, reason="its row leads elsewhere")
        try:
            return Stored(name, values.commit_from(found[1]), notes_from(name, notes))
        except ValueError as error:
            raise ObjectDamaged(self.path, name, reason=str(error)) from None

    def _ids(self, where: str, given: Sequence[object]) -> list[CommitId]:
        rows = self._database.reading().execute(
            f"SELECT key, pack, id FROM history {where}",  # noqa: S608 - ours
            given,
        )
        return [self._name_at(*row) for row in rows.fetchall()]

    def _name_at(self, key: bytes, pack: int, id_: int) -> CommitId:
        names = self._names_at("ctx-", key, pack)
        if not names:
            raise ObjectDamaged(self.path, f"ctx-{key.hex()}", reason=f"row {id_} leads elsewhere")
        if len(names) > 1:  # names that begin alike, in one pack: in the order of their rows
            query = "SELECT id FROM history WHERE key = ? AND pack = ? ORDER BY id"
            ids = [row[0] for row in self._database.reading().execute(query, [key, pack])]
            return CommitId(names[ids.index(id_)])
        return CommitId(names[0])

    def _names_at(self, prefix: str, key: bytes, pack: int) -> list[str]:
        return self._opened.names(self._database.reading(), prefix + key.hex(), pack)

    def _beginning(self, prefix: str, digits: str, limit: int) -> list[str]:
        if not _DIGITS.fullmatch(digits):
            return []
        low, high = (bytes.fromhex(digits.ljust(64, end)[:12]) for end in "0f")
        rows = self._database.reading().execute(
            f"SELECT DISTINCT key, pack FROM {_TABLES[prefix]}"  # noqa: S608 - ours
            " WHERE key BETWEEN ? AND ? ORDER BY key",
            [low, high],
        )
        found: set[str] = set()
        last = b""
        for key, pack in rows:
            if len(found) >= limit and key != last:
                break
            last = key
            names = self._names_at(prefix, key, pack)
            found.update(name for name in names if name.startswith(prefix + digits))
        return sorted(found)[: max(limit, 0)]

    def _commit(self, connection: sqlite3.Connection, new: NewCommit, pack: int) -> None:
        parent = None if new.commit.parent is None else self._id(new.commit.parent)
        key, who = _key(new.id), _bytes(new.commit.principal)
        mended = connection.execute(  # it was there, in a pack that is damaged
            "UPDATE history SET pack = ? WHERE key = ? AND time_us = ?", [pack, key, new.time_us]
        )
        if mended.rowcount:
            return
        connection.execute("INSERT OR IGNORE INTO principal (name) VALUES (?)", [who])
        added = connection.execute(
            "INSERT INTO history (key, pack, parent, principal, time_us, notes)"
            " VALUES (?, ?, ?, (SELECT id FROM principal WHERE name = ?), ?, ?)",
            [key, pack, parent, who, new.time_us, _sealed(new.id, new.notes)],
        )
        assert added.lastrowid is not None
        _label(connection, added.lastrowid, new.notes)


def _index(connection: sqlite3.Connection, places: dict[str, int]) -> None:
    for prefix in ("", "art-"):
        rows = [(_key(name), at) for name, at in places.items() if name[:-64] == prefix]
        connection.executemany(
            f"INSERT OR IGNORE INTO {_TABLES[prefix]} (key, pack) VALUES (?, ?)",  # noqa: S608
            rows,
        )


def _label(connection: sqlite3.Connection, id_: int, notes: Notes) -> None:
    rows = [(_bytes(label), id_) for label in notes.labels]
    connection.executemany("INSERT OR IGNORE INTO label (name, history) VALUES (?, ?)", rows)


def _key(name: str) -> bytes:
    return bytes.fromhex(name[-64 : -64 + 2 * KEY_BYTES])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def notes_from(name: CommitId, data: bytes) -> Notes:
    """Read a commit's notes as they are stored. Raises ValueError where they are damaged."""
    body = data[SUM_BYTES:]
    if _sum(name, body) != data[:SUM_BYTES]:
        raise ValueError("its notes have another sum")
    return msgspec.convert(codec.decode(body), Notes)


def _sealed(name: CommitId, notes: Notes) -> bytes:
    body = codec.canonical(notes)
    return _sum(name, body) + body


def _sum(name: CommitId, body: bytes) -> bytes:
    return blake3(name.encode() + body).digest(SUM_BYTES)


def _slices(rows: Iterable[T]) -> Iterator[list[T]]:
    left = iter(rows)
    while some := list(islice(left, _AT_ONCE)):
        yield some
