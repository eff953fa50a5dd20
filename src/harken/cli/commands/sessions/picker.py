"""The list from which the user chooses a session: `harken chat --resume` without a name."""

from __future__ import annotations

import re
import shutil
from datetime import datetime
from itertools import islice
from pathlib import Path

import click

from harken.config.home import LATEST, Home, command_prefix
from harken.config.settings import load_settings
from harken.core.secrets.redaction import find_kind
from harken.errors import ConfigError, LogError
from harken.session.log.compressed import stat_log
from harken.terminal.environment import has_screen
from harken.terminal.stdin import read_line, stdin_is_interactive, take_type_ahead
from harken.terminal.text import one_line, print_text

MAX_LISTED = 15
"""The number of listed sessions, the last written first; a terminal has 24 rows."""
_MAX_NAME_CHARS = 80
_NAME_PATTERN = re.compile(rf"[^\W_][\w.-]{{0,{_MAX_NAME_CHARS - 1}}}")


def check_new_name(home: Home, name: str) -> str:
    """Return the name of a new or renamed session. Raises ConfigError if it is invalid or used."""
    is_reserved = name == LATEST or name.startswith("ctx-") or name.endswith((".jsonl", "."))
    if is_reserved or not _NAME_PATTERN.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a valid session name: use letters, digits, '.', '-' and '_' "
            f"(at most {_MAX_NAME_CHARS}), starting with a letter or digit, and not {LATEST!r}, "
            "'ctx-...' or '....jsonl'"
        )
    if load_settings(home).redact == "store" and (kind := find_kind(name.encode())):
        raise ConfigError(f"the name is stored and has a credential ({kind}); choose another name")
    if name in {path.stem for path in home.list_logs()}:
        resume_command = command_prefix("chat", "--resume", name)
        raise ConfigError(
            f"session {name!r} exists; choose another name, or resume it: `{resume_command}`"
        )
    return name


def pick_session(home: Home) -> str:
    """Let the user choose one of the last sessions; return its name.

    Raises UsageError without a terminal, ConfigError if there is no session, Abort if the user
    chooses none.
    """
    if not stdin_is_interactive():
        listing = command_prefix("sessions")
        raise click.UsageError(
            "--resume without a session needs a terminal to show a list; name a "
            f"session of `{listing}`"
        )
    logs = list(islice(home.started_logs(), MAX_LISTED)) or [home.latest_log()]
    rows = [(path.stem, _describe(path)) for path in logs]
    try:
        return _choose_on_screen(rows) if has_screen() else _choose_in_lines(rows)
    except (KeyboardInterrupt, EOFError):
        raise click.Abort from None


def _choose_on_screen(rows: list[tuple[str, str]]) -> str:
    from prompt_toolkit.shortcuts import choice

    take_type_ahead()  # Type-ahead does not choose a session.
    return choice(message="Resume which session? (Up, Down, Enter; Ctrl-C: none)", options=rows)


def _choose_in_lines(rows: list[tuple[str, str]]) -> str:
    for number, (_, label) in enumerate(rows, 1):
        print_text(f"{number:>3} {label}")
    answer = (read_line("Resume which session? ") or "").strip()
    if answer.isascii() and answer.isdecimal() and 0 < int(answer) <= len(rows):
        return rows[int(answer) - 1][0]
    raise click.Abort


def _describe(path: Path) -> str:
    """Return a row of the list: name, time, and the first words of the user."""
    from harken.cli.commands.sessions.listing import beginning

    written_at = datetime.fromtimestamp(stat_log(path).modified_ns / 1e9).astimezone()
    try:
        words = beginning(path).first_message or ""
    except LogError as error:
        words = f"({error})"
    width = max(shutil.get_terminal_size().columns - 8, 20)
    return one_line(f"{path.stem}  {written_at:%Y-%m-%d %H:%M}  {words}", width)
