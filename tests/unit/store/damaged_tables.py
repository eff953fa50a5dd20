"""A store with rows in every table, and the ways in which a row can be damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from harken.core.clock import format_rfc3339
from harken.core.commits import CommitId, CommitNotes, encode_sequence, hash_raw
from harken.core.messages import Message
from harken.store.base import ObjectKind, RetentionPolicy, Tombstone, WriteBatch
from harken.store.chunking import put_file
from harken.store.sqlite.evict import evict
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

START_US = 1_767_225_600_000_000
_HOUR_US = 3_600_000_000
_LATER = format_rfc3339(START_US + 10_000 * _HOUR_US)
_MAX_ROWS = 3


@dataclass
class _Hours:
    """A clock that advances by an hour with each reading, so that every write adds a mark."""

    now_us: int = START_US

    def __call__(self) -> int:
        self.now_us += _HOUR_US
        return self.now_us


def fill_every_table(path: Path) -> None:
    """Create a store with rows in all tables, and objects of all kinds."""
    store = SqliteStore(path, clock=_Hours())
    names = _write_commits(store)
    deltas = [stored.commit.artifact for stored in store.chain(names[5])]
    raw = {hash_raw(data): data for data in (b"one", b"two", b"three", b"purged", b"also purged")}
    sequences = {encode_sequence(deltas[n:])[0]: deltas[n:] for n in range(2)}
    store.write(WriteBatch(raw=raw, sequences=sequences))
    put_file(store, [b"".join(b"%d\n" % Random(3).getrandbits(64) for _ in range(60_000)) * 2])
    store.write(
        WriteBatch(
            derived={"first": deltas[0], "second": deltas[1], "third": next(iter(sequences))}
        )
    )
    for number in (3, 5):
        store.move_branch(f"review/{number}", names[number], expected=None)
    policies = [RetentionPolicy("pin"), RetentionPolicy("replicate")]
    policies += [RetentionPolicy("ephemeral", _LATER), RetentionPolicy("pin")]
    store.set_retention(dict(zip([*names[:2], *[*raw][:2]], policies, strict=True)))
    tombstone = Tombstone(when=_LATER, by="somebody", why="a secret")
    store.purge({[*raw][3]: b"gone", [*raw][4]: b"gone, too"}, tombstone)
    _evict(store, [Message("user", f"step {number}") for number in (3, 4, 5)])
    for number in (6, 7, 8):
        batch = batch_of(f"step {number}", "always")
        store.write(WriteBatch(objects=batch.objects, deltas=batch.deltas))
    store.write(WriteBatch(derived={"fourth": deltas[3], "fifth": deltas[2]}))
    store.close()
    reopened = SqliteStore(path, clock=_Hours(START_US + 100 * _HOUR_US))
    reopened.chain(names[-1])
    reopened.write(batch_of("after reading", second=50))
    reopened.close()


def _write_commits(store: SqliteStore) -> list[CommitId]:
    names: list[CommitId] = []
    for number in range(12):
        notes = CommitNotes(
            summary=f"summary {number}",
            labels=(f"label {number % 3}",) if number % 2 else (),
        )
        batch = batch_of(
            f"step {number}",
            "always",
            parent=names[-1] if names else None,
            second=number,
            notes=notes,
            principal=f"p{number % 3}",
        )
        store.write(batch)
        names.append(commit_in(batch))
    return names


def _evict(store: SqliteStore, messages: list[Message]) -> None:
    """Evict the parts of these messages, and raw bytes."""
    parts: set[str] = set()
    for message in messages:
        batch = batch_of(message)
        parts |= {
            obj.name
            for obj in store.iter_objects()
            if obj.kind is ObjectKind.PART and obj.name in batch.objects
        }
    parts.add(hash_raw(b"three"))
    evict(store, 0, lambda names: [name for name in names if name in parts])


@dataclass(frozen=True, slots=True)
class Damage:
    """A statement that damages a row of a table, and its values."""

    table: str
    kind: str
    """`remove`, `exchange COLUMN`, `shorten COLUMN`, `duplicate`."""
    statement: str
    values: tuple[object, ...]
    rows: tuple[dict[str, Any], ...]
    """The cells of the damaged rows, as they were."""


def list_tables(path: Path) -> dict[str, list[str]]:
    """Return the tables of the schema, with their columns."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        tables = [name for (name,) in connection.execute(query)]
        return {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in tables
        }


def iter_damage(path: Path, table: str, *, max_rows: int = _MAX_ROWS) -> Iterator[Damage]:
    """Yield the damage to rows of a table, evenly chosen."""
    with closing(sqlite3.connect(path)) as connection:
        info = connection.execute(f"PRAGMA table_info({table})").fetchall()
        columns = [row[1] for row in info]
        keys = [row[1] for row in info if row[5]] or columns
        all_rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
    rows = all_rows[:: max(1, len(all_rows) // max_rows)]
    assert rows, f"{table} is empty: it is not tested"
    where = " AND ".join(f"{key} IS ?" for key in keys)
    by_row = [(dict(zip(columns, row, strict=True)), row) for row in rows]
    for cells, row in by_row:
        key = tuple(cells[name] for name in keys)
        yield Damage(table, "remove", f"DELETE FROM {table} WHERE {where}", key, (cells,))
        yield _duplicate(table, columns, keys, row, all_rows)
        for column in columns:
            update = f"UPDATE {table} SET {column} = ? WHERE {where}"
            for value in _shorten(cells[column]):
                yield Damage(table, f"shorten {column}", update, (value, *key), (cells,))
    for (first, _), (second, _) in pairwise(by_row):
        yield from _exchange(table, columns, keys, first, second)


def _duplicate(
    table: str,
    columns: list[str],
    keys: list[str],
    row: tuple[object, ...],
    rows: list[tuple[object, ...]],
) -> Damage:
    """Insert a row again, with another last column of its key."""
    index = columns.index(keys[-1])
    value: object = rows[-1][index] if row is not rows[-1] else rows[0][index]
    if isinstance(value, int):
        value = max(cells[index] for cells in rows) + 1  # type: ignore[type-var, operator]
    elif keys == columns[:1]:  # The key of a row that does not exist.
        value = value[:-1] + value[:1]  # type: ignore[index]
    cells = tuple(value if number == index else cell for number, cell in enumerate(row))
    marks = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} VALUES ({marks})"
    return Damage(table, "duplicate", statement, cells, (dict(zip(columns, cells, strict=True)),))


def _shorten(value: object) -> list[object]:
    if isinstance(value, bytes | str):
        return [value[:-1], value[:0]] if value else []
    return [value - 1] if isinstance(value, int) else []


def _exchange(
    table: str,
    columns: list[str],
    keys: list[str],
    first: dict[str, Any],
    second: dict[str, Any],
) -> Iterator[Damage]:
    """Yield exchanges of the values of each column of two rows, but not of the whole key."""
    where = " AND ".join(f"{key} IS ?" for key in keys)
    keys_of = [tuple(cells[key] for key in keys) for cells in (first, second)]
    for column in columns:
        if (column in keys and len(keys) < 2) or first[column] == second[column]:
            continue
        either = f"({where}) OR ({where})"
        case = f"CASE WHEN {where} THEN ? ELSE ? END"
        statement = f"UPDATE {table} SET {column} = {case} WHERE {either}"
        values = (*keys_of[0], second[column], first[column], *keys_of[0], *keys_of[1])
        yield Damage(table, f"exchange {column}", statement, values, (first, second))
