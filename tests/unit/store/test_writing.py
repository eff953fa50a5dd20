"""Batches that are written concurrently, that fail, and that are retried."""

from __future__ import annotations

import itertools
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harken.core.commits import CommitId, CommitNotes, encode_sequence, hash_raw
from harken.errors import NameNotFound, NotesConflict, ObjectNotFound, StoreError
from harken.store.base import ObjectKind, WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite import pack_table
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


def rows_of(store: SqliteStore) -> list[int]:
    with store.snapshot() as connection:
        return [row.first for row in pack_table.iter_rows(connection)]


def chain(store: SqliteStore, length: int, parent: CommitId | None = None) -> list[CommitId]:
    names = [] if parent is None else [parent]
    for index in range(length):
        batch = batch_of(f"step {index}", parent=names[-1] if names else None, second=index)
        store.write(batch)
        names.append(commit_in(batch))
    return names


def test_failed_batch_can_be_written_again(path: Path) -> None:
    """A regression: objects of a rolled back transaction counted as stored, so the retry wrote
    nothing.
    """
    store, root = SqliteStore(path), batch_of("a")
    child = batch_of("b", parent=commit_in(root))
    both = WriteBatch(
        objects={**root.objects, **child.objects},
        deltas={**root.deltas, **child.deltas},
        commits=[*root.commits, *child.commits],
    )
    with store.snapshot() as connection:
        pass
    connection.execute(
        "CREATE TRIGGER no BEFORE INSERT ON history BEGIN SELECT RAISE(FAIL, 'no'); END"
    )
    with pytest.raises(StoreError):
        store.write(both)
    connection.execute("DROP TRIGGER no")
    store.write(both)
    second_store = SqliteStore(path)
    assert [stored.id for stored in second_store.chain(commit_in(child))] == [
        commit_in(child),
        commit_in(root),
    ]
    assert second_store.objects(both.objects) == both.objects
    assert fsck(second_store) == []
    for any_store in (store, second_store):
        any_store.close()


def test_small_packs_are_merged_and_stay_readable(path: Path) -> None:
    store = SqliteStore(path)
    names = chain(store, 3 * pack_table.BLOCK + 5)
    assert len(rows_of(store)) < pack_table.BLOCK
    fresh = SqliteStore(path)
    for reader in (store, fresh):
        assert [stored.id for stored in reader.chain(names[-1])] == names[::-1]
        deltas = reader.deltas([stored.commit.artifact for stored in reader.chain(names[-1])])
        messages = [entry.message for entries in deltas.values() for entry in entries]
        assert len(reader.objects(messages)) == len(names)
        assert set(reader.names_with_prefix("", 10_000)) == {*names, *deltas}
        assert fsck(reader) == []
    fresh.close()
    chain(store, 2, names[-1])
    assert fsck(store) == []
    store.close()


def test_large_packs_are_not_merged_and_numbers_are_unique(path: Path) -> None:
    store = SqliteStore(path)
    for number in range(2 * pack_table.BLOCK + 3):
        data = f"{number} ".encode() * (1 if number % 10 else 20_000)
        store.write(WriteBatch(raw={hash_raw(data): data}))
        assert store.raw(hash_raw(data)) == data
    with store.snapshot() as connection:
        table_rows = list(pack_table.iter_rows(connection))
        assert pack_table.last_number(connection) == 2 * pack_table.BLOCK + 3
    assert all(row_found.end == two.first for row_found, two in itertools.pairwise(table_rows))
    assert fsck(store) == []
    store.close()


def test_damaged_pack_is_not_merged(path: Path) -> None:
    store = SqliteStore(path)
    chain(store, pack_table.BLOCK - 2)
    with store.snapshot() as connection:
        pass
    connection.execute("UPDATE pack SET data = zeroblob(length(data)) WHERE id = 7")
    store.write(batch_of("more"))
    store.write(batch_of("and more"))
    store.write(batch_of("and more still"))
    assert {1, 7, 8} <= set(rows_of(store))
    assert [f.place for f in fsck(store) if "sum" in f.problem] == ["pack 7"]
    store.close()


