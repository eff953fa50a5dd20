"""Functions that workers run, and the engines that run them."""

from __future__ import annotations

import os
import signal
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from harken.executors.workers import Workers

IS_RAY_INSTALLED = find_spec("ray") is not None
NEEDS_RAY = pytest.mark.skipif(not IS_RAY_INSTALLED, reason="Ray is not installed: make test-ray")
HERE, PROCESSES = Workers(jobs=1), Workers(jobs=2)
RAY = Workers(engine="ray", jobs=2)
DISTRIBUTED = [
    pytest.param(PROCESSES, id="processes"),
    pytest.param(RAY, id="ray", marks=NEEDS_RAY),
]
ENGINES = [pytest.param(HERE, id="in-process"), *DISTRIBUTED]


def square(number: int) -> int:
    """Return the square. Raises ValueError for a negative number."""
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number * number


def die_once(folder: Path, number: int) -> int:
    """Return the square; the first worker that gets 7 is killed before it does."""
    if number == 7:
        try:
            (folder / "died").touch(exist_ok=False)
        except FileExistsError:
            return number * number
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die_always(folder: Path, number: int) -> int:
    """Return the square; each worker that gets 7 is killed."""
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def worker_id(number: int) -> int:
    """Return the process that runs the item."""
    return os.getpid()


def sleep_long(number: int) -> int:
    """Sleep for a minute."""
    time.sleep(60)
    return number


def read_variable(name: str) -> str | None:
    """Return a variable of the environment of a worker."""
    return os.environ.get(name)
