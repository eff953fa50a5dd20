"""`harken watch`: import the sessions of other runtimes as they are written."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken.analytics.times import to_datetime
from harken.cli.options.home import home_option, json_option
from harken.cli.options.identity import identity_options
from harken.cli.redaction_report import print_redacted
from harken.config.home import Home, current_folder, environment
from harken.config.identity import load_identity
from harken.config.local_zone import LocalZone
from harken.config.settings import load_settings
from harken.config.store import open_or_create_store
from harken.core.clock import format_rfc3339, parse_rfc3339, system_clock
from harken.errors import ConfigError, StoreLocked
from harken.terminal.text import one_line, print_json, print_text
from harken.views.message_text import format_count

if TYPE_CHECKING:
    from harken.capture.files.change_scanner import ChangeScanner
    from harken.capture.files.follower import FileFollower, ImportedChange
    from harken.context.checkpoint import CommitIdentity
    from harken.store.base import StoredCommit

POLL_INTERVAL_S = 1.0
"""The interval of checks for recently written files."""
SCAN_INTERVAL_S = 15.0
"""The interval of scans of all files."""
SHOWN = 10
"""The number of new commits of a file that are listed."""


@click.command("watch")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--runtime", "runtimes", multiple=True, help="Filter by runtime. Repeatable.")
@click.option("--once", is_flag=True, help="Import the current content, and exit.")
@identity_options
@json_option
@home_option
def command(
    home: Home,
    paths: tuple[Path, ...],
    runtimes: tuple[str, ...],
    once: bool,
    as_json: bool,
    **identity_values: str | None,
) -> None:
    """Watch the session files of clients, and import them as they grow.

    Without a PATH the default locations are watched. Each new commit is printed. Ctrl-C ends it.
    The default principal is the identity of git in the working folder.
    """
    sight = _build_scanner(paths, runtimes)
    identity = load_identity(identity_values, environment(), git_folder=current_folder())
    home.create_folders()
    with _follower(home, identity) as follower:
        if not once and not as_json:
            print_text("Watching; Ctrl-C ends it.")
        try:
            for news in _iter_changes(sight, follower, once=once):
                _print_change(news, as_json=as_json)
        except KeyboardInterrupt:
            if not as_json:
                print_text()


def _build_scanner(paths: Sequence[Path], runtimes: Sequence[str]) -> ChangeScanner:
    """Return a scanner for the selected files. Raises ConfigError."""
    from harken.capture.files.change_scanner import ChangeScanner, WatchedPath
    from harken.capture.files.sources import SOURCE_LOCATIONS, watched_paths

    known_runtimes = [place.runtime for place in SOURCE_LOCATIONS]
    for name in runtimes:
        if name not in known_runtimes:
            raise ConfigError(
                f"runtime {name!r} not found; supported runtimes: {', '.join(known_runtimes)}"
            )
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path}: no such file or folder")
    if paths:
        places = [place for place in SOURCE_LOCATIONS if place.runtime in runtimes]
        patterns = [pattern for place in places for pattern in place.patterns] or ["*"]
        return ChangeScanner([WatchedPath(path, pattern) for path in paths for pattern in patterns])
    places = [place for place in SOURCE_LOCATIONS if place.runtime in (runtimes or known_runtimes)]
    return ChangeScanner(watched_paths(places, Path.home(), environment()))


@contextmanager
def _follower(home: Home, identity: CommitIdentity) -> Iterator[FileFollower]:
    from harken.capture.files.follower import FileFollower
    from harken.config.imported_sessions import open_catalogue

    with open_or_create_store(home) as store, closing(open_catalogue(home)) as catalogue:
        now = format_rfc3339(system_clock())
        redact = load_settings(home).credentials()
        try:
            yield FileFollower(store, catalogue, identity=identity, live_since=now, redact=redact)
        finally:
            print_redacted(redact)


def _iter_changes(
    sight: ChangeScanner, follower: FileFollower, *, once: bool
) -> Iterator[ImportedChange]:
    """Yield the changes, without end. `once`: only those that exist now."""
    follower.note_changed(sight.scan_all())
    if once:
        yield from follower.read(to_the_end=True)
        return
    yield from _read_changes(follower, at_once=True)
    swept = time.monotonic()
    while True:
        time.sleep(POLL_INTERVAL_S)
        if time.monotonic() - swept >= SCAN_INTERVAL_S:
            follower.note_changed(sight.scan_all())
            swept = time.monotonic()
        else:
            follower.note_changed(sight.scan_recent())
        yield from _read_changes(follower)


def _read_changes(follower: FileFollower, *, at_once: bool = False) -> Iterator[ImportedChange]:
    """Yield the changes. If the store is busy, they are read again later."""
    try:
        yield from follower.read(at_once=at_once)
    except StoreLocked as error:
        click.echo(f"harken: {error}; retrying", err=True)


def _print_change(news: ImportedChange, *, as_json: bool) -> None:
    """Report the changes of a file, or why it was not imported."""
    if news.report.has_failed:
        where, reason = one_line(news.report.source, 200), one_line(news.report.reason)
        click.echo(f"harken: not imported: {where}: {reason}", err=True)
    visible = news.commits if as_json else news.commits[-SHOWN:]
    if len(visible) < len(news.commits):
        hidden = format_count(len(news.commits) - len(visible), "commit")
        print_text(f"{'':8}  {hidden} before, of {one_line(_title(news), 60)}")
    for stored in visible:
        if as_json:
            print_json(_row(news, stored), indent=None)
        else:
            print_text(_line(news, stored))


def _line(news: ImportedChange, stored: StoredCommit) -> str:
    """Return a line: time, title, commit, and its last text."""
    local = to_datetime(parse_rfc3339(stored.commit.created_at), LocalZone())
    agent = _agent(stored)
    title = one_line(_title(news), 30)
    author = f"{title} / {one_line(agent, 16)}" if agent else title
    return f"{local:%H:%M:%S}  {stored.id[:16]}  {author}: {one_line(stored.notes.summary, 60)}"


def _row(news: ImportedChange, stored: StoredCommit) -> dict[str, Any]:
    return {
        "time": stored.commit.created_at,
        "ctx": stored.id,
        "session": news.report.session,
        "title": news.report.title,
        "agent": _agent(stored) or "main",
        "checkpoint": stored.commit.checkpoint,
        "summary": stored.notes.summary,
        "source": news.report.source,
    }


def _agent(stored: StoredCommit) -> str:
    """Return the name of a subagent, or an empty text for the main conversation."""
    return stored.commit.principal.partition("/")[2]


def _title(news: ImportedChange) -> str:
    report = news.report
    return report.title or report.session[:8] or Path(report.source).name
