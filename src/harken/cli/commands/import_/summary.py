"""The summary of `harken import` for people: new sessions and unreadable files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harken.config.home import command_prefix
from harken.terminal.text import one_line, print_text
from harken.views.message_text import format_count

if TYPE_CHECKING:
    from harken.capture.files.report import ImportProgress, ImportResult, Report

SHOWN = 10
"""The maximum number of listed sources of a kind."""
_MB = 1 << 20


def progress_text(progress: ImportProgress) -> str:
    """Format the progress of an import: files and megabytes.

    >>> from harken.capture.files.report import ImportProgress as Progress
    >>> progress_text(Progress(120, 390, 12_900_000, 70_000_000))
    '120/390 files, 12.3/66.8 MB'
    """
    size = f"{progress.size_bytes / _MB:.1f}/{progress.of_size_bytes / _MB:.1f} MB"
    return f"{progress.files}/{progress.of_files} files, {size}"


def tell(results: Sequence[ImportResult], *, is_verbose: bool) -> None:
    """Print the results of an import. is_verbose: list every file that was not read."""
    transcripts = [result for result in results if result.report.format is not None]
    new = [result for result in transcripts if result.new]
    _list((_source_line(result) for result in new), len(new), is_verbose=False)
    trouble = [*_iter_problem_lines(result.report for result in results)]
    _list(trouble, len(trouble), is_verbose=is_verbose)
    if is_verbose:
        for result in results:
            if result.report.is_unknown or result.report.belongs_to:
                print_text(_unread_line(result.report))
    for line in _runtimes(transcripts):
        print_text(line)
    for line in _iter_unread_lines(results, is_verbose=is_verbose):
        print_text(line)
    tips = [result.report.tips[0].ctx for result in new or transcripts if result.report.tips]
    if tips:
        name = tips[-1][:16]
        print_text(
            f"Show it with `{command_prefix('ctx', 'log', name)}`, resume it with "
            f"`{command_prefix('chat', '--from-commit', name)}`"
        )


def _list(lines: Iterable[str], total: int, *, is_verbose: bool) -> None:
    for index, line in enumerate(lines):
        if index == SHOWN and not is_verbose:
            print_text(f"... and {total - SHOWN} more")
            return
        print_text(line)


def _source_line(result: ImportResult) -> str:
    report = result.report
    tip = report.tips[0].ctx[:16] if report.tips else ""
    title = report.title or report.task or Path(report.source).name
    return f"{tip}  {format_count(result.new, 'new commit')}  {one_line(title, 60)}"


def _iter_problem_lines(reports: Iterable[Report]) -> Iterator[str]:
    """Yield a line for each transcript that could not be read completely."""
    for report in reports:
        where = one_line(report.source, 200)
        if report.has_failed:
            yield f"not imported: {where}: {one_line(report.reason)}"
        elif report.format is not None and report.bad_lines:
            first = report.bad[0]
            bad = f"{format_count(report.bad_lines, 'line')} could not be parsed"
            first_bad = f"the first is line {first.line} ({one_line(first.reason)})"
            yield f"{where}: {bad}, {first_bad}; all bytes: `harken cat {report.raw}`"


def _unread_line(report: Report) -> str:
    note = f"; its bytes: `harken cat {report.raw}`" if report.belongs_to else ""
    return f"skipped: {one_line(report.source, 200)}: {one_line(report.reason)}{note}"


def _runtimes(transcripts: Iterable[ImportResult]) -> Iterator[str]:
    """Yield a line for each runtime: its sessions, and the number of new ones."""
    from harken.capture.files.sources import SOURCE_LOCATIONS

    names = {place.runtime: place.name for place in SOURCE_LOCATIONS}
    sessions: dict[str, set[str]] = {}
    changed: dict[str, set[str]] = {}
    new_counts: dict[str, int] = {}
    for result in transcripts:
        report = result.report
        name = names.get(report.runtime, one_line(report.runtime or report.format or "", 20))
        ids = {part.session for part in report.sessions}
        ids = ids or {report.session or Path(report.source).stem}
        sessions.setdefault(name, set()).update(ids)
        # Which sessions of a file with several have new commits is not known.
        changed.setdefault(name, set()).update(ids if result.new else ())
        new_counts[name] = new_counts.get(name, 0) + result.new
    width = max(map(len, sessions), default=0)
    counts = {name: format_count(len(ids), "session") for name, ids in sessions.items()}
    session_width = max(map(len, counts.values()), default=0)
    for name, new in sorted(new_counts.items()):
        where = f" in {format_count(len(changed[name]), 'session')}" if new else ""
        begin = f"{name:<{width}}  {counts[name]:>{session_width}}"
        yield f"{begin}, {format_count(new, 'new commit')}{where}"


def _iter_unread_lines(results: Iterable[ImportResult], *, is_verbose: bool) -> Iterator[str]:
    """Yield lines with the number of files without a conversation."""
    reports = [result.report for result in results]
    how = "" if is_verbose else " (--verbose lists them)"
    stored_count = sum(bool(report.belongs_to) for report in reports)
    if stored_count:
        files = format_count(stored_count, "file")
        yield f"{files} beside transcripts, stored with their sessions"
    unknown = sum(report.is_unknown for report in reports)
    if unknown:
        kinds = "unknown kind" if unknown == 1 else "unknown kinds"
        yield f"{format_count(unknown, 'file')} of {kinds}{how}"
