"""Packs that reference raw bytes: small, opened on demand and verified."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import msgspec
import pytest
from blake3 import blake3
from zstandard import ZstdCompressor

from harken.core.commits import encode_delta, encode_entry, encode_sequence, hash_raw
from harken.core.messages import Message
from harken.errors import ObjectNotFound
from harken.store.base import ObjectKind, Tombstone, WriteBatch
from harken.store.batch import (
    BatchContents,
    batch_from,
    build_file_object,
    name_commit,
    validate_batch,
)
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore
from harken.store.sqlite import compression
from harken.store.sqlite.pack import (
    MIN_RAW_BYTES,
    PackCorrupted,
    decode_artifact_kinds,
    decode_objects,
    decode_pack,
    encode_packs,
    has_raw_frame,
)
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of

STONE = Tombstone(when="2026-01-31T12:00:00Z", by="ann", why="test")
dice = Random(7)
SAID = [dice.randbytes(4000).hex() for _ in range(20)]
FILE = b"".join(b'{"said":"%s"}\n' % text.encode() for text in SAID)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "s.db")) as opened_store:
        yield opened_store


def read_from(texts: list[str], raw: bytes) -> WriteBatch:
    """Return the batch of a file and of its commit."""
    batch = batch_of(*texts)
    return WriteBatch(
        objects=batch.objects, deltas=batch.deltas, commits=batch.commits, raw={hash_raw(raw): raw}
    )


def rows(store: SqliteStore) -> list[bytes]:
    with store.snapshot() as connection:
        return [data for (data,) in connection.execute("SELECT data FROM pack")]


def test_file_needs_little_space_beside_its_parsed_messages(store: SqliteStore) -> None:
    batch = read_from(SAID, FILE)
    store.write(batch)
    alone = compression.compress(b"".join(batch.objects.values()))
    assert sum(map(len, rows(store))) < 1.1 * len(alone)
    assert store.raw(hash_raw(FILE)) == FILE
    assert store.objects(batch.objects) == batch.objects
    assert fsck(store) == []


def test_file_named_elsewhere_is_written_unchanged(store: SqliteStore) -> None:
    contents = validate_batch(read_from(SAID, FILE))
    store.write_named(contents)
    assert {stored.name: stored.body for stored in store.iter_objects()} == {
        name: stored.body for name, stored in contents.objects.items()
    }
    joined_name = hash_raw(FILE + FILE)
    file = BatchContents(
        {joined_name: build_file_object(joined_name, [hash_raw(FILE)] * 2)},
        files={joined_name: [hash_raw(FILE)]},
    )
    store.write_named(file)
    assert store.raw(joined_name) == FILE + FILE
    with pytest.raises(ObjectNotFound):
        store.write_named(
            BatchContents({joined_name[:-1]: build_file_object(joined_name, [hash_raw(b"none")])})
        )
    assert fsck(store) == []


def test_referenced_file_is_a_batch(store: SqliteStore) -> None:
    contents = validate_batch(read_from(SAID, FILE))
    joined_name = hash_raw(FILE + FILE)
    contents.objects[joined_name] = build_file_object(joined_name, [hash_raw(FILE)] * 2)
    contents.files[joined_name] = [hash_raw(FILE)] * 2
    memory = MemoryStore()
    for any_store in (memory, store):
        any_store.write(batch_from(contents))
    assert {stored.name for stored in memory.iter_objects()} == {
        stored.name for stored in store.iter_objects()
    }
    (commit,) = contents.commits
    assert name_commit(commit.commit, commit.notes)[1] == commit


def test_new_process_reads_both(store: SqliteStore) -> None:
    batch = read_from(SAID, FILE)
    store.write(batch)
    with closing(SqliteStore(store.path)) as second_store:
        assert second_store.objects(batch.objects) == batch.objects
        assert second_store.raw(hash_raw(FILE)) == FILE
        assert {stored.name for stored in second_store.iter_objects()} == {
            stored.name for stored in store.iter_objects()
        }


def test_store_declares_a_format_that_old_versions_refuse(store: SqliteStore) -> None:
    store.write(batch_of("Hi"))
    assert store.format_version == 4
    small = b"x" * (MIN_RAW_BYTES - 1)
    store.write(WriteBatch(raw={hash_raw(small): small}))
    assert store.format_version == 4
    store.write(WriteBatch(raw={hash_raw(FILE): FILE}))
    store.write(WriteBatch(raw={hash_raw(FILE[1:]): FILE[1:]}))
    assert store.format_version == 5
    with closing(SqliteStore(store.path)) as second_store:
        assert second_store.format_version == 5
        assert second_store.raw(hash_raw(FILE)) == FILE


def test_object_stays_without_the_file_or_the_commit(store: SqliteStore) -> None:
    batch = read_from(SAID, FILE)
    store.write(batch)
    store.collect([], now="2036-01-31T12:00:00Z", grace_s=0)
    assert store.objects(batch.objects) == batch.objects
    assert hash_raw(FILE) not in store.names_with_prefix("art-")
    store.write(batch)
    stand_in = FILE.replace(SAID[3].encode(), b"[purged]")
    store.purge({hash_raw(FILE): stand_in}, STONE)
    assert store.raw(hash_raw(FILE)) == stand_in
    assert store.objects(batch.objects) == batch.objects
    assert fsck(store) == []


def test_packs_wait_a_limited_time_for_raw_bytes() -> None:
    texts = [dice.randbytes(50_000).hex() for _ in range(24)]
    new_objects = validate_batch(read_from(texts, FILE)).objects.values()
    sizes = [
        sum(len(body) for _, body in pack.objects.values()) for pack in encode_packs(new_objects)
    ]
    assert len(sizes) > 1
    assert max(sizes) < 1_200_000
    raws = {hash_raw(data): data for data in (dice.randbytes(1_000_000) for _ in range(5))}
    sizes = [
        sum(len(body) for _, body in pack.objects.values())
        for pack in encode_packs(validate_batch(WriteBatch(raw=raws)).objects.values())
    ]
    assert len(sizes) == 2
    files = {hash_raw(text.encode()): text.encode() for text in texts}
    entries = [encode_entry(Message("user", text)) for text in texts]
    mixed = WriteBatch(
        objects={name: body for _, objects in entries for name, body in objects.items()},
        deltas={encode_delta([entry])[0]: [entry] for entry, _ in entries},
        raw=files,
    )
    assert all(
        len(pack.data) < 4_000_000
        for pack in encode_packs(list(validate_batch(mixed).objects.values()))
    )


def sealed(start: int, frame: bytes) -> bytes:
    """Return a pack of form 3 as an attacker may create it."""
    body = bytes([3]) + start.to_bytes(4) + frame
    return blake3(body).digest(8) + body


def inside(text_bytes: bytes) -> bytes:
    return msgspec.msgpack.encode([b"", bytes([ObjectKind.RAW]), bytes(32), [], [text_bytes]])


FITS = inside(b"\0\0\0\x05")
FRAME = compression.compress_parts([FITS, b"12345"])


@pytest.mark.parametrize(
    ("start", "frame", "reason"),
    [
        (len(FITS) - 1, FRAME, "cannot be opened"),
        (
            len(FITS),
            compression.compress_parts([inside(b"\0\0\0\x06"), b"12345"]),
            "does not match its header",
        ),
        (2**31, FRAME, "its first part has"),
        (len(FITS), b"no frame", "cannot be opened"),
        (len(FITS), FRAME[:20], "cannot be opened"),
        (len(FITS), FRAME[:12] + b"\xff" * 20, "cannot be opened"),
        (len(FITS), ZstdCompressor(write_content_size=False).compress(FITS), "no content size"),
    ],
)
def test_inconsistent_reference_is_damage(start: int, frame: bytes, reason: str) -> None:
    data = sealed(start, frame)
    assert has_raw_frame(data)
    with pytest.raises(PackCorrupted, match=reason):
        decode_pack(data)


def test_damage_in_the_referenced_file_is_detected_on_open() -> None:
    first = inside(len(FILE).to_bytes(4))
    pack = decode_pack(sealed(len(first), compression.compress_parts([first, FILE])[:-9]))
    with pytest.raises(compression.DecompressionError, match="it has only"):
        pack.read_object(0)


def test_kinds_of_artifacts_are_those_of_the_decoded_objects(store: SqliteStore) -> None:
    batch = batch_of("Hi", "Ho")
    [delta] = batch.deltas
    sequence = encode_sequence([delta])[0]
    store.write(WriteBatch(objects=batch.objects, deltas=batch.deltas, raw={hash_raw(b"a"): b"a"}))
    store.write(WriteBatch(sequences={sequence: [delta]}, commits=batch.commits))
    store.write(read_from(SAID, FILE))
    assert {has_raw_frame(data) for data in rows(store)} == {False, True}
    for data in rows(store):
        objects = decode_objects(data)
        expected = {name: kind for name, (kind, _) in objects.items() if name.startswith("art-")}
        assert decode_artifact_kinds(data) == expected


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([b"", bytes([ObjectKind.DELTA]), bytes(64), [], [b"[]"]], "cannot be opened"),
        ([b"", bytes([ObjectKind.DELTA]), bytes(31), [], [b"[]"]], "incomplete"),
        ([b"", bytes([99]), bytes(32), [], [b"[]"]], "cannot be opened"),
        ([b"", 7, bytes(32), [], [b"[]"]], "cannot be opened"),
    ],
)
def test_kinds_of_an_inconsistent_pack_are_damage(members: list[object], reason: str) -> None:
    body = bytes([0]) + msgspec.msgpack.encode(members)
    data = blake3(body).digest(8) + body
    for decode in (decode_artifact_kinds, decode_pack):
        with pytest.raises(PackCorrupted, match=reason):
            decode(data)
    with pytest.raises(PackCorrupted, match="checksum"):
        decode_artifact_kinds(bytes(8) + body)
