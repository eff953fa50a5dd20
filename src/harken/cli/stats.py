"""`harken stats`: what was done in all sessions, or in one; and what that took."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harken.cli.home import Home, command_line, here, home_option, json_option
from harken.cli.local_zone import LocalZone
from harken.cli.opened_facts import facts_of
from harken.cli.terminal import say, say_json
from harken.cli.when import moment_us
from harken.errors import UnknownName

if TYPE_CHECKING:
    from harken.analytics.scope import Scope
    from harken.analytics.statistics import OneSession, Overview

JSON_BINS = 60
"""A profile for programs and pages has at most so many bins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person wants to know."""

    session: str | None
    since: str | None
    until: str | None
    project: str | None
    runtime: str | None
    zone: tzinfo

    def scope(self, database: sqlite3.Connection) -> Scope:
        """Return what counts. Raises ConfigError, UnknownName for what is not there."""
        from harken.analytics.named import projects, runtimes, session_id
        from harken.analytics.scope import Scope

        now = datetime.now(UTC)
        if self.runtime is not None and self.runtime not in (known := [*runtimes(database)]):
            raise UnknownName("runtime", self.runtime, known)
        folder = None if self.project is None else _folder(self.project)
        return Scope(
            since_us=None if self.since is None else moment_us(self.since, self.zone, now),
            until_us=None
            if self.until is None
            else moment_us(self.until, self.zone, now, is_end=True),
            projects=None if folder is None else projects(database, folder),
            runtime=self.runtime,
            session_id=None if self.session is None else session_id(database, self.session),
        )

    def row(self, scope: Scope) -> dict[str, Any]:
        """Return what counts, for programs."""
        from harken.analytics.moment import moment

        since, until = moment(scope.since_us), moment(scope.until_us)
        return {
            "since": None if since is None else since.isoformat(),
            "until": None if until is None else until.isoformat(),
            "folders": None if scope.projects is None else list(scope.projects),
            "runtime": scope.runtime,
        }


@click.command()
@click.argument("session", required=False)
@click.option("--since", metavar="TIME", help="Only from then on: 2026-03-05, today, 7d (ago).")
@click.option("--until", metavar="TIME", help="Only before then; a day to its end.")
@click.option("--project", metavar="FOLDER", help="Only sessions there or below; or its last part.")
@click.option("--runtime", metavar="NAME", help="Only sessions of it: claude, codex, harken, ...")
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
def command(home: Home, page: Path | None, utc: bool, as_json: bool, **asked: Any) -> None:
    """Show what was done in all sessions, and what it took: when, how much, with which tools.

    With a SESSION (its id, the beginning of it, or "latest") its profile over time.
    """
    zone = UTC if utc else LocalZone()
    with facts_of(home) as facts:
        _show(facts.database, Asked(zone=zone, **asked), page, as_json=as_json)


def _show(database: sqlite3.Connection, asked: Asked, page: Path | None, *, as_json: bool) -> None:
    from harken.analytics.statistics import one_session, overview
    from harken.cli.sheet import Sheet
    from harken.cli.stats_session import bins_for

    if database.execute("SELECT 1 FROM sessions LIMIT 1").fetchone() is None:
        _say_empty()
        return
    scope, sheet = asked.scope(database), Sheet()
    found: Overview | OneSession
    if asked.session is not None:
        is_for_people = page is None and not as_json
        found = one_session(database, scope, bins_for(sheet.width) if is_for_people else JSON_BINS)
    else:
        found = overview(database, scope, asked.zone)
    if page is not None:
        _write_page(page, found, asked.zone)
    if as_json:
        say_json({**asked.row(scope), **found.as_json()})
    elif page is None:
        _draw(sheet, found, asked.zone)


def _draw(sheet: Any, found: Overview | OneSession, zone: tzinfo) -> None:
    from harken.analytics.statistics import OneSession
    from harken.cli.stats_overview import show_overview
    from harken.cli.stats_session import show_session

    if isinstance(found, OneSession):
        show_session(sheet, found, zone)
    elif not found.sessions:
        click.echo("Nothing was said there and then: ask for more of it.", err=True)
    else:
        show_overview(sheet, found, zone)


def _write_page(path: Path, found: Overview | OneSession, zone: tzinfo) -> None:
    """Write a page. Raises ConfigError where what draws it is not installed, OSError."""
    from harken.analytics.page import page
    from harken.views.written import size_text

    text = page(found, zone)
    path.write_text(text, "utf-8", errors="backslashreplace")
    say(f"{path}: {size_text(len(text))}; open it in a browser")


def _say_empty() -> None:
    click.echo(
        f"Nothing was said here yet. `{command_line('import')}` takes in what other runtimes "
        f"wrote, `{command_line('chat')}` begins a conversation.",
        err=True,
    )


def _folder(name: str) -> str:
    """Return the path that is meant, where it is one of this machine."""
    if name.startswith((".", "~")):
        return str((here() / Path(name).expanduser()).resolve())
    return name
