"""What is wrong with the file of a store: its structure, its packs, and the tables beside them.

One idea: all that the tables say follows from the packs (but what is sealed). So the packs are
opened one by one, and the tables are compared with what should stand there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harken.core.clock import microseconds
from harken.core.commits import ArtifactRef, CommitId, commit_from
from harken.errors import HarkenError, StoreError
from harken.store import packs
from harken.store.base import Kind
from harken.store.contents import needs_of
from harken.store.derived import damaged
from harken.store.history import RowDamaged, in_bytes, notes_from
from harken.store.index import key_of
from harken.store.pack import Damaged, unpacked
from harken.store.sqlite import SqliteStore
from harken.store.tombs import tombstone_from


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `place`: a name, or where in the file."""

    place: str
    problem: str


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    pack: int
    parent: bytes | None
    principal: bytes | None
    time_us: int
    notes: bytes
    labels: tuple[bytes, ...]


@dataclass(slots=True)
class _Tables:
    """What the tables lead to; what is found in a pack is taken out."""

    index: dict[str, dict[bytes, list[int]]] = field(default_factory=dict)
    """Table -> beginning of a name -> numbers of packs."""
    history: dict[bytes, list[_Row]] = field(default_factory=dict)
    """By the names of commits."""
    needed: dict[str, str] = field(default_factory=dict)
    """Name -> what needs it."""
    there: set[str] = field(default_factory=set)
    files: list[ArtifactRef] = field(default_factory=list)
    stand_ins: dict[str, str] = field(default_factory=dict)
    """Name of what is read -> name of what was purged."""


def findings(store: SqliteStore) -> Iterator[Finding]:
    """Yield what is wrong, the worst first."""
    try:
        with store.snapshot() as connection:
            for (text,) in connection.execute("PRAGMA integrity_check(100)"):
                if text != "ok":
                    yield Finding("file", text)
            tables = _tables(connection)
            yield from _of_tombs(connection, tables)
            for row in packs.rows(connection):
                yield from _of_pack(row, tables)
            yield from _left(tables)
            for key in damaged(connection):
                yield Finding(f"derived {key}", "it has another sum")
        yield from _of_files(store, tables)
    except (StoreError, sqlite3.Error) as error:
        yield Finding("file", str(error))


def _typed(connection: sqlite3.Connection, query: str, *types: type) -> Iterator[tuple[Any, ...]]:
    """Yield rows of these types. Raises RowDamaged: SQLite does not look again when it reads."""
    for row in connection.execute(query):
        if not all(map(isinstance, row, types)):
            raise RowDamaged(f"a row has values of the wrong types: {row!r:.200}")
        yield row


def _tables(connection: sqlite3.Connection) -> _Tables:
    tables = _Tables()
    for table in ("object", "artifact"):
        by_key: dict[bytes, list[int]] = {}
        for key, number in _typed(connection, f"SELECT key, pack FROM {table}", bytes, int):  # noqa: S608
            by_key.setdefault(key, []).append(number)
        tables.index[table] = by_key
    labels: dict[int, list[bytes]] = {}
    query = "SELECT name, history FROM label ORDER BY name"
    for name, id_ in _typed(connection, query, bytes, int):
        labels.setdefault(id_, []).append(name)
    query = (
        "SELECT h.name, h.id, h.pack, p.name, principal.name, h.time_us, h.notes FROM history h"
        " LEFT JOIN history p ON p.id = h.parent AND p.id < h.id"
        " LEFT JOIN principal ON principal.id = h.principal"
    )
    types = (bytes, int, int, object, object, int, bytes)
    for name, id_, pack, parent, principal, time_us, notes in _typed(connection, query, *types):
        known = tuple(labels.pop(id_, ()))
        row = _Row(id_, pack, parent, principal, time_us, notes, known)
        tables.history.setdefault(name, []).append(row)
    for id_, names in labels.items():
        tables.needed |= dict.fromkeys((f"row {id_} of history" for _ in names), "a label")
    tables.there.update(name for (name,) in connection.execute("SELECT name FROM evicted"))
    return tables


def _of_tombs(connection: sqlite3.Connection, tables: _Tables) -> Iterator[Finding]:
    for name, record in connection.execute("SELECT name, record FROM tombstone").fetchall():
        tables.there.add(name)
        try:
            stand_in = tombstone_from(name, record).stand_in
        except ValueError as error:
            yield Finding(name, f"its tombstone: {error}")
        else:
            if stand_in:  # else it is a commit that was collected
                tables.needed[stand_in] = name
                tables.stand_ins[stand_in] = name


def _of_pack(row: packs.Row, tables: _Tables) -> Iterator[Finding]:
    try:
        things = unpacked(row.data)
    except Damaged as error:
        yield Finding(f"pack {row.first}", str(error))
        return
    seen: set[tuple[str, bytes]] = set()
    for name, (kind, body) in things.items():
        try:
            tables.needed |= dict.fromkeys(needs_of(kind, body), name)
        except ValueError as error:
            yield Finding(name, f"it cannot be read: {error}")
        tables.there.add(name)
        if kind is Kind.FILE:
            tables.files.append(ArtifactRef(name))
        if kind is Kind.COMMIT:
            problem = _row_problem(CommitId(name), body, row, tables)
        else:
            place = "artifact" if name.startswith("art-") else "object", key_of(name)
            problem = _index_problem(place, row, tables, is_first=place not in seen)
            seen.add(place)
        if problem:
            yield Finding(name, problem)


def _index_problem(
    place: tuple[str, bytes], row: packs.Row, tables: _Tables, *, is_first: bool
) -> str:
    """Say whether the index does not lead to a thing; take out what leads to it."""
    table, key = place
    numbers = tables.index[table].get(key, [])
    left = [number for number in numbers if not row.first <= number < row.end]
    if len(left) == len(numbers) and is_first:
        return f"the index does not lead to pack {row.first}, where it is"
    tables.index[table][key] = left
    return ""


def _row_problem(name: CommitId, body: bytes, pack: packs.Row, tables: _Tables) -> str:
    """Say what a commit's row says wrongly; take the row out."""
    own = CommitId(tables.stand_ins.get(name, name))
    rows = tables.history.get(bytes.fromhex(own[4:]), [])
    try:
        commit = commit_from(body)
        time_us = microseconds(commit.created_at)
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


def _left(tables: _Tables) -> Iterator[Finding]:
    for table, by_key in tables.index.items():
        for key, numbers in by_key.items():
            for number in numbers:
                place = f"{table} {bytes(key).hex()}"
                yield Finding(place, f"the index leads to pack {number}, which has no such thing")
    for name, rows in tables.history.items():
        for row in rows:
            place = f"row {row.id} of history"
            yield Finding(place, f"leads to ctx-{name.hex()} in pack {row.pack}; that is not it")
    for needed in sorted(tables.needed.keys() - tables.there):
        yield Finding(needed, f"is missing; {tables.needed[needed]} names it")


def _of_files(store: SqliteStore, tables: _Tables) -> Iterator[Finding]:
    for name in tables.files:
        try:
            for _ in store.pieces(name):
                pass
        except HarkenError as error:
            yield Finding(name, str(error))
