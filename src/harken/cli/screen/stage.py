"""The stage: the terminal with all that is drawn on it.

What is finished is printed above and never changes; live lines are drawn often; the layout with
the input below them is prompt_toolkit's.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import TypeAlias

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.layout import Layout
from prompt_toolkit.output.color_depth import ColorDepth

from harken.cli.screen.canvas import Canvas, SteadyOutput
from harken.cli.screen.ink import Ink
from harken.cli.screen.layout import STYLE
from harken.cli.screen.piece import Piece, note
from harken.cli.screen.printer import WIDEST, Printer
from harken.cli.screen.styled import Line, clean
from harken.cli.screen.surroundings import Surroundings

LiveLines: TypeAlias = Callable[[int, int], list[Line]]
"""Gives the live lines for a width and a height."""
_ESCAPE_WAIT_S = 0.1
_SEQUENCE_WAIT_S = 0.2


class Stage:
    """Draws; it decides nothing."""

    def __init__(self, where: Surroundings, layout: Layout, live: LiveLines) -> None:
        ink = Ink(where.colour)
        depth = ColorDepth.DEPTH_4_BIT if where.colour else ColorDepth.DEPTH_1_BIT
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
        self._away = False
        self._kept: list[Piece] = []
        """What was to be printed while the terminal belonged to another program."""

    @property
    def columns(self) -> int:
        """How wide the terminal is."""
        return self.output.get_size().columns

    @property
    def rows(self) -> int:
        """How high the terminal is."""
        return self.output.get_size().rows

    @property
    def width(self) -> int:
        """How wide texts are."""
        return max(min(self.columns - 1, WIDEST), 1)

    def print(self, pieces: Iterable[Piece]) -> None:
        """Print what is finished above all that is live."""
        if self._away:
            self._kept += pieces
            return
        text = "".join(self.printer.text(piece, self.columns) for piece in pieces)
        with self.output.held():
            self._canvas.print_above(text, self._lines())

    def paint(self) -> None:
        """Draw the live lines as they are now."""
        if not self._away:
            self._canvas.show(self._lines())

    def refresh(self) -> None:
        """Draw everything that is not finished, soon."""
        if not self._away:
            self._canvas.want(self._lines())
            self.app.invalidate()

    def bell(self) -> None:
        """Ask for attention."""
        self.output.bell()

    def edit(self, buffer: Buffer) -> None:
        """Let the user write a text in an editor, which has the terminal until it ends."""
        self._away = True
        buffer.open_in_editor().add_done_callback(self._back)

    def _back(self, editing: asyncio.Task[None]) -> None:
        self._away = False
        kept, self._kept = self._kept, []
        if not editing.cancelled() and editing.exception() is not None:
            kept.append(note(f"the editor failed: {clean(str(editing.exception()))}", "red"))
        self.print(kept)

    def _fit(self) -> None:
        """Have live rows that fit, where the terminal has another size than before."""
        if not self._away and self._canvas.is_stale:
            self._canvas.want(self._lines())

    def _lines(self) -> list[Line]:
        return self._live(self.width, self._canvas.room())
