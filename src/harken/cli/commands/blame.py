"""`harken blame`: the agent, the model and the commit of each line of a file, like git blame."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import click

from harken.analytics.times import format_minute
from harken.cli.commands.why.answer import CTX_CHARS, SHORT_ID_CHARS, runtime_name
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home, current_folder
from harken.config.index import read_edits
from harken.config.local_zone import LocalZone
from harken.terminal.commit_graph import UNLIMITED_CELLS, TerminalStyle, detect_terminal_style
from harken.terminal.pager import page_output
from harken.terminal.styled_text import Line, cell_width, clean_text, shorten
from harken.terminal.text import one_line, print_json

if TYPE_CHECKING:
    from harken.attribution.answers.blamed_lines import BlamedFileLine
    from harken.attribution.records.edit_index import EditIndex
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store

_MAX_NAME_CELLS = 24
_MIN_TEXT_CELLS = 20
_RANGE_PATTERN = re.compile(r"(\d{1,9})(?:,(\d{1,9}))?")
_MARKS = {"exact": " ", "reformatted": "~", "similar": "*", "uncertain": "?"}


@click.command()
@click.argument("file")
@click.option("-L", "lines", metavar="FROM[,TO]", help="Only these lines.")
@click.option("--rev", "revision", default="", metavar="COMMIT", help="The file in this commit.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Whether to use colors (default: auto, on a terminal).",
)
@json_option
@home_option
def command(
    home: Home, file: str, lines: str | None, revision: str, color: str, as_json: bool
) -> None:
    """Show the agent, the model and the context commit of each line of a FILE.

    A line without a recorded edit has its git commit, its author, and the context that made the
    commit if a trailer or a note names it. Marks: ~ reformatted since, * made
    from a line of an agent, ? uncertain.
    """
    from harken.attribution.answers.blamed_lines import blame_lines
    from harken.attribution.attribution import Attribution
    from harken.attribution.commit_record import has_records
    from harken.attribution.git.repository import GitRepository

    ranges = [] if lines is None else [_parse_range(lines)]
    with closing(GitRepository(current_folder())) as repository:

        def read(index: EditIndex, facts: SessionIndex, store: Store) -> list[BlamedFileLine]:
            attribution = Attribution(repository, index, facts, store)
            commit = attribution.files.resolve_revision(revision)
            path = attribution.files.resolve_path(file, commit)
            data = attribution.files.read_file(path, commit)
            for _, last in ranges:
                attribution.files.check_line(file, last, data)
            return blame_lines(attribution, path, ranges, commit) if data else []

        rows = read_edits(home, read, needs_edits=not has_records(repository))
    if as_json:
        print_json([row.as_json() for row in rows])
        return
    style = _style(color)  # The pager takes the place of the terminal.
    with page_output():
        for line in _draw(rows, style):
            click.echo(line, color=True)


def _short_id(row: BlamedFileLine) -> str:
    """Return the short id of the context commit of an agent, or of the git commit."""
    if row.origin.is_agent and row.origin.edit is not None:
        return row.origin.edit.row.commit[:CTX_CHARS]
    return row.origin.commit.id[:SHORT_ID_CHARS]


def _names(row: BlamedFileLine) -> tuple[str, str]:
    """Return the agent and its model, or the author and the context that made the commit."""
    if row.origin.is_agent:
        return runtime_name(row.writer.runtime), one_line(row.writer.model, 60)
    author = row.origin.commit.author
    return one_line(author, 60), row.contexts[0][:CTX_CHARS] if row.contexts else ""


def _parse_range(text: str) -> tuple[int, int]:
    match = _RANGE_PATTERN.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= first <= last:
        raise click.UsageError(f"-L {text}: name a line, or the first and the last: -L 3,9")
    return first, last


def _style(color: str) -> TerminalStyle:
    style = detect_terminal_style()
    if color == "auto":
        return style
    is_on = color == "always"
    return TerminalStyle(style.width, is_on, is_on, style.encoding)


def _draw(rows: Sequence[BlamedFileLine], style: TerminalStyle) -> Iterator[str]:
    """Yield the lines as they are printed.

    As in git blame, the columns of a line are colored if they repeat those of the line above. On a
    terminal that is too narrow the model is left out.
    """
    names = [max((cell_width(_names(row)[i]) for row in rows), default=0) for i in range(2)]
    widths = [min(width, _MAX_NAME_CELLS) for width in names]
    number_width = len(str(max((row.origin.line.number for row in rows), default=0)))
    fixed = CTX_CHARS + 1 + widths[0] + 18 + number_width + 6
    if style.width != UNLIMITED_CELLS and fixed + widths[1] + _MIN_TEXT_CELLS > style.width:
        widths[1] = 0
    previous = ""
    for row in rows:
        is_repeated = _short_id(row) == previous
        previous = _short_id(row)
        yield style.draw(_columns(row, widths, number_width, is_repeated=is_repeated))


def _columns(
    row: BlamedFileLine, widths: Sequence[int], number_width: int, *, is_repeated: bool
) -> Line:
    kind = "cyan" if is_repeated else "yellow" if row.origin.is_agent else ""
    cells = [_pad(name, width) for name, width in zip(_names(row), widths, strict=True) if width]
    head = " ".join([_pad(_short_id(row), CTX_CHARS), "(" + " ".join(cells)])
    time = format_minute(row.time, LocalZone()).ljust(16)
    mark = _MARKS[row.origin.confidence]
    return [
        (kind, f"{head} {time} {row.origin.line.number:>{number_width}}{mark})"),
        ("", f" {clean_text(row.origin.line.text)}"),
    ]


def _pad(text: str, width: int) -> str:
    text = shorten(text, width)
    return text + " " * (width - cell_width(text))
