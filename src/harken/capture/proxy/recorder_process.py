"""The recorder's process, kept running: started again when it ends, told when there is news.

One idea: it hears by its standard input that something was written, and by the end of it that the
proxy is gone, however that came about. It is in a session of its own, so that what is typed at the
proxy's terminal does not end it: it ends by itself when the spool is done.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_AT_ONCE = 1 << 12


@dataclass(slots=True)
class RecorderProcess:
    """Runs a command until it is closed."""

    command: Sequence[str]
    environ: Mapping[str, str]
    heed: Callable[[dict[str, Any]], None]
    """Is given each line of JSON that the process writes."""
    tell: Callable[[str], None]
    """Is told when it had to be started again."""
    process: subprocess.Popen[bytes] | None = None
    _is_closed: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def start(self) -> None:
        """Start it."""
        self._thread = Thread(target=self._keep, name="recorder", daemon=True)
        self._thread.start()

    def poke(self) -> None:
        """Say that something was written. Never waits."""
        process = self.process
        if process is not None and process.stdin is not None:
            with suppress(OSError, ValueError):  # it is full of pokes already, or gone
                os.write(process.stdin.fileno(), b".")

    def close(self, patience_s: float) -> bool:
        """Let it record what is left, and end; return whether it has, in time."""
        self._is_closed.set()
        process = self.process
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        if self._thread is not None:
            self._thread.join(patience_s)
            return not self._thread.is_alive()
        return True

    def _keep(self) -> None:
        pause_s, told = _FIRST_PAUSE_S, ""
        while True:
            begun_s, is_last = time.monotonic(), self._is_closed.is_set()
            how = self._run()
            if is_last or (not how and self._is_closed.is_set()):
                return
            if time.monotonic() - begun_s > _LONGEST_PAUSE_S:
                pause_s, told = _FIRST_PAUSE_S, ""
            if how != told:
                self.tell(f"the recorder has ended and is started again: {how}")
            told = how
            self._is_closed.wait(pause_s)  # then what is left is recorded at once
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _run(self) -> str:
        """Run it to its end; return how it failed; empty: it did not."""
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
        last = ""
        if self._is_closed.is_set():  # it was closed before there was anything to close
            process.stdin.close()
        with process.stdout as lines:
            for line in lines:
                last = self._hear(line) or last
        code = process.wait()
        with suppress(OSError):
            process.stdin.close()
        if code == 0:
            return "" if self._is_closed.is_set() else "it had nothing to do"
        return last or (f"exit code {code}" if code > 0 else f"signal {-code}")

    def _hear(self, line: bytes) -> str:
        """Heed a line; return it where it is not for us: then it says what is wrong."""
        try:
            value = json.loads(line)
        except ValueError:
            return " ".join(line.decode("utf-8", "replace").split())[:300]
        if isinstance(value, dict):
            self.heed(value)
        return ""


def pokes(descriptor: int = 0) -> Iterator[bool]:
    """Yield True when there is news, in the recorder's process; end with the proxy."""
    while True:
        try:
            data = os.read(descriptor, _AT_ONCE)
        except OSError:
            return
        if not data:
            return
        yield True
