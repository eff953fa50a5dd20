"""`RayBackend`: batches run as tasks of a Ray cluster, which this process starts or connects to.

Ray repeats a task whose worker or machine has died. Its dashboard is off, and its log lines are not
printed. Ray reads further settings from the environment, which belongs to the program.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any

from harken.errors import ConfigError
from harken.executors.base import (
    BatchLimits,
    BatchResults,
    ExecutorFailed,
    Function,
    WorkerLost,
    run_items,
)

LIMITS = BatchLimits(max_items=100, max_bytes=4 * 1024 * 1024)
_TASK_RETRIES = 3
_CONNECT_S = 10
_LOST_ERRORS = ("WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "ObjectLostError")


class RayBackend:
    """Tasks of a Ray cluster."""

    def __init__(self, address: str, jobs: int | None) -> None:
        """Connect to a cluster. An empty address starts processes on this machine.

        jobs: the number of processors that a new cluster uses; None means all. Raises ConfigError.
        """
        self._ray = ray = import_ray()
        try:
            with _deferred_interrupts():
                _connect(ray, address, jobs)
        except KeyboardInterrupt:
            ray.shutdown()
            raise
        except (
            ConnectionError,
            ValueError,
            RuntimeError,
            OSError,
            ray.exceptions.RayError,
        ) as error:
            where = f"ray:{address}" if address else "ray"
            reason = " ".join(str(error).split())[:300]
            raise ConfigError(f"--on {where}: no connection to a Ray cluster ({reason})") from None
        self.jobs = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.limits, self.max_attempts = LIMITS, 1
        self._lost_errors = tuple(getattr(ray.exceptions, name) for name in _LOST_ERRORS)
        self._task = ray.remote(max_retries=_TASK_RETRIES)(_run_task)
        self._shared: tuple[Function, Any] | None = None

    def submit(self, function: Function, items: Sequence[Any]) -> Any:
        return self._start(self._task, function, items)

    def _start(self, task: Any, function: Function, items: Sequence[Any]) -> Any:
        try:
            if self._shared is None or self._shared[0] is not function:
                self._shared = function, self._ray.put(function)
            return task.remote(self._shared[1], list(items), version("harken"))
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise _failure(error) from None

    def wait(self, tasks: Sequence[Any]) -> int:
        try:
            done, _ = self._ray.wait(list(tasks), num_returns=1)
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise _failure(error) from None
        return list(tasks).index(done[0])

    def is_lost(self, task: Any) -> bool:
        return False  # Ray repeats each task by itself.

    def get(self, task: Any) -> BatchResults:
        try:
            results: BatchResults = self._ray.get(task)
        except self._lost_errors:
            raise WorkerLost("a Ray worker has died") from None
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            raise _failure(error) from None
        return results

    def restart(self) -> None:
        pass  # Ray starts workers by itself.

    def run_alone(self, function: Function, item: Any) -> Any:
        return self.get(self._start(self._task.options(max_retries=1), function, [item]))[0]

    def close(self) -> None:
        self._ray.shutdown()


def import_ray() -> Any:
    """Return the module `ray`. Raises ConfigError if the extra is not installed."""
    try:
        return import_module("ray")
    except ImportError:
        raise ConfigError("--on ray: Ray is not installed: pip install 'harken[ray]'") from None


def _connect(ray: Any, address: str, jobs: int | None) -> None:
    quiet: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": logging.CRITICAL,
        "include_dashboard": None if address else False,
    }
    if address:
        _check_reachable(address)
        ray.init(address=address, **quiet)
    else:
        ray.init(address="local", num_cpus=jobs, **quiet)


@contextmanager
def _deferred_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end only: Ray would leave processes that it has just started.

    Other threads receive no interrupts.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts: list[int] = []
    earlier = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)
    if interrupts:
        raise KeyboardInterrupt


def _check_reachable(address: str) -> None:
    """Connect to an address and disconnect. Raises OSError.

    Ray itself tries for minutes, and prints each attempt.
    """
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()


def _run_task(function: Function, items: Sequence[Any], harken_version: str) -> BatchResults:
    """Run a batch in a worker of the cluster."""
    if version("harken") != harken_version:
        raise RuntimeError(
            f"a worker has Harken {version('harken')}, not {harken_version}: install the same"
        )
    return run_items(function, items)


def _failure(error: Exception) -> ExecutorFailed:
    cause = getattr(error, "cause", None) or error
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    return ExecutorFailed(f"the Ray cluster cannot run the work: {lines[-1].strip()[:300]}")
