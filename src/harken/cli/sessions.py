"""`harken sessions`: what is kept, the last written first."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import click

from harken.cli.home import Home, home_option, json_option
from harken.cli.terminal import one_line, say, say_json
from harken.core.events import (
    ContentPurged,
    Event,
    SessionEnded,
    TranscriptEntry,
    decode_event,
)
from harken.core.messages import text_of
from harken.errors import LogError
from harken.session.file import is_being_written
from harken.session.reader import events

PEEK = 40
"""How many events are read of each log: a list must not cost what the logs hold."""
TAIL_BYTES = 1 << 16
State: TypeAlias = Literal["being written", "ended", "cut off?"]


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
    """Return what a list says of one log: its id, when it was last written, how far, its begin."""
    stat = path.stat()
    row = {
        "session": path.stem,
        "written": datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(timespec="seconds"),
        "size_bytes": stat.st_size,
        "state": None,
        "began": None,
    }
    try:
        return {**row, "began": first_words(path), "state": state_of(path)}
    except LogError as error:
        return {**row, "error": str(error)}


def first_words(path: Path) -> str | None:
    """Return the first thing that a user said near the beginning of a log."""
    for event in itertools.islice(events(path), PEEK):
        if isinstance(event, TranscriptEntry) and event.role == "user":
            return text_of(event.content)
    return None


def state_of(path: Path) -> State:
    """Tell from a log's lock and its last line whether it is at its end; its tail alone is read.

    A program may close a session without ending it, so that it was cut off is a guess.
    """
    if is_being_written(path):
        return "being written"
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        tail = file.read(TAIL_BYTES)
    event: Event | None = None
    *lines, torn = tail.split(b"\n")
    for line in reversed([] if torn else lines):
        try:
            event = decode_event(line)
        except (ValueError, RecursionError):  # torn, or longer than what was read
            break
        if not isinstance(event, ContentPurged):  # which says nothing about the run
            break
    return "ended" if isinstance(event, SessionEnded) else "cut off?"


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table; times are local ones, as in the names of sessions."""
    width = max(len(row["session"]) for row in rows)
    for row in rows:
        note = one_line(row["began"] or "(nothing was said)", 60)
        if "error" in row:
            note = f"(cannot be read: `harken session verify {row['session']}` says why)"
        written = datetime.fromisoformat(row["written"]).astimezone()
        size_kb = row["size_bytes"] / 1024
        when, state = f"{written:%Y-%m-%d %H:%M}", row["state"] or ""
        say(f"{row['session']:<{width}}  {when}  {size_kb:7.1f} KB  {state:<13}  {note}")
