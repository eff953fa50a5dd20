"""Files of an untrusted store are added beside those of this one, and never replace them."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import pytest

from harken.core.commits import ArtifactRef, CommitId, HeadName, hash_raw
from harken.store.base import ObjectKind, Store, WriteBatch
from harken.store.branches import SOURCE_PREFIX
from harken.store.copying.imported_files import FileCopyResult, add_imported_files
from harken.store.imported_files import (
    FileRecord,
    ImportedFile,
    encode_record,
    find_native_file,
    name_head,
    read_imported_files,
)
from harken.store.memory import MemoryStore
from harken.testing.store_kit import batch_of, commit_in

HERE, ELSEWHERE = platform.node(), "another machine"
FORMAT = "claude-code-v1"
LATER = "2100-01-01T00:00:00Z"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def write_commit(store: Store) -> CommitId:
    batch = batch_of("hello")
    store.write(batch)
    return commit_in(batch)


def write_file(
    store: Store,
    data: bytes,
    *,
    machine: str = ELSEWHERE,
    path: str = "/a.jsonl",
    name: HeadName | None = None,
    size: int | None = None,
    **report: Any,
) -> ArtifactRef:
    """Write an imported file. Return its head."""
    tips = [{"agent": "main", "ctx": write_commit(store)}]
    fields = {"source": path, "format": FORMAT, "session": "s", "tips": tips, **report}
    size = len(data) if size is None else size
    record = FileRecord(machine=machine, path=path, size=size, mtime_ns=1, tail="00", report=fields)
    raw = hash_raw(data)
    body, sequence = encode_record(record, raw)
    head = ArtifactRef(sequence.name)
    members = [ArtifactRef(body.name), raw]
    store.write(WriteBatch(raw={raw: data, members[0]: body.body}, sequences={head: members}))
    store.set_heads({name or name_head(machine, path): head})
    return head


def bring(store: Store, *files: tuple[bytes, dict[str, Any]]) -> FileCopyResult:
    """Add the files of a new store, as an import of a bundle does."""
    source = MemoryStore()
    for data, options in files:
        write_file(source, data, **options)
    return add_imported_files(source, store)


def paths(files: Sequence[ImportedFile]) -> list[str]:
    return [file.record.path for file in files]


def stored_bytes(store: Store) -> set[bytes]:
    """Return the bytes of all files after a collection."""
    store.collect([], now=LATER, grace_s=0)
    return {store.raw(file.raw) for file in read_imported_files(store).values()}


def objects_of(store: Store) -> set[str]:
    return {stored.name for stored in store.iter_objects() if stored.kind is not ObjectKind.COMMIT}


@pytest.mark.parametrize("machine", [HERE, ELSEWHERE])
def test_other_bytes_of_the_same_file_are_stored_beside_and_reported(
    store: MemoryStore, machine: str
) -> None:
    head = write_file(store, b"one\n", machine=machine)
    result = bring(store, (b"two, and longer\n", {"machine": machine}))
    assert (result.created, result.continued, paths(result.conflicting)) == ([], [], ["/a.jsonl"])
    assert store.heads()[name_head(machine, "/a.jsonl")] == head
    assert stored_bytes(store) == {b"one\n", b"two, and longer\n"}
    before = store.heads()
    bring(store, (b"two, and longer\n", {"machine": machine}))
    assert store.heads() == before


def test_three_different_copies_are_all_stored(store: MemoryStore) -> None:
    for data in (b"one\n", b"two\n", b"three\n", b"two\n"):
        bring(store, (data, {}))
    assert stored_bytes(store) == {b"one\n", b"two\n", b"three\n"}
    assert len(store.heads()) == 3


def test_a_copy_with_more_bytes_continues_an_earlier_copy(store: MemoryStore) -> None:
    assert paths(bring(store, (b"one\n", {})).created) == ["/a.jsonl"]
    assert paths(bring(store, (b"one\ntwo\n", {})).continued) == ["/a.jsonl"]
    assert stored_bytes(store) == {b"one\ntwo\n"}


def test_a_copy_of_another_session_continues_nothing(store: MemoryStore) -> None:
    bring(store, (b"one\n", {}))
    result = bring(store, (b"one\ntwo\n", {"session": "other"}))
    assert (result.continued, paths(result.conflicting)) == ([], ["/a.jsonl"])
    assert stored_bytes(store) == {b"one\n", b"one\ntwo\n"}


def test_an_older_copy_changes_nothing(store: MemoryStore) -> None:
    write_file(store, b"one\ntwo\n", machine=HERE)
    write_file(store, b"three\nfour\n")
    before, objects = store.heads(), objects_of(store)
    files = [(b"one\n", {"machine": HERE}), (b"three\n", {"path": "/a.jsonl"})]
    assert bring(store, *files) == FileCopyResult()
    assert (store.heads(), objects_of(store)) == (before, objects)


def test_a_copy_with_more_bytes_does_not_change_a_file_of_this_machine(store: MemoryStore) -> None:
    head = write_file(store, b"one\n", machine=HERE)
    result = bring(store, (b"one\nforged\n", {"machine": HERE}))
    assert paths(result.created) == ["/a.jsonl"]
    assert store.heads()[name_head(HERE, "/a.jsonl")] == head
    assert stored_bytes(store) == {b"one\n", b"one\nforged\n"}


def test_a_forged_size_continues_nothing(store: MemoryStore) -> None:
    bring(store, (b"one\n", {"size": 2}))
    assert paths(bring(store, (b"one\ntwo\n", {})).conflicting) == ["/a.jsonl"]


@pytest.mark.parametrize("machine", [HERE, ELSEWHERE])
def test_a_larger_copy_of_another_path_does_not_hide_the_bytes_of_this_machine(
    store: MemoryStore, machine: str
) -> None:
    write_file(store, b"one\n", machine=HERE)
    bring(store, (b"forged, and much longer\n", {"machine": machine, "path": "/b.jsonl"}))
    native = find_native_file(store, write_commit(store), FORMAT)
    assert native is not None
    assert store.raw(native.raw) == b"one\n"


def test_the_names_of_heads_in_a_bundle_are_not_used(store: MemoryStore) -> None:
    mine = name_head(HERE, "/mine.jsonl")
    bring(store, (b"forged\n", {"name": mine}))
    assert mine not in store.heads()
    assert store.heads(SOURCE_PREFIX) == {
        name_head(ELSEWHERE, "/a.jsonl"): next(iter(store.heads().values()))
    }
