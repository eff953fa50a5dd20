"""A tombstone of another store purges nothing here, and counts are those of distinct objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from harken.core.commits import hash_raw
from harken.store.base import Store, Tombstone, WriteBatch, compute_stats
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite.database import SqliteConnection
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of

WHEN = "2026-01-31T12:00:00.000000Z"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_tombstone_of_existing_content_changes_nothing(tmp_path: Path, kind: str) -> None:
    store: Store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "s.db")
    name, stand_in = hash_raw(b"stays"), hash_raw(b"gone")
    with closing(store):
        store.write(WriteBatch(raw={name: b"stays"}))
        tombstone = Tombstone(when=WHEN, by="another", why="a secret", stand_in=stand_in)
        store.write(WriteBatch(raw={stand_in: b"gone"}, tombstones={name: tombstone}))
        assert store.raw(name) == b"stays"
        assert store.tombstones() == {}
        assert fsck(store) == []


def test_object_in_two_packs_is_counted_once() -> None:
    store = MemoryStore()
    store.write(batch_of("one", "two"))
    objects = list(store.iter_objects())
    assert compute_stats([*objects, *objects]) == compute_stats(objects)


def test_a_purge_by_another_process_counts_for_the_next_write(tmp_path: Path) -> None:
    """A store that has read no tombstone writes without a read, and notices the new one."""
    secret, grown = b"secret\n", b"secret\nmore\n"
    path = tmp_path / "s.db"
    with closing(SqliteStore(path)) as store, closing(SqliteStore(path)) as other:
        store.write(WriteBatch(raw={hash_raw(secret): secret}))
        other.purge({hash_raw(secret): b"gone\n"}, Tombstone(when=WHEN, by="ann", why="it leaked"))
        store.write(WriteBatch(raw={hash_raw(grown): grown}))
        assert store.raw(hash_raw(grown)) == b"gone\nmore\n"
        assert b"secret" not in path.read_bytes()


class _OvertakenStore(SqliteStore):
    """Another process purges content just before this one begins a write with tombstones."""

    overtake: Callable[[], object] | None = None

    @contextmanager
    def removing(self) -> Iterator[SqliteConnection]:
        if overtake := self.overtake:
            self.overtake = None
            overtake()
        with super().removing() as connection:
            yield connection


def test_a_purge_by_another_process_counts_for_a_write_with_tombstones(tmp_path: Path) -> None:
    path, tombstone = tmp_path / "s.db", Tombstone(when=WHEN, by="ann", why="it leaked")
    first, second = b"first secret\n", b"second secret\n"
    with closing(_OvertakenStore(path)) as store, closing(SqliteStore(path)) as other:
        store.write(WriteBatch(raw={hash_raw(body): body for body in (first, second)}))
        store.purge({hash_raw(first): b"gone\n"}, tombstone)
        store.overtake = lambda: other.purge({hash_raw(second): b"gone too\n"}, tombstone)
        grown = [first + b"more\n", second + b"more\n"]
        store.write(WriteBatch(raw={hash_raw(body): body for body in grown}))
        assert [store.raw(hash_raw(body)) for body in grown] == [
            b"gone\nmore\n",
            b"gone too\nmore\n",
        ]
        assert b"secret" not in path.read_bytes()
        assert fsck(store) == []
