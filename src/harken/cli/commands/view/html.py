"""`harken view SESSION --html FILE`: the page of `harken ui` for one session, in one file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import click
import msgspec

from harken.cli.commands.ui.home_library import HomeLibrary
from harken.cli.commands.view.sources import open_viewer
from harken.cli.output_file import write_pieces
from harken.config.home import Home, home_arguments
from harken.core.clock import Clock, format_rfc3339, system_clock
from harken.core.events import Event
from harken.core.secrets.home_folders import HomeFolders
from harken.errors import ConfigError
from harken.service.viewer.library import SessionSource, SessionSummary
from harken.service.viewer.open_sessions import OpenSession
from harken.service.viewer.shared.contents import PageContents, Progress, collect_contents
from harken.service.viewer.shared.page import read_page_files, render_page
from harken.service.viewer.shared.redaction import RedactedSource, SessionRedaction
from harken.terminal.progress import progress
from harken.terminal.text import escape_control_characters, print_text, program_name
from harken.views.message_text import format_count, format_size
from harken.views.viewer import SessionViewer

STDOUT = "-"
GENERATION = "file"
"""The generation of a session that is not followed: its log is not read again."""


class SharedPage(msgspec.Struct, frozen=True):
    """A page in one file, with the counts of its contents."""

    data: bytes
    contents: PageContents
    redaction: SessionRedaction
    damage: str | None


def write_html(home: Home, session: str, file: str, *, no_redact: bool) -> None:
    """Write the page of a session, and print a summary of its contents. Raises HarkenError."""
    _check_destination(file)
    with progress("Writing") as on_progress:
        page = build_page(home, session, no_redact=no_redact, on_progress=on_progress)
    write_pieces([page.data], file, is_text=lambda _: False)
    contents, redaction = page.contents, page.redaction
    if page.damage is not None:
        _note(f"the events after the damage are missing: {page.damage}")
    if contents.left_out_dialogs:
        left_out = format_count(contents.left_out_dialogs, "dialog")
        _note(f"{left_out} of two agents would make the file too large, and are left out")
    counts = [(contents.agents, "agent"), (contents.messages, "message")]
    counts += [(contents.model_calls, "model call"), (contents.images, "image")]
    _note(f"included: {', '.join(format_count(*count) for count in counts if count[0])}")
    _note(_describe_redaction(redaction, no_redact=no_redact))
    if file != STDOUT:
        print_text(f"{file}: {format_size(len(page.data))}; open it in a browser")


def build_page(
    home: Home,
    name: str,
    *,
    no_redact: bool = False,
    clock: Clock = system_clock,
    on_progress: Progress = lambda _done, _total: None,
) -> SharedPage:
    """Return the page of a session. Raises HarkenError, NameNotFound."""
    files = read_page_files()
    redaction = SessionRedaction(HomeFolders([str(Path("~").expanduser())]))
    source, summary = _open_session(home, name)
    redacted = RedactedSource(source, redaction)
    session = OpenSession(source if no_redact else redacted)
    session.generation = GENERATION
    session.read_new()
    if no_redact:  # What a reader could find is counted all the same.
        for event in session.links:
            redaction.count_event(event)
    elif session.damage is not None:
        session.damage = redaction.replace(session.damage)
    replace: Callable[[str], str] = str if no_redact else redaction.replace
    summary = _share_summary(summary, replace)
    about = {
        "version": version("harken"),
        "made_at": format_rfc3339(clock()),
        "redaction": None if no_redact else redaction.counts,
    }
    contents = collect_contents(session, summary, about, on_progress)
    title = f"{summary.title or summary.name} · Harken"
    data = render_page(files, title, version("harken"), contents.packed)
    return SharedPage(data, contents, redaction, session.damage)


def _check_destination(file: str) -> None:
    """Raise ConfigError for a destination that cannot be written, before the work is done."""
    if file == STDOUT:
        if sys.stdout.isatty():
            raise ConfigError("--html -: a page is not for a terminal; name a file, or redirect it")
        return
    folder = Path(file).absolute().parent
    if not folder.is_dir():
        raise ConfigError(f"--html {file}: {folder} is not a folder")


def _open_session(home: Home, name: str) -> tuple[SessionSource, SessionSummary]:
    """Return a session of the home, or else the log file or commit with this name."""
    library = HomeLibrary(home, program_name(), home_arguments())
    full_name = library.find(name)
    if full_name is not None:
        return library.open(full_name), library.describe(full_name)
    viewer = open_viewer(home, name)
    return _ViewedSource(viewer), _summarize(viewer)


class _ViewedSource:
    """The events of a log file outside of the home, or of a commit."""

    def __init__(self, viewer: SessionViewer) -> None:
        self.key, self.resolver = viewer.path, viewer.resolver
        self._events: Sequence[Event] = viewer.events.events

    def read(self) -> Sequence[Event]:
        """Return all events at the first call, none later."""
        events, self._events = self._events, ()
        return events

    def find_version(self) -> object:
        """Return None, since the events are read once."""

    def is_live(self) -> bool:
        """Return False, since the events are read once."""
        return False


def _summarize(viewer: SessionViewer) -> SessionSummary:
    times = [event.time for event in viewer.events]
    return SessionSummary(
        name=viewer.path.stem,
        title=None,
        runtime="harken",
        project=None,
        began=min(times, default=None),
        ended=max(times, default=None),
        state=None,
        outcome=None,
        is_live=False,
        is_imported=False,
        agents=None,
        messages=None,
        cost_usd=None,
    )


def _share_summary(summary: SessionSummary, replace: Callable[[str], str]) -> SessionSummary:
    """Return the summary of a copy: it is not live, and its texts are redacted."""
    texts = {
        member: replace(text)
        for member in ("title", "project", "error")
        if (text := getattr(summary, member)) is not None
    }
    state = None if summary.is_live else summary.state
    return msgspec.structs.replace(summary, **texts, is_live=False, state=state)


def _describe_redaction(redaction: SessionRedaction, *, no_redact: bool) -> str:
    homes = format_count(redaction.homes.count, "home folder") if redaction.homes.count else ""
    summary = ", ".join(filter(None, [redaction.credentials.summary, homes]))
    return f"{'not redacted' if no_redact else 'redacted'}: {summary or 'none was recognized'}"


def _note(text: str) -> None:
    click.echo(escape_control_characters(text), err=True)
