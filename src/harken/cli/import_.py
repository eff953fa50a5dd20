"""`harken import`: the histories of other runtimes become commits, and every byte is kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken.cli.home import Home, command_line, environment, home_option, json_option
from harken.cli.opened_facts import facts_of
from harken.cli.opened_store import made_store
from harken.cli.progress import progress
from harken.cli.terminal import one_line, say, say_json
from harken.errors import ConfigError
from harken.views.written import count, size_text

if TYPE_CHECKING:
    from harken.capture.report import Imported, Report
    from harken.capture.sources import File, History

MOST_JOBS = 4
"""More read no faster: one process writes what they all have read."""
SHOWN = 10
"""So many sources are told one by one."""


@click.command("import")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    help="How many processes read files, where there is much; else one for each core, up to four.",
)
@click.option("--no-index", is_flag=True, help="Leave it to the next search to read what is new.")
@json_option
@home_option
def command(
    home: Home, paths: tuple[Path, ...], jobs: int | None, no_index: bool, as_json: bool
) -> None:
    """Import conversations of other runtimes: files, all in a folder, or all that are found here.

    Nothing is written where they are. Again, only what is new is read.
    """
    files = _given(paths) if paths else _found(as_json=as_json)
    if not files:
        return
    home.make()
    done = _import(home, files, jobs or min(os.cpu_count() or 1, MOST_JOBS), as_json=as_json)
    if not as_json:
        _tell(done, are_given=bool(paths))
    if not no_index:
        with facts_of(home):
            pass  # so that the next search has little to read


def _given(paths: Sequence[Path]) -> list[File]:
    """Return the files that somebody named. Raises ConfigError where there is no such path."""
    from harken.capture.sources import files_in, in_order

    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path}: there is no such file or folder")
    found = {file.name: file for path in paths for file in files_in(path)}
    return in_order(found.values())


def _found(*, as_json: bool) -> list[File]:
    """Return the files at the known places, and say what they are."""
    from harken.capture.sources import histories, in_order

    found = histories(Path.home(), environment())
    if not as_json:
        for history in found:
            say(_history_line(history))
        if not found:
            say("No history of another runtime was found here; name a file or a folder.")
    return in_order(file for history in found for file in history.files)


def _history_line(history: History) -> str:
    from datetime import UTC, datetime

    newest = max(file.mtime_ns for file in history.files) / 1e9
    day = datetime.fromtimestamp(newest, UTC).date().isoformat()
    files, size = count(len(history.files), "file"), size_text(history.size)
    return f"{history.place.name:<12} {files}, {size}, newest {day}  {history.folder}"


def _import(home: Home, files: Sequence[File], jobs: int, *, as_json: bool) -> list[Imported]:
    from harken.capture.importing import Importer
    from harken.index.catalogue import Catalogue
    from harken.index.database import begun_anew

    total = sum(file.size for file in files)
    with (
        begun_anew(home.index_file),
        made_store(home) as store,
        closing(Catalogue(home.index_file)) as catalogue,
    ):
        done = []
        with progress("Importing") as tell:
            importer = Importer(store, catalogue, jobs=jobs)
            for one in importer.run(files, lambda size: tell(size, total)):
                done.append(one)
                if as_json:
                    say_json(_row(one.report), indent=None)
        return done


def _row(report: Report) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(report)
    first = ("source", "format", "raw", "tips", "lines", "bad_lines")
    more = {name: row[name] for name in row if name not in first and name != "orphan"}
    return {**{name: row[name] for name in first}, **{n: v for n, v in more.items() if v}}


def _tell(done: Sequence[Imported], *, are_given: bool) -> None:
    """Say what is new, what could not be read, and how to go on."""
    read = [one for one in done if one.report.format is not None]
    new = [one for one in read if one.new]
    for one in new[:SHOWN]:
        say(_source_line(one))
    if len(new) > SHOWN:
        say(f"... and {len(new) - SHOWN} more")
    for one in done:
        for line in _trouble(one.report, is_told=are_given):
            say(line)
    same = sum(one.is_unchanged for one in read)
    commits = count(sum(one.new for one in new), "new commit")
    say(
        f"{commits} from {count(len(new), 'source')}; {same} of {count(len(read), 'source')} "
        f"unchanged since the last time"
    )
    tips = [one.report.tips[0].ctx for one in new or read if one.report.tips]
    if tips:
        name = tips[-1][:16]
        say(
            f"Look at it with `{command_line('ctx', 'log', name)}`, "
            f"go on with `{command_line('chat', '--from', name)}`"
        )


def _source_line(one: Imported) -> str:
    report = one.report
    tip = report.tips[0].ctx[:16] if report.tips else ""
    title = report.title or Path(report.source).name
    return f"{tip}  {count(one.new, 'new commit')}  {one_line(title, 60)}"


def _trouble(report: Report, *, is_told: bool) -> list[str]:
    """Return what a person should know of a source that was not read, or not whole."""
    where = one_line(report.source, 200)
    if report.format is None:
        return [f"not imported: {where}: {one_line(report.reason)}"] if is_told else []
    if not report.bad_lines:
        return []
    first = report.bad[0]
    bad = f"{count(report.bad_lines, 'line')} could not be read"
    first_bad = f"the first is line {first.line} ({one_line(first.reason)})"
    return [f"{where}: {bad}, {first_bad}; all bytes: `harken cat {report.raw}`"]