def test_waiting_threads_share_a_transaction_and_bad_batches_fail_alone(path: Path) -> None:
    store, root = SqliteStore(path, patience_s=10), batch_of("root")
    store.write(root)
    missing_commit = CommitId("ctx-" + "1" * 64)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    refused: list[str] = []

    def write(number: int) -> None:
        parent = missing_commit if number == 3 else commit_in(root)
        try:
            store.write(batch_of(f"{number}", "the same for all", parent=parent))
        except ObjectNotFound as error:
            refused.append(error.name)

    threads = [threading.Thread(target=write, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    before = rows_of(store)
    while len(store._writer._waiting) < 7:
        pass  # the first thread leads and waits for the other connection
    blocker.execute("ROLLBACK")
    blocker.close()
    for thread in threads:
        thread.join()
    assert refused == [missing_commit]
    assert len(store.children(commit_in(root))) == 7
    assert len(rows_of(store)) - len(before) == 2
    assert fsck(store) == []
    store.close()


def test_interrupted_write_leaves_no_waiting_thread(path: Path) -> None:
    program = (
        "import signal, sqlite3, sys, threading, time\n"
        "from harken.store.sqlite.store import SqliteStore\n"
        "from harken.testing.store import batch_of\n"
        "store = SqliteStore(sys.argv[1], patience_s=20)\n"
        "other = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)\n"
        "other.execute('BEGIN IMMEDIATE')\n"
        "threads = [threading.Thread(target=store.write, args=[batch_of(str(n))]) for n in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT)).start()\n"
        "threading.Timer(0.6, lambda: other.execute('ROLLBACK')).start()\n"
        "try: store.write(batch_of('interrupted'))\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "for thread in threads: thread.join()\n"
        "store.write(batch_of('after'))\n"
        "print(len(store.newest_commits(10)))\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=30, cwd=ROOT, check=True
    )
    assert result.stdout.splitlines()[0] == "interrupted"
    assert int(result.stdout.splitlines()[1]) >= 5


def test_derived_object_is_listed_while_it_exists(path: Path) -> None:
    store, batch = SqliteStore(path), batch_of("a")
    [ref] = batch.deltas
    sequence, _ = encode_sequence([ref, ref])
    with pytest.raises(ObjectNotFound):
        store.write(WriteBatch(derived={"k": sequence}))
    store.write(batch)
    store.write(
        WriteBatch(sequences={sequence: [ref, ref]}, derived={"k": sequence, "\ud800": ref})
    )
    store.write(WriteBatch(derived={"k": ref}))
    second_store = SqliteStore(path)
    assert second_store.find_derived(["k", "\ud800", "nothing"]) == {"k": ref, "\ud800": ref}
    with store.snapshot() as connection:
        pass
    connection.execute("UPDATE derived SET artifact = zeroblob(40) WHERE key = x'6b'")
    assert second_store.find_derived(["k"]) == {}
    assert [finding.place for finding in fsck(store)] == ["derived k"]
    for any_store in (store, second_store):
        any_store.close()


def test_metadata_update_fails_on_a_changed_value(path: Path) -> None:
    store, batch = SqliteStore(path), batch_of("a", notes=CommitNotes(summary="one"))
    store.write(batch)
    name = commit_in(batch)
    store.update_notes(name, CommitNotes(summary="two"), was=CommitNotes(summary="one"))
    with pytest.raises(NotesConflict):
        store.update_notes(name, CommitNotes(summary="three"), was=CommitNotes(summary="one"))
    assert store.commits([name])[name].notes.summary == "two"
    with pytest.raises(NameNotFound):
        store.update_notes(CommitId("ctx-" + "1" * 64), CommitNotes(), was=CommitNotes())
    store.close()


def test_objects_are_iterated_after_their_dependencies(path: Path) -> None:
    store = SqliteStore(path)
    names = chain(store, pack_table.BLOCK + 3)
    names_seen: set[str] = set()
    for stored in store.iter_objects():
        assert names_seen.issuperset(stored.needs)
        names_seen.add(stored.name)
    assert {*names} <= names_seen
    stats = store.stats()
    many = len(names)
    counts = {"part": many, "message": many, "delta": many, "commit": many}
    assert stats.objects == {**counts, "sequence": 0, "raw": 0}
    assert stats.logical_bytes == stats.raw_bytes > 0
    assert stats.stored_bytes >= path.stat().st_size
    assert {stored.kind for stored in store.iter_objects()} == {
        ObjectKind.PART,
        ObjectKind.MESSAGE,
        ObjectKind.DELTA,
        ObjectKind.COMMIT,
    }
    store.close()
