"""What is wrong with the file of a store: its structure, its packs, and the tables beside them.

One idea: all that the tables say follows from the packs (but what is sealed). So the packs are
opened one by one and everything in them is hashed, and what the tables say is taken out where it is
found: what is left leads nowhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from harken.core import canonical
from harken.core.clock import parse_rfc3339
from harken.core.commits import ArtifactRef, CommitId, decode_commit, decode_delta, decode_sequence
from harken.errors import HarkenError, StoreError
from harken.store.base import ObjectKind
from harken.store.batch import file_from, message_from, needs_of
from harken.store.sqlite import pack_table
from harken.store.sqlite.commit_table import RowCorrupted, in_bytes, notes_from
from harken.store.sqlite.graph import Progress
from harken.store.sqlite.name_index import key_prefix
from harken.store.sqlite.pack import Body, decode_pack, unpacked
from harken.store.sqlite.side_tables import damaged, tombstone_from
from harken.store.sqlite.store import SqliteStore

_READ: Mapping[ObjectKind, Callable[[bytes], object]] = {
    ObjectKind.PART: canonical.from_json,
    ObjectKind.MESSAGE: message_from,
    ObjectKind.DELTA: decode_delta,
    ObjectKind.SEQUENCE: decode_sequence,
    ObjectKind.FILE: file_from,
}
_ARTIFACTS = (ObjectKind.DELTA, ObjectKind.SEQUENCE, ObjectKind.RAW, ObjectKind.FILE)
_TYPES = {
    "object": {"key": "blob", "pack": "integer"},
    "artifact": {"key": "blob", "pack": "integer"},
    "label": {"name": "blob", "history": "integer"},
    "principal": {"name": "blob"},
    "history": {"name": "blob", "pack": "integer", "time_us": "integer", "notes": "blob"},
    "tombstone": {"name": "text", "record": "blob"},
    "derived": {"key": "blob", "artifact": "blob"},
}


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One thing that is wrong. `place`: a name, or where in the file."""

    place: str
    problem: str


class _Row(msgspec.Struct, frozen=True):
    id: int
    pack: int
    parent: bytes | None
    principal: bytes | None
    time_us: int
    notes: bytes
    labels: tuple[bytes, ...]


class _Index:
    """What one table of the index leads to."""

    def __init__(self, connection: sqlite3.Connection, table: str) -> None:
        query = f"SELECT key, pack FROM {table}"  # noqa: S608 - ours
        self._one: dict[bytes, int] = dict(connection.execute(query))
        self._several: dict[bytes, list[int]] = {}
        twice = f"SELECT key FROM {table} GROUP BY key HAVING count(*) > 1"  # noqa: S608 - ours
        for key, number in connection.execute(f"{query} WHERE key IN ({twice})"):
            self._one.pop(key, None)
            self._several.setdefault(key, []).append(number)

    def take(self, names: Collection[str], row: pack_table.PackRow) -> list[str]:
        """Take out what leads from names to a pack; return those from which nothing does."""
        keys = {key_prefix(name): name for name in names}
        numbers = [self._one.pop(key, -1) for key in keys]
        if not numbers or (min(numbers) >= row.first and max(numbers) < row.end):
            return []
        return [
            name
            for (key, name), number in zip(keys.items(), numbers, strict=True)
            if not row.first <= number < row.end and not self._take(key, number, row)
        ]

    def _take(self, key: bytes, number: int, row: pack_table.PackRow) -> bool:
        """Take out what leads to a pack, where there may be several ways."""
        numbers = [*self._several.get(key, ()), *([] if number < 0 else [number])]
        left = [number for number in numbers if not row.first <= number < row.end]
        self._several[key] = left
        return len(left) < len(numbers)

    def left(self) -> Iterator[tuple[bytes, int]]:
        """Yield what was not taken out."""
        yield from self._one.items()
        for key, numbers in self._several.items():
            yield from ((key, number) for number in numbers)


