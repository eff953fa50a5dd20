"""An interrupt in the thread that writes the batches of others loses none of theirs."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harken.core.commits import CommitId
from harken.store.fsck import fsck
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

THREADS = 6
START_US = 1_767_225_600_000_000


@dataclass
class InterruptingClock:
    """A clock that is read in each transaction, and interrupts the transaction with a number."""

    interrupted_call: int
    calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> int:
        with self.lock:
            self.calls += 1
            if self.calls == self.interrupted_call:
                raise KeyboardInterrupt
        return START_US


@pytest.mark.req("D-01")
@pytest.mark.parametrize("interrupted_call", [1, 2])
def test_interrupted_leader_loses_no_batch_of_the_others(
    tmp_path: Path, interrupted_call: int
) -> None:
    """The first transaction has one batch, the second those of all threads that waited."""
    path = tmp_path / "s.db"
    clock = InterruptingClock(interrupted_call)
    store = SqliteStore(path, patience_s=20, clock=clock)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    written: list[CommitId] = []
    outcomes: Counter[str] = Counter()

    def write(number: int) -> None:
        batch = batch_of(f"message {number}")
        try:
            store.write(batch)
        except KeyboardInterrupt:
            outcomes["interrupted"] += 1
        else:
            written.append(commit_in(batch))

    threads = [threading.Thread(target=write, args=[n], daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    while len(store._writer._waiting) < THREADS - 1:
        pass  # The first thread leads, and waits for the other connection.
    blocker.execute("ROLLBACK")
    blocker.close()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    assert outcomes == {"interrupted": 1}
    assert len(written) == THREADS - 1
    store.write(batch_of("after the interrupt"))
    store.close()
    reopened = SqliteStore(path)
    assert {*written} <= {*reopened.newest_commits(20)}
    assert fsck(reopened) == []
    reopened.close()
