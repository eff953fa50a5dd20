"""Garbage collection in a file: ages, concurrent writes, and freed space."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from harken.core.clock import format_rfc3339
from harken.core.commits import ArtifactRef, CommitNotes, hash_raw
from harken.errors import ObjectCorrupted
from harken.store.base import GcResult, RetentionPolicy, WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite.evict import evict
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in
from tests.crash.collector import collect_all, litter

START_US = 1_800_000_000_000_000
MINUTE_US = 60_000_000
LATER = "2100-01-01T00:00:00Z"


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.minute = 0.0

    def __call__(self) -> int:
        return START_US + int(self.minute * MINUTE_US)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SqliteStore]:
    opened_store = SqliteStore(tmp_path / "s.db", clock=clock)
    yield opened_store
    opened_store.close()


@pytest.fixture
def second_store(store: SqliteStore, clock: Clock) -> Iterator[SqliteStore]:
    """Return the same file as another process opens it."""
    opened_store = SqliteStore(store.path, clock=clock)
    yield opened_store
    opened_store.close()


def put(store: SqliteStore, data: bytes) -> ArtifactRef:
    store.write(WriteBatch(raw={hash_raw(data): data}))
    return hash_raw(data)


def collect_at(store: SqliteStore, clock: Clock, minute: float) -> int:
    """Collect at a minute with an hour of grace. Return the number of removed objects."""
    clock.minute = minute
    now = format_rfc3339(clock())
    would = store.collect([], now=now, grace_s=3600, dry_run=True)
    assert store.collect([], now=now, grace_s=3600) == would
    assert fsck(store) == []
    return would.objects


def test_objects_older_than_the_grace_period_are_removed(store: SqliteStore, clock: Clock) -> None:
    put(store, b"at once")
    clock.minute = 30
    later = put(store, b"later")
    assert collect_at(store, clock, 59) == 0
    assert collect_at(store, clock, 61) == 1
    assert store.names_with_prefix("art-") == [later]
    assert collect_at(store, clock, 91) == 1


def test_objects_written_since_the_last_mark_count_as_younger(
    store: SqliteStore, clock: Clock
) -> None:
    put(store, b"marked")
    clock.minute = 2
    put(store, b"not marked")
    assert collect_at(store, clock, 63) == 1
    assert collect_at(store, clock, 64 + 60) == 1


def test_rewritten_object_is_young_again(store: SqliteStore, clock: Clock) -> None:
    name = put(store, b"again")
    clock.minute = 120
    put(store, b"again")
    assert collect_at(store, clock, 150) == 0
    clock.minute = 200
    put(store, b"something else")
    assert collect_at(store, clock, 300) == 2
    assert store.names_with_prefix(name) == []


def test_concurrent_writes_are_respected(store: SqliteStore, second_store: SqliteStore) -> None:
    """Pins, labels, names and rewritten contents are set while other processes read."""
    pinned, dropped, named_ref, rewritten_ref = (
        put(store, data) for data in (b"1", b"2", b"3", b"4")
    )
    spared, expired, freed = (batch_of(text) for text in ("spared", "expired", "freed"))
    for batch in (spared, expired, freed):
        store.write(batch)
    gone_by = RetentionPolicy("ephemeral", "2026-01-01T00:00:00Z")
    store.set_retention({commit_in(item): gone_by for item in (spared, expired, freed)})
    loose = batch_of("loose")
    store.write(WriteBatch(objects=loose.objects, deltas=loose.deltas))
    calls: list[int] = []

    def meanwhile(steps_done: int, total: int) -> None:
        calls.append(steps_done)
        if len(calls) == 1:  # the snapshot is being read
            second_store.set_retention({pinned: RetentionPolicy("pin"), commit_in(freed): None})
            second_store.update_notes(commit_in(spared), CommitNotes(labels=("x",)))
            second_store.write(WriteBatch(commits=loose.commits))
            second_store.write(WriteBatch(raw={rewritten_ref: b"4"}))
            ref = sequence_of_raw(second_store, named_ref)
            assert ref

    result = store.collect([], now=LATER, grace_s=0, on_progress=meanwhile)
    assert calls
    assert result.commits == (commit_in(expired),)
    assert {*store.names_with_prefix("art-")} >= {pinned, named_ref, rewritten_ref, *loose.deltas}
    assert dropped not in store.names_with_prefix("art-")
    assert store.commits([commit_in(loose), commit_in(spared), commit_in(freed)]).keys() == {
        commit_in(loose),
        commit_in(spared),
        commit_in(freed),
    }
    assert fsck(store) == []
    assert fsck(second_store) == []


def sequence_of_raw(store: SqliteStore, name: ArtifactRef) -> ArtifactRef:
    """Write a file that has this raw object as one of its two chunks."""
    data = b"3" + b"more"
    store.write(WriteBatch(raw={hash_raw(b"more"): b"more"}))
    store.write(WriteBatch(files={hash_raw(data): [name, hash_raw(b"more")]}))
    return hash_raw(data)


def test_dry_run_writes_nothing(store: SqliteStore) -> None:
    litter(store, 0, 50)
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = store.path.read_bytes()
    assert collect_all(store, dry_run=True).objects > 50
    assert store.path.read_bytes() == before
    assert store.path.with_name("s.db-wal").stat().st_size == 0


def test_packs_with_few_survivors_are_merged(store: SqliteStore) -> None:
    for number in range(40):
        noise = Random(number).randbytes(30_000)
        batch = batch_of(f"kept {number}", second=number)
        store.write(
            WriteBatch(
                objects=batch.objects,
                deltas=batch.deltas,
                raw={hash_raw(noise): noise},
                commits=batch.commits,
            )
        )
    before = packs(store)
    size = store.stats().stored_bytes
    collect_all(store)
    assert packs(store) < before / 4
    assert store.stats().stored_bytes < size / 4
    assert len(store.newest_commits(100)) == 40
    assert fsck(store) == []


def packs(store: SqliteStore) -> int:
    with store.snapshot() as connection:
        return int(connection.execute("SELECT count(*) FROM pack").fetchone()[0])


def test_damaged_store_is_not_collected(store: SqliteStore) -> None:
    """The references of an unreadable pack are unknown."""
    litter(store, 0, 50)
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("UPDATE pack SET data = zeroblob(length(data)) WHERE id = 1")
        connection.commit()
    names = store.newest_commits(100)
    for dry_run in (True, False):
        with pytest.raises(ObjectCorrupted, match="harken store fsck"):
            collect_all(store, dry_run=dry_run)
    assert store.newest_commits(100) == names


def test_evicted_unreferenced_objects_are_forgotten(store: SqliteStore) -> None:
    names = [put(store, data) for data in (b"1" * 1000, b"2" * 1000)]
    store.set_retention({names[0]: RetentionPolicy("ephemeral", LATER)})
    assert evict(store, 0, lambda names_to_evict: names_to_evict).objects == 2
    assert store.names_with_prefix("art-") == sorted(names)
    assert store.collect([], now="2099-01-01T00:00:00Z", grace_s=0) == GcResult()
    assert store.names_with_prefix("art-") == [names[0]]
    assert fsck(store) == []
