"""A program in a pseudo-terminal: when it shows what, and the CPU time that it takes. Linux."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pexpect

WITHIN_S = 30.0
TYPED_S = 0.05
"""After so long what was typed is shown, and nothing is left to do."""
QUIET_S = 0.15
"""A turn draws more often than this while it runs."""


class Terminal:
    """Runs a program; whoever reads from it does so in time."""

    def __init__(self, command: Sequence[str], *, folder: Path) -> None:
        """Start a program in a folder."""
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        own = {"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path)}
        program, *arguments = command
        self.started = time.perf_counter()
        self._process: Any = pexpect.spawn(
            program,
            arguments,
            dimensions=(30, 100),
            cwd=str(folder),
            env={**inherited, **own},
            echo=False,
        )
        self.fd: int = self._process.child_fd
        self._written = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.close(force=True)

    @property
    def cpu_s(self) -> float:
        """The CPU time of the program so far, to the microsecond.

        Source: clock_getcpuclockid(3): the clock of another process is made of its id.
        """
        return time.clock_gettime(~self._process.pid << 3 | 2)

    def enter(self, text: str) -> float:
        """Type a line, and when that is done press Enter; return when that was."""
        os.write(self.fd, text.encode())
        quiet(self, for_s=TYPED_S)
        self._written = b""
        pressed = time.perf_counter()
        os.write(self.fd, b"\r")
        return pressed

    def shows(self, text: str) -> float:
        """Wait until a text is shown that was not there at the last Enter; return when it was."""
        until = time.monotonic() + WITHIN_S
        while not self.has(text):
            if time.monotonic() > until:
                raise TimeoutError(f"{text!r} is not shown, but {self._written[-3000:]!r}")
            if select.select([self.fd], [], [], 0.1)[0]:
                self.take()
        return time.perf_counter()

    def has(self, text: str) -> bool:
        """Whether a text was shown since the last Enter."""
        return text.encode() in self._written

    def take(self) -> None:
        """Read what was written."""
        self._written += os.read(self.fd, 1 << 16)


def quiet(*terminals: Terminal, for_s: float = QUIET_S) -> None:
    """Read until none of these programs has written for so long."""
    by_fd = {terminal.fd: terminal for terminal in terminals}
    while ready := select.select([*by_fd], [], [], for_s)[0]:
        for fd in ready:
            by_fd[fd].take()


def at_rest(terminal: Terminal) -> None:
    """Wait until a program has nothing to do any more, neither to show nor to compute."""
    before = -1.0
    while before != (before := terminal.cpu_s):
        quiet(terminal)
