"""The tables of derived artifacts, retention policies and tombstones, with seals.

Derived artifacts are found by keys that describe how they were computed. A tombstone maps the name
of purged content to its stand-in. A seal is a checksum before the bytes of a row, computed over
them and the name that the row is about. Objects are named by their content and need no seal;
mutable data does.

A seal does not show that a row is missing. So `total` has, for each table whose rows follow from
nothing else, the sum of the checksums of its rows, which each change of a row updates.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from blake3 import blake3

from harken.core import canonical, structs
from harken.core.commits import ArtifactRef, CommitId, HeadName
from harken.errors import ObjectCorrupted
from harken.store.base import Name, RetentionPolicy, Tombstone
from harken.store.branches import HEAD_PREFIXES
from harken.store.sqlite.name_index import find_numbers, iter_batches

SEAL_BYTES = 8
_SUMMED_TABLES: Mapping[str, tuple[str, ...]] = {
    "keeping": ("name", "policy", "until"),
    "tombstone": ("name", "record"),
    "evicted": ("name", "kind"),
    "again": ("name", "pack"),
    "mark": ("time_us", "pack"),
    "branch": ("name", "head"),
}
"""The tables with a row in `total`, and their columns, the key first."""
_SUM_MODULUS = 1 << 63
_ADD_SQL = """
UPDATE total SET rows_sum = CASE WHEN rows_sum < ?1 THEN rows_sum + ?2 ELSE rows_sum - ?1 END
WHERE name = ?3
"""
"""Adds ?2 in the ring of the modulus, of which ?1 is the rest: no sum exceeds 63 bits."""
_PREFIX_MARKS = ", ".join(f"x'{prefix.encode().hex()}'" for prefix in HEAD_PREFIXES)
"""The first bytes of the names of heads of artifacts, in SQL."""


class RowCorrupted(sqlite3.DatabaseError):
    """A row was damaged after it was written."""


def replace_rows(
    connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[object]]
) -> None:
    """Insert rows of a table with a total, or replace those with the same keys."""
    by_key = {row[0]: tuple(row) for row in rows}
    old_sum = _delete_rows(connection, table, by_key)
    _insert_rows(connection, table, [*by_key.values()], old_sum)


def _insert_rows(
    connection: sqlite3.Connection, table: str, rows: Sequence[Sequence[object]], old_sum: int
) -> None:
    """Insert rows, and update the total. old_sum: the checksums of the rows that they replace."""
    columns = _SUMMED_TABLES[table]
    query = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
    connection.executemany(query, rows)
    _add_to_total(connection, table, sum(map(_hash_row, rows)) - old_sum)


def delete_rows(connection: sqlite3.Connection, table: str, keys: Iterable[object]) -> None:
    """Delete the rows of a table with a total that have these keys."""
    _add_to_total(connection, table, -_delete_rows(connection, table, keys))


def _delete_rows(connection: sqlite3.Connection, table: str, keys: Iterable[object]) -> int:
    """Delete rows. Return the sum of their checksums, which the total still has."""
    columns, rows_sum = _SUMMED_TABLES[table], 0
    for batch in iter_batches(keys):
        where = f"FROM {table} WHERE {columns[0]} IN ({','.join('?' * len(batch))})"
        query = f"SELECT {', '.join(columns)} {where}"
        rows = connection.execute(query, batch).fetchall()
        if rows:
            connection.execute(f"DELETE {where}", batch)
            rows_sum += sum(map(_hash_row, rows))
    return rows_sum


def iter_wrong_totals(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the tables whose rows are not those that were written."""
    totals: dict[str, object] = dict(connection.execute("SELECT name, rows_sum FROM total"))
    for table, columns in _SUMMED_TABLES.items():
        rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}")  # noqa: S608 - ours
        if totals.pop(table, None) != sum(map(_hash_row, rows)) % _SUM_MODULUS:
            yield table
    yield from (f"{name!r}, which has no total" for name in totals)


def _add_to_total(connection: sqlite3.Connection, table: str, change: int) -> None:
    change %= _SUM_MODULUS
    if change:
        # A damaged total stays wrong, so that a check finds it.
        connection.execute(_ADD_SQL, [_SUM_MODULUS - change, change, table])


def _hash_row(row: Sequence[object]) -> int:
    data = msgspec.msgpack.encode(list(row))
    return int.from_bytes(blake3(data).digest(SEAL_BYTES)) % _SUM_MODULUS


