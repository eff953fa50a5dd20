"""`harken import`: import the histories of other runtimes as commits, with all original bytes.

Session logs of Harken are copied instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken.cli.commands.import_.run import default_jobs, import_files
from harken.cli.commands.import_.session_logs import import_session_logs, split_session_logs
from harken.cli.commands.import_.summary import progress_text, tell
from harken.cli.options.home import home_option, json_option
from harken.cli.options.identity import identity_options
from harken.cli.options.workers import MAX_JOBS, on_option, parse_on, print_lost_workers
from harken.cli.redaction_report import print_redacted
from harken.config.home import Home, environment
from harken.config.identity import load_identity
from harken.config.index import read_facts
from harken.errors import ConfigError
from harken.terminal.progress import progress
from harken.terminal.text import one_line, print_json, print_text
from harken.views.message_text import format_count, format_size

if TYPE_CHECKING:
    from harken.capture.files.report import ImportProgress, ImportResult, Report
    from harken.capture.files.sources import File, RuntimeHistory
    from harken.context.checkpoint import CommitIdentity
    from harken.executors.workers import Workers


@click.command("import")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--jobs",
    type=click.IntRange(1, MAX_JOBS),
    help="The number of reader processes (default: one for each core, at most 4).",
)
@on_option
@click.option("-v", "--verbose", is_flag=True, help="List each skipped file, and the reason.")
@click.option(
    "--no-index", is_flag=True, help="Do not update the search index; the next search does."
)
@identity_options
@json_option
@home_option
def command(
    home: Home,
    paths: tuple[Path, ...],
    jobs: int | None,
    on: str,
    verbose: bool,
    no_index: bool,
    as_json: bool,
    **identity_values: str | None,
) -> int:
    """Import sessions of other runtimes: from files, from folders, or from the default locations.

    The source files are never changed. A repeated import reads new content only. The output is the
    number of sessions and new commits for each runtime. Session logs of Harken (from another home
    or machine) are verified and copied to the sessions of this home.
    """
    workers = parse_on(on, jobs, default_jobs())
    identity = load_identity(identity_values, environment(), is_local=False)
    files = _named_files(paths) if paths else _discover_files(as_json=as_json)
    if not files:
        return 0
    logs, files = split_session_logs(files) if paths else ([], files)
    home.create_folders()
    failure_count = import_session_logs(home, logs, as_json=as_json) if logs else 0
    results: list[ImportResult] = []
    if files:
        results = _import(home, files, workers, identity, as_json=as_json)
        if not as_json:
            tell(results, is_verbose=verbose)
    if not no_index:
        read_facts(home, lambda _facts, _store: None)  # The next search has little to read.
    has_failed = _check_named_files(paths, results)
    return 2 if failure_count or has_failed else 0


def _check_named_files(paths: Sequence[Path], results: Sequence[ImportResult]) -> bool:
    """Whether a file that was named itself was not imported. The summary has the reason.

    Raises ConfigError if one is of an unknown kind.
    """
    files = [path for path in paths if path.is_file() and path.stat().st_size]
    names = {file.display_name for file in _named_files(files)}
    named = [result.report for result in results if result.report.source in names]
    unknown = [one_line(report.source, 200) for report in named if report.is_unknown]
    if unknown:
        raise ConfigError(f"{', '.join(unknown)}: not a session file of a known runtime")
    return any(report.has_failed for report in named)


def _named_files(paths: Sequence[Path]) -> list[File]:
    """Return the named files. Raises ConfigError for a path that is no file and no folder."""
    from harken.capture.files.sources import iter_files, sort_for_import

    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path}: no such file or folder")
        if not (path.is_file() or path.is_dir()):
            raise ConfigError(f"{path}: not a regular file; name a session file or a folder")
    by_name = {file.name: file for path in paths for file in iter_files(path)}
    return sort_for_import(by_name.values())


def _discover_files(*, as_json: bool) -> list[File]:
    """Return the files at the default locations, and print them."""
    from harken.capture.files.sources import find_histories, sort_for_import

    files = find_histories(Path.home(), environment())
    if not as_json:
        for history in files:
            print_text(_history_line(history))
        if not files:
            print_text(
                "No sessions of other runtimes found in the default locations; name a "
                "file or a folder."
            )
    return sort_for_import(file for history in files for file in history.files)


def _history_line(history: RuntimeHistory) -> str:
    from datetime import UTC, datetime

    newest = max(file.mtime_ns for file in history.files) / 1e9
    day = datetime.fromtimestamp(newest, UTC).date().isoformat()
    files, size = format_count(len(history.files), "file"), format_size(history.size)
    return f"{history.place.name:<12} {files}, {size}, newest {day}  {history.folder}"


def _import(
    home: Home, files: Sequence[File], workers: Workers, identity: CommitIdentity, *, as_json: bool
) -> list[ImportResult]:
    with progress("Importing") as show:

        def advance(to: ImportProgress) -> None:
            show(to.size_bytes, to.of_size_bytes, progress_text(to))

        def print_result(result: ImportResult) -> None:
            if as_json:
                print_json(_row(result.report), indent=None)

        outcome = import_files(
            home,
            files,
            workers=workers,
            identity=identity,
            on_progress=advance,
            on_result=print_result,
        )
    print_lost_workers(outcome.lost_workers)
    print_redacted(outcome.redacted)
    return outcome.results


def _row(report: Report) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(report)
    first = ("source", "format", "raw", "tips", "lines", "bad_lines")
    details = {name: row[name] for name in row if name not in first and name != "orphan"}
    return {**{name: row[name] for name in first}, **{n: v for n, v in details.items() if v}}
