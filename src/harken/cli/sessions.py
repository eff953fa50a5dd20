"""`harken sessions`: what is kept, the last written first."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from harken.cli.home import Home, home_option, json_option
from harken.cli.terminal import one_line, say, say_json
from harken.core.events import TranscriptEntry
from harken.core.messages import text_of
from harken.errors import LogError
from harken.session.reader import events

PEEK = 40
"""How many events are read of each log: a list must not cost what the logs hold."""


@click.command()
@json_option
@home_option
def command(as_json: bool, home: Home) -> None:
    """List the sessions that are kept."""
    rows = [describe(path) for path in home.logs()]
    if as_json:
        say_json(rows)
    elif not rows:
        click.echo(f"No sessions in {home.sessions_folder}. `harken demo` makes one.", err=True)
    else:
        show(rows)


def describe(path: Path) -> dict[str, Any]:
    """Return what a list says of one log: its id, when it was last written, how it began."""
    stat = path.stat()
    written = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(timespec="seconds")
    row = {"session": path.stem, "written": written, "size_bytes": stat.st_size, "began": None}
    try:
        return {**row, "began": first_words(path)}
    except LogError as error:
        return {**row, "error": str(error)}


def first_words(path: Path) -> str | None:
    """Return the first thing that a user said near the beginning of a log."""
    for event in itertools.islice(events(path), PEEK):
        if isinstance(event, TranscriptEntry) and event.role == "user":
            return text_of(event.content)
    return None


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table; times are local ones, as in the names of sessions."""
    width = max(len(row["session"]) for row in rows)
    for row in rows:
        note = one_line(row["began"] or "(nothing was said)", 60)
        if "error" in row:
            note = f"(cannot be read: `harken session verify {row['session']}` says why)"
        written = datetime.fromisoformat(row["written"]).astimezone()
        size_kb = row["size_bytes"] / 1024
        say(f"{row['session']:<{width}}  {written:%Y-%m-%d %H:%M}  {size_kb:7.1f} KB  {note}")
