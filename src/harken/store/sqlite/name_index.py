"""The name index: from names to the numbers of the packs that may contain them.

The number that an object was written under stays valid when packs are merged: a row of `pack` holds
the objects of its own number and of all up to the next row's. Objects and artifacts are indexed by
the first 6 bytes of their names, so a result must be compared with the full name; commits are
indexed by the full name.

Source: docs/formats/store.md, "The file".
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

KEY_BYTES = 6
T = TypeVar("T")
_TABLES = {"": "object", "art-": "artifact"}
_FULL_NAME_PATTERN = re.compile(r"(ctx-|art-)?[0-9a-f]{64}")
_DIGITS_PATTERN = re.compile(r"[0-9a-f]{0,64}")
_BATCH_SIZE = 500


def key_prefix(name: str) -> bytes:
    """Return the index key of a full name: its first bytes."""
    return bytes.fromhex(name[-64 : -64 + 2 * KEY_BYTES])


def find_numbers(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, list[int]]:
    """Return the numbers of the packs that may contain these names, the last one last."""
    names_by_key: dict[str, dict[bytes, list[str]]] = {"": {}, "art-": {}, "ctx-": {}}
    is_full = _FULL_NAME_PATTERN.fullmatch
    for name in names:
        if is_full(name):
            names_by_key[name[:-64]].setdefault(bytes.fromhex(name[-64:-52]), []).append(name)
    numbers: dict[str, list[int]] = {}
    for prefix, by_key in names_by_key.items():
        for keys in iter_batches(by_key):
            marks = ",".join("?" * len(keys))
            query = f"SELECT key, pack FROM {_TABLES.get(prefix)} WHERE key IN ({marks})"  # noqa: S608
            if prefix == "ctx-":
                key = "substr(name, 1, 6)"
                query = f"SELECT {key}, pack FROM history WHERE {key} IN ({marks})"  # noqa: S608
            for key_, number in connection.execute(query, keys).fetchall():
                for name in by_key.get(key_, ()):  # A damaged table may return any value.
                    if isinstance(number, int):
                        numbers.setdefault(name, []).append(number)
    return numbers


def sort_by_pack(numbers: Mapping[str, list[int]]) -> list[tuple[str, list[int]]]:
    """Return names in the order of their last packs, so that each pack is decoded once."""
    return sorted(numbers.items(), key=lambda item: item[1][-1])


def insert_keys(connection: sqlite3.Connection, numbers: Mapping[str, int]) -> None:
    """Insert index entries of objects and artifacts. Commits are indexed by their history rows."""
    rows: dict[str, list[tuple[bytes, int]]] = {"": [], "art-": [], "ctx-": []}
    for name, number in numbers.items():
        rows[name[:-64]].append((key_prefix(name), number))
    for prefix, table in _TABLES.items():
        if rows[prefix]:
            query = f"INSERT OR IGNORE INTO {table} (key, pack) VALUES (?, ?)"  # noqa: S608 - ours
            # Sorted, so that adjacent keys are written together.
            connection.executemany(query, sorted(rows[prefix]))


def delete_keys(connection: sqlite3.Connection, numbers: Iterable[tuple[str, int]]) -> None:
    """Remove index entries of objects and artifacts: pairs of a full name and a number."""
    for name, number in numbers:
        if name[:-64] in _TABLES:
            query = f"DELETE FROM {_TABLES[name[:-64]]} WHERE key = ? AND pack = ?"  # noqa: S608
            connection.execute(query, [key_prefix(name), number])


def select_artifacts(connection: sqlite3.Connection, digits: str) -> Iterator[tuple[bytes, int]]:
    """Yield the sorted keys and numbers of artifacts whose names may start with `digits`."""
    if (between := key_range(digits)) is not None:
        query = "SELECT key, pack FROM artifact WHERE key BETWEEN ? AND ? ORDER BY key, pack"
        for key, number in connection.execute(query, between):
            # A damaged table may contain other types.
            if isinstance(key, bytes) and isinstance(number, int):
                yield key, number


def key_range(digits: str) -> tuple[bytes, bytes] | None:
    """Return the first and last key with this prefix, or None if no name can have it."""
    if not _DIGITS_PATTERN.fullmatch(digits):
        return None
    digits = digits[: 2 * KEY_BYTES]
    low, high = (bytes.fromhex(digits.ljust(2 * KEY_BYTES, end)) for end in "0f")
    return low, high


def iter_batches(rows: Iterable[T], at_once: int = _BATCH_SIZE) -> Iterator[list[T]]:
    """Yield lists of at most `at_once` items."""
    iterator = iter(rows)
    while batch := list(islice(iterator, at_once)):
        yield batch