def add_seal(name: str, body: bytes) -> bytes:
    """Return bytes prefixed with their seal."""
    return _seal(name, body) + body


class SealMismatch(ValueError):
    """A sealed value does not match its seal."""

    def __init__(self, name: str) -> None:
        super().__init__("checksum mismatch")
        self.name = name


@contextmanager
def convert_mismatches(path: Path) -> Iterator[None]:
    """Convert SealMismatch to ObjectCorrupted."""
    try:
        yield
    except SealMismatch as error:
        raise ObjectCorrupted(path, error.name, reason=str(error)) from None


def remove_seal(name: str, data: bytes) -> bytes:
    """Return the bytes without their seal. Raises SealMismatch."""
    if not is_sealed(name, data):
        raise SealMismatch(name)
    return data[SEAL_BYTES:]


def is_sealed(name: str, data: object) -> bool:
    """Whether these bytes have a valid seal for this name."""
    if not isinstance(data, bytes):  # A damaged table may return any value.
        return False
    return data[:SEAL_BYTES] == _seal(name, data[SEAL_BYTES:])


def _seal(name: str, body: bytes) -> bytes:
    return blake3(name.encode("utf-8", "surrogatepass") + body).digest(SEAL_BYTES)


def set_tombstone(connection: sqlite3.Connection, name: Name, tombstone: Tombstone) -> None:
    """Insert or replace a tombstone."""
    record = add_seal(name, canonical.to_canonical_bytes(tombstone))
    replace_rows(connection, "tombstone", [(name, record)])


def clear_stand_in(connection: sqlite3.Connection, name: Name) -> None:
    """Remove the stand-in from the tombstone of a purged commit that was collected."""
    row = connection.execute("SELECT record FROM tombstone WHERE name = ?", [name]).fetchone()
    if row is not None:
        tombstone = decode_tombstone(name, row[0])
        set_tombstone(connection, name, structs.replace(tombstone, stand_in=""))


def read_tombstones(connection: sqlite3.Connection) -> dict[Name, Tombstone]:
    """Return all tombstones. Raises RowCorrupted if one is damaged."""
    tombstones: dict[Name, Tombstone] = {}
    rows = connection.execute("SELECT name, record FROM tombstone ORDER BY name")
    for name, record in rows.fetchall():
        try:
            tombstones[name] = decode_tombstone(name, record)
        except ValueError as error:
            raise RowCorrupted(f"the tombstone of {name!r} is damaged: {error}") from None
    return tombstones


def read_stand_ins(connection: sqlite3.Connection) -> dict[Name, Name]:
    """Return the stand-in of each purged name, which is empty for a damaged tombstone."""
    by_name: dict[Name, Name] = {}
    for name, record in connection.execute("SELECT name, record FROM tombstone").fetchall():
        try:
            by_name[name] = decode_tombstone(name, record).stand_in
        except ValueError:
            by_name[name] = ""
    return by_name


def decode_tombstone(name: Name, record: bytes) -> Tombstone:
    """Decode a tombstone. Raises ValueError if it is damaged."""
    return msgspec.convert(canonical.from_json(remove_seal(name, record)), Tombstone)


def enter_retention(
    connection: sqlite3.Connection, names: Mapping[Any, RetentionPolicy | None]
) -> None:
    """Set retention policies, or restore the default with None."""
    delete_retention(connection, names)
    rows = [
        (name, policy.policy, policy.until) for name, policy in names.items() if policy is not None
    ]
    replace_rows(connection, "keeping", rows)


def delete_retention(connection: sqlite3.Connection, names: Iterable[Name]) -> None:
    """Remove the retention policies of these names."""
    delete_rows(connection, "keeping", names)


def read_retention(connection: sqlite3.Connection) -> dict[Any, RetentionPolicy]:
    """Return all retention policies."""
    rows = connection.execute("SELECT name, policy, until FROM keeping ORDER BY name").fetchall()
    return {name: RetentionPolicy(policy, until) for name, policy, until in rows}


def enter_derived(connection: sqlite3.Connection, derived: Mapping[str, ArtifactRef]) -> None:
    """Insert or replace the derived artifacts of these keys."""
    connection.executemany(
        "INSERT OR REPLACE INTO derived (key, artifact) VALUES (?, ?)",
        [(_encode_key(key), add_seal(key, bytes.fromhex(ref[4:]))) for key, ref in derived.items()],
    )


