"""`HeadExpectations`: which checkpoints a run may continue only while they are the latest ones.

A run that reads the latest checkpoint of a thread continues from it. If another writer does so
first, the run is too late: it worked on a state that is not the latest any more. A run that reads a
checkpoint by its id, or from a list, may fork there.

Source: docs/design/020-adapters.md, "Fencing".
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TypeAlias

ThreadKey: TypeAlias = tuple[str, str]
"""The name of a thread, and a namespace in it."""
MAX_EXPECTATIONS = 4096


class HeadExpectations:
    """The expectations of the runs of one process. Python threads may share it."""

    def __init__(self) -> None:
        """Expect nothing."""
        self._lock = threading.Lock()
        self._runs: OrderedDict[tuple[ThreadKey, str], int] = OrderedDict()
        """How many runs expect a checkpoint to be the latest one. The id is empty for a thread
        without a checkpoint."""

    def add(self, key: ThreadKey, checkpoint: str) -> None:
        """Note that a run has read or written a checkpoint as the latest one."""
        with self._lock:
            self._runs[key, checkpoint] = self._runs.get((key, checkpoint), 0) + 1
            while len(self._runs) > MAX_EXPECTATIONS:
                self._runs.popitem(last=False)

    def allow_fork(self, key: ThreadKey, checkpoint: str, parent: str | None) -> None:
        """Note that a run may fork at a checkpoint, or copy it after its parent."""
        with self._lock:
            self._runs.pop((key, checkpoint), None)
            if parent is not None:
                self._runs.pop((key, parent), None)

    def take(self, key: ThreadKey, checkpoint: str) -> bool:
        """Whether the run that continues from a checkpoint expects it to be the latest one.

        The run then has continued, and expects nothing more of it.
        """
        with self._lock:
            runs = self._runs.pop((key, checkpoint), 0)
            if runs > 1:
                self._runs[key, checkpoint] = runs - 1
        return runs > 0

    def forget(self, thread: str) -> None:
        """Forget all expectations of a thread."""
        with self._lock:
            for entry in [entry for entry in self._runs if entry[0][0] == thread]:
                del self._runs[entry]
