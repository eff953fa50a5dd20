"""Purges in a file: no byte stays, with concurrent readers and after interruptions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harken.core.commits import Hash, commit_bytes, hash_raw
from harken.errors import PurgeIncomplete
from harken.store.base import ObjectKind, Tombstone, WriteBatch
from harken.store.batch import compute_name
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of

SECRET = "sk-live-0123456789abcdef"
STONE = Tombstone(when="2026-01-31T12:00:00Z", by="ann", why="test")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened_store = SqliteStore(tmp_path / "s.db", patience_s=0.2)
    yield opened_store
    opened_store.close()


def write_secret(store: SqliteStore) -> Hash:
    """Write the secret among other objects. Return the name of its part."""
    for number in range(20):
        store.write(batch_of(f"before {number}"))
    batch = batch_of(f"the key is {SECRET}", "and more")
    store.write(batch)
    [name] = (n for n, body in batch.objects.items() if SECRET.encode() in body)
    return name


def files(store: SqliteStore) -> list[bytes]:
    return [path.read_bytes() for path in sorted(store.path.parent.iterdir())]


def contains_secret(store: SqliteStore) -> bool:
    return any(SECRET.encode() in data for data in files(store))


def clean(store: SqliteStore, name: Hash) -> bytes:
    return store.objects([name])[name].replace(SECRET.encode(), b"[purged]")


def test_purge_removes_the_text_and_its_pack_from_every_byte(store: SqliteStore) -> None:
    name = write_secret(store)
    assert contains_secret(store), "or this test would show nothing"
    with store.snapshot() as connection:
        rows = [data for (data,) in connection.execute("SELECT data FROM pack")]
    store.purge({name: clean(store, name)}, STONE)
    assert not contains_secret(store)
    with store.snapshot() as connection:
        packs_data = {data for (data,) in connection.execute("SELECT data FROM pack")}
    for data in (row for row in rows if row not in packs_data):
        assert not any(data[8:40] in file for file in files(store)), "a pack that was replaced"
    assert fsck(store) == []


def test_purge_waits_for_readers_and_the_next_one_completes(
    store: SqliteStore,
) -> None:
    name = write_secret(store)
    body = clean(store, name)
    with closing(sqlite3.connect(store.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM pack").fetchone()
        with pytest.raises(PurgeIncomplete, match="purge again"):
            store.purge({name: body}, STONE)
        assert store.objects([name]) == {name: body}, "what is read is replaced already"
    store.purge({}, STONE)
    assert not contains_secret(store)
    assert fsck(store) == []


def test_other_processes_read_the_replacement_at_once(store: SqliteStore) -> None:
    name = write_secret(store)
    second_store = SqliteStore(store.path)
    assert SECRET.encode() in second_store.objects([name])[name]
    store.purge({name: clean(store, name)}, STONE)
    assert SECRET.encode() not in second_store.objects([name])[name]
    second_store.write(batch_of(f"the key is {SECRET}", second=5))
    second_store.close()
    assert not contains_secret(store)


def test_derived_objects_go_and_shared_ones_stay(store: SqliteStore) -> None:
    batch = batch_of("hello")
    store.write(batch)
    [ref] = batch.deltas
    rendered, shared = b"rendered " + SECRET.encode(), b"shared"
    store.write(WriteBatch(raw={hash_raw(rendered): rendered, hash_raw(shared): shared}))
    file = hash_raw(shared + b"!")
    store.write(
        WriteBatch(raw={hash_raw(b"!"): b"!"}, files={file: [hash_raw(shared), hash_raw(b"!")]})
    )
    store.write(
        WriteBatch(derived={"a": hash_raw(rendered), "b": ref, "c": hash_raw(shared)}),
    )
    store.purge({}, STONE)
    assert store.find_derived(["a", "b", "c"]) == {}
    assert not contains_secret(store)
    assert store.deltas([ref])
    assert store.raw(file) == b"shared!"
    assert fsck(store) == []


def test_name_of_a_purged_principal_is_removed(store: SqliteStore) -> None:
    batch = batch_of("x", principal=SECRET)
    store.write(batch)
    [(commit, _)] = batch.commits
    store.purge({commit.id: commit_bytes(commit).replace(SECRET.encode(), b"[purged]")}, STONE)
    assert not contains_secret(store)
    assert store.latest_commit("[purged]", "2100-01-01T00:00:00Z") == commit.id
    assert store.latest_commit(SECRET, "2100-01-01T00:00:00Z") is None
    assert fsck(store) == []


def test_two_objects_may_share_a_replacement(store: SqliteStore) -> None:
    batch = batch_of(f"{SECRET} a", f"{SECRET} b")
    store.write(batch)
    parts = [n for n, body in batch.objects.items() if SECRET.encode() in body]
    body = b'{"text":"[purged]","type":"text"}'
    store.purge(dict.fromkeys(parts, body), STONE)
    assert store.objects(parts) == dict.fromkeys(parts, body)
    assert {tombstone.stand_in for tombstone in store.tombstones().values()} == {
        compute_name(ObjectKind.PART, body)
    }
    assert fsck(store) == []
