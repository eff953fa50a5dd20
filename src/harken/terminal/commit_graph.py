"""A graph of commits in a terminal: colored lanes, a commit per row, truncated to the width."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TextIO

import msgspec

from harken.context.graph import GraphCell, GraphRow
from harken.context.materialize import is_spawn
from harken.core.commits import CommitId
from harken.store.base import StoredCommit
from harken.terminal.ansi import AnsiStyler
from harken.terminal.styled_text import Line, Span, clean_text, shorten, truncate_line

LANE_COLORS = ("red", "green", "yellow", "blue", "magenta", "cyan")
"""The colors of lanes, in rotation."""
MIN_GRAPH_CELLS = 20
"""The minimum width of a graph in cells, even on a narrower terminal."""
UNLIMITED_CELLS = 10_000
MAX_ID_CHARS, MAX_AGENT_CHARS = 8, 12
"""The number of characters of a native session id and of a subagent in a graph."""


class CommitGlyphs(msgspec.Struct, frozen=True):
    """The character that marks a commit in its column of the graph."""

    delta: str = "*"
    compaction: str = "="
    snapshot: str = "+"
    spawn: str = ">"

    def of(self, stored: StoredCommit) -> str:
        """Return the character of a commit."""
        if is_spawn(stored):
            return self.spawn
        signs = {"compaction": self.compaction, "snapshot": self.snapshot}
        return signs.get(stored.commit.type, self.delta)


ASCII_GLYPHS = CommitGlyphs()
# These characters are one cell wide in all terminals, also in East Asian ones.
UNICODE_GLYPHS = CommitGlyphs(compaction="\u25ca", snapshot="\u25ab", spawn="\u25ba")


class TerminalStyle(msgspec.Struct, frozen=True):
    """The width, colors and encoding that a terminal supports."""

    width: int = UNLIMITED_CELLS
    """The width in cells."""
    color: bool = False
    styled: bool = False
    encoding: str = "utf-8"

    @property
    def is_wide(self) -> bool:
        """Whether it can show all Unicode characters."""
        return self.encoding.lower().replace("-", "") == "utf8"

    def sign(self, stored: StoredCommit) -> str:
        """Return the character of a commit."""
        return (UNICODE_GLYPHS if self.is_wide else ASCII_GLYPHS).of(stored)

    def fit(self, line: Line) -> Line:
        """Return a line as printed, truncated to the width."""
        if self.is_wide:
            return truncate_line(line, self.width)
        printed = [
            (style, text.encode(self.encoding, "backslashreplace").decode(self.encoding))
            for style, text in line
        ]
        return [
            (style, text.replace("…", "~")) for style, text in truncate_line(printed, self.width)
        ]

    def draw(self, line: Line) -> str:
        """Return a line as it is printed: truncated, and with its styles if there are any."""
        fitted = self.fit(line)
        if self.styled:
            return AnsiStyler(color=self.color).draw(fitted)
        return "".join(text for _, text in fitted)


def detect_terminal_style(
    stream: TextIO | None = None, environ: Mapping[str, str] | None = None
) -> TerminalStyle:
    """Return the capabilities of the terminal at a stream, standard output by default.

    The width of a file is unlimited.
    """
    stream = sys.stdout if stream is None else stream
    environ = os.environ if environ is None else environ
    encoding = getattr(stream, "encoding", None) or "ascii"
    if not stream.isatty():
        return TerminalStyle(encoding=encoding)
    styled = environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    width = shutil.get_terminal_size().columns
    return TerminalStyle(width, styled and not environ.get("NO_COLOR"), styled, encoding)


def graph_lines(
    rows: Iterable[GraphRow], name: Callable[[CommitId], str], look: TerminalStyle
) -> Iterator[str]:
    """Yield the rows of a graph for a terminal. `name` formats a commit id."""
    for row in rows:
        spans = format_lanes(row, look)
        if row.commit is not None:
            spans = [*spans, ("", " "), *format_commit_line(row.commit, name(row.commit.id))]
        yield look.draw(spans)


def format_lanes(row: GraphRow, look: TerminalStyle) -> Line:
    """Return the lanes of a row, at most half as wide as the terminal; `~` marks a truncation."""
    limit = max(look.width // 2, MIN_GRAPH_CELLS)
    cells = row.cells
    sign = look.sign(row.commit) if row.commit is not None else ""
    spans = [_cell(cell, sign) for cell in cells[:limit]]
    return [*spans[:-1], ("", "~")] if len(cells) > limit else spans


def _cell(cell: GraphCell, sign: str) -> Span:
    colour = LANE_COLORS[cell.column % len(LANE_COLORS)] if cell.column >= 0 else ""
    if cell.glyph == "*":
        return f"bold {colour}", sign
    return colour, cell.glyph


def format_commit_line(stored: StoredCommit, name: str) -> Line:
    """Return a commit on one line: its name, time, principal, type, labels and summary."""
    commit, notes = stored.commit, stored.notes
    line: Line = [
        ("yellow", name),
        ("dim", f"  {commit.created_at[:16].replace('T', ' ')}  "),
        ("cyan", _short_principal(commit.principal) or "unknown"),
    ]
    if commit.template:
        line.append(("cyan", f" ({_one_line(commit.template, 24)})"))
    if commit.type != "delta":
        line.append(("magenta", f" {'spawn' if is_spawn(stored) else commit.type}"))
    line += [("bold green", f" [{_one_line(label, 40)}]") for label in notes.labels]
    return [*line, ("", f"  {_one_line(notes.summary)}")]


def _short_principal(principal: str) -> str:
    """Return a principal with its native session id shortened, as `sessions` shows it.

    The full id would leave no room for the summary in a terminal of 80 cells.
    """
    runtime, colon, tail = principal.partition(":")
    if not colon:
        return _one_line(principal, 40)
    session, slash, agent = tail.partition("/")
    return _one_line(
        f"{runtime}:{session[:MAX_ID_CHARS]}{slash}{_one_line(agent, MAX_AGENT_CHARS)}", 40
    )


def _one_line(text: str, width: int = UNLIMITED_CELLS) -> str:
    return shorten(" ".join(clean_text(text).split()), width)
