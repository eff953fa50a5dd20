"""Record calls in a background thread, so that the program does not wait for it.

The calling thread only appends to a queue. Errors in the background are logged once, and calls
continue. A forked child process does not record, because a log has only one writer.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Protocol, Self, TypeAlias

from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints

MAX_WAITING_BYTES = 1 << 28
"""Maximum size of the queue. Calls that exceed it are dropped completely."""
FLUSH_TIMEOUT_S = 60.0
"""Maximum time that `close` waits for the queue, in seconds."""
_POLL_S = 0.002
_logger = logging.getLogger("harken.interactions")
_NO_HINTS = ClientHints()
Work: TypeAlias = Callable[[], object]


class RecordingSink(Protocol):
    """Receives the start and the end of recorded calls: a `Recorder`, or a list in a test."""

    def begin(self, call: CapturedRequest) -> object:
        """Receive a call when it starts."""
        ...

    def end(self, reply: CapturedResponse) -> object:
        """Receive the end of a call that has started."""
        ...


class BackgroundRecorder:
    """Forwards calls to a sink in a background thread, in their order."""

    def __init__(
        self,
        ear: RecordingSink,
        *,
        hints: ClientHints = _NO_HINTS,
        most_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        """Prepare the recorder; the thread starts with the first call.

        `hints` apply to all calls, in addition to the hints of each call.
        """
        self.hints = hints
        self.dropped = 0
        """Number of calls that were dropped, or that could not be recorded."""
        self.sink = ear
        self._max_waiting_bytes = most_waiting_bytes
        self._queue: SimpleQueue[tuple[Work, int] | None] = SimpleQueue()
        self._lock = Lock()
        self._waiting = self._waiting_bytes = 0
        self._thread: Thread | None = None
        self._process = os.getpid()
        self._is_closed = self._has_warned = False
        self._open: dict[str, Work] = {}

    def submit(self, work: Work, size_bytes: int, *, is_due: bool = False) -> bool:
        """Queue work for the background thread. Return False if it was dropped because of the size.

        If `is_due`, the work belongs to a call that was already queued, and is not dropped.
        """
        if os.getpid() != self._process:
            self._warn_once(
                "a forked process records nothing: make its client and its recording there"
            )
            return False
        with self._lock:
            is_full = (
                self._waiting > 0 and self._waiting_bytes + size_bytes > self._max_waiting_bytes
            )
            is_taken = not self._is_closed and (is_due or not is_full)
            if is_taken:
                self._waiting += 1
                self._waiting_bytes += size_bytes
                self._start()
                self._queue.put((work, size_bytes))
        if not is_taken and not self._is_closed:
            self.dropped += 1
            self._warn_once("recording is slower than the calls: some are not recorded")
        return is_taken

    def add_open(self, id: str, end: Work) -> None:
        """Remember an open call and the function that ends it on `close`."""
        self._open[id] = end

    def remove_open(self, id: str) -> None:
        """Forget a call that has ended."""
        self._open.pop(id, None)

    def flush(self, patience_s: float = FLUSH_TIMEOUT_S) -> bool:
        """Wait until the queue is recorded. Return False after a timeout."""
        deadline = monotonic() + patience_s
        while self._waiting and os.getpid() == self._process:
            if monotonic() > deadline or not self._is_alive():
                return False
            sleep(_POLL_S)
        return True

    def close(self) -> None:
        """Record the queue and stop the thread; later calls are not recorded."""
        atexit.unregister(self.close)
        if self._is_closed or os.getpid() != self._process:
            return
        for end in list(self._open.values()):
            with suppress(Exception):
                end()
        self.flush()
        self._is_closed = True
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(_POLL_S * 500)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="harken-recording", daemon=True)
            self._thread.start()
            atexit.register(self.close)

    def _run(self) -> None:
        while (next_ := self._queue.get()) is not None:
            work, size_bytes = next_
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the border: recording never breaks a call
                self.dropped += 1
                self._warn_once(f"a call was not recorded ({type(error).__name__}: {error})")
            del work, next_  # Keeps no reference while waiting.
            with self._lock:
                self._waiting -= 1
                self._waiting_bytes -= size_bytes

    def _warn_once(self, text: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            _logger.warning("%s", " ".join(text.split())[:300])
