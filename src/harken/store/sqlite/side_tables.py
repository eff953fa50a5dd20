"""What can be made again: keys that say how, and the artifacts that were made.

The table of what is kept otherwise than usual.

Tombstones in the file: what was purged, and what is read in its place.

Seals: a sum before the bytes of a small row, over them and the name that the row is about.

Things are named by their content, so they need none; what may change of them does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from blake3 import blake3

from harken.core import canonical
from harken.core.commits import ArtifactRef
from harken.store.base import Name, RetentionPolicy, Tombstone
from harken.store.sqlite.name_index import places, slices

SEAL_BYTES = 8


def sealed(name: str, body: bytes) -> bytes:
    """Return bytes with their seal before them."""
    return _seal(name, body) + body


def unsealed(name: str, data: bytes) -> bytes:
    """Return what was sealed under this name. Raises ValueError where that was something else."""
    if not is_sealed(name, data):
        raise ValueError("it has another sum")
    return data[SEAL_BYTES:]


def is_sealed(name: str, data: object) -> bool:
    """Whether these bytes were sealed under this name."""
    if not isinstance(data, bytes):  # a damaged table may say anything
        return False
    return data[:SEAL_BYTES] == _seal(name, data[SEAL_BYTES:])


def _seal(name: str, body: bytes) -> bytes:
    return blake3(name.encode("utf-8", "surrogatepass") + body).digest(SEAL_BYTES)


def set_tombstone(connection: sqlite3.Connection, name: Name, tombstone: Tombstone) -> None:
    """Put a tombstone where something was, or another one where one was already."""
    record = sealed(name, canonical.to_canonical_bytes(tombstone))
    query = "INSERT OR REPLACE INTO tombstone (name, record) VALUES (?, ?)"
    connection.execute(query, [name, record])


def leave_nothing(connection: sqlite3.Connection, name: Name) -> None:
    """Let nothing be read in the place of a purged commit: it was collected."""
    row = connection.execute("SELECT record FROM tombstone WHERE name = ?", [name]).fetchone()
    if row is not None:
        tombstone = tombstone_from(name, row[0])
        set_tombstone(connection, name, msgspec.structs.replace(tombstone, stand_in=""))


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
    return msgspec.convert(canonical.from_json(unsealed(name, record)), Tombstone)


def enter_retention(
    connection: sqlite3.Connection, names: Mapping[Any, RetentionPolicy | None]
) -> None:
    """Say of names how they are kept; None: as all others."""
    leave(connection, names)
    connection.executemany(
        "INSERT INTO keeping (name, policy, until) VALUES (?, ?, ?)",
        [(name, one.policy, one.until) for name, one in names.items() if one is not None],
    )


def leave(connection: sqlite3.Connection, names: Iterable[Name]) -> None:
    """Forget how these are kept."""
    connection.executemany("DELETE FROM keeping WHERE name = ?", [(name,) for name in names])


def kept(connection: sqlite3.Connection) -> dict[Name, RetentionPolicy]:
    """Return all that was said."""
    rows = connection.execute("SELECT name, policy, until FROM keeping ORDER BY name").fetchall()
    return {name: RetentionPolicy(policy, until) for name, policy, until in rows}


def enter_derived(connection: sqlite3.Connection, derived: Mapping[str, ArtifactRef]) -> None:
    """Remember what was derived under these keys, instead of what was before."""
    connection.executemany(
        "INSERT OR REPLACE INTO derived (key, artifact) VALUES (?, ?)",
        [(_bytes(key), sealed(key, bytes.fromhex(ref[4:]))) for key, ref in derived.items()],
    )


def find(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, ArtifactRef]:
    """Return what was derived under these keys, as far as the index has it and it is whole."""
    found: dict[str, ArtifactRef] = {}
    for some in slices(keys):
        marks = ",".join("?" * len(some))
        query = f"SELECT key, artifact FROM derived WHERE key IN ({marks})"  # noqa: S608
        for key, data in connection.execute(query, [_bytes(key) for key in some]).fetchall():
            text = key.decode("utf-8", "surrogatepass")
            try:
                found[text] = ArtifactRef(f"art-{unsealed(text, data).hex()}")
            except ValueError:
                continue  # damaged: it can be made again
    there = places(connection, found.values())
    return {key: ref for key, ref in found.items() if ref in there}


def artifacts(connection: sqlite3.Connection) -> dict[str, ArtifactRef]:
    """Return all keys that are whole, and what was derived under them."""
    found: dict[str, ArtifactRef] = {}
    for key, data in connection.execute("SELECT key, artifact FROM derived").fetchall():
        text = key.decode("utf-8", "surrogatepass")
        if is_sealed(text, data):
            found[text] = ArtifactRef(f"art-{unsealed(text, data).hex()}")
    return found


def forget_lost(connection: sqlite3.Connection) -> None:
    """Forget the keys whose artifacts are not there any more."""
    found = artifacts(connection)
    there = places(connection, found.values())
    lost = [(_bytes(key),) for key, ref in found.items() if ref not in there]
    connection.executemany("DELETE FROM derived WHERE key = ?", lost)


def damaged(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield the keys whose rows are damaged."""
    for key, data in connection.execute("SELECT key, artifact FROM derived").fetchall():
        text = key.decode("utf-8", "surrogatepass")
        if not is_sealed(text, data):
            yield text


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
