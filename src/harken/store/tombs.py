"""Tombstones in the file: what was purged, and what is read in its place."""

from __future__ import annotations

import sqlite3

import msgspec

from harken.core import codec
from harken.store.base import Name, Tombstone
from harken.store.seal import sealed, unsealed


def bury(connection: sqlite3.Connection, name: Name, tombstone: Tombstone) -> None:
    """Put a tombstone where something was, or another one where one was already."""
    record = sealed(name, codec.canonical(tombstone))
    query = "INSERT OR REPLACE INTO tombstone (name, record) VALUES (?, ?)"
    connection.execute(query, [name, record])


def leave_nothing(connection: sqlite3.Connection, name: Name) -> None:
    """Let nothing be read in the place of a purged commit: it was collected."""
    row = connection.execute("SELECT record FROM tombstone WHERE name = ?", [name]).fetchone()
    if row is not None:
        tombstone = tombstone_from(name, row[0])
        bury(connection, name, msgspec.structs.replace(tombstone, stand_in=""))


def tombstones(connection: sqlite3.Connection) -> dict[Name, Tombstone]:
    """Return all tombstones. Raises ValueError where one is damaged."""
    rows = connection.execute("SELECT name, record FROM tombstone ORDER BY name")
    return {name: tombstone_from(name, record) for name, record in rows.fetchall()}


def stand_ins(connection: sqlite3.Connection) -> dict[Name, Name]:
    """Return what is read in the place of what; in that of a damaged tombstone nothing is."""
    found: dict[Name, Name] = {}
    for name, record in connection.execute("SELECT name, record FROM tombstone").fetchall():
        try:
            found[name] = tombstone_from(name, record).stand_in
        except ValueError:
            found[name] = ""
    return found


def tombstone_from(name: Name, record: bytes) -> Tombstone:
    """Read a tombstone. Raises ValueError where it is damaged."""
    return msgspec.convert(codec.decode(unsealed(name, record)), Tombstone)
