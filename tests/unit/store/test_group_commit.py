"""Batches of several threads in one transaction: an interrupt or a failure in one thread loses no
batch of the others, and no thread waits for a thread that has gone.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pytest

from harken.core.commits import CommitId
from harken.store.base import WriteBatch
from harken.store.fsck import fsck
from harken.store.sqlite import writer
from harken.store.sqlite.store import SqliteStore
from harken.testing.store import batch_of, commit_in

THREADS = 6
START_US = 1_767_225_600_000_000


@dataclass
class FailingClock:
    """A clock that is read in each transaction, and fails in the transaction with a number."""

    failing_call: int
    error: type[BaseException]
    calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> int:
        with self.lock:
            self.calls += 1
            if self.calls == self.failing_call:
                raise self.error
        return START_US


@dataclass
class LineInterrupt:
    """A trace function that interrupts its thread before a line of the writer's queue.

    Lines are counted until the thread begins a transaction: an interrupt in that is another case.
    The second event of a `with` line is left out: Python runs no signal handler before its exit.
    """

    line_number: int
    wait: Callable[[], None]
    """Waits until other threads have done what they can before the interrupt."""
    lines: int = 0
    last_line: int = 0
    is_due: bool = False
    has_transaction: bool = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> LineInterrupt | None:
        name = frame.f_code.co_name
        self.has_transaction |= name == "_write_all"
        is_queue = frame.f_code.co_filename == writer.__file__ and name in ("write", "_write_queue")
        if not is_queue or self.has_transaction:
            return None
        if event == "line" and frame.f_lineno > self.last_line:
            self.lines, self.last_line = self.lines + 1, frame.f_lineno
            if self.lines == self.line_number:
                self.is_due = True
                self.wait()
                raise KeyboardInterrupt
        return self


class WritingThreads:
    """Threads that each write a batch to a store."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.written: list[CommitId] = []
        self.errors: Counter[str] = Counter()
        self._threads: list[threading.Thread] = []

    def start(self, count: int, trace: LineInterrupt | None = None) -> None:
        for _ in range(count):
            batch = batch_of(f"message {len(self._threads)}")
            thread = threading.Thread(target=self._write, args=[batch, trace], daemon=True)
            self._threads.append(thread)
            thread.start()

    def _write(self, batch: WriteBatch, trace: LineInterrupt | None) -> None:
        if trace is not None:
            sys.settrace(trace)
        try:
            self.store.write(batch)
        except BaseException as error:  # noqa: BLE001 - compared by the test
            self.errors[type(error).__name__] += 1
        else:
            self.written.append(commit_in(batch))
        finally:
            sys.settrace(None)

    @property
    def queued(self) -> int:
        return len(self.store._writer._waiting)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in self._threads), "a thread waits forever"

    def check_file(self) -> None:
        """Write once more, then check that every acknowledged batch is in the file."""
        self.start(1)
        self.join()
        self.store.close()
        reopened = SqliteStore(self.store.path)
        assert {*self.written} == {*self.written} & {*reopened.newest_commits(50)}
        assert fsck(reopened) == []
        reopened.close()


def wait_until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.001)


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Hold the write lock of a file in another connection."""
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        blocker.close()


def write_together(store: SqliteStore, count: int) -> WritingThreads:
    """Write one batch alone, and the others in a group after it."""
    threads = WritingThreads(store)
    with locked_file(store.path):
        threads.start(count)
        wait_until(lambda: threads.queued == count - 1)
    threads.join()
    return threads


@pytest.mark.req("D-01")
@pytest.mark.parametrize("interrupted_call", [1, 2])
def test_interrupted_transaction_loses_no_batch_of_the_others(
    tmp_path: Path, interrupted_call: int
) -> None:
    """The first transaction has one batch, the second those of all threads that waited."""
    clock = FailingClock(interrupted_call, KeyboardInterrupt)
    store = SqliteStore(tmp_path / "s.db", patience_s=20, clock=clock)
    threads = write_together(store, THREADS)
    assert threads.errors == {"KeyboardInterrupt": 1}
    assert len(threads.written) == THREADS - 1
    threads.check_file()


def interrupt_at(path: Path, line_number: int, earlier: int) -> bool:
    """Interrupt a thread before a line, and check the others. Return False if it has no such line.

    earlier: the number of threads before it: without one, the thread leads.
    """
    store = SqliteStore(path, patience_s=20)
    threads = WritingThreads(store)
    trace = LineInterrupt(line_number, lambda: wait_until(lambda: threads.queued > 2, 0.1))
    with locked_file(path):
        threads.start(earlier)
        wait_until(lambda: store._writer._has_leader == bool(earlier) and not threads.queued)
        threads.start(1, trace)
        wait_until(
            lambda: trace.is_due or trace.has_transaction or (bool(earlier) and threads.queued > 0)
        )
        threads.start(3)
        wait_until(lambda: threads.queued > 2, 0.1)
    threads.join()
    assert threads.errors == ({"KeyboardInterrupt": 1} if trace.is_due else {})
    threads.check_file()
    return trace.is_due


@pytest.mark.req("D-01")
@pytest.mark.parametrize("earlier", [0, 1], ids=["leads", "follows"])
def test_thread_interrupted_in_the_queue_leaves_no_other_waiting(
    tmp_path: Path, earlier: int
) -> None:
    """A thread that follows is interrupted before it waits, and when it is its turn to lead."""
    line_number = 1
    while interrupt_at(tmp_path / f"{line_number}.db", line_number, earlier):
        line_number += 1
    assert line_number > 8


@pytest.mark.req("D-01")
@pytest.mark.parametrize("count", [3, THREADS], ids=["group of two", "larger group"])
def test_batches_of_a_failed_transaction_are_written_each_in_its_own(
    tmp_path: Path, count: int
) -> None:
    store = SqliteStore(tmp_path / "s.db", patience_s=20, clock=FailingClock(2, OSError))
    threads = write_together(store, count)
    assert threads.errors == {}
    assert len(threads.written) == count
    threads.check_file()


def test_failure_of_a_single_batch_is_raised_in_its_thread(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", patience_s=20, clock=FailingClock(1, OSError))
    threads = write_together(store, THREADS)
    assert threads.errors == {"OSError": 1}
    threads.check_file()


def test_group_waits_only_once_for_a_locked_file(tmp_path: Path) -> None:
    """Each of eight batches in a transaction of its own would wait eight times."""
    store = SqliteStore(tmp_path / "s.db", patience_s=0.5)
    threads = WritingThreads(store)
    start_s = time.monotonic()
    with locked_file(store.path):
        threads.start(8)
        threads.join()
    assert threads.errors == {"StoreLocked": 8}
    assert time.monotonic() - start_s < 2.5
    threads.check_file()
