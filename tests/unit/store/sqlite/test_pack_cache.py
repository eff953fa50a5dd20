"""Reads through the cache of packs: messages in one read, and what other processes changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harken.core.commits import ArtifactRef, encode_sequence, hash_raw
from harken.errors import StoreError
from harken.store.base import Tombstone, WriteBatch
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

LATER = "2100-01-01T00:00:00Z"
STONE = Tombstone(when=LATER, by="ann", why="a secret")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "s.db")) as opened_store:
        yield opened_store


@pytest.fixture
def other(store: SqliteStore) -> Iterator[SqliteStore]:
    """The same file, as another process has it open."""
    with closing(SqliteStore(store.path)) as opened_store:
        yield opened_store


def test_messages_of_deltas_are_read_without_their_objects(
    store: SqliteStore, other: SqliteStore
) -> None:
    """Those of other artifacts, and of deltas with objects in other packs, are left out."""
    batch = batch_of("Hi", "Tea?")
    store.write(batch)
    [delta] = batch.deltas
    raw = hash_raw(b"x")
    store.write(WriteBatch(raw={raw: b"x"}))
    apart = batch_of("Good", "morning")
    store.write(WriteBatch(objects=apart.objects))
    store.write(WriteBatch(deltas=apart.deltas))
    unknown = ArtifactRef(f"art-{'0' * 64}")
    for reader in (store, other):
        messages = reader.messages([unknown, delta, raw, *apart.deltas, delta])
        assert {name: [m.content for m in ms] for name, ms in messages.items()} == {
            delta: ["Hi", "Tea?"]
        }
        assert reader.messages([]) == {}


def test_purged_messages_are_not_read_from_the_cache(
    store: SqliteStore, other: SqliteStore
) -> None:
    batch = batch_of("secret")
    store.write(batch)
    [delta] = batch.deltas
    assert delta in other.messages([delta])
    assert len(other.objects(batch.objects)) == 2
    part = next(iter(batch.objects))
    store.purge({part: b'{"text":"gone","type":"text"}'}, STONE)
    for reader in (store, other):
        assert reader.objects([part]) == {part: b'{"text":"gone","type":"text"}'}


def test_collected_objects_are_not_read_from_the_cache(
    store: SqliteStore, other: SqliteStore
) -> None:
    raw = {hash_raw(data): data for data in (b"1", b"2")}
    store.write(WriteBatch(raw=raw))
    assert other.raws(raw) == raw
    store.collect([next(iter(raw))], now=LATER, grace_s=0)
    for reader in (store, other):
        assert [*reader.raws(raw)] == [next(iter(raw))]


def test_raw_objects_that_went_are_written_again(store: SqliteStore, other: SqliteStore) -> None:
    """A file that grows needs its chunks again; that they exist is remembered."""
    data = bytes(20_000)
    raw = hash_raw(data)
    batch = WriteBatch(raw={raw: data})
    for writer in (store, other, store):
        writer.write(batch)
    other.collect([], now=LATER, grace_s=0)
    assert store.raws([raw]) == {}
    members = [raw]
    sequence = encode_sequence(members)[0]
    store.write(WriteBatch(raw={raw: data}, sequences={sequence: members}))
    assert other.raw(raw) == data


def test_artifacts_of_several_packs_are_listed_in_order_up_to_a_limit(store: SqliteStore) -> None:
    names = []
    for number in range(60):
        data = b"%d" % number
        store.write(WriteBatch(raw={hash_raw(data): data}))
        names.append(hash_raw(data))
    names.sort()
    for prefix in ("art-", "art-1", names[7][:6], names[7]):
        expected = [name for name in names if name.startswith(prefix)]
        for limit in (0, 1, 2, 5, 100):
            assert store.names_with_prefix(prefix, limit) == expected[:limit]


def test_store_without_its_generation_is_damaged(store: SqliteStore, other: SqliteStore) -> None:
    batch = batch_of("Hi")
    store.write(batch)
    other.commits([commit_in(batch)])
    with store._database.writing() as connection:
        connection.execute("DELETE FROM state")
    with pytest.raises(StoreError, match="its generation is missing"):
        other.commits([commit_in(batch)])
