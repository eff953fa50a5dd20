"""Of a file that grew, only the last chunk and the new ones are read, sent and fetched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from harken.core.commits import ArtifactRef, CommitId, hash_raw
from harken.store.base import ObjectKind, RetentionPolicy, Store, StoredObject, WriteBatch
from harken.store.batch import BatchContents, build_file_object
from harken.store.chunking import iter_chunks, put_file
from harken.store.imported_files import FileRecord, encode_record, name_head
from harken.store.memory import MemoryStore
from harken.store.sqlite.store import SqliteStore
from harken.store.tiered.store import TieredStore


class CountingStore(MemoryStore):
    """A store that counts the raw bytes that are written and read."""

    written_bytes = 0
    read_bytes = 0
    queries = 0
    """The number of queries whether a name exists."""

    def write(self, batch: WriteBatch) -> None:
        self.written_bytes += sum(map(len, batch.raw.values()))
        super().write(batch)

    def names_with_prefix(self, beginning: str, limit: int = 20) -> list[CommitId | ArtifactRef]:
        self.queries += 1
        return super().names_with_prefix(beginning, limit)

    def raws(self, names: Iterable[ArtifactRef]) -> dict[ArtifactRef, bytes]:
        bodies = super().raws(names)
        self.read_bytes += sum(map(len, bodies.values()))
        return bodies

    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        pieces = [*super().read_chunks(name)]
        self.read_bytes += sum(map(len, pieces))
        return iter(pieces)


def lines(count: int, seed: int) -> bytes:
    """Return lines of random digits, of 1 KB each."""
    rng = Random(seed)
    return b"".join(b"%0500x%0500x\n" % (rng.getrandbits(2000), 0) for _ in range(count))


FIRST = lines(3000, 1)
GROWN = FIRST + lines(10, 2)
LAST_BYTES = len([*iter_chunks(FIRST)][-1]) + 10_000 + len([*iter_chunks(GROWN)][-1])


def write_version(store: Store, data: bytes) -> ArtifactRef:
    """Write a version of an imported file, and set its head. Return the name of its bytes."""
    raw = put_file(store, [data])
    record = FileRecord(
        machine="m", path="/a.log", size=len(data), mtime_ns=0, tail="", report={"source": "a.log"}
    )
    body, head = encode_record(record, raw)
    members = {ArtifactRef(head.name): [ArtifactRef(body.name), raw]}
    store.write(WriteBatch(raw={ArtifactRef(body.name): body.body}, sequences=members))
    store.set_heads({name_head("m", "/a.log"): ArtifactRef(head.name)})
    return raw


@pytest.fixture
def backing() -> CountingStore:
    return CountingStore()


@pytest.fixture
def store(tmp_path: Path, backing: CountingStore) -> Iterator[TieredStore]:
    with closing(TieredStore(SqliteStore(tmp_path / "local.db"), backing)) as store:
        yield store


def test_push_sends_the_new_chunks(store: TieredStore, backing: CountingStore) -> None:
    write_version(store, FIRST)
    store.push()
    assert backing.written_bytes >= len(FIRST)
    before, backing.queries = backing.written_bytes, 0
    raw = write_version(store, GROWN)
    store.push()
    assert backing.written_bytes - before <= LAST_BYTES
    assert backing.read_bytes < 1000  # The record.
    assert backing.queries <= 5 < len(backing.chunk_names(raw))
    assert backing.raw(raw) == GROWN
    assert backing.heads() == store.local.heads()


def test_replicated_file_is_sent_without_the_chunks_that_exist(
    store: TieredStore, backing: CountingStore
) -> None:
    put_file(backing, [FIRST])
    before = backing.written_bytes
    raw = put_file(store, [GROWN])
    store.set_retention({raw: RetentionPolicy("replicate")})
    assert backing.written_bytes - before <= LAST_BYTES
    assert backing.raw(raw) == GROWN


def test_file_of_the_backing_store_is_fetched_without_the_chunks_that_are_local(
    store: TieredStore, backing: CountingStore
) -> None:
    put_file(store, [FIRST])
    raw = put_file(backing, [GROWN])
    assert store.raw(raw) == GROWN
    assert 0 < backing.read_bytes <= LAST_BYTES
    assert store.local.raw(raw) == GROWN
    assert store.local.chunk_names(raw) == backing.chunk_names(raw)


def test_import_fetches_the_earlier_chunks_that_are_not_local(
    store: TieredStore, backing: CountingStore
) -> None:
    put_file(backing, [FIRST])
    pieces = {hash_raw(piece): piece for piece in iter_chunks(GROWN)}
    earlier, raw, contents = {*map(hash_raw, iter_chunks(FIRST))}, hash_raw(GROWN), BatchContents()
    for name, piece in pieces.items():
        if name not in earlier:
            contents.objects[name] = StoredObject(ObjectKind.RAW, name, piece)
    contents.objects[raw] = build_file_object(raw, [*pieces])
    contents.files[raw] = [*pieces]
    store.write_named(contents)
    assert store.local.raw(raw) == GROWN
