"""The canvas: live rows above the input, and finished text above them.

From top to bottom: the terminal's own scrollback, into which finished text is printed once; live
rows, which change many times a second; prompt_toolkit's layout with the input. The layout is drawn
by prompt_toolkit, which takes a millisecond or two; live rows are drawn here, only those that
changed, in some 50 µs. All positions are relative to the cursor, so the canvas need not know the
content above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout import Layout
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer

from harken.terminal.ansi import AnsiStyler
from harken.terminal.styled_text import Line, truncate_line
from harken.terminal.styled_text import cell_width as cells


class SteadyOutput(Vt100_Output):
    """An output that can buffer writes, so that several changes are drawn at once."""

    _holding = 0

    @contextmanager
    def buffered(self) -> Iterator[None]:
        """Buffer all writes until the end of the block."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
            self.flush()

    def flush(self) -> None:
        if not self._holding:
            super().flush()

    def buffer_length(self) -> int:
        """Return the length of the buffer, for `since`."""
        return len(self._buffer)

    def since(self, mark: int) -> str:
        """Return the buffered output after this position."""
        return "".join(self._buffer[mark:])

    @property
    def responds_to_cpr(self) -> bool:
        """Never request the cursor position: it is not needed, and responses mix with keys."""
        return False


class _Row(msgspec.Struct, frozen=True):
    """A live row on the terminal."""

    drawn: str
    cells: int