@dataclass(slots=True)
class _Tables:
    """What the tables lead to; what is found in a pack is taken out."""

    objects: _Index
    artifacts: _Index
    history: dict[bytes, list[_Row]] = field(default_factory=dict)
    """By the names of commits."""
    needed: dict[str, str] = field(default_factory=dict)
    """Name -> what needs it."""
    outside: dict[str, int] = field(default_factory=dict)
    """Digits of a name -> a pack that has no such thing, and may need it."""
    there: set[str] = field(default_factory=set)
    files: list[ArtifactRef] = field(default_factory=list)
    stand_ins: dict[str, str] = field(default_factory=dict)
    """Name of what is read -> name of what was purged."""


def findings(store: SqliteStore, on_progress: Progress | None = None) -> Iterator[StoreFinding]:
    """Yield what is wrong, the worst first."""
    try:
        with store.snapshot() as connection:
            for (text,) in connection.execute("PRAGMA integrity_check(100)"):
                if text != "ok":
                    yield StoreFinding("file", text)
            _check_types(connection)
            tables = _tables(connection)
            yield from _of_tombs(connection, tables)
            last = pack_table.last_number(connection)
            for row in pack_table.rows(connection):
                yield from _of_pack(row, tables)
                if on_progress is not None:
                    on_progress(row.first, last)
            yield from _of_outside(connection, tables)
            yield from _left(tables)
            for key in damaged(connection):
                yield StoreFinding(f"derived {key}", "it has another sum")
        yield from _of_files(store, tables)
    except (StoreError, sqlite3.Error) as error:
        yield StoreFinding("file", str(error))


def _check_types(connection: sqlite3.Connection) -> None:
    """Raise RowCorrupted for what only a damaged table says: SQLite does not look when it reads."""
    for table, columns in _TYPES.items():
        odd = " OR ".join(f"typeof({column}) <> '{type_}'" for column, type_ in columns.items())
        query = f"SELECT count(*) FROM {table} WHERE {odd}"  # noqa: S608 - ours
        (count,) = connection.execute(query).fetchone()
        if count:
            raise RowCorrupted(f"{count} rows of {table} have values of the wrong types")


def _tables(connection: sqlite3.Connection) -> _Tables:
    tables = _Tables(_Index(connection, "object"), _Index(connection, "artifact"))
    labels: dict[int, list[bytes]] = {}
    for name, id_ in connection.execute("SELECT name, history FROM label ORDER BY name"):
        labels.setdefault(id_, []).append(name)
    for name, id_, *rest in connection.execute(
        "SELECT h.name, h.id, h.pack, p.name, principal.name, h.time_us, h.notes FROM history h"
        " LEFT JOIN history p ON p.id = h.parent AND p.id < h.id"
        " LEFT JOIN principal ON principal.id = h.principal"
    ):
        row = _Row(id_, *rest, tuple(labels.pop(id_, ())))  # type: ignore[call-arg]
        tables.history.setdefault(name, []).append(row)
    for id_, names in labels.items():
        tables.needed |= dict.fromkeys((f"row {id_} of history" for _ in names), "a label")
    tables.there.update(name for (name,) in connection.execute("SELECT name FROM evicted"))
    return tables


def _of_tombs(connection: sqlite3.Connection, tables: _Tables) -> Iterator[StoreFinding]:
    for name, record in connection.execute("SELECT name, record FROM tombstone").fetchall():
        tables.there.add(name)
        try:
            stand_in = tombstone_from(name, record).stand_in
        except ValueError as error:
            yield StoreFinding(name, f"its tombstone: {error}")
        else:
            if stand_in:  # else it is a commit that was collected
                tables.needed[stand_in] = name
                tables.stand_ins[stand_in] = name


