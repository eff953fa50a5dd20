"""The index: from names to the numbers of the packs in which things with such names may be.

One idea: the number that a thing was written under stays with it, whatever packs are put together:
a row of `pack` holds the things of its own number and of all up to the next row's. Parts and
messages, and artifacts, are found by 6 bytes of their names, so that what is found must be compared
with the whole name; commits by the whole one.

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
_FULL = re.compile(r"(ctx-|art-)?[0-9a-f]{64}")
_DIGITS = re.compile(r"[0-9a-f]{0,64}")
_AT_ONCE = 500


def key_prefix(name: str) -> bytes:
    """Return the beginning of a full name, as the index has it."""
    return bytes.fromhex(name[-64 : -64 + 2 * KEY_BYTES])


def places(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, list[int]]:
    """Return the numbers of the packs in which things of these names may be, the last one last."""
    asked: dict[str, dict[bytes, list[str]]] = {"": {}, "art-": {}, "ctx-": {}}
    is_full = _FULL.fullmatch
    for name in names:
        if is_full(name):
            asked[name[:-64]].setdefault(bytes.fromhex(name[-64:-52]), []).append(name)
    found: dict[str, list[int]] = {}
    for prefix, by_key in asked.items():
        for some in slices(by_key):
            marks = ",".join("?" * len(some))
            query = f"SELECT key, pack FROM {_TABLES.get(prefix)} WHERE key IN ({marks})"  # noqa: S608
            if prefix == "ctx-":
                key = "substr(name, 1, 6)"
                query = f"SELECT {key}, pack FROM history WHERE {key} IN ({marks})"  # noqa: S608
            for key_, number in connection.execute(query, some).fetchall():
                for name in by_key.get(key_, ()):  # a damaged table may answer anything
                    if isinstance(number, int):
                        found.setdefault(name, []).append(number)
    return found


def enter(connection: sqlite3.Connection, numbers: Mapping[str, int]) -> None:
    """Say where objects and artifacts are: full name -> number. Commits have their history."""
    rows: dict[str, list[tuple[bytes, int]]] = {"": [], "art-": [], "ctx-": []}
    for name, at in numbers.items():
        rows[name[:-64]].append((key_prefix(name), at))
    for prefix, table in _TABLES.items():
        query = f"INSERT OR IGNORE INTO {table} (key, pack) VALUES (?, ?)"  # noqa: S608 - ours
        connection.executemany(query, sorted(rows[prefix]))  # neighbours are written together


def leave(connection: sqlite3.Connection, numbers: Iterable[tuple[str, int]]) -> None:
    """Forget that objects and artifacts are there: pairs of a full name and a number."""
    for name, at in numbers:
        if name[:-64] in _TABLES:
            query = f"DELETE FROM {_TABLES[name[:-64]]} WHERE key = ? AND pack = ?"  # noqa: S608
            connection.execute(query, [key_prefix(name), at])


def artifacts(connection: sqlite3.Connection, digits: str) -> Iterator[tuple[bytes, int]]:
    """Yield the keys and numbers of artifacts whose names may begin so, sorted."""
    if (between := keys_between(digits)) is not None:
        query = "SELECT key, pack FROM artifact WHERE key BETWEEN ? AND ? ORDER BY key, pack"
        for key, number in connection.execute(query, between):
            if isinstance(key, bytes) and isinstance(number, int):  # else the table is damaged
                yield key, number


def keys_between(digits: str) -> tuple[bytes, bytes] | None:
    """Return the first and the last key of names that begin so; None: no name does."""
    if not _DIGITS.fullmatch(digits):
        return None
    digits = digits[: 2 * KEY_BYTES]
    low, high = (bytes.fromhex(digits.ljust(2 * KEY_BYTES, end)) for end in "0f")
    return low, high


def slices(rows: Iterable[T], at_once: int = _AT_ONCE) -> Iterator[list[T]]:
    """Yield what there is, so many at once."""
    left = iter(rows)
    while some := list(islice(left, at_once)):
        yield some
