"""`RecorderProcess`: keep the recorder's process running, and notify it of new data.

A byte on its standard input means that data was written, and the end of the input that the proxy
has ended. The process has a session of its own, so that signals typed at the proxy's terminal do
not end it. It exits when the spool is processed.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import msgspec

_MIN_PAUSE_S, _MAX_PAUSE_S = 0.5, 30.0
_READ_BYTES = 1 << 12


class RecorderProcess(msgspec.Struct):
    """Run a command until it is closed."""

    command: Sequence[str]
    environ: Mapping[str, str]
    on_message: Callable[[dict[str, Any]], None]
    """Called with each JSON object that the process prints."""
    on_notice: Callable[[str], None]
    """Called when the process had to be restarted."""
    process: subprocess.Popen[bytes] | None = None
    _is_closed: Event = msgspec.field(default_factory=Event)
    _thread: Thread | None = None

    def start(self) -> None:
        """Start the process."""
        self._thread = Thread(target=self._keep_running, name="recorder", daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """Notify the process of new data. Never blocks."""
        process = self.process
        if process is not None and process.stdin is not None:
            with suppress(
                OSError, ValueError
            ):  # The pipe is full of notifications, or the process has ended.
                os.write(process.stdin.fileno(), b".")

    def close(self, patience_s: float) -> bool:
        """Let the process record the remaining data and exit. Return whether it has, in time."""
        self._is_closed.set()
        process = self.process
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        if self._thread is not None:
            self._thread.join(patience_s)
            return not self._thread.is_alive()
        return True

    def _keep_running(self) -> None:
        pause_s, reported_error = _MIN_PAUSE_S, ""
        while True:
            started_s, is_last = time.monotonic(), self._is_closed.is_set()
            error = self._run()
            if is_last or (not error and self._is_closed.is_set()):
                return
            if time.monotonic() - started_s > _MAX_PAUSE_S:
                pause_s, reported_error = _MIN_PAUSE_S, ""
            if error != reported_error:
                self.on_notice(f"the recorder has ended and is started again: {error}")
            reported_error = error
            self._is_closed.wait(pause_s)  # After a close, the remaining data is recorded at once.
            pause_s = min(pause_s * 2, _MAX_PAUSE_S)

    def _run(self) -> str:
        """Run the process to its end. Return the error. Return "" if there was none."""
        try:
            process = subprocess.Popen(
                self.command,
                env=dict(self.environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return f"it cannot be started: {error.strerror or error}"
        assert process.stdin is not None
        assert process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        self.process = process
        last_line = ""
        if self._is_closed.is_set():  # `close` was called before the process was started.
            process.stdin.close()
        with process.stdout as lines:
            for line in lines:
                last_line = self._process_line(line) or last_line
        code = process.wait()
        with suppress(OSError):
            process.stdin.close()
        if code == 0:
            return "" if self._is_closed.is_set() else "it ended early"
        return last_line or (f"exit code {code}" if code > 0 else f"signal {-code}")

    def _process_line(self, line: bytes) -> str:
        """Process a line of output.

        Return it if it is not JSON, because then it is an error message.
        """
        try:
            value = json.loads(line)
        except ValueError:
            return " ".join(line.decode("utf-8", "replace").split())[:300]
        if isinstance(value, dict):
            self.on_message(value)
        return ""


def iter_notifications(descriptor: int = 0) -> Iterator[bool]:
    """In the recorder's process: yield True for each notification, until the proxy has ended."""
    while True:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except OSError:
            return
        if not data:
            return
        yield True
