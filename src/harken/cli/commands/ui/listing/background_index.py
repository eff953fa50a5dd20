"""`BackgroundIndex`: bring the index of a home up to date while its sessions are looked at.

It is the index of `harken search`, and is updated by the same code, in a process of its own. At
most one runs at a time, and pauses lie between two. Content that an update could not read, such as
a damaged log, is not tried again before it changes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection

from harken.cli.commands.ui.child_process import ChildFailure, ChildProcess
from harken.cli.commands.ui.listing.session_list import Listing, SourceState
from harken.config.home import Home
from harken.config.index import read_facts
from harken.service.viewer.library import IndexState

_MIN_PAUSE_S, _MAX_PAUSE_S = 3.0, 60.0
_PAUSE_PER_RUN = 4.0
"""A pause lasts this multiple of the run before it."""


class BackgroundIndex:
    """The updates of the index of a home. Methods are called by several threads at a time."""

    def __init__(self, home: Home, is_paused: Callable[[], bool] = lambda: False) -> None:
        """Nothing is started yet. No update is started while `is_paused` returns True."""
        self._home, self._is_paused = home, is_paused
        self._lock = threading.Lock()
        self._process: ChildProcess | None = None
        self._is_closed = False
        self._idle = threading.Event()
        self._idle.set()
        self._ended_at = self._next_at = 0.0
        self._attempted: Mapping[str, SourceState] = {}
        """The sessions that the last update should have read."""
        self._error: str | None = None

    def request(self, listing: Listing) -> IndexState:
        """Start an update if a session is not indexed. Return the state of the index."""
        unindexed = listing.find_unindexed()
        with self._lock:
            # A listing from before the end of an update does not show what the update could read.
            shows_last = listing.facts.read_at >= self._ended_at
            failed = sum(
                shows_last and self._attempted.get(name) == state
                for name, state in unindexed.items()
            )
            if shows_last and failed < len(unindexed) and self._can_start():
                self._start(unindexed)
            return IndexState(
                pending=len(unindexed) - failed,
                failed=failed,
                is_running=self._process is not None,
                error=self._error,
            )

    def has_failed(self, listing: Listing, name: str) -> bool:
        """Whether the last update did not add a session, which has not changed since."""
        with self._lock:
            shows_last = listing.facts.read_at >= self._ended_at
            return shows_last and self._attempted.get(name) == listing.states[name]

    def is_running(self) -> bool:
        """Whether an update runs now."""
        return self._process is not None

    def wait(self, timeout_s: float) -> None:
        """Wait until no update runs, at most some time."""
        self._idle.wait(timeout_s)

    def close(self) -> None:
        """End a running update. The rows of the finished transactions stay."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()
        self._idle.wait()

    def _can_start(self) -> bool:
        is_due = time.monotonic() >= self._next_at
        return self._process is None and is_due and not self._is_closed and not self._is_paused()

    def _start(self, unindexed: Mapping[str, SourceState]) -> None:
        self._process = ChildProcess(_update_index, str(self._home.folder))
        self._idle.clear()
        arguments = (self._process, unindexed, time.monotonic())
        threading.Thread(target=self._await_end, args=arguments, daemon=True).start()

    def _await_end(
        self, process: ChildProcess, unindexed: Mapping[str, SourceState], started_at: float
    ) -> None:
        error = None
        try:
            for _ in process.receive():
                pass
        except ChildFailure as failure:
            error = str(failure)
        with self._lock:
            self._ended_at = time.monotonic()
            pause_s = max(_MIN_PAUSE_S, _PAUSE_PER_RUN * (self._ended_at - started_at))
            self._next_at = self._ended_at + min(_MAX_PAUSE_S, pause_s)
            self._process, self._attempted, self._error = None, unindexed, error
        self._idle.set()


def _update_index(_: Connection, folder: str) -> None:
    """Update the index of a home. Raises HarkenError."""
    read_facts(Home(folder), lambda _facts, _store: None)
