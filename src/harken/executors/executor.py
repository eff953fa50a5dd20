"""`Executor`: applies a function to items in batches, and repeats batches of dead workers.

Batches are submitted ahead up to a number of bytes, so memory is bounded. Results are yielded in
the order of the items, or as they are ready.

A broken pool does not tell which task broke it. So all lost batches are repeated; the items of a
batch that is lost again run alone, which identifies the item that kills its worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar

import msgspec

from harken.executors.base import (
    BatchLimits,
    BatchResults,
    Function,
    ItemFailure,
    WorkerBackend,
    WorkerDied,
    WorkerLost,
    WorkersUnavailable,
)
from harken.executors.in_process import InProcessBackend

Item = TypeVar("Item")
MAX_AHEAD_BYTES = 24 * 1024 * 1024
"""The maximum size of items that are submitted and not yet taken, for a few workers."""
MAX_AHEAD_BATCHES = 64


class _Task(msgspec.Struct):
    """A submitted batch."""

    items: Sequence[Any]
    size_bytes: int
    handle: Any = None
    """The task of the backend. None if it has to be submitted again."""
    attempts: int = 0


class Executor:
    """Runs batch work on a backend. A context manager that ends all workers."""

    def __init__(self, backend: WorkerBackend) -> None:
        """Use the given workers, and close them at the end."""
        self._backend = backend
        self.lost_workers = 0
        """The number of times that work was repeated because a worker had died."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._backend.close()

    @property
    def jobs(self) -> int:
        """The number of batches that run at the same time."""
        return self._backend.jobs

    def map(
        self,
        function: Function,
        items: Iterable[Item],
        *,
        size: Callable[[Item], int] = lambda _: 0,
        max_items: int | None = None,
        max_ahead: int | None = None,
        ordered: bool = True,
    ) -> Iterator[tuple[Item, Any]]:
        """Yield each item with its result, or with an `ItemFailure`.

        size: the bytes of an item, by which batches are limited. max_items: fewer items in a batch
        than the backend prefers, for items that take long. max_ahead: the number of batches to
        submit before a result is taken. If not ordered, results are yielded as they are ready.
        Raises ExecutorFailed.
        """
        limits = self._backend.limits
        limits = BatchLimits(min(max_items or limits.max_items, limits.max_items), limits.max_bytes)
        batches = group_items(items, size, limits)
        max_bytes = max(MAX_AHEAD_BYTES, 2 * self.jobs * limits.max_bytes)
        max_batches = max_ahead or max(MAX_AHEAD_BATCHES, 2 * self.jobs)
        tasks: deque[_Task] = deque()
        while True:
            while not tasks or (
                len(tasks) < max_batches and sum(task.size_bytes for task in tasks) < max_bytes
            ):
                batch = next(batches, None)
                if batch is None:
                    break
                tasks.append(_Task(batch, sum(map(size, batch))))
                self._submit(function, tasks[-1], tasks)
            if not tasks:
                return
            task = tasks[0] if ordered else self._next_finished(tasks)
            results = self._get_results(function, task, tasks)
            tasks.remove(task)
            yield from zip(task.items, results, strict=True)

    def _next_finished(self, tasks: Sequence[_Task]) -> _Task:
        if any(task.handle is None for task in tasks):
            return next(task for task in tasks if task.handle is None)
        return tasks[self._backend.wait([task.handle for task in tasks])]

    def _submit(self, function: Function, task: _Task, tasks: Iterable[_Task]) -> None:
        """Submit a task. It has no handle if the workers are broken."""
        task.attempts += 1
        try:
            task.handle = self._backend.submit(function, task.items)
        except WorkerLost:
            task.handle = None
        except WorkersUnavailable:
            self._use_this_process(function, tasks)

    def _get_results(self, function: Function, task: _Task, tasks: Sequence[_Task]) -> BatchResults:
        """Return the results of a task, which is repeated if its worker dies."""
        while True:
            try:
                if task.handle is not None:
                    return self._backend.get(task.handle)
            except WorkerLost:
                task.handle = None
            self.lost_workers += 1
            lost = [other for other in tasks if self._is_lost(other)]
            try:
                self._backend.restart()
            except WorkersUnavailable:
                self._use_this_process(function, tasks)
                continue
            if task.attempts >= self._backend.max_attempts:
                return self._isolate(function, task, lost, tasks)
            for other in lost:
                self._submit(function, other, tasks)

    def _isolate(
        self, function: Function, task: _Task, lost: Sequence[_Task], tasks: Sequence[_Task]
    ) -> BatchResults:
        """Run the items of a task alone, then repeat the others that were lost with it."""
        results = self._run_alone(function, task.items)
        for other in lost:
            if other is not task:
                if any(map(_is_death, results)):  # It was lost because of this task.
                    other.attempts = 0
                self._submit(function, other, tasks)
        return results

    def _is_lost(self, task: _Task) -> bool:
        return task.handle is None or self._backend.is_lost(task.handle)

    def _run_alone(self, function: Function, items: Sequence[Any]) -> BatchResults:
        """Run each item of a batch alone."""
        results: BatchResults = []
        for item in items:
            try:
                results.append(self._backend.run_alone(function, item))
            except WorkerLost:
                self.lost_workers += 1
                results.append(ItemFailure(WorkerDied("each worker that ran it has died")))
        return results

    def _use_this_process(self, function: Function, tasks: Iterable[_Task]) -> None:
        """Run all tasks in this process, since no worker can be started."""
        self._backend.close()
        self._backend = InProcessBackend()
        for task in tasks:
            task.handle = self._backend.submit(function, task.items)


def _is_death(result: Any) -> bool:
    return isinstance(result, ItemFailure) and isinstance(result.error, WorkerDied)


def group_items(
    items: Iterable[Item], size: Callable[[Item], int], limits: BatchLimits
) -> Iterator[list[Item]]:
    """Yield neighboring items in batches within the limits."""
    batch: list[Item] = []
    batch_bytes = 0
    for item in items:
        item_bytes = size(item)
        is_full = len(batch) == limits.max_items or batch_bytes + item_bytes > limits.max_bytes
        if batch and is_full:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(item)
        batch_bytes += item_bytes
    if batch:
        yield batch
