"""`harken stats`: what was done in all sessions, or in one; and what that took."""

from __future__ import annotations

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
from harken.config.name_resolver import NameResolver
from harken.terminal.text import print_json, print_text

if TYPE_CHECKING:
    from harken.analytics.overview import OneSession, Overview
    from harken.analytics.scope import Scope
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store

JSON_BINS = 60
"""A profile for programs and pages has at most so many bins."""


@click.command()
@click.argument("session", type=SESSION, required=False)
@scope_options
@click.option("--utc", is_flag=True, help="Hours and days of UTC, not of this machine's zone.")
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a page with charts, for a browser; needs no network.",
)
@json_option
@home_option
def command(home: Home, page: Path | None, utc: bool, as_json: bool, **given: Any) -> None:
    """Show what was done in all sessions, and what it took: when, how much, with which tools.

    With a SESSION its profile over time.
    """
    zone = UTC if utc else LocalZone()

    def show(facts: SessionIndex, _store: Store | None) -> None:
        if given["session"] is not None and (names := session_names(facts.database)):
            given["session"] = NameResolver(home).session_name(given["session"], names)
        _show(facts.database, ScopeOptions(zone=zone, **given), page, as_json=as_json)

    read_facts(home, show)


def _show(
    database: apsw.Connection, chosen: ScopeOptions, page: Path | None, *, as_json: bool
) -> None:
    from harken.analytics.overview import one_session, overview
    from harken.cli.commands.stats.sections import bins_for
    from harken.terminal.table import Sheet

    if database.execute("SELECT 1 FROM sessions LIMIT 1").fetchone() is None:
        _say_empty()
        return
    scope, sheet = chosen.scope(database), Sheet()
    found: Overview | OneSession
    if chosen.session is not None:
        is_for_people = page is None and not as_json
        found = one_session(database, scope, bins_for(sheet.width) if is_for_people else JSON_BINS)
    else:
        found = overview(database, scope, chosen.zone)
    if page is not None:
        _write_page(page, found, chosen.zone)
    if as_json:
        print_json({**_row(scope), **found.as_json()})
    elif page is None:
        _draw(sheet, found, chosen.zone)


def _row(scope: Scope) -> dict[str, Any]:
    """Return what counts, for programs."""
    from harken.analytics.times import to_datetime

    since, until = to_datetime(scope.since_us), to_datetime(scope.until_us)
    return {
        "since": None if since is None else since.isoformat(),
        "until": None if until is None else until.isoformat(),
        "folders": None if scope.projects is None else list(scope.projects),
        "runtime": scope.runtime,
    }


def _draw(sheet: Any, found: Overview | OneSession, zone: tzinfo) -> None:
    from harken.analytics.overview import OneSession
    from harken.cli.commands.stats.overview import show_overview
    from harken.cli.commands.stats.sections import show_session

    if isinstance(found, OneSession):
        show_session(sheet, found, zone)
    elif not found.sessions:
        click.echo("Nothing was said there and then: ask for more of it.", err=True)
    else:
        show_overview(sheet, found, zone)


def _write_page(path: Path, found: Overview | OneSession, zone: tzinfo) -> None:
    """Write a page. Raises ConfigError where what draws it is not installed, OSError."""
    from harken.analytics.html_page import page
    from harken.views.message_text import size_text

    text = page(found, zone)
    path.write_text(text, "utf-8", errors="backslashreplace")
    print_text(f"{path}: {size_text(len(text))}; open it in a browser")


def _say_empty() -> None:
    click.echo(
        f"Nothing was said here yet. `{command_prefix('import')}` takes in what other runtimes "
        f"wrote, `{command_prefix('chat')}` begins a conversation.",
        err=True,
    )
