"""The protocol of a `WorkerBackend`, which runs batches of items, and its errors.

A function for workers is pure: its result depends on its item only, so a batch may be repeated.

Source: docs/design/025-batch-work.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol, TypeAlias

import msgspec

from harken.errors import HarkenError


class ItemFailure(msgspec.Struct, frozen=True):
    """The error because of which an item has no result."""

    error: Exception


class WorkerLost(HarkenError):
    """The worker that ran a batch has died. The batch may be repeated."""


class WorkersUnavailable(HarkenError):
    """No worker can be started."""


class ExecutorFailed(HarkenError):
    """The workers cannot be reached any more, or cannot run the function."""


class WorkerDied(HarkenError):
    """An item killed each worker that ran it."""


class BatchLimits(msgspec.Struct, frozen=True):
    """The limits of a batch. A batch has at least one item."""

    max_items: int
    max_bytes: int


class AsyncFunction(msgspec.Struct, frozen=True):
    """A function that waits for others, such as a model. The items of a batch run concurrently."""

    prepare: Callable[[], AbstractContextManager[Callable[[Any], Awaitable[Any]]]]
    """Called once for each batch, in its worker and event loop, for the function."""
    max_concurrent: int


Function: TypeAlias = Callable[[Any], Any] | AsyncFunction
"""A function of a module, or a `partial` of one. Its argument and its result can be pickled."""
BatchResults: TypeAlias = list[Any]
"""The result of each item, or its `ItemFailure`."""


class WorkerBackend(Protocol):
    """Workers that run batches. A task is a batch that was submitted."""

    jobs: int
    """The number of batches that run at the same time."""
    limits: BatchLimits
    max_attempts: int
    """The number of times that a batch is submitted before its items run alone."""

    def submit(self, function: Function, items: Sequence[Any]) -> Any:
        """Start a task, and return it. Raises WorkerLost, WorkersUnavailable, ExecutorFailed."""
        ...

    def wait(self, tasks: Sequence[Any]) -> int:
        """Wait until a task has ended. Return its position among these."""
        ...

    def is_lost(self, task: Any) -> bool:
        """Whether a task is known to have lost its worker. Does not wait."""
        ...

    def get(self, task: Any) -> BatchResults:
        """Wait for the results of a task. Raises WorkerLost, ExecutorFailed."""
        ...

    def restart(self) -> None:
        """Replace the workers if they are broken. Raises WorkersUnavailable."""
        ...

    def run_alone(self, function: Function, item: Any) -> Any:
        """Run one item where nothing else runs. Raises WorkerLost, ExecutorFailed."""
        ...

    def close(self) -> None:
        """End all workers, and the tasks that they run."""
        ...


def run_items(function: Function, items: Sequence[Any]) -> BatchResults:
    """Apply a function to each item. An exception becomes the failure of its item."""
    if isinstance(function, AsyncFunction):
        return asyncio.run(_run_concurrently(function, items))
    return [_run_item(function, item) for item in items]


async def _run_concurrently(function: AsyncFunction, items: Sequence[Any]) -> BatchResults:
    semaphore = asyncio.Semaphore(function.max_concurrent)

    async def run(item: Any) -> Any:
        async with semaphore:
            try:
                return await call(item)
            except Exception as error:  # noqa: BLE001 - as for other functions
                return ItemFailure(error)

    with ExitStack() as stack:
        try:
            call = stack.enter_context(function.prepare())
        except Exception as error:  # noqa: BLE001 - as for other functions
            return [ItemFailure(error) for _ in items]
        return list(await asyncio.gather(*map(run, items)))


def _run_item(function: Callable[[Any], Any], item: Any) -> Any:
    try:
        return function(item)
    except Exception as error:  # noqa: BLE001 - the failure is the result of this item
        return ItemFailure(error)