def find_derived(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, ArtifactRef]:
    """Return the derived artifacts of these keys that are indexed and intact."""
    derived: dict[str, ArtifactRef] = {}
    for batch in iter_batches(keys):
        marks = ",".join("?" * len(batch))
        query = f"SELECT key, artifact FROM derived WHERE key IN ({marks})"  # noqa: S608
        for key, data in connection.execute(query, [_encode_key(key) for key in batch]).fetchall():
            text = key.decode("utf-8", "surrogatepass")
            try:
                derived[text] = ArtifactRef(f"art-{remove_seal(text, data).hex()}")
            except ValueError:
                continue  # A damaged row: the artifact can be computed again.
    existing = find_numbers(connection, derived.values())
    return {key: ref for key, ref in derived.items() if ref in existing}


def read_derived(connection: sqlite3.Connection) -> dict[str, ArtifactRef]:
    """Return all derived artifacts with intact rows, by key."""
    derived: dict[str, ArtifactRef] = {}
    for key, data in connection.execute("SELECT key, artifact FROM derived").fetchall():
        text = key.decode("utf-8", "surrogatepass")
        if is_sealed(text, data):
            derived[text] = ArtifactRef(f"art-{remove_seal(text, data).hex()}")
    return derived


def delete_dangling_derived(connection: sqlite3.Connection) -> None:
    """Remove the keys whose artifacts no longer exist."""
    derived = read_derived(connection)
    existing = find_numbers(connection, derived.values())
    missing = [(_encode_key(key),) for key, ref in derived.items() if ref not in existing]
    connection.executemany("DELETE FROM derived WHERE key = ?", missing)


def iter_damaged_keys(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the keys of damaged rows."""
    for key, data in connection.execute("SELECT key, artifact FROM derived").fetchall():
        text = key.decode("utf-8", "surrogatepass")
        if not is_sealed(text, data):
            yield text


def read_branches(connection: sqlite3.Connection, prefix: str = "") -> dict[str, CommitId]:
    """Return the heads of branches with a prefix. Raises SealMismatch."""
    first = _encode_key(prefix)
    where = f"name BETWEEN ? AND ? AND substr(name, 1, 4) NOT IN ({_PREFIX_MARKS})"
    heads = _select_heads(connection, where, first, first + b"\xff")
    return {name: CommitId(head) for name, head in heads.items()}


def read_branch(connection: sqlite3.Connection, name: str) -> CommitId | None:
    """Return the head of a branch, or None. Raises SealMismatch."""
    head = None if name.startswith(HEAD_PREFIXES) else read_heads(connection, name).get(name)
    return None if head is None else CommitId(head)


def read_artifact_heads(
    connection: sqlite3.Connection, prefix: str = ""
) -> dict[HeadName, ArtifactRef]:
    """Return the heads of artifacts with a prefix. Raises SealMismatch."""
    first = _encode_key(prefix)
    where = f"name BETWEEN ? AND ? AND substr(name, 1, 4) IN ({_PREFIX_MARKS})"
    heads = _select_heads(connection, where, first, first + b"\xff")
    return {HeadName(name): ArtifactRef(head) for name, head in heads.items()}


def read_heads(connection: sqlite3.Connection, name: str) -> dict[str, str]:
    """Return the head of a branch or of an artifact by its name, if it exists.

    Raises SealMismatch.
    """
    return _select_heads(connection, "name = ?", _encode_key(name))


def set_heads(connection: sqlite3.Connection, heads: Mapping[Any, str | None]) -> None:
    """Set the heads of branches or artifacts, or delete those with None."""
    rows = [
        (_encode_key(name), add_seal(name, bytes.fromhex(head[4:])))
        for name, head in heads.items()
        if head is not None
    ]
    old_sum = _delete_rows(connection, "branch", [_encode_key(name) for name in heads])
    _insert_rows(connection, "branch", rows, old_sum)


def _select_heads(connection: sqlite3.Connection, where: str, *values: bytes) -> dict[str, str]:
    """Return the heads of branches and artifacts by name. Raises SealMismatch."""
    query = f"SELECT name, head FROM branch WHERE {where} ORDER BY name"  # noqa: S608 - ours
    heads: dict[str, str] = {}
    for key, data in connection.execute(query, values).fetchall():
        name = key.decode("utf-8", "surrogatepass")
        prefix = "art-" if name.startswith(HEAD_PREFIXES) else "ctx-"
        heads[name] = prefix + remove_seal(name, data).hex()
    return heads


def _encode_key(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
