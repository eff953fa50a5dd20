"""Verification of a store's file: its structure, its packs, and its tables.

Everything in the tables follows from the packs (except sealed notes). So the packs are read one by
one, everything in them is hashed, and the matching table entries are consumed. Entries that remain
in the end point nowhere.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec

from harken.core import canonical
from harken.core.clock import parse_rfc3339
from harken.core.commits import ArtifactRef, CommitId, decode_commit, decode_delta, decode_sequence
from harken.errors import HarkenError, StoreError
from harken.store.base import ObjectKind, Progress, StoreFinding
from harken.store.batch import parse_file, parse_needs
from harken.store.branches import HEAD_PREFIXES, SOURCE_PREFIX
from harken.store.message_check import decode_message, iter_problems, read_bodies
from harken.store.raw_files import VerifiedFiles
from harken.store.sqlite import pack_table
from harken.store.sqlite.commit_table import encode_text, find_row, unseal_notes
from harken.store.sqlite.name_index import key_prefix
from harken.store.sqlite.pack import Body, decode_objects, decode_pack
from harken.store.sqlite.pack_cache import read_messages
from harken.store.sqlite.side_tables import (
    RowCorrupted,
    decode_tombstone,
    iter_damaged_keys,
    iter_wrong_totals,
    remove_seal,
)
from harken.store.sqlite.store import SqliteStore

_DECODERS: Mapping[ObjectKind, Callable[[bytes], object]] = {
    ObjectKind.PART: canonical.from_json,
    ObjectKind.MESSAGE: decode_message,
    ObjectKind.DELTA: decode_delta,
    ObjectKind.SEQUENCE: decode_sequence,
    ObjectKind.FILE: parse_file,
}
_ARTIFACTS = (ObjectKind.DELTA, ObjectKind.SEQUENCE, ObjectKind.RAW, ObjectKind.FILE)
_BATCH_DELTAS = 20
"""The number of deltas whose messages are read together by name."""
_TYPES = {
    "object": {"key": "blob", "pack": "integer"},
    "artifact": {"key": "blob", "pack": "integer"},
    "label": {"name": "blob", "history": "integer"},
    "principal": {"name": "blob"},
    "history": {"name": "blob", "pack": "integer", "time_us": "integer", "notes": "blob"},
    "tombstone": {"name": "text", "record": "blob"},
    "derived": {"key": "blob", "artifact": "blob"},
    "branch": {"name": "blob", "head": "blob"},
}


class _Row(msgspec.Struct, frozen=True):
    id: int
    pack: int
    parent: bytes | None
    principal: bytes | None
    time_us: int
    notes: bytes
    labels: tuple[bytes, ...]


class _Index:
    """The entries of one index table: key -> pack numbers."""

    def __init__(self, connection: sqlite3.Connection, table: str) -> None:
        query = f"SELECT key, pack FROM {table}"  # noqa: S608 - ours
        self._single: dict[bytes, int] = dict(connection.execute(query))
        self._multiple: dict[bytes, list[int]] = {}
        duplicates = f"SELECT key FROM {table} GROUP BY key HAVING count(*) > 1"  # noqa: S608 - ours
        for key, number in connection.execute(f"{query} WHERE key IN ({duplicates})"):
            self._single.pop(key, None)
            self._multiple.setdefault(key, []).append(number)

    def consume(self, names: Collection[str], row: pack_table.PackRow) -> list[str]:
        """Consume the entries from names to a pack. Return the names that have none."""
        keys = {key_prefix(name): name for name in names}
        numbers = [self._single.pop(key, -1) for key in keys]
        if not numbers or (min(numbers) >= row.first and max(numbers) < row.end):
            return []
        return [
            name
            for (key, name), number in zip(keys.items(), numbers, strict=True)
            if not row.first <= number < row.end and not self._take_duplicate(key, number, row)
        ]

    def _take_duplicate(self, key: bytes, number: int, row: pack_table.PackRow) -> bool:
        """Consume the entry of a key that has several, and return whether there was one."""
        numbers = [*self._multiple.get(key, ()), *([] if number < 0 else [number])]
        remaining = [number for number in numbers if not row.first <= number < row.end]
        self._multiple[key] = remaining
        return len(remaining) < len(numbers)

    def iter_remaining(self) -> Iterator[tuple[bytes, int]]:
        """Yield the entries that were not consumed."""
        yield from self._single.items()
        for key, numbers in self._multiple.items():
            yield from ((key, number) for number in numbers)


class _Tables(msgspec.Struct):
    """The contents of the tables. Entries that match a pack are consumed."""

    objects: _Index
    artifacts: _Index
    history: dict[bytes, list[_Row]] = msgspec.field(default_factory=dict)
    """Rows by the names of commits."""
    needed: dict[str, str] = msgspec.field(default_factory=dict)
    """Required name -> the object that requires it."""
    outside: dict[str, int] = msgspec.field(default_factory=dict)
    """Digits of a name -> a pack that lacks the object and may require it."""
    existing: set[str] = msgspec.field(default_factory=set)
    evicted: set[str] = msgspec.field(default_factory=set)
    files: list[ArtifactRef] = msgspec.field(default_factory=list)
    deltas: list[ArtifactRef] = msgspec.field(default_factory=list)
    """Deltas that do not decode, or that have messages in other packs."""
    invalid: set[str] = msgspec.field(default_factory=set)
    """Messages and other objects that were reported because they do not decode."""
    stand_ins: dict[str, str] = msgspec.field(default_factory=dict)
    """Name of a stand-in -> name of the purged object."""


def iter_findings(
    store: SqliteStore, on_progress: Progress | None = None
) -> Iterator[StoreFinding]:
    """Yield the problems, the most severe first."""
    try:
        with store.snapshot() as connection:
            for (text,) in connection.execute("PRAGMA integrity_check(100)"):
                if text != "ok":
                    yield StoreFinding("file", text)
            _check_types(connection)
            tables = _read_tables(connection)
            yield from _check_tombstones(connection, tables)
            last = pack_table.last_number(connection)
            for row in pack_table.iter_rows(connection):
                yield from _check_pack(row, tables)
                if on_progress is not None:
                    on_progress(row.first, last)
            yield from _check_missing(connection, tables)
            yield from _check_leftovers(tables)
            for key in iter_damaged_keys(connection):
                yield StoreFinding(f"derived {key}", "checksum mismatch")
            for table in iter_wrong_totals(connection):
                yield StoreFinding(f"table {table}", "rows were changed, lost or added")
            states = connection.execute("SELECT generation FROM state").fetchall()
            if len(states) != 1 or states[0][0] < 1:
                yield StoreFinding("table state", f"has not one generation, but {states}")
            yield from _check_heads(connection, tables)
        yield from _check_deltas(store, tables)
        yield from _check_files(store, tables)
    except (StoreError, sqlite3.Error) as error:
        yield StoreFinding("file", str(error))


def _check_types(connection: sqlite3.Connection) -> None:
    """Raise RowCorrupted if a table has values of the wrong types, which SQLite does not check."""
    for table, columns in _TYPES.items():
        condition = " OR ".join(
            f"typeof({column}) <> '{type_}'" for column, type_ in columns.items()
        )
        query = f"SELECT count(*) FROM {table} WHERE {condition}"  # noqa: S608 - ours
        (count,) = connection.execute(query).fetchone()
        if count:
            raise RowCorrupted(f"{count} rows of {table} have values of the wrong types")


def _check_heads(connection: sqlite3.Connection, tables: _Tables) -> Iterator[StoreFinding]:
    """Yield the branches and heads with a damaged row, or without their head."""
    for key, data in connection.execute("SELECT name, head FROM branch ORDER BY name").fetchall():
        name = key.decode("utf-8", "replace")
        is_artifact = name.startswith(HEAD_PREFIXES)
        kind = "source" if name.startswith(SOURCE_PREFIX) else "ticket"
        place = f"{kind} {name}" if is_artifact else f"branch {name}"
        try:
            digits = remove_seal(name, data).hex()
        except ValueError as error:
            yield StoreFinding(place, str(error))
            continue
        head = f"art-{digits}" if is_artifact else f"ctx-{digits}"
        exists = head in tables.existing if is_artifact else find_row(connection, CommitId(head))
        if not exists:
            yield StoreFinding(place, f"its head {head} does not exist")


def _read_tables(connection: sqlite3.Connection) -> _Tables:
    tables = _Tables(_Index(connection, "object"), _Index(connection, "artifact"))
    labels: dict[int, list[bytes]] = {}
    for name, id_ in connection.execute("SELECT name, history FROM label ORDER BY name"):
        labels.setdefault(id_, []).append(name)
    # A parent that is no earlier row is wrong, also for a commit without a parent.
    for name, id_, *columns in connection.execute(
        "SELECT h.name, h.id, h.pack, iif(h.parent IS NULL, NULL, ifnull(p.name, x'')),"
        " principal.name, h.time_us, h.notes FROM history h"
        " LEFT JOIN history p ON p.id = h.parent AND p.id < h.id"
        " LEFT JOIN principal ON principal.id = h.principal"
    ):
        row = _Row(id_, *columns, tuple(labels.pop(id_, ())))  # type: ignore[call-arg]
        tables.history.setdefault(name, []).append(row)
    for id_, names in labels.items():
        tables.needed |= dict.fromkeys((f"row {id_} of history" for _ in names), "a label")
    tables.evicted = {name for (name,) in connection.execute("SELECT name FROM evicted")}
    tables.existing |= tables.evicted
    return tables


def _check_tombstones(connection: sqlite3.Connection, tables: _Tables) -> Iterator[StoreFinding]:
    for name, record in connection.execute("SELECT name, record FROM tombstone").fetchall():
        tables.existing.add(name)
        try:
            stand_in = decode_tombstone(name, record).stand_in
        except ValueError as error:
            yield StoreFinding(name, f"its tombstone: {error}")
        else:
            if stand_in:  # An empty stand-in is that of a commit that was collected.
                tables.needed[stand_in] = name
                tables.stand_ins[stand_in] = name


def _check_pack(row: pack_table.PackRow, tables: _Tables) -> Iterator[StoreFinding]:
    try:
        pack = decode_pack(row.data)
        objects = pack.decode_objects()
    except (ValueError, LookupError) as error:
        yield StoreFinding(f"pack {row.first}", str(error))
        return
    tables.existing.update(objects)
    for name in objects.keys() & tables.evicted:
        yield StoreFinding(name, f"is listed as evicted, and is in pack {row.first}")
    tables.outside |= dict.fromkeys(pack.outside_digits(), row.first)
    by_kind: dict[ObjectKind, list[str]] = {kind: [] for kind in ObjectKind}
    for name, (kind, body) in objects.items():
        by_kind[kind].append(name)
        if kind in _DECODERS:
            try:
                _DECODERS[kind](body)
            except ValueError as error:
                tables.invalid.add(name)
                yield StoreFinding(name, f"it cannot be read: {error}")
    tables.deltas += [
        ArtifactRef(name)
        for name in by_kind[ObjectKind.DELTA]
        if name not in tables.invalid and read_messages(pack, pack.places[name]) is None
    ]
    tables.files += map(ArtifactRef, by_kind[ObjectKind.FILE])
    for name in by_kind[ObjectKind.COMMIT]:
        if problem := _find_row_problem(CommitId(name), objects[name][1], row, tables):
            yield StoreFinding(name, problem)
    object_names = by_kind[ObjectKind.PART] + by_kind[ObjectKind.MESSAGE]
    artifacts = [name for kind in _ARTIFACTS for name in by_kind[kind]]
    for index, names in ((tables.objects, object_names), (tables.artifacts, artifacts)):
        for name in index.consume(names, row):
            yield StoreFinding(name, f"the index does not lead to pack {row.first}, where it is")


def _check_deltas(store: SqliteStore, tables: _Tables) -> Iterator[StoreFinding]:
    """Decode the messages of deltas that could not be decoded from one pack."""
    for start in range(0, len(tables.deltas), _BATCH_DELTAS):
        try:
            deltas = store.deltas(tables.deltas[start : start + _BATCH_DELTAS])
            bodies = read_bodies(store, [entry for delta in deltas.values() for entry in delta])
        except HarkenError:
            continue  # A damaged pack or a missing object is reported already.
        for name, delta in deltas.items():
            for message, problem in iter_problems(name, delta, bodies):
                if message not in tables.invalid:
                    tables.invalid.add(message)
                    yield StoreFinding(message, problem)


def _check_missing(connection: sqlite3.Connection, tables: _Tables) -> Iterator[StoreFinding]:
    """Yield required objects that do not exist. Digits that only look like a name need nothing."""
    for digits, first in tables.outside.items():
        if tables.existing.isdisjoint((digits, f"art-{digits}", f"ctx-{digits}")):
            row = pack_table.find_row(connection, first)
            objects: dict[str, Body] = {} if row is None else decode_objects(row.data)
            for name, (kind, body) in objects.items():
                for need in parse_needs(kind, body):
                    if need[-64:] == digits:
                        tables.needed[need] = name
    for needed in sorted(tables.needed.keys() - tables.existing):
        yield StoreFinding(needed, f"is missing; {tables.needed[needed]} names it")


def _find_row_problem(
    name: CommitId, body: bytes, pack: pack_table.PackRow, tables: _Tables
) -> str:
    """Return the problem of a commit's row. The row is consumed if it has none."""
    name_in_row = CommitId(tables.stand_ins.get(name, name))
    rows = tables.history.get(bytes.fromhex(name_in_row[4:]), [])
    try:
        commit = decode_commit(body)
        time_us = parse_rfc3339(commit.created_at)
        parent = None if commit.parent is None else bytes.fromhex(commit.parent[4:])
    except ValueError as error:
        return f"it cannot be read: {error}"
    problem = ""
    for row in rows:
        if not pack.first <= row.pack < pack.end:
            problem = f"its row leads to pack {row.pack}, and it is in {pack.first}"
        elif (row.parent, row.principal) != (parent, encode_text(commit.principal)):
            problem = "its row names another parent or principal"
        elif row.time_us != time_us:
            problem = "its row has another time"
        else:
            rows.remove(row)
            return _find_notes_problem(name_in_row, row)
    return problem or "no row of the history leads to it"


def _find_notes_problem(name: CommitId, row: _Row) -> str:
    try:
        notes = unseal_notes(name, row.notes)
    except ValueError as error:
        return f"its notes: {error}"
    labels = sorted({encode_text(label) for label in notes.labels})
    return "" if [*row.labels] == labels else "the labels are not those of its notes"


def _check_leftovers(tables: _Tables) -> Iterator[StoreFinding]:
    for kind, index in (("object", tables.objects), ("artifact", tables.artifacts)):
        for key, number in index.iter_remaining():
            place = f"{kind} {key.hex()}"
            yield StoreFinding(place, f"the index refers to pack {number}, which lacks the object")
    for name, rows in tables.history.items():
        for row in rows:
            place = f"row {row.id} of history"
            yield StoreFinding(
                place, f"leads to ctx-{name.hex()} in pack {row.pack}; that is not it"
            )


def _check_files(store: SqliteStore, tables: _Tables) -> Iterator[StoreFinding]:
    verified_files = VerifiedFiles()
    for name in tables.files:
        try:
            pieces = store.chunk_names(name)
            if tables.evicted.isdisjoint(pieces):
                verified_files.verify(str(store.path), name, pieces, store.raw)
        except HarkenError as error:
            yield StoreFinding(name, str(error))