class Canvas(Renderer):
    """Draws the layout, and live rows above it."""

    _rows: Sequence[_Row] = ()
    """The live rows that are on the terminal, right above the layout."""
    _target_rows: Sequence[_Row] = ()
    _replay: str | None = None
    """The output that redraws the current layout. None if it is not known."""

    def __init__(
        self, app: Application[Any], output: SteadyOutput, ink: AnsiStyler, *, reflows: bool
    ) -> None:
        """Take over the drawing of `app`.

        `reflows`: whether the terminal rewraps lines when it becomes narrower.
        """
        self._app, self._ink, self._reflows = app, ink, reflows
        self._steady = output
        super().__init__(app.renderer.style, output)
        app.renderer = self

    def room(self) -> int:
        """Return the maximum number of live rows."""
        rows = self.output.get_size().rows
        below = self._last_screen.height if self._last_screen else 3
        return max(rows - below - 1, 0)

    @property
    def is_stale(self) -> bool:
        """Whether the live rows must be computed again for another size of the terminal."""
        return not self._is_drawn() or self._is_resized()

    def want(self, lines: Sequence[Line]) -> None:
        """Set the live rows, each truncated to a row, for the next drawing."""
        width = self.output.get_size().columns - 1
        self._target_rows = [self._row(line, width) for line in lines]

    def show(self, lines: Sequence[Line]) -> None:
        """Draw these as the live rows."""
        self.want(lines)
        if not self._is_drawn():
            return
        with self._steady.buffered():
            if len(self._fit_rows()) == len(self._rows) and not self._is_resized():
                self._patch()
            else:
                self._draw_again("")

    def print_above(self, text: str, lines: Sequence[Line]) -> None:
        """Print finished rows, each ended by a newline, above these live rows."""
        self.want(lines)
        text = text.replace("\n", "\r\n")
        with self._steady.buffered():
            if self._is_drawn():
                self._draw_again(text)
            else:
                self.output.write_raw(text)

    def _draw_again(self, text: str) -> None:
        """Print a text in place of the live rows and the layout, and draw these below it.

        The layout is not computed again if it was drawn at once and has not changed since.
        """
        replay = self._replay
        if replay is None or self._is_resized():
            self.erase()
            self.output.write_raw(text)
            self._app.render_counter += 1  # invalidates the caches of the controls
            self.render(self._app, self._app.layout)
            return
        up = self._cursor_pos.y + len(self._rows)
        self.output.write_raw(f"\x1b[{up}A\r\x1b[J" if up else "\r\x1b[J")
        self.output.enable_autowrap()
        self.output.write_raw(text)
        self._draw_rows(self._fit_rows())
        self.output.write_raw(replay)

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:  # noqa: FBT002 - prompt_toolkit's signature
        with self._steady.buffered():
            if is_done:
                self._target_rows = []
            size = self.output.get_size()
            height = layout.container.preferred_height(size.columns, size.rows).preferred
            rows = self._fit_rows(height)
            shrinks = self._last_screen is not None and self._last_screen.height > height
            if self._is_resized() or shrinks or len(rows) != len(self._rows):
                self.erase()
            is_new = not self._is_drawn()
            if is_new:
                self._draw_rows(rows)
            else:
                self._patch(height)
            mark = self._steady.buffer_length()
            super().render(app, layout, is_done)
            self._replay = self._steady.since(mark) if is_new and not is_done else None

    def erase(self, leave_alternate_screen: bool = True) -> None:  # noqa: FBT002 - as above
        above = self._height_above() if self._rows else 0
        self._cursor_pos = Point(self._cursor_pos.x, self._cursor_row() + above)
        super().erase(leave_alternate_screen)

    def reset(self, _scroll: bool = False, leave_alternate_screen: bool = True) -> None:  # noqa: FBT002 - as above
        """Forget the rows on the terminal: they stay there, or were erased."""
        self._rows, self._replay = (), None
        super().reset(_scroll, leave_alternate_screen)

    def _row(self, line: Line, width: int) -> _Row:
        width_used = cells("".join(text for _, text in line))
        if width_used > width:
            line, width_used = truncate_line(line, width), width
        return _Row(self._ink.draw(line), width_used)

    def _is_drawn(self) -> bool:
        return self._last_screen is not None

    def _is_resized(self) -> bool:
        return self._last_size not in (None, self.output.get_size())

    def _draw_rows(self, rows: Sequence[_Row]) -> None:
        self.output.write_raw("".join(f"{row.drawn}\r\n" for row in rows))
        self._rows = rows

    def _fit_rows(self, below: int | None = None) -> Sequence[_Row]:
        """Return the last live rows that fit above the layout."""
        if below is None:
            below = self._last_screen.height if self._last_screen else 0
        room = self.output.get_size().rows - below - 1
        return self._target_rows[-room:] if room > 0 else ()

    def _patch(self, below: int | None = None) -> None:
        """Draw the live rows that changed; their number is the same."""
        rows = self._fit_rows(below)
        indexes = [index for index, row in enumerate(rows) if row != self._rows[index]]
        for index in indexes:
            up = self._cursor_pos.y + len(rows) - index
            self.output.write_raw(f"\x1b[{up}A\r{rows[index].drawn}\x1b[K\x1b[{up}B")
        if indexes:
            x = self._cursor_pos.x
            self.output.write_raw(f"\r\x1b[{x}C" if x else "\r")
        self._rows = rows

    def _height_above(self) -> int:
        """Return the number of terminal rows of the live rows."""
        return sum(self._count_wrapped_rows(row.cells) for row in self._rows)

    def _cursor_row(self) -> int:
        """Return the cursor's row in the layout as it is on the terminal now."""
        screen = self._last_screen
        if screen is None or not self._is_narrowed():
            return self._cursor_pos.y
        columns = self.output.get_size().columns
        rows = 0
        for y in range(self._cursor_pos.y):
            row = screen.data_buffer[y]
            rows += self._count_wrapped_rows(
                1 + max((x for x in row if row[x].char != " "), default=-1)
            )
        return rows + self._cursor_pos.x // columns

    def _count_wrapped_rows(self, row_width: int) -> int:
        """Return the number of terminal rows of a row: after a resize it may be several."""
        if not self._is_narrowed():
            return 1
        return max(1, -(-row_width // self.output.get_size().columns))

    def _is_narrowed(self) -> bool:
        size, before = self.output.get_size(), self._last_size
        return self._reflows and before is not None and size.columns < before.columns
