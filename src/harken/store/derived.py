"""What can be made again: keys that say how, and the artifacts that were made."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping

from harken.core.commits import ArtifactRef
from harken.store.index import places, slices
from harken.store.seal import is_sealed, sealed, unsealed


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
