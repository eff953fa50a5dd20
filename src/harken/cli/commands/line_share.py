"""`harken who`: the share of agents, models and persons in the lines of folders."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import click

from harken.analytics.number_text import format_percent
from harken.cli.commands.why.answer import runtime_name
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home, current_folder
from harken.config.index import read_edits
from harken.terminal.progress import progress
from harken.terminal.table import Sheet, TextColumn
from harken.terminal.text import one_line, print_json

if TYPE_CHECKING:
    from harken.attribution.answers.folder_shares import FolderShares
    from harken.attribution.records.edit_index import EditIndex
    from harken.attribution.shares import LineWriter, Share
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store

_MAX_WRITERS = 3
_MAX_SKIPPED = 3
_COLUMNS = (
    TextColumn("folder", is_text=True),
    TextColumn("files", from_width=70),
    TextColumn("lines"),
    TextColumn("agents"),
    TextColumn("uncertain", from_width=80),
    TextColumn("writers", is_text=True),
)
_WRITER_COLUMNS = (
    TextColumn("writer", is_text=True),
    TextColumn("model", is_text=True),
    TextColumn("lines"),
    TextColumn("share"),
)


@click.command()
@click.argument("folder", metavar="[DIR]", default=".")
@json_option
@home_option
def command(home: Home, folder: str, as_json: bool) -> None:
    """Show who wrote the lines of DIR: agents, models and persons, by folder.

    Only lines with text count. The lines of persons include those of agents whose sessions are not
    recorded.
    """
    from harken.attribution.answers.folder_shares import count_files
    from harken.attribution.attribution import Attribution
    from harken.attribution.git.repository import GitRepository

    with closing(GitRepository(current_folder())) as repository:

        def read(index: EditIndex, facts: SessionIndex, store: Store) -> FolderShares:
            attribution = Attribution(repository, index, facts, store)
            name, paths = (
                attribution.files.resolve_folder(folder),
                attribution.files.list_files(folder),
            )
            with progress("Reading files") as tell:
                return count_files(attribution, name, paths, tell)

        answer = read_edits(home, read)
    if as_json:
        print_json(answer.as_json())
        return
    _show(answer.shares, answer.folder)
    skipped = answer.skipped
    if skipped:
        names = ", ".join(one_line(path, 60) for path in skipped[:_MAX_SKIPPED])
        more = f" and {len(skipped) - _MAX_SKIPPED} more" if len(skipped) > _MAX_SKIPPED else ""
        click.echo(f"not counted, since not text: {names}{more}", err=True)


def _show(shares: Mapping[str, Share], folder: str) -> None:
    from harken.attribution.shares import Share, group_by_folder

    sheet, total = Sheet(), Share.sum(shares.values())
    folders = [*group_by_folder({**shares}, folder).items()]
    rows = [*folders, ("total", total)] if len(folders) > 1 else folders
    sheet.table(_COLUMNS, [_cells(path, share) for path, share in rows])
    click.echo()
    sheet.table(
        _WRITER_COLUMNS,
        [
            (
                _writer_name(writer),
                one_line(writer.model, 60),
                f"{count:,}",
                format_percent(count, total.total),
            )
            for writer, count in total.lines.most_common()
        ],
    )


def _cells(path: str, share: Share) -> tuple[str, ...]:
    writers = ", ".join(
        f"{_writer_name(writer)} {format_percent(count, share.total)}"
        for writer, count in share.lines.most_common(_MAX_WRITERS)
    )
    return (
        path,
        f"{share.files:,}",
        f"{share.total:,}",
        format_percent(share.agent_lines, share.total),
        f"{share.uncertain:,}",
        writers,
    )


def _writer_name(writer: LineWriter) -> str:
    return runtime_name(writer.name) if writer.is_agent else one_line(writer.name, 40)
