"""The import of Harken's own session logs: verified copies among the sessions of a home."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken.config.home import Home, command_prefix
from harken.config.settings import load_settings
from harken.errors import HarkenError, InvalidLog, LogError
from harken.session.log.compressed import log_path
from harken.session.log.copy import LogCopy, LogFolder, VerifiedLog, is_session_log, verify_log
from harken.terminal.progress import progress
from harken.terminal.text import escape_control_characters, one_line, print_json, print_text
from harken.views.message_text import format_count, format_size

if TYPE_CHECKING:
    from harken.capture.files.sources import File

MAX_HINTS = 3
"""The maximum number of sessions for which a command is printed."""


def split_session_logs(files: Iterable[File]) -> tuple[list[Path], list[File]]:
    """Return the logs of Harken, and all other files."""
    logs: list[Path] = []
    others: list[File] = []
    for file in files:
        if _is_session_log(file.path):
            logs.append(file.path)
        else:
            others.append(file)
    return logs, others


def _is_session_log(path: Path) -> bool:
    if log_path(path).suffix != ".jsonl":
        return False
    try:
        return is_session_log(path)
    except (LogError, OSError):  # The import of other files reports why it cannot be read.
        return False


def import_session_logs(home: Home, paths: Sequence[Path], *, as_json: bool) -> int:
    """Copy logs to the sessions of a home. Print each one. Return the number of failures."""
    refuses_credentials = load_settings(home).redact == "store"
    folder = LogFolder(home.sessions_folder, refuses_credentials=refuses_credentials)
    copies: list[LogCopy] = []
    failure_count = 0
    with progress("Copying") as tell:
        for number, path in enumerate(paths, 1):
            try:
                log = _verify(path)
                copy = folder.add(log, can_continue=True)
            except HarkenError as error:
                failure_count += 1
                click.echo(f"harken: {escape_control_characters(str(error))}", err=True)
                continue
            copies.append(copy)
            if as_json:
                print_json(_row(log, copy), indent=None)
            else:
                print_text(_line(log, copy))
            tell(number, len(paths), format_count(number, "session"))
    if not as_json:
        for copy in copies[:MAX_HINTS]:
            click.echo(f"  {command_prefix('view', copy.path.stem)}", err=True)
    return failure_count


def _verify(path: Path) -> VerifiedLog:
    """Verify a log. Raises LogError, also for a log of an older dialect."""
    log = verify_log(path)
    if not log.is_sealed:
        reason = "is a log of an older dialect, without checksums; import the log that"
        raise InvalidLog(path, f"{reason} `harken sessions repair` writes from it")
    return log


def _line(log: VerifiedLog, copy: LogCopy) -> str:
    size = format_size(copy.new_bytes)
    changes = {
        "added": f"{format_count(log.events, 'event')}, {size}",
        "continued": f"{size} new",
        "none": "nothing new",
    }
    torn = "; its last line is incomplete and was not copied" if log.is_torn else ""
    return f"{one_line(copy.path.stem, 60)}  {changes[copy.change]}{torn}"


def _row(log: VerifiedLog, copy: LogCopy) -> dict[str, Any]:
    return {
        "source": str(log.path),
        "format": "harken",
        "runtime": "harken",
        "session": copy.path.stem,
        "path": str(copy.path),
        "lines": log.events,
        "change": copy.change,
        "new_bytes": copy.new_bytes,
    }
