"""`harken sessions`: the logged and imported sessions, the newest first.

The table is here; `listing` reads the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

import click

from harken.analytics.number_text import format_cost as cost
from harken.analytics.times import format_minute, to_datetime
from harken.cli.command_group import CommandGroup, check_options_before_subcommand
from harken.cli.command_tree import SESSION_COMMANDS
from harken.cli.commands.sessions.cost import IndexedSessions
from harken.cli.commands.sessions.listing import (
    BEING_WRITTEN,
    SessionConditions,
    describe_subject,
    filter_sessions,
    list_sessions,
)
from harken.cli.commands.sessions.table import SessionRow, table_lines, terminal_width, when_text
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home, command_prefix, has_no_event, warn_of_unstarted
from harken.config.local_zone import LocalZone
from harken.config.name_resolver import NameResolver
from harken.core.clock import parse_rfc3339
from harken.core.commits import SHORT_NAME_DIGITS
from harken.terminal.text import print_json, print_text
from harken.views.message_text import format_size

DEFAULT_SESSIONS = 20
"""The default number of sessions."""


class _SessionsGroup(CommandGroup):
    """The group of the subcommands. It explains the commands for a session's name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a subcommand.

        For a session's name, raises UsageError with the commands that take one.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            if not NameResolver(ctx.params["home"]).is_session(error.command_name):
                raise
            line = command_prefix("view", error.command_name)
            raise click.UsageError(
                f"{error.command_name!r} is a session, not a command: `{line}` shows it", ctx
            ) from None


@click.group(
    name="sessions", cls=_SessionsGroup, entries=SESSION_COMMANDS, invoke_without_command=True
)
@click.option("--since", metavar="TIME", help="Filter by last change: today, 7d, 2026-03-05.")
@click.option("--runtime", metavar="NAME", help="Filter by runtime: harken, claude, codex, ...")
@click.option("--project", metavar="FOLDER", help="Filter by working folder, including subfolders.")
@click.option(
    "--text",
    metavar="TEXT",
    help="Filter by text in name, title or project. (`search` searches messages.)",
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    help=f"The number of sessions; 0 shows all (default: {DEFAULT_SESSIONS}; with --json all).",
)
@click.option("--all", "is_all", is_flag=True, help="Show all; same as --limit 0.")
@json_option
@home_option
@click.pass_context
def command(
    context: click.Context,
    /,
    limit: int | None,
    is_all: bool,
    as_json: bool,
    home: Home,
    **conditions: str | None,
) -> None:
    """List recorded and imported sessions, newest first.

    The columns are last change, size, cost (if known), project and title. The subcommands check,
    repair, compress and rename logs.
    """
    if context.invoked_subcommand is not None:
        check_options_before_subcommand(context)
        return
    if is_all and limit:
        raise click.UsageError("--all and --limit cannot be combined")
    all_sessions = list_sessions(home)
    sessions = filter_sessions(
        all_sessions, SessionConditions({s.runtime for s in all_sessions}, **conditions)
    )
    if not as_json:
        unstarted = {path.stem: path for path in home.list_logs() if has_no_event(path)}
        warn_of_unstarted(unstarted[s.name] for s in sessions if s.name in unstarted)
        sessions = [session for session in sessions if session.name not in unstarted]
    max_rows = 0 if is_all else limit
    max_rows = max_rows if max_rows is not None or as_json else DEFAULT_SESSIONS
    visible = sessions[: max_rows or None]
    index = IndexedSessions(home, [session.name for session in visible])
    rows = [{**session.row, **session.describe_end(index)} for session in visible]
    if as_json:
        print_json(rows)
    elif not rows:
        _report_none(home, is_filtered=any(text is not None for text in conditions.values()))
    else:
        imported = [s.imported for s in all_sessions if s.imported is not None]
        resolver = NameResolver(home, imported=imported)
        show(rows, resolver.short_names(session.name for session in visible))
        if len(sessions) > len(rows):
            command_line = command_prefix("sessions", *_format_conditions(conditions), "--all")
            click.echo(
                f"... and {len(sessions) - len(rows)} more: `{command_line}` lists all", err=True
            )


def _format_conditions(conditions: Mapping[str, str | None]) -> list[str]:
    """Return conditions as the options of a command line."""
    return [word for name, text in conditions.items() if text for word in (f"--{name}", text)]


def _report_none(home: Home, *, is_filtered: bool) -> None:
    if is_filtered:
        click.echo("No session matches.", err=True)
    else:
        text = f"No sessions in {home.sessions_folder}. `harken demo` creates one, "
        click.echo(f"{text}`harken import` imports those of other runtimes.", err=True)


def show(rows: list[dict[str, Any]], names: Mapping[str, str]) -> None:
    """Print a table as wide as the terminal; times are local ones, as in the names of sessions.

    names: the short name of each session.
    """
    width = terminal_width()
    now = None if width is None else datetime.now(UTC).astimezone(LocalZone())
    table = [_format_row(row, names[row["session"]], now) for row in rows]
    for line in table_lines(table, width):
        print_text(line)


def _format_row(row: Mapping[str, Any], name: str, now: datetime | None) -> SessionRow:
    """Return the texts of a row. Times are relative to `now`, or in full if it is None."""
    written_at = to_datetime(parse_rfc3339(row["written"])).astimezone(LocalZone())
    state = row["state"] or ""
    if row.get("tips"):
        tip = row["tips"][0]["ctx"][: len("ctx-") + SHORT_NAME_DIGITS]
        state = f"{state}, imported" if row["logs"] else tip
    title = describe_subject(row)
    if "error" in row:
        title = f"(unreadable: run `harken sessions check {row['logs'][0]}`)"
    return SessionRow(
        name=name,
        modified=format_minute(written_at, LocalZone())
        if now is None
        else when_text(written_at, now),
        size=format_size(row["size_bytes"]),
        cost=cost(row["cost_usd"], 0),
        project=PurePath(row["project"] or "").name,
        state=state,
        title=title,
        is_unfinished=row["state"] in (BEING_WRITTEN, "cut off?"),
    )
