"""A chat in a real pseudo-terminal, and the screen that its terminal would show."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pexpect
import pyte

HARKEN = Path(sys.executable).with_name("harken")
PROGRAM = Path(__file__).with_name("approval_program.py")
TIMEOUT_S = 90.0
ENTER, ESCAPE, CTRL_C, CTRL_D, ALT_ENTER = "\r", "\x1b", "\x03", "\x04", "\x1b\r"
UP, SHIFT_TAB = "\x1b[A", "\x1b[Z"
Waited = str | Callable[[], Any]


_UNSET = {"NO_COLOR", "COLUMNS", "LINES"}
"""Variables that would stand for the terminal, for example those of a worker of the tests."""


class Terminal:
    """A program at a terminal: what is typed goes in, what it shows can be waited for."""

    def __init__(
        self, *command: str | Path, columns: int = 80, rows: int = 24, **environment: str
    ) -> None:
        environ = {name: text for name, text in os.environ.items() if name not in _UNSET}
        environ |= {"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process: Any = pexpect.spawn(
            str(command[0]),
            [str(word) for word in command[1:]],
            dimensions=(rows, columns),
            env={**environ, **environment},
            timeout=TIMEOUT_S,
            echo=False,
        )
        self.written = ""
        """Everything that the program wrote."""
        self.screen = pyte.HistoryScreen(columns, rows, history=5000, ratio=0.5)
        self.stream = pyte.Stream(self.screen)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.close(force=True)

    def type(self, text: str) -> None:
        """Press keys."""
        self.process.send(text)

    def say(self, text: str) -> None:
        """Type a line and send it, as soon as it stands in the input."""
        self.type(text)
        self.wait(f"› {text}")
        self.type(ENTER)

    def read(self, wait_s: float = 0.05) -> bool:
        """Take in what was written; return whether the program still runs."""
        try:
            text = self.process.read_nonblocking(65536, timeout=wait_s).decode("utf-8", "replace")
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.written += text
        self.stream.feed(text)
        return True

    @property
    def lines(self) -> list[str]:
        """What the terminal shows, with what has scrolled out of sight."""
        width = self.screen.columns
        above = ["".join(row[x].data for x in range(width)) for row in self.screen.history.top]
        return [line.rstrip() for line in [*above, *self.screen.display]]

    @property
    def text(self) -> str:
        """The same as one text."""
        return "\n".join(self.lines)

    @property
    def unwrapped(self) -> str:
        """The text as one line: where a line is wrapped may depend on the length of a path.

        A row without a free column was wrapped by the terminal, also inside a word.
        """
        columns = self.screen.columns
        rows = (row if len(row) >= columns else f"{row} " for row in self.text.split("\n"))
        return " ".join("".join(rows).split())

    @property
    def visible(self) -> str:
        """Only what is in sight."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait(self, *wanted: Waited) -> str:
        """Wait until the terminal shows all of these texts, or they hold; return what it shows.

        A text is found also where the terminal wraps it.
        """
        until = time.monotonic() + TIMEOUT_S
        runs = True
        while not all(one() if callable(one) else self._shows(one) for one in wanted):
            if time.monotonic() > until or not runs:
                shown = self.text.rstrip()
                raise AssertionError(f"{wanted} not shown, but:\n{shown}\n(running: {runs})")
            runs = self.read()
        return self.text

    def _shows(self, text: str) -> bool:
        return text in self.text or text in self.unwrapped

    def settle(self) -> str:
        """Wait until nothing has been written for a moment, and return what is shown."""
        before = ""
        while before != self.written:
            before = self.written
            self.read(0.2)
        return self.text

    def end(self) -> int:
        """Wait until the program has ended; return its exit code."""
        until = time.monotonic() + TIMEOUT_S
        while self.read():
            assert time.monotonic() < until, f"still running:\n{self.text}"
        self.process.wait()
        return int(self.process.exitstatus)

    def resize(self, columns: int, rows: int) -> None:
        """Make the terminal another size."""
        self.screen.resize(rows, columns)
        self.process.setwinsize(rows, columns)

    def cell(self, text: str) -> Any:
        """Return the first cell of a text that is in sight: its colour, bold, ..."""
        for y, line in enumerate(self.screen.display):
            if text in line:
                return self.screen.buffer[y][line.index(text)]
        raise AssertionError(f"{text!r} not shown:\n{self.visible}")
