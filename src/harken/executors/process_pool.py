"""`ProcessPoolBackend`: batches run in processes of this machine.

Workers ignore interrupts of the terminal: the main process receives them, and ends the workers.
They end when the main process ends for any reason.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import TypeAlias

from harken.executors.base import (
    BatchLimits,
    BatchResults,
    Function,
    WorkerLost,
    WorkersUnavailable,
    run_items,
)

_LIMITS = BatchLimits(max_items=100, max_bytes=512 * 1024)
_MAX_ATTEMPTS = 2
Task: TypeAlias = "Future[BatchResults]"


class ProcessPoolBackend:
    """A pool of processes, which is replaced when a process dies."""

    def __init__(self, jobs: int) -> None:
        """Use this number of processes. They are started with the first batch."""
        self.jobs, self.limits, self.max_attempts = jobs, _LIMITS, _MAX_ATTEMPTS
        self._pool = _create_pool(jobs)
        self._is_broken = False
        self._lone_pool: ProcessPoolExecutor | None = None
        """One process, for items that run alone."""

    def submit(self, function: Function, items: Sequence[object]) -> Task:
        try:
            return self._pool.submit(run_items, function, items)
        except BrokenProcessPool:
            self._is_broken = True
            raise WorkerLost("a worker process has died") from None
        except OSError as error:
            raise WorkersUnavailable(f"no process can be started ({error})") from None

    def wait(self, tasks: Sequence[Task]) -> int:
        done, _ = wait(tasks, return_when=FIRST_COMPLETED)
        return next(position for position, task in enumerate(tasks) if task in done)

    def is_lost(self, task: Task) -> bool:
        return task.cancelled() or (task.done() and isinstance(task.exception(), BrokenProcessPool))

    def get(self, task: Task) -> BatchResults:
        try:
            return task.result()
        except BrokenProcessPool:
            self._is_broken = True
            raise WorkerLost("a worker process has died") from None

    def restart(self) -> None:
        if not self._is_broken:
            return
        _end_pool(self._pool)
        self._pool, self._is_broken = _create_pool(self.jobs), False
        try:
            self._pool.submit(os.getpid).result()
        except (BrokenProcessPool, OSError) as error:
            raise WorkersUnavailable(f"no process can be started ({error})") from None

    def run_alone(self, function: Function, item: object) -> object:
        if self._lone_pool is None:
            self._lone_pool = _create_pool(1)
        try:
            return self._lone_pool.submit(run_items, function, [item]).result()[0]
        except (BrokenProcessPool, OSError):
            _end_pool(self._lone_pool)
            self._lone_pool = None
            raise WorkerLost("a worker process has died") from None

    def close(self) -> None:
        _end_pool(self._pool)
        if self._lone_pool is not None:
            _end_pool(self._lone_pool)


def init_worker() -> None:
    """Initialize a worker: ignore interrupts, and exit with the main process.

    Existing objects are excluded from garbage collection, so that their memory pages stay shared.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    gc.freeze()


def _exit_with_parent() -> None:
    """Exit when the main process exits for any reason."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _create_pool(jobs: int) -> ProcessPoolExecutor:
    # A fork would copy the locks of other threads.
    is_alone = sys.platform == "linux" and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if is_alone else "spawn")
    return ProcessPoolExecutor(jobs, context, initializer=init_worker)


def _end_pool(pool: ProcessPoolExecutor) -> None:
    """End the processes of a pool, also those that run a batch."""
    # There is no public list of its processes before Python 3.14, and waiting could take long.
    for process in list((pool._processes or {}).values()):  # noqa: SLF001
        with suppress(ValueError, OSError):  # It has ended.
            process.kill()
    pool.shutdown(cancel_futures=True)
