"""The canvas: what stands on the terminal after any order of drawings, as a terminal sees it."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import Any

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.application.current import set_app
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import DummyInput
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window

from harken.chat.screen.canvas import Canvas, SteadyOutput
from harken.terminal.ansi import AnsiStyler


class Paper:
    """A canvas on a terminal that is only pretended."""

    def __init__(self, columns: int = 20, rows: int = 10) -> None:
        self.size = Size(rows=rows, columns=columns)
        self.below = "input\nstatus"
        self.writes: list[str] = []
        self.screen = pyte.HistoryScreen(columns, rows, history=1000)
        self.stream = pyte.Stream(self.screen)
        output = SteadyOutput(self._file(), lambda: self.size, term="xterm")
        control = FormattedTextControl(lambda: self.below)
        layout = Layout(HSplit([Window(control, dont_extend_height=True)]))
        self.app: Application[Any] = Application(layout=layout, output=output, input=DummyInput())
        self.canvas = Canvas(self.app, output, AnsiStyler(), reflows=False)

    def _file(self) -> io.StringIO:
        paper = self

        class File(io.StringIO):
            def write(self, text: str) -> int:
                paper.writes.append(text)
                paper.stream.feed(text)
                return len(text)

        return File()

    def draw(self) -> None:
        """Draw the layout, as prompt_toolkit does after a key."""
        self.app.render_counter += 1
        self.canvas.render(self.app, self.app.layout)

    def live(self, *lines: str) -> None:
        self.canvas.show([[("", line)] for line in lines])

    def print(self, text: str, *live: str) -> None:
        self.canvas.print_above(text, [[("", line)] for line in live])

    @property
    def lines(self) -> list[str]:
        width = self.screen.columns
        above = ["".join(row[x].data for x in range(width)) for row in self.screen.history.top]
        shown = [line.rstrip() for line in [*above, *self.screen.display]]
        while shown and not shown[-1]:
            shown.pop()
        return shown


def on_paper(act: Callable[[Paper], None], **size: int) -> Paper:
    async def play() -> Paper:
        with create_app_session():
            paper = Paper(**size)
            with set_app(paper.app):
                act(paper)
            return paper

    return asyncio.run(play())


def test_live_rows_stand_above_the_layout_and_what_is_printed_above_them() -> None:
    def act(paper: Paper) -> None:
        paper.print("first\n")
        paper.draw()
        paper.live("busy")
        paper.print("second\n", "busy", "more")
        paper.live("busy 1s", "more")

    assert on_paper(act).lines == ["first", "second", "busy 1s", "more", "input", "status"]


def test_only_rows_that_changed_are_written() -> None:
    def act(paper: Paper) -> None:
        paper.draw()
        paper.live("one", "two", "three")
        paper.writes.clear()
        paper.live("one", "2", "three")
        assert len(paper.writes) == 1
        assert "three" not in paper.writes[0]
        assert "input" not in paper.writes[0]
        paper.writes.clear()
        paper.live("one", "2", "three")
        assert paper.writes == []

    on_paper(act)


def test_a_change_of_many_parts_is_one_write() -> None:
    def act(paper: Paper) -> None:
        paper.draw()
        paper.live("a", "b")
        paper.writes.clear()
        paper.print("done\n", "a")
        paper.live("a", "b", "c")
        assert len(paper.writes) == 2

    on_paper(act)


def test_live_rows_give_way_where_the_layout_needs_the_room() -> None:
    def act(paper: Paper) -> None:
        paper.draw()
        paper.live(*(f"row {number}" for number in range(20)))
        paper.below = "\n".join(f"line {number}" for number in range(7))
        paper.draw()

    lines = on_paper(act).lines
    assert [line for line in lines if line.startswith("row")] == ["row 18", "row 19"]
    assert len(lines) == 9


def test_the_end_takes_everything_live_away() -> None:
    def act(paper: Paper) -> None:
        paper.print("kept\n")
        paper.draw()
        paper.live("busy")
        paper.canvas.want([])
        paper.canvas.erase()

    assert on_paper(act).lines == ["kept"]


Step = tuple[str, int]
steps = st.lists(
    st.tuples(st.sampled_from(["print", "live", "below", "draw"]), st.integers(0, 14)), max_size=30
)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_whatever_is_drawn_in_whatever_order_everything_stands_there_once(
    drawing: list[Step],
) -> None:
    printed: list[str] = []
    live: list[str] = []

    def act(paper: Paper) -> None:
        paper.draw()
        for at, (what, count) in enumerate(drawing):
            if what == "print":
                new = [f"printed {at} {number}" for number in range(count)]
                printed.extend(new)
                paper.print("".join(f"{line}\n" for line in new), *live)
            elif what == "live":
                live[:] = [f"live {at} {number}" for number in range(count)]
                paper.live(*live)
            elif what == "below":
                paper.below = "\n".join(f"below {number}" for number in range(count % 6 + 1))
                paper.draw()
            else:
                paper.draw()
        below = paper.below.split("\n")
        room = 10 - len(below) - 1
        assert paper.lines == [*printed, *live[-room:], *below]

    on_paper(act)
