"""Print the result of a transfer: its counts, the differences, and the next steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import click

from harken.config.home import command_prefix
from harken.core.commits import CommitId
from harken.remotes.branches import BranchResult
from harken.remotes.logs import LogResult
from harken.remotes.registry import Remote
from harken.remotes.result import TransferResult
from harken.terminal.progress import ProgressCallback, progress
from harken.terminal.text import escape_control_characters, print_json, print_text
from harken.views.message_text import format_count, format_size

_MAX_LINES = 50
"""The limit of lines of one kind; the others are counted."""
_SHORT = len("ctx-") + 8


class ProgressLines:
    """A progress bar for the commits and sessions of a transfer, on a terminal only."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._stack = ExitStack()
        self._tell: ProgressCallback | None = None

    def __enter__(self) -> Self:
        self._tell = self._stack.enter_context(progress(self._label))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def on_progress(self, subject: str, count: int, total: int) -> None:
        """Show the progress of commits or sessions."""
        if self._tell is not None:
            self._tell(count, total, f"{count}/{total} {subject}")


def report(
    result: TransferResult, remote: Remote, verb: str, *, as_json: bool, dry_run: bool = False
) -> int:
    """Print a result. Return the exit code: 1 if something needs a decision."""
    if as_json:
        print_json(_row(result, remote), indent=None)
        return int(result.needs_attention)
    lines = [*_iter_changes(result, dry_run=dry_run)]
    for line in lines[:_MAX_LINES]:
        print_text(escape_control_characters(line))
    if len(lines) > _MAX_LINES:
        print_text(f"and {format_count(len(lines) - _MAX_LINES, 'more line')}")
    print_text(escape_control_characters(_summarize(result, remote, verb, dry_run=dry_run)))
    for line in _iter_problems(result, remote):
        click.echo(escape_control_characters(line), err=True)
    return int(result.needs_attention)


def _iter_changes(result: TransferResult, *, dry_run: bool) -> Iterator[str]:
    for log in result.new_logs:
        size = format_size(log.size_bytes)
        amount = size if dry_run else f"{format_count(log.lines, 'line')}, {size}"
        yield f"{log.name}: {amount}{' (new)' if log.is_new else ''}"
    for branch in result.branches:
        if branch.change in ("new", "moved"):
            yield f"branch {branch.name}: {_describe_move(branch)}"


def _describe_move(branch: BranchResult) -> str:
    if branch.change == "new":
        return f"new, at {_short(branch.local or branch.remote)}"
    return f"moved; here {_short(branch.local)}, there {_short(branch.remote)} before"


def _short(name: CommitId | None) -> str:
    return "-" if name is None else name[:_SHORT]


def _summarize(result: TransferResult, remote: Remote, verb: str, *, dry_run: bool) -> str:
    if result.is_up_to_date:
        return f"{remote.name}: everything is up to date"
    lines = sum(log.lines for log in result.new_logs)
    size_bytes = result.size_bytes + sum(log.size_bytes for log in result.new_logs)
    counts = ", ".join(
        format_count(number, singular, plural)
        for number, singular, plural in (
            (len(result.new_logs), "session", None),
            (lines, "line", None),
            (result.commits, "commit", None),
            (result.notes, "summary or label set", "summaries or label sets"),
            (
                sum(branch.change in ("new", "moved") for branch in result.branches),
                "branch",
                "branches",
            ),
            (result.tickets + len(result.merged_tickets), "ticket", None),
            (result.files, "imported file", None),
            (result.retention, "retention policy", "retention policies"),
            (result.purged, "purged object", None),
        )
        if number
    )
    size = f", {format_size(size_bytes)}" if size_bytes else ""
    verb = f"to be {verb}" if dry_run else verb
    return f"{remote.name}: {counts}{size} {verb}"


def _iter_problems(result: TransferResult, remote: Remote) -> Iterator[str]:
    for log in result.problems:
        yield f"{log.relation}: session {log.name}: {log.reason}"
    for branch in result.branches:
        if branch.change == "diverged":
            yield (
                f"diverged: branch {branch.name} is at {_short(branch.local)} here and at "
                f"{_short(branch.remote)} on {remote.name}"
            )
        elif branch.change == "refused":
            yield f"skipped: {branch.name!r} is not the name of a branch"
    for name in result.conflicting_notes:
        yield (
            f"conflict: the summary of {_short(name)} was changed on both sides; that of this home "
            "stays, and replaces the other with the next push"
        )
    for ticket in result.diverged_tickets:
        yield f"diverged: ticket {ticket[:_SHORT]} has other changes on {remote.name}; pull first"
    for place in result.conflicting_files:
        yield f"conflict: imported file {place} has other bytes on {remote.name}; both are kept"
    if result.unpurged:
        reasons = sorted({f"{stone.by}: {stone.why}" for stone in result.unpurged.values()})
        yield (
            f"{format_count(len(result.unpurged), 'object')} here, purged on {remote.name} "
            f"({'; '.join(reasons[:3])}): `{command_prefix('pull', remote.name, '--purge')}` "
            "purges the store here, too; `harken store purge` purges a text from the logs"
        )


def _row(result: TransferResult, remote: Remote) -> dict[str, Any]:
    return {
        "remote": remote.name,
        "commits": result.commits,
        "objects": result.objects,
        "size_bytes": result.size_bytes,
        "sessions": [_log_row(log) for log in result.logs if log.size_bytes],
        "up_to_date": len([log for log in result.logs if log.relation in ("equal", "ahead")]),
        "problems": [_log_row(log) for log in result.problems],
        "branches": [
            {
                "name": branch.name,
                "change": branch.change,
                "local": branch.local,
                "remote": branch.remote,
            }
            for branch in result.branches
        ],
        "notes": result.notes,
        "conflicting_notes": list(result.conflicting_notes),
        "tickets": result.tickets,
        "merged_tickets": list(result.merged_tickets),
        "diverged_tickets": list(result.diverged_tickets),
        "files": result.files,
        "conflicting_files": list(result.conflicting_files),
        "retention": result.retention,
        "purged": result.purged,
        "unpurged": len(result.unpurged),
    }


def _log_row(log: LogResult) -> dict[str, Any]:
    return {
        "session": log.name,
        "relation": log.relation,
        "is_new": log.is_new,
        "lines": log.lines,
        "size_bytes": log.size_bytes,
        "reason": log.reason,
    }
