"""What `harken import` prints for people: what is new, what could not be read, and the summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harken.config.home import command_prefix
from harken.terminal.text import one_line, print_text
from harken.views.message_text import count

if TYPE_CHECKING:
    from harken.capture.files.report import ImportResult, Progress, Report

SHOWN = 10
"""How many sources of a kind are listed."""
_MB = 1 << 20


def progress_text(done: Progress) -> str:
    """Return how far an import is: files and megabytes.

    >>> from harken.capture.files.report import Progress
    >>> progress_text(Progress(120, 390, 12_900_000, 70_000_000))
    '120/390 files, 12.3/66.8 MB'
    """
    size = f"{done.size_bytes / _MB:.1f}/{done.of_size_bytes / _MB:.1f} MB"
    return f"{done.files}/{done.of_files} files, {size}"


def tell(done: Sequence[ImportResult], *, is_verbose: bool) -> None:
    """Print what an import found. is_verbose: list every file that was not read."""
    read = [one for one in done if one.report.format is not None]
    new = [one for one in read if one.new]
    _list((_source_line(one) for one in new), len(new), is_verbose=False)
    trouble = [*_trouble(one.report for one in done)]
    _list(trouble, len(trouble), is_verbose=is_verbose)
    if is_verbose:
        for one in done:
            if one.report.is_unknown or one.report.belongs_to:
                print_text(_unread_line(one.report))
    for line in _runtimes(read):
        print_text(line)
    for line in _others(done, is_verbose=is_verbose):
        print_text(line)
    tips = [one.report.tips[0].ctx for one in new or read if one.report.tips]
    if tips:
        name = tips[-1][:16]
        print_text(
            f"Look at it with `{command_prefix('ctx', 'log', name)}`, "
            f"go on with `{command_prefix('chat', '--from', name)}`"
        )


def _list(lines: Iterable[str], total: int, *, is_verbose: bool) -> None:
    for at, line in enumerate(lines):
        if at == SHOWN and not is_verbose:
            print_text(f"... and {total - SHOWN} more")
            return
        print_text(line)


def _source_line(one: ImportResult) -> str:
    report = one.report
    tip = report.tips[0].ctx[:16] if report.tips else ""
    title = report.title or report.task or Path(report.source).name
    return f"{tip}  {count(one.new, 'new commit')}  {one_line(title, 60)}"


def _trouble(reports: Iterable[Report]) -> Iterator[str]:
    """Yield a line for each transcript that could not be read, or not whole."""
    for report in reports:
        where = one_line(report.source, 200)
        if report.format is None:
            if not report.is_unknown and not report.belongs_to:
                yield f"not imported: {where}: {one_line(report.reason)}"
        elif report.bad_lines:
            first = report.bad[0]
            bad = f"{count(report.bad_lines, 'line')} could not be read"
            first_bad = f"the first is line {first.line} ({one_line(first.reason)})"
            yield f"{where}: {bad}, {first_bad}; all bytes: `harken cat {report.raw}`"


def _unread_line(report: Report) -> str:
    kept = f"; its bytes: `harken cat {report.raw}`" if report.belongs_to else ""
    return f"not read: {one_line(report.source, 200)}: {one_line(report.reason)}{kept}"


def _runtimes(read: Iterable[ImportResult]) -> Iterator[str]:
    """Yield a line for each runtime: its sessions, and what is new."""
    from harken.capture.files.sources import PLACES

    names = {place.runtime: place.name for place in PLACES}
    sessions: dict[str, dict[str, int]] = {}
    for one in read:
        report = one.report
        name = names.get(report.runtime, one_line(report.runtime or report.format or "", 20))
        session = report.session or Path(report.source).stem
        of_name = sessions.setdefault(name, {})
        of_name[session] = of_name.get(session, 0) + one.new
    width = max(map(len, sessions), default=0)
    counted = {name: count(len(found), "session") for name, found in sessions.items()}
    session_width = max(map(len, counted.values()), default=0)
    for name, found in sorted(sessions.items()):
        new, changed = sum(found.values()), sum(map(bool, found.values()))
        where = f" in {count(changed, 'session')}" if new else ""
        begin = f"{name:<{width}}  {counted[name]:>{session_width}}"
        yield f"{begin}, {count(new, 'new commit')}{where}"


def _others(done: Iterable[ImportResult], *, is_verbose: bool) -> Iterator[str]:
    """Yield how many files no conversation was read from."""
    reports = [one.report for one in done]
    how = "" if is_verbose else " (--verbose lists them)"
    kept = sum(bool(report.belongs_to) for report in reports)
    if kept:
        yield f"{count(kept, 'file')} beside transcripts, kept with the sessions they belong to"
    unknown = sum(report.is_unknown for report in reports)
    if unknown:
        kinds = "an unknown kind" if unknown == 1 else "unknown kinds"
        yield f"{count(unknown, 'file')} of {kinds}{how}"
