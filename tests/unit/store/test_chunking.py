"""Large raw bytes are stored in chunks; a grown file shares all but the last."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from harken.core.commits import ArtifactRef, hash_raw
from harken.errors import ObjectCorrupted, ObjectNotFound
from harken.store.base import ObjectKind, WriteBatch
from harken.store.chunking import (
    MAX_CHUNK_BYTES,
    MEAN_CHUNK_BYTES,
    MIN_CHUNK_BYTES,
    put_file,
    split_chunks,
)
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore

dice = Random(7)
LINES = b"".join(
    b"%d " % n + dice.randbytes(dice.randrange(300)).hex().encode() + b"\n" for n in range(9000)
)
BINARY = dice.randbytes(3_000_000)
NO_LINES = b"0123456789abcde!" * 150_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "s.db")
    yield store
    store.close()


@pytest.mark.parametrize("data", [b"", b"x", b"\n" * 10, LINES, BINARY, NO_LINES])
def test_chunks_are_a_deterministic_partition_of_the_bytes(data: bytes) -> None:
    pieces = list(split_chunks([data]))
    assert b"".join(pieces) == data
    assert all(len(piece) <= MAX_CHUNK_BYTES for piece in pieces)
    assert all(len(piece) >= MIN_CHUNK_BYTES for piece in pieces[:-1])
    assert (
        list(split_chunks(data[offset : offset + 70_001] for offset in range(0, len(data), 70_001)))
        == pieces
    )


@pytest.mark.parametrize("data", [LINES, BINARY])
def test_chunk_count_is_bounded(data: bytes) -> None:
    assert MEAN_CHUNK_BYTES / 2 < len(data) / len(list(split_chunks([data]))) < MEAN_CHUNK_BYTES * 2


@pytest.mark.parametrize("data", [LINES, BINARY])
def test_insertion_changes_only_nearby_chunks(data: bytes) -> None:
    before = {*split_chunks([data])}
    after = [*split_chunks([data[:1000] + b"one more line\n" + data[1000:] + b"and a last one\n"])]
    assert sum(piece not in before for piece in after) <= 3


@pytest.mark.parametrize("data", [b"", b"one piece", LINES, NO_LINES])
def test_file_round_trips_as_a_whole_and_by_chunk(store: SqliteStore, data: bytes) -> None:
    name = put_file(store, io.BytesIO(data))
    assert name == hash_raw(data)
    assert store.raw(name) == b"".join(store.read_chunks(name)) == data
    assert [*store.names_with_prefix(name)] == [name]
    assert fsck(store) == []


def test_grown_file_costs_only_its_new_chunks(store: SqliteStore) -> None:
    put_file(store, [LINES])
    before = store.stats()
    put_file(store, [LINES, b"a last line\n"])
    after = store.stats()
    assert after.raw_bytes - before.raw_bytes < MAX_CHUNK_BYTES
    assert before.objects["raw"] < after.objects["raw"] <= before.objects["raw"] + 2


def test_equal_bytes_are_one_object_chunked_or_not(store: SqliteStore) -> None:
    name = put_file(store, [LINES])
    store.write(WriteBatch(raw={name: LINES}))
    assert [stored.kind for stored in store.iter_objects() if stored.name == name] == [
        ObjectKind.FILE
    ]


def test_file_that_does_not_match_its_name_is_refused(store: SqliteStore) -> None:
    pieces = {hash_raw(data): data for data in (b"a", b"b")}
    unknown_ref = ArtifactRef("art-" + "1" * 64)
    with pytest.raises(ObjectCorrupted):
        store.write(WriteBatch(raw=pieces, files={hash_raw(b"ba"): [*pieces]}))
    with pytest.raises(ObjectNotFound):
        store.write(WriteBatch(files={hash_raw(b"ab"): [*pieces]}))
    with pytest.raises(ObjectNotFound):
        store.write(WriteBatch(raw=pieces, files={hash_raw(b"ab"): [unknown_ref]}))
    assert store.names_with_prefix("art-") == []
    store.write(WriteBatch(raw=pieces, files={hash_raw(b"ab"): [*pieces]}))
    assert store.raw(hash_raw(b"ab")) == b"ab"


def test_nested_file_is_refused(store: SqliteStore) -> None:
    pieces = {hash_raw(data): data for data in (b"a", b"b")}
    inner = hash_raw(b"ab")
    store.write(WriteBatch(raw=pieces, files={inner: [*pieces]}))
    with pytest.raises(ObjectNotFound):
        store.write(WriteBatch(files={hash_raw(b"abab"): [inner, inner]}))
