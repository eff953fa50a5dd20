"""kill -9 of a service with many writers, repeatedly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from harken.core.commits import CommitId
from harken.errors import StoreError
from harken.store.fsck import fsck
from harken.store.remote.store import RemoteStore
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

ROOT = Path(__file__).parents[2]
WRITERS = 4


@contextmanager
def services(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.crash.service_child", str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as parent:
        yield parent
        assert parent.stdin is not None
        parent.stdin.close()


def write(url: str, writer: int, acknowledged_ids: list[CommitId]) -> None:
    """Write a chain of commits until the service is gone. Add the acknowledged ones."""
    store = RemoteStore(url, patience_s=0)
    with closing(store), suppress(StoreError):
        while True:
            text = f"{writer} {len(acknowledged_ids)} " + "and a long story " * (
                2000 if writer == 0 else 10
            )
            parent = acknowledged_ids[-1] if acknowledged_ids else None
            batch = batch_of(text, parent=parent, principal=f"writer {writer}")
            store.write(batch)
            acknowledged_ids.append(commit_in(batch))


def kills(folder: Path, runs: int, seed: int) -> int:
    """Kill a service repeatedly. Return the number of acknowledged commits."""
    dice, acknowledged_ids = Random(seed), [list[CommitId]() for _ in range(WRITERS)]
    with services(folder) as parent, ThreadPoolExecutor(WRITERS) as threads:
        assert parent.stdin is not None
        assert parent.stdout is not None
        for _ in range(runs):
            parent.stdin.write("\n")
            parent.stdin.flush()
            child, url = parent.stdout.readline().split()
            enough = sum(map(len, acknowledged_ids)) + dice.choice([0, 1, 5, 30])
            writes = [
                threads.submit(write, url, n, names) for n, names in enumerate(acknowledged_ids)
            ]
            while sum(map(len, acknowledged_ids)) < enough and not all(
                pending.done() for pending in writes
            ):
                time.sleep(0.001)
            time.sleep(dice.uniform(0, 0.05))
            os.kill(int(child), signal.SIGKILL)
            for pending in writes:
                pending.result()
            check(folder, acknowledged_ids)
    return sum(map(len, acknowledged_ids))


def check(folder: Path, acknowledged_ids: list[list[CommitId]]) -> None:
    store = SqliteStore(folder / "s.db")
    assert fsck(store) == []
    for names in acknowledged_ids:
        if names:
            assert [stored.id for stored in store.chain(names[-1])] == names[::-1]
    store.close()


@pytest.mark.req("D-01", "S2-11")
def test_kill_9_of_a_service_loses_no_acknowledged_commit(tmp_path: Path) -> None:
    assert kills(tmp_path, 10, seed=1) > 0


@pytest.mark.full
@pytest.mark.req("D-01", "S2-11")
@pytest.mark.parametrize("seed", range(10))
def test_kill_9_of_a_service_loses_no_commit_200_times(tmp_path: Path, seed: int) -> None:
    assert kills(tmp_path, 20, seed) > 0
