"""The position in a session and the visible page, independent of a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

import msgspec

from harken.cli.replay_view.page import (
    context_lines,
    facts_line,
    raw_lines,
    step_lines,
    title_line,
    tool_lines,
)
from harken.cli.replay_view.rows import WrappedRows, highlight, pad_line
from harken.core.ids import AgentId
from harken.errors import NameNotFound
from harken.terminal.styled_text import Line, clean_text, shorten, truncate_line
from harken.views.steps import RequestSteps
from harken.views.viewer import SessionViewer

Sight: TypeAlias = Literal["step", "context", "tools", "raw", "help"]
HELP = """\
n  right    the next request        g   go to a request: a number, -1, an id
b  left     the one before          a   only requests of this agent; all again
space       down, then next         /   search; n next place, N last, Esc ends
up  down    a row up, down          c   the whole context
PgUp PgDn   a page up, down         d   what is new, and what came of it
Home End    first, last request     t   the tools that were offered
?           this help               j   the events as they stand in the log
q  Ctrl-C   end

+ new   - gone   ~ changed, as [-old-] {+new+}   = as before
> a call   < its result   ! what went wrong"""
_KEYS = "n next  b back  g go  a agent  / search  c full  d new  t tools  j json  ? help"
_HEAD = 3
"""Rows above the body: title, facts, a rule."""
_MIN_ROWS = 8
"""In a window with fewer rows there is no rule and no facts."""


class _Drawn(msgspec.Struct):
    """The rows of a page, with the page and the width they belong to."""

    key: tuple[int, Sight, int]
    rows: WrappedRows


@dataclass
class ReplayReader:
    """Moves through the steps of a session and returns the contents of the window."""

    steps: RequestSteps
    viewer: SessionViewer
    number: int = 1
    agent: AgentId | None = None
    """The agent of the visible steps. None: all agents."""
    sight: Sight = "step"
    top: int = 0
    """The index of the first visible row."""
    term: str = ""
    """The searched text."""
    note: str = ""
    """The error of the last key."""
    height: int = 24
    width: int = 80
    _drawn: _Drawn | None = field(default=None, repr=False)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the visible calls."""
        return list(self.steps.numbers_for(self.agent))

    def step(self, by: int) -> None:
        """Move forward or back by this many requests."""
        numbers = self.numbers
        if self.number in numbers:
            index = numbers.index(self.number) + by
        else:  # The request is another agent's: take the nearest one.
            later = [n for n in numbers if n > self.number]
            index = numbers.index(later[0]) if later and by > 0 else len(numbers) - len(later) - 1
        if 0 <= index < len(numbers):
            self.show(numbers[index])
        else:
            self.note = "this is the last request" if by > 0 else "this is the first request"

    def end(self, *, last: bool) -> None:
        """Go to the first request, or the last."""
        self.show(self.numbers[-1 if last else 0])

    def show(self, number: int) -> None:
        """Show the beginning of a request."""
        self.number, self.top, self.note = number, 0, ""
        if self.sight == "help":
            self.sight = "step"

    def go(self, text: str) -> None:
        """Go to the request with this number or id; note an error if it does not exist."""
        try:
            number = self.steps.find(text.strip())
        except NameNotFound as error:
            self.note = str(error)
            return
        if self.agent is not None and number not in self.numbers:
            self.agent = None
        self.show(number)

    def leave(self) -> None:
        """Close a search, else the help."""
        if self.sight == "help" and not self.term:
            self.sight = "step"
        self.term = self.note = ""

    def look(self, sight: Sight) -> None:
        """Show another page of this request; the same page again shows the changes."""
        self.sight = "step" if self.sight == sight else sight
        self.top, self.note = 0, ""

    def only_agent(self) -> None:
        """Toggle between the calls of this request's agent and those of all."""
        is_one = self.agent is not None
        self.agent = None if is_one else self.steps.requests[self.number - 1].agent_id
        self.note = ""

    def scroll(self, by: int) -> None:
        """Scroll down or up by this many rows."""
        self.note = ""
        top = max(self.top + by, 0)
        room = self._room()
        is_past = len(self._rows().get(top, top + room)) < room
        self.top = max(self._rows().all() - room, 0) if is_past and by > 0 else top

    @property
    def page(self) -> int:
        """The number of rows that a page down moves: one row stays visible."""
        return max(self._room() - 1, 1)

    def on(self) -> None:
        """Move a page down; from the end of a page to the next request."""
        if self._rows().get(self.top + self._room(), self.top + self._room() + 1):
            self.scroll(self.page)
        else:
            self.step(1)

    def search(self, term: str) -> None:
        """Show the next occurrence of a text, beginning with this request."""
        self.term = term
        if term:
            self._seek(term, 1, from_here=True)

    def again(self, by: int) -> None:
        """Show the next or previous request that contains the searched text."""
        self._seek(self.term, by, from_here=False)

    def frame(self, width: int, height: int) -> list[Line]:
        """Return the rows of the window."""
        self.width, self.height = max(width, 1), max(height, 1)
        step = self.steps.step(self.number)
        of_agent = len(self.steps.numbers_for(step.agent_id))
        bar = self._bar()
        if self.height == 1:
            return [truncate_line(bar, self.width)]
        head = [title_line(step, len(self.steps), of_agent)]
        if self.height >= _MIN_ROWS:
            head += [facts_line(step), [("dim", "─" * self.width)]]
        room = self._room()
        body = [highlight(row, self.term) for row in self._rows().get(self.top, self.top + room)]
        body += [[("", "")]] * (room - len(body))
        rows = [
            *(truncate_line(line, self.width) for line in head),
            *body,
            truncate_line(bar, self.width),
        ]
        return rows[-self.height :]

    def _bar(self) -> Line:
        """Return the last row: an error, the searched text, or the keys."""
        if self.note:
            text = clean_text(self.note)
        elif self.term:
            text = f"/{clean_text(self.term)}  n next match  N previous  Esc end search"
        else:
            text = _KEYS
        only = "" if self.agent is None else " only this agent "
        room = self.width - len(only)
        return pad_line([("reverse", shorten(text, room)), ("bold", only)], self.width, "reverse")

    def _room(self) -> int:
        """Return the number of rows of the page."""
        return max(self.height - (_HEAD if self.height >= _MIN_ROWS else 1) - 1, 1)

    def _rows(self) -> WrappedRows:
        key = (self.number, self.sight, self.width)
        if self._drawn is None or self._drawn.key != key:
            self._drawn = _Drawn(key, WrappedRows(self._lines(), self.width))
        return self._drawn.rows

    def _lines(self) -> Iterator[Line]:
        match self.sight:
            case "step":
                return step_lines(self.steps, self.number)
            case "context":
                return context_lines(self.steps, self.number)
            case "tools":
                return tool_lines(self.steps, self.number)
            case "raw":
                return raw_lines(self.steps, self.number, self.viewer)
            case "help":
                return ([("", line)] for line in HELP.split("\n"))

    def _seek(self, term: str, by: int, *, from_here: bool) -> None:
        numbers = self.numbers
        index = numbers.index(self.number) if self.number in numbers else 0
        order = [numbers[(index + by * n) % len(numbers)] for n in range(len(numbers) + 1)]
        folded_term = term.casefold()
        for number in order[0 if from_here else 1 :]:
            if folded_term in self._text(number):
                self.show(number)
                self.sight = "step"
                self.top = max((self._rows().find(term) or 0) - 1, 0)
                return
        self.note = f"nowhere: {term}"

    def _text(self, number: int) -> str:
        if number not in self._texts:
            self._texts[number] = self.steps.text(number).casefold()
        return self._texts[number]

    @cached_property
    def _texts(self) -> dict[int, str]:
        """The searchable text of each step, computed on demand."""
        return {}