def _of_pack(row: pack_table.PackRow, tables: _Tables) -> Iterator[StoreFinding]:
    try:
        pack = decode_pack(row.data)
        things = pack.things()
    except (ValueError, LookupError) as error:
        yield StoreFinding(f"pack {row.first}", str(error))
        return
    tables.there.update(things)
    tables.outside |= dict.fromkeys(pack.outside(), row.first)
    by_kind: dict[ObjectKind, list[str]] = {kind: [] for kind in ObjectKind}
    for name, (kind, body) in things.items():
        by_kind[kind].append(name)
        if kind in _READ:
            try:
                _READ[kind](body)
            except ValueError as error:
                yield StoreFinding(name, f"it cannot be read: {error}")
    tables.files += map(ArtifactRef, by_kind[ObjectKind.FILE])
    for name in by_kind[ObjectKind.COMMIT]:
        if problem := _row_problem(CommitId(name), things[name][1], row, tables):
            yield StoreFinding(name, problem)
    objects = by_kind[ObjectKind.PART] + by_kind[ObjectKind.MESSAGE]
    artifacts = [name for kind in _ARTIFACTS for name in by_kind[kind]]
    for index, names in ((tables.objects, objects), (tables.artifacts, artifacts)):
        for name in index.take(names, row):
            yield StoreFinding(name, f"the index does not lead to pack {row.first}, where it is")


def _of_outside(connection: sqlite3.Connection, tables: _Tables) -> Iterator[StoreFinding]:
    """Yield what is needed and nowhere; digits that only look like a name need nothing."""
    for lacking, first in tables.outside.items():
        if tables.there.isdisjoint((lacking, f"art-{lacking}", f"ctx-{lacking}")):
            row = pack_table.row_of(connection, first)
            things: dict[str, Body] = {} if row is None else unpacked(row.data)
            for name, (kind, body) in things.items():
                for need in needs_of(kind, body):
                    if need[-64:] == lacking:
                        tables.needed[need] = name
    for needed in sorted(tables.needed.keys() - tables.there):
        yield StoreFinding(needed, f"is missing; {tables.needed[needed]} names it")


def _row_problem(name: CommitId, body: bytes, pack: pack_table.PackRow, tables: _Tables) -> str:
    """Say what a commit's row says wrongly; take the row out."""
    own = CommitId(tables.stand_ins.get(name, name))
    rows = tables.history.get(bytes.fromhex(own[4:]), [])
    try:
        commit = decode_commit(body)
        time_us = parse_rfc3339(commit.created_at)
        parent = None if commit.parent is None else bytes.fromhex(commit.parent[4:])
    except ValueError as error:
        return f"it cannot be read: {error}"
    found = ""
    for row in rows:
        if not pack.first <= row.pack < pack.end:
            found = f"its row leads to pack {row.pack}, and it is in {pack.first}"
        elif (row.parent, row.principal) != (parent, in_bytes(commit.principal)):
            found = "its row names another parent or principal"
        elif row.time_us != time_us:
            found = "its row has another time"
        else:
            rows.remove(row)
            return _notes_problem(own, row)
    return found or "no row of the history leads to it"


def _notes_problem(name: CommitId, row: _Row) -> str:
    try:
        notes = notes_from(name, row.notes)
    except ValueError as error:
        return f"its notes: {error}"
    labels = sorted({in_bytes(label) for label in notes.labels})
    return "" if [*row.labels] == labels else "the labels are not those of its notes"


def _left(tables: _Tables) -> Iterator[StoreFinding]:
    for what, index in (("object", tables.objects), ("artifact", tables.artifacts)):
        for key, number in index.left():
            place = f"{what} {key.hex()}"
            yield StoreFinding(place, f"the index leads to pack {number}, which has no such thing")
    for name, rows in tables.history.items():
        for row in rows:
            place = f"row {row.id} of history"
            yield StoreFinding(
                place, f"leads to ctx-{name.hex()} in pack {row.pack}; that is not it"
            )


def _of_files(store: SqliteStore, tables: _Tables) -> Iterator[StoreFinding]:
    for name in tables.files:
        try:
            for _ in store.read_chunks(name):
                pass
        except HarkenError as error:
            yield StoreFinding(name, str(error))
