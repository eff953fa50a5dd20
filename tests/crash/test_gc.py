"""Garbage collection with concurrent writers and kills: no referenced object is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from harken.core.commits import hash_raw
from harken.store.base import GcResult, ObjectKind, WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from tests.crash.collector import collect_all, find_loss, litter
from tests.forks import processes

ROOT = Path(__file__).parents[2]


def child(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.crash.collector", *arguments]
    return processes.start(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def kill_and_read(process: subprocess.Popen[str]) -> int:
    """Kill a child. Return the last number that it printed."""
    process.kill()
    out, _ = process.communicate()
    numbers = [int(line) for line in out.splitlines() if line.strip()]
    return max(numbers, default=-1)


def collect_beside(folder: Path, seconds: float) -> None:
    store = SqliteStore(folder / "s.db")
    writers = {name: child("write", str(folder), name) for name in ("ann", "bo")}
    first: dict[str, int] = {}
    try:
        for name, process in writers.items():  # a busy machine starts slowly
            assert process.stdout is not None
            first[name] = [int(process.stdout.readline()) for _ in range(2)][-1]
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(store.newest_commits(40)) < 40:
            collect_all(store)
            assert all(process.poll() is None for process in writers.values()), "a writer failed"
    finally:
        later = {name: kill_and_read(process) for name, process in writers.items()}
    acknowledged = {name: max(first[name], later[name]) for name in writers}
    collect_all(store)
    assert min(acknowledged.values()) > 0
    assert find_loss(store.path, acknowledged) is None
    store.close()


@pytest.mark.req("S2-69")
def test_gc_beside_two_writers_loses_nothing(tmp_path: Path) -> None:
    collect_beside(tmp_path, 1.5)


@pytest.mark.full
@pytest.mark.req("S2-69")
def test_gc_beside_two_writers_loses_nothing_for_a_minute(
    tmp_path: Path,
) -> None:
    collect_beside(tmp_path, 60)


def kills(folder: Path, runs: int, seed: int) -> None:
    dice = Random(seed)
    for run in range(runs):
        process = child("collect", str(folder))
        assert process.stdout is not None
        process.stdout.readline()  # the collection starts
        time.sleep(dice.uniform(0, 0.25))
        kill_and_read(process)
        assert find_loss(folder / "s.db", {}) is None, f"run {run}"
    store = SqliteStore(folder / "s.db")
    commits = store.newest_commits(10**6)
    would = collect_all(store, dry_run=True)
    assert collect_all(store) == would
    assert collect_all(store) == GcResult()
    assert store.newest_commits(10**6) == commits
    refs = {stored.commit.artifact for stored in store.commits(commits).values()}
    unreferenced = {
        stored_object.name
        for stored_object in store.iter_objects()
        if stored_object.kind in (ObjectKind.DELTA, ObjectKind.RAW)
    }
    assert unreferenced == refs
    assert fsck(store) == []
    store.close()


@pytest.mark.req("S2-69")
def test_kill_9_during_gc_leaves_a_sound_store(tmp_path: Path) -> None:
    kills(tmp_path, 4, seed=1)


@pytest.mark.full
@pytest.mark.req("S2-69")
@pytest.mark.parametrize("seed", range(4))
def test_kill_9_during_gc_leaves_a_sound_store_100_times(tmp_path: Path, seed: int) -> None:
    kills(tmp_path, 25, seed)


def test_gc_shrinks_the_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    noise = Random(1).randbytes(2_000_000)
    store.write(WriteBatch(raw={hash_raw(noise): noise}))
    litter(store, 0, 300)
    before = store.path.stat().st_size + _wal(store.path)
    result = collect_all(store)
    after = store.path.stat().st_size + _wal(store.path)
    assert result.objects > 600
    assert before - after > 0.5 * result.size_bytes
    assert fsck(store) == []
    store.close()


def _wal(path: Path) -> int:
    wal = path.with_name(path.name + "-wal")
    return wal.stat().st_size if wal.exists() else 0
