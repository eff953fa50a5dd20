"""`harken stats`: the activity and usage of all sessions, of one, or of session logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import click

from harken.analytics.scope import session_names
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import SESSION
from harken.cli.options.scope import ScopeOptions, scope_options
from harken.config.home import Home, command_prefix
from harken.config.index import read_facts
from harken.config.local_zone import LocalZone
from harken.config.name_resolver import NamedLogFile, NameResolver
from harken.config.settings import load_settings
from harken.errors import AmbiguousName, ConfigError, NameNotFound
from harken.session.log.copy import verify_log
from harken.terminal.text import print_json, print_text

if TYPE_CHECKING:
    from harken.analytics.overview import OneSession, Overview
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store


@click.command()
@click.argument("names", metavar="[SESSION]...", type=SESSION, nargs=-1)
@scope_options
@click.option(
    "--utc", is_flag=True, help="Use hours and days of UTC instead of the local time zone."
)
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write an HTML page with charts; it works offline.",
)
@json_option
@home_option
def command(
    home: Home,
    names: tuple[str, ...],
    page: Path | None,
    utc: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show usage, cost, activity and tools of all sessions.

    With a SESSION, show its profile over time; with several, the total of these. A SESSION may also
    be the file of a session log of Harken, from anywhere.
    """
    options["zone"] = UTC if utc else LocalZone()

    def show(facts: SessionIndex, _store: Store | None) -> None:
        if names and (indexed := session_names(facts.database)):
            options["session"] = NameResolver(home).session_name(names[0], indexed)
        _show(facts.database, ScopeOptions(**options), page, as_json=as_json)

    logs = _named_logs(NameResolver(home), names)
    if not logs:
        read_facts(home, show)
        return
    with _index_logs(home, logs) as facts:
        if len(logs) == 1:
            options["session"] = next(iter(session_names(facts.database)), None)
        _show(facts.database, ScopeOptions(**options), page, as_json=as_json)


def _named_logs(resolver: NameResolver, names: Sequence[str]) -> list[Path]:
    """Return the logs that are not read from the index of the home: several, or a file.

    Raises ConfigError if one of several names is a commit or an imported session.
    """
    if len(names) > 1:
        return [resolver.log(name) for name in names]
    resolved = None
    if names:
        with suppress(AmbiguousName, ConfigError, NameNotFound):  # The index may have it.
            resolved = resolver.resolve(names[0])
    return [resolved.path] if isinstance(resolved, NamedLogFile) else []


@contextmanager
def _index_logs(home: Home, logs: Sequence[Path]) -> Iterator[SessionIndex]:
    """Yield an index in memory of these logs only. Raises LogError for a damaged one."""
    from harken.index.session_index import SessionIndex

    for log in logs:
        verify_log(log)
    with closing(SessionIndex(None, prices=load_settings(home).prices)) as facts:
        facts.update(None, None, logs)
        yield facts


def _show(
    database: apsw.Connection, options: ScopeOptions, page: Path | None, *, as_json: bool
) -> None:
    from harken.analytics.overview import MAX_BINS, overview, session_overview
    from harken.cli.commands.stats.sections import bins_for
    from harken.terminal.table import Sheet

    if database.execute("SELECT 1 FROM sessions LIMIT 1").fetchone() is None:
        _say_empty()
        return
    scope, sheet = options.scope(database), Sheet()
    data: Overview | OneSession
    if options.session is not None:
        is_for_people = page is None and not as_json
        bins = bins_for(sheet.width) if is_for_people else MAX_BINS
        data = session_overview(database, scope, bins)
    else:
        data = overview(database, scope, options.zone)
    if page is not None:
        _write_page(page, data, options.zone)
    if as_json:
        print_json({**scope.as_json(), **data.as_json()})
    elif page is None:
        _draw(sheet, data, options.zone)


def _draw(sheet: Any, data: Overview | OneSession, zone: tzinfo) -> None:
    from harken.analytics.overview import OneSession
    from harken.cli.commands.stats.evaluations import show_session_evaluation
    from harken.cli.commands.stats.overview import show_overview
    from harken.cli.commands.stats.sections import show_session

    if isinstance(data, OneSession):
        show_session(sheet, data, zone)
        show_session_evaluation(sheet, data.scores, data.labels)
    elif not data.sessions:
        click.echo("No messages in this range; choose a larger one.", err=True)
    else:
        show_overview(sheet, data, zone)


def _write_page(path: Path, data: Overview | OneSession, zone: tzinfo) -> None:
    """Write a page. Raises OSError, and ConfigError if the drawing library is not installed."""
    from harken.analytics.html_page import render_page as page
    from harken.views.message_text import format_size

    text = page(data, zone)
    path.write_text(text, "utf-8", errors="backslashreplace")
    print_text(f"{path}: {format_size(len(text))}; open it in a browser")


def _say_empty() -> None:
    click.echo(
        f"No messages. `{command_prefix('import')}` imports sessions of other "
        f"runtimes, `{command_prefix('chat')}` starts a session.",
        err=True,
    )
