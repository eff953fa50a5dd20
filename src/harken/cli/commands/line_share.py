"""`harken who`: the share of agents, models and persons in the lines of folders."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from harken.analytics.number_text import format_percent
from harken.cli.commands.why.answer import runtime_name
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home, current_folder
from harken.config.index import read_edits
from harken.errors import ConfigError
from harken.terminal.progress import progress
from harken.terminal.table import Sheet, TextColumn
from harken.terminal.text import one_line, print_json

if TYPE_CHECKING:
    from harken.attribution.attribution import Attribution
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
    from harken.attribution.attribution import Attribution
    from harken.attribution.git.repository import GitRepository

    with closing(GitRepository(current_folder())) as repository:

        def read(
            index: EditIndex, facts: SessionIndex, store: Store
        ) -> tuple[dict[str, Share], list[str], str]:
            attribution = Attribution(repository, index, facts, store)
            shares, skipped = _count(attribution, attribution.list_files(folder))
            return shares, skipped, attribution.resolve_folder(folder)

        shares, skipped, name = read_edits(home, read)
    if as_json:
        print_json(_rows(shares, name))
        return
    _show(shares, name)
    if skipped:
        names = ", ".join(one_line(path, 60) for path in skipped[:_MAX_SKIPPED])
        more = f" and {len(skipped) - _MAX_SKIPPED} more" if len(skipped) > _MAX_SKIPPED else ""
        click.echo(f"not counted, since not text: {names}{more}", err=True)


def _count(attribution: Attribution, paths: Iterable[str]) -> tuple[dict[str, Share], list[str]]:
    """Return the share of each text file, and the files that are none."""
    from harken.attribution.shares import count_lines

    shares: dict[str, Share] = {}
    skipped: list[str] = []
    all_paths = [*paths]
    with progress("Reading files") as tell:
        for number, path in enumerate(all_paths, start=1):
            try:
                attribution.read_file(attribution.resolve_top_path(path))
                origins = attribution.origins(path)
            except ConfigError:
                skipped.append(path)
            else:
                shares[path] = count_lines(origins, attribution.find_models(origins))
            tell(number, len(all_paths))
    return shares, skipped


def _total(shares: Iterable[Share]) -> Share:
    from harken.attribution.shares import Share

    total = Share()
    for share in shares:
        total.add(share)
    return total


def _rows(shares: dict[str, Share], folder: str) -> dict[str, Any]:
    from harken.attribution.shares import group_by_folder

    folders = group_by_folder(shares, folder)
    return {
        "folders": [{"path": path, **_row(share)} for path, share in folders.items()],
        "total": _row(_total(shares.values())),
    }


def _row(share: Share) -> dict[str, Any]:
    return {
        "files": share.files,
        "lines": share.total,
        "agent_lines": share.agent_lines,
        "uncertain_lines": share.uncertain,
        "agents": [
            {"runtime": writer.name, "model": writer.model, "lines": count}
            for writer, count in share.lines.most_common()
            if writer.is_agent
        ],
        "persons": [
            {"name": writer.name, "lines": count}
            for writer, count in share.lines.most_common()
            if not writer.is_agent
        ],
    }


def _show(shares: dict[str, Share], folder: str) -> None:
    from harken.attribution.shares import group_by_folder

    sheet, total = Sheet(), _total(shares.values())
    folders = [*group_by_folder(shares, folder).items()]
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
