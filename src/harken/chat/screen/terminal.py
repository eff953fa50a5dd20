"""The terminal of the screen, with its canvas.

Finished text is printed above and never changes; live lines are drawn often; the layout with the
input below them is prompt_toolkit's.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.layout import Layout
from prompt_toolkit.output.color_depth import ColorDepth

from harken.chat.screen.canvas import Canvas, SteadyOutput
from harken.chat.screen.layout import STYLE
from harken.terminal.ansi import AnsiStyler
from harken.terminal.environment import TerminalEnvironment
from harken.terminal.pieces import MAX_TEXT_CELLS, Piece, Printer, note
from harken.terminal.styled_text import Line, clean_text

LiveLines: TypeAlias = Callable[[int, int], list[Line]]
"""Returns the live lines for a width and a height."""
_ESCAPE_WAIT_S = 0.1
_SEQUENCE_WAIT_S = 0.2


class ScreenTerminal:
    """Draws the screen, without any logic of the chat."""

    def __init__(self, where: TerminalEnvironment, layout: Layout, live: LiveLines) -> None:
        ink = AnsiStyler(where.color)
        depth = ColorDepth.DEPTH_4_BIT if where.color else ColorDepth.DEPTH_1_BIT
        output = SteadyOutput.from_pty(sys.stdout, where.term, default_color_depth=depth)
        assert isinstance(output, SteadyOutput)
        self.output = output
        self.app: Application[int] = Application(
            layout=layout,
            style=STYLE,
            include_default_pygments_style=False,
            color_depth=depth,
            erase_when_done=True,
            terminal_size_polling_interval=None,
            output=self.output,
        )
        self.app.ttimeoutlen, self.app.timeoutlen = _ESCAPE_WAIT_S, _SEQUENCE_WAIT_S
        self.printer = Printer(ink)
        self._canvas = Canvas(self.app, self.output, ink, reflows=where.reflows)
        self._live = live
        self.app.before_render += lambda _: self._fit()
        self.on_return: Callable[[], None] = lambda: None
        """Called when another program returns the terminal."""
        self._is_suspended = False
        self._lent: asyncio.Future[Any] | None = None
        self._buffered: list[Piece] = []
        """Pieces buffered while another program had the terminal."""

    @property
    def columns(self) -> int:
        """The width of the terminal."""
        return self.output.get_size().columns

    @property
    def rows(self) -> int:
        """The height of the terminal."""
        return self.output.get_size().rows

    @property
    def width(self) -> int:
        """The width of texts."""
        return max(min(self.columns - 1, MAX_TEXT_CELLS), 1)

    def print(self, pieces: Iterable[Piece]) -> None:
        """Print finished pieces above the live rows."""
        if self._is_suspended:
            self._buffered += pieces
            return
        text = "".join(self.printer.text(piece, self.columns) for piece in pieces)
        with self.output.buffered():
            self._canvas.print_above(text, self._lines())

    def paint(self) -> None:
        """Draw the live lines as they are now."""
        if not self._is_suspended:
            self._canvas.show(self._lines())

    def refresh(self) -> None:
        """Request a drawing of the live rows and the layout."""
        if not self._is_suspended:
            self._canvas.want(self._lines())
            self.app.invalidate()

    def bell(self) -> None:
        """Ring the terminal bell."""
        self.output.bell()

    def edit(self, buffer: Buffer) -> None:
        """Let the user edit a text in an editor, which has the terminal until it ends."""
        self._is_suspended = True
        buffer.open_in_editor().add_done_callback(self._resume)

    def lend(self, command: Sequence[str]) -> None:
        """Run a program on the terminal until it ends. If it fails, print its error."""
        self._is_suspended = True
        running = run_in_terminal(partial(_run_program, command), in_executor=True)
        self._lent = asyncio.ensure_future(running)
        self._lent.add_done_callback(self._resume_after)

    def suspend(self) -> None:
        """Give the terminal back to the shell until the user continues the program."""
        stopping = run_in_terminal(partial(os.kill, 0, signal.SIGTSTP))
        self._lent = asyncio.ensure_future(stopping)
        self._lent.add_done_callback(lambda _: self.on_return())

    def _resume_after(self, running: asyncio.Future[str]) -> None:
        failed = not running.cancelled() and running.exception() is not None
        why = (
            str(running.exception()) if failed else "" if running.cancelled() else running.result()
        )
        self._print_buffered([note(clean_text(why), "red")] if why else [])

    def _resume(self, editing: asyncio.Task[None]) -> None:
        failed = not editing.cancelled() and editing.exception() is not None
        why = f"the editor failed: {clean_text(str(editing.exception()))}" if failed else ""
        self._print_buffered([note(why, "red")] if why else [])

    def _print_buffered(self, pieces: Sequence[Piece]) -> None:
        """Print the pieces buffered while another program had the terminal, then `pieces`."""
        self._is_suspended = False
        buffered, self._buffered = self._buffered, []
        self.print([*buffered, *pieces])
        self.on_return()

    def _fit(self) -> None:
        """Compute the live rows again after a resize of the terminal."""
        if not self._is_suspended and self._canvas.is_stale:
            self._canvas.want(self._lines())

    def _lines(self) -> list[Line]:
        return self._live(self.width, self._canvas.room())


def _run_program(command: Sequence[str]) -> str:
    """Run a program; return its error output, empty if it succeeded."""
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    return "" if ran.returncode == 0 else ran.stderr.strip().removeprefix("harken: ")
