"""`InProcessBackend`: batches run in this process, when their results are taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harken.executors.base import BatchLimits, BatchResults, Function, run_items


class InProcessBackend:
    """Runs each batch in this process."""

    def __init__(self) -> None:
        """Run a single batch at a time."""
        self.jobs, self.limits, self.max_attempts = 1, BatchLimits(max_items=1, max_bytes=0), 1

    def submit(self, function: Function, items: Sequence[Any]) -> Any:
        return function, items

    def wait(self, tasks: Sequence[Any]) -> int:
        return 0

    def is_lost(self, task: Any) -> bool:
        return False

    def get(self, task: Any) -> BatchResults:
        return run_items(*task)

    def restart(self) -> None:
        pass

    def run_alone(self, function: Function, item: Any) -> Any:
        return run_items(function, [item])[0]

    def close(self) -> None:
        pass
