"""Recording in a thread of its own, so that no call of a program waits for it.

One idea: whoever sees a call only puts it into a queue. What goes wrong behind it is told once, and
the calls go on. A process that was forked off does not record: the log has one writer.
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

MOST_WAITING_BYTES = 1 << 28
"""So much may wait to be recorded; of what comes then, whole calls are left out."""
PATIENCE_S = 60.0
"""So long `close` waits for what is still to be recorded."""
_STEP_S = 0.002
_logger = logging.getLogger("harken.interactions")
_NONE = ClientHints()
Work: TypeAlias = Callable[[], object]


class CallSink(Protocol):
    """Whoever is told of calls and how they ended: a `Recorder`, a list in a test."""

    def begin(self, call: CapturedRequest) -> object:
        """Take a call, at the moment at which it is made."""
        ...

    def end(self, reply: CapturedResponse) -> object:
        """Take how a call ended; it has begun."""
        ...


class BackgroundRecorder:
    """Tells an ear in a thread of its own, in the order in which it is told."""

    def __init__(
        self,
        ear: CallSink,
        *,
        hints: ClientHints = _NONE,
        most_waiting_bytes: int = MOST_WAITING_BYTES,
    ) -> None:
        """Start nothing yet: the thread comes with the first call.

        hints: what is known of all calls, beside what each says of itself.
        """
        self.hints = hints
        self.left_out = 0
        """Calls that were not recorded, since too much was waiting, or recording failed."""
        self.ear = ear
        self._room = most_waiting_bytes
        self._queue: SimpleQueue[tuple[Work, int] | None] = SimpleQueue()
        self._lock = Lock()
        self._waiting = self._waiting_bytes = 0
        self._thread: Thread | None = None
        self._process = os.getpid()
        self._is_closed = self._is_told = False
        self._open: dict[str, Work] = {}

    def later(self, work: Work, size_bytes: int, *, is_due: bool = False) -> bool:
        """Have something done behind the calls; False: it is left out, for too much waits.

        is_due: it belongs to what was taken already, and is not left out.
        """
        if os.getpid() != self._process:
            self._tell("a forked process records nothing: make its client and its recording there")
            return False
        with self._lock:
            is_full = self._waiting > 0 and self._waiting_bytes + size_bytes > self._room
            is_taken = not self._is_closed and (is_due or not is_full)
            if is_taken:
                self._waiting += 1
                self._waiting_bytes += size_bytes
                self._start()
                self._queue.put((work, size_bytes))
        if not is_taken and not self._is_closed:
            self.left_out += 1
            self._tell("recording is slower than the calls: some are left out")
        return is_taken

    def opened(self, id: str, end: Work) -> None:
        """Remember a call that is under way, and what ends it if nobody else does."""
        self._open[id] = end

    def ended(self, id: str) -> None:
        """Forget a call: it has its end."""
        self._open.pop(id, None)

    def flush(self, patience_s: float = PATIENCE_S) -> bool:
        """Wait until all that was taken is recorded; False: it is not after so long."""
        until = monotonic() + patience_s
        while self._waiting and os.getpid() == self._process:
            if monotonic() > until or not self._is_alive():
                return False
            sleep(_STEP_S)
        return True

    def close(self) -> None:
        """Record what is still to be recorded, and end; calls after it are not recorded."""
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
            self._thread.join(_STEP_S * 500)

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
                self.left_out += 1
                self._tell(f"a call was not recorded ({type(error).__name__}: {error})")
            del work, next_  # so that nothing is held while nothing comes
            with self._lock:
                self._waiting -= 1
                self._waiting_bytes -= size_bytes

    def _tell(self, text: str) -> None:
        if not self._is_told:
            self._is_told = True
            _logger.warning("%s", " ".join(text.split())[:300])
