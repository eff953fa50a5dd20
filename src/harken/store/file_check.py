"""What is wrong with the file of a store: its structure, its packs, and the tables beside them.

One idea: all that the tables say follows from the packs (but notes, which have a sum). So the packs
are opened one by one, and the tables are compared with what should stand there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from harken.core.clock import microseconds
from harken.core.commits import CommitId, commit_from
from harken.errors import StoreError
from harken.store.base import Kind
from harken.store.contents import needs_of
from harken.store.pack import Damaged, unpacked
from harken.store.sqlite import KEY_BYTES, SqliteStore, notes_from

Place: TypeAlias = tuple[bytes, int]
"""The beginning of a name, and a pack."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `place`: a name, or where in the file."""

    place: str
    problem: str


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    parent: bytes | None
    principal: bytes | None
    time_us: int
    notes: bytes
    labels: tuple[bytes, ...]


@dataclass(slots=True)
class _Tables:
    """What the tables lead to; what is found in a pack is taken out."""

    index: dict[str, set[Place]] = field(default_factory=dict)
    history: dict[Place, list[_Row]] = field(default_factory=dict)
    needed: dict[str, str] = field(default_factory=dict)
    """Name -> what needs it."""
    there: set[str] = field(default_factory=set)


def findings(store: SqliteStore) -> Iterator[Finding]:
    """Yield what is wrong, the worst first."""
    try:
        with store.snapshot() as connection:
            for (text,) in connection.execute("PRAGMA integrity_check(100)"):
                if text != "ok":
                    yield Finding("file", text)
            tables = _tables(connection)
            yield from _of_packs(connection, tables)
            yield from _left(tables)
    except (StoreError, sqlite3.Error) as error:
        yield Finding("file", str(error))


def _tables(connection: sqlite3.Connection) -> _Tables:
    tables = _Tables()
    for table in ("object", "artifact"):
        rows = connection.execute(f"SELECT key, pack FROM {table}")  # noqa: S608 - ours
        tables.index[table] = set(rows)
    labels: dict[int, list[bytes]] = {}
    for name, id_ in connection.execute("SELECT name, history FROM label ORDER BY name"):
        labels.setdefault(id_, []).append(name)
    for key, pack, id_, *row in connection.execute(
        "SELECT h.key, h.pack, h.id, p.key, principal.name, h.time_us, h.notes FROM history h"
        " LEFT JOIN history p ON p.id = h.parent AND p.id < h.id"
        " LEFT JOIN principal ON principal.id = h.principal"
    ):
        parent, principal, time_us, notes = row
        known = _Row(id_, parent, principal, time_us, notes, tuple(labels.pop(id_, ())))
        tables.history.setdefault((key, pack), []).append(known)
    for id_, names in labels.items():
        tables.needed |= dict.fromkeys((f"row {id_} of history" for _ in names), "a label")
    return tables


def _of_packs(connection: sqlite3.Connection, tables: _Tables) -> Iterator[Finding]:
    for pack, data in connection.execute("SELECT id, data FROM pack ORDER BY id"):
        try:
            things = unpacked(data)
        except Damaged as error:
            yield Finding(f"pack {pack}", str(error))
            continue
        seen: set[tuple[str, Place]] = set()
        for name, (kind, body) in things.items():
            try:
                tables.needed |= dict.fromkeys(needs_of(kind, body), name)
            except ValueError as error:
                yield Finding(name, f"it cannot be read: {error}")
            tables.there.add(name)
            place = bytes.fromhex(name[-64 : -64 + 2 * KEY_BYTES]), pack
            problem = ""
            if kind is Kind.COMMIT:
                problem = _row_problem(CommitId(name), body, tables.history.get(place, []))
            else:
                table = "artifact" if name.startswith("art-") else "object"
                if (table, place) not in seen and place not in tables.index[table]:
                    problem = f"the index does not lead to pack {pack}, where it is"
                tables.index[table].discard(place)
                seen.add((table, place))
            if problem:
                yield Finding(name, problem)


def _row_problem(name: CommitId, body: bytes, rows: list[_Row]) -> str:
    """Say what a commit's row says wrongly; take the row out."""
    commit = commit_from(body)
    found = ""
    for row in rows:
        parent = bytes.fromhex((commit.parent or "")[4 : 4 + 2 * KEY_BYTES]) or None
        who = commit.principal.encode("utf-8", "surrogatepass")
        if (row.parent, row.principal) != (parent, who):
            found = "its row names another parent or principal"
        elif row.time_us != microseconds(commit.created_at):
            found = "its row has another time"
        else:
            rows.remove(row)
            return _notes_problem(name, row)
    return found or "no row of the history leads to it"


def _notes_problem(name: CommitId, row: _Row) -> str:
    try:
        notes = notes_from(name, row.notes)
    except ValueError as error:
        return str(error)
    labels = sorted({label.encode("utf-8", "surrogatepass") for label in notes.labels})
    return "" if [*row.labels] == labels else "the labels are not those of its notes"


def _left(tables: _Tables) -> Iterator[Finding]:
    for table, places in tables.index.items():
        for key, pack in sorted(places):
            place = f"{table} {bytes(key).hex()}"
            yield Finding(place, f"the index leads to pack {pack}, which has no such thing")
    for (key, pack), rows in tables.history.items():
        for row in rows:
            place = f"row {row.id} of history"
            yield Finding(place, f"leads to ctx-{key.hex()}... in pack {pack}; that is not it")
    for name in sorted(tables.needed.keys() - tables.there):
        yield Finding(name, f"is missing; {tables.needed[name]} names it")
