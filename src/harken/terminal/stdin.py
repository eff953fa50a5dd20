"""Read the input of a plain chat line by line, also while other events may happen.

Input that is being typed when an event happens is not lost: it is the next line.

Type-ahead is text that was typed before a prompt or a question was shown. It must not answer a
question. The terminal returns only complete lines; it is switched to single characters to read
type-ahead, so that an incomplete line is read, too.
"""

from __future__ import annotations

import asyncio
import io
import os
import select
import sys
from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeAlias

import click

from harken.terminal.text import escape_control_characters

try:
    import termios
    import tty
except ImportError:  # the platform has no POSIX terminals
    termios = None  # type: ignore[assignment]


def take_type_ahead(descriptor: int | None = None) -> str:
    """Return the text typed into a terminal so far, by default of standard input.

    Return an empty text if the descriptor is not a terminal. Never blocks.
    """
    if descriptor is None:
        descriptor = sys.stdin.fileno() if sys.stdin.isatty() else -1
    if termios is None or not os.isatty(descriptor):
        return ""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        return read_waiting(descriptor).replace("\r", "\n")
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def read_waiting(descriptor: int) -> str:
    """Read the available input of a terminal in character mode, without blocking."""
    data = b""
    while select.select([descriptor], [], [], 0)[0]:
        chunk = os.read(descriptor, 65_536)
        if not chunk:
            break
        data += chunk
    return data.decode("utf-8", "replace")


Line: TypeAlias = "str | None"
"""A line. None at the end of the input."""


def stdin_is_interactive() -> bool:
    """Whether standard input and output are a terminal, so that a user can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class StdinReader:
    """The only reader of standard input."""

    def __init__(self) -> None:
        self._pending_line: Future[Line] | None = None
        """The pending read of a line."""
        self._buffer = b""
        self._earlier: list[str] = []
        """Lines that were typed before a question, and do not answer it."""
        try:  # a thread blocked in `sys.stdin` would hold its lock at exit
            self._descriptor: int | None = sys.stdin.fileno()
        except (io.UnsupportedOperation, AttributeError):
            self._descriptor = None

    def read_line(self, prompt: str = "> ") -> Line:
        """Print the prompt to a terminal and return the next line. Blocks."""
        if self._earlier:
            return self._next_earlier(prompt)
        return self.read_new_line(prompt)

    def keep_type_ahead(self) -> None:
        """Keep the lines that were typed until now for `line`: a question is about to be asked.

        The beginning of a line that is half typed is dropped and shown: it can no longer be edited.
        """
        if self._descriptor is None:
            return
        text = take_type_ahead(self._descriptor)
        if self._pending_line is not None and self._pending_line.done():
            text = f"{self._take_line(self._pending_line.result()) or ''}\n{text}"
        *lines, partial = text.split("\n")
        self._earlier += [line for line in lines if line.strip()]
        if partial.strip():
            click.echo(
                f"\ninput before the question was discarded: {escape_control_characters(partial)}",
                err=True,
            )

    def _next_earlier(self, prompt: str) -> str:
        """Return a line that was typed before a question, and print it with its prompt."""
        line = self._earlier.pop(0)
        click.echo(f"{prompt}{escape_control_characters(line)}", err=True)
        return line

    def read_new_line(self, prompt: str) -> Line:
        """Return the next line that is typed, ignoring stored lines. Blocks."""
        if self._pending_line is None and (self._descriptor is None or sys.stdin.isatty()):
            return read_line(prompt)
        self._print_prompt(prompt)
        return (
            self._read()
            if self._pending_line is None
            else self._take_line(self._pending_line.result())
        )

    async def read_line_unless(self, happens: Coroutine[Any, Any, object]) -> tuple[bool, Line]:
        """Return whether a line was read before `happens` finished, and the line.

        Then the next call has the line that is being typed.
        """
        if self._descriptor is None or self._earlier:
            happens.close()
            return True, self.read_line()
        if self._pending_line is None:
            self._print_prompt("> ")
            self._pending_line = coming = Future[Line]()
            Thread(
                target=self._read_in_thread, args=(coming,), name="harken input", daemon=True
            ).start()
        typed = asyncio.wrap_future(self._pending_line)
        event_task: asyncio.Future[object] = asyncio.ensure_future(happens)
        either: set[asyncio.Future[Any]] = {typed, event_task}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if typed.done():
                return True, self._take_line(typed.result())
            event_task.result()
            return False, None
        finally:
            event_task.cancel()

    def _take_line(self, line: Line) -> Line:
        self._pending_line = None
        return line

    def _read_in_thread(self, coming: Future[Line]) -> None:
        """Read a line in a separate thread."""
        try:
            coming.set_result(self._read())
        except BaseException as error:  # noqa: BLE001 - re-raised by the waiting caller
            coming.set_exception(error)

    def _read(self) -> Line:
        """Read a line from the descriptor."""
        assert self._descriptor is not None
        while b"\n" not in self._buffer:
            data = os.read(self._descriptor, 65_536)
            if not data:
                last, self._buffer = self._buffer, b""
                return last.decode("utf-8", "surrogateescape") or None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "surrogateescape").removesuffix("\r")

    def _print_prompt(self, prompt: str) -> None:
        if sys.stdin.isatty():
            click.echo(prompt, nl=False, err=True)  # standard output contains only answers


def read_line(prompt: str = "> ") -> Line:
    """Return the next line of input, or None at its end. A terminal gets the prompt."""
    try:
        if stdin_is_interactive():
            return input(prompt)
        if sys.stdin.isatty():
            click.echo(prompt, nl=False, err=True)  # standard output contains only answers
        return input()
    except EOFError:
        if sys.stdin.isatty():
            click.echo(err=True)
        return None
