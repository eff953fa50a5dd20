"""`harken ticket import` and `export`: tickets from and for other trackers."""

from __future__ import annotations

from typing import BinaryIO

import click

from harken.cli.commands.ticket.ticket_command import (
    changing_command,
    print_damaged,
    reading_command,
)
from harken.cli.options.name_types import TICKET
from harken.errors import ConfigError
from harken.terminal.text import print_json, print_text
from harken.tickets.exchange import IssueFormat, export_issues, import_issues
from harken.tickets.github import GitHubIssues
from harken.tickets.query import sort_tickets
from harken.tickets.tracker import Tickets

FORMATS: dict[str, IssueFormat] = {"github": GitHubIssues()}
"""The formats of other trackers, by name."""
_format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice([*FORMATS]),
    default="github",
    show_default=True,
    help="The format; github is that of gh issue list --json.",
)


@changing_command
@click.argument("issues", metavar="[FILE]", type=click.File("rb"), default="-")
@_format_option
@click.option(
    "--tracker", help="The name of the tracker (default: from the addresses: github:OWNER/NAME)."
)
def import_command(
    tickets: Tickets, issues: BinaryIO, format_name: str, tracker: str | None, as_json: bool
) -> None:
    """Create or update the tickets of the issues in a file, or from stdin.

    A ticket is updated if its issue changed since the last import, and comments become notes. A
    second import of the same issues changes nothing.
    """
    issue_format = FORMATS[format_name]
    parsed = issue_format.read(issues.read())
    if parsed and tracker is None:
        project = issue_format.find_project(parsed[0])
        if not project:
            raise ConfigError("the issues have no url: name their tracker with --tracker")
        tracker = f"{issue_format.name}:{project}"
    result = import_issues(tickets, parsed, tracker=tracker or issue_format.name)
    counts = {
        "created": result.created,
        "updated": result.updated,
        "unchanged": result.unchanged,
    }
    if as_json:
        print_json(counts)
    else:
        print_text(", ".join(f"{len(ids)} {name}" for name, ids in counts.items()))


@reading_command
@click.argument("names", metavar="[TICKET]...", type=TICKET, nargs=-1)
@_format_option
def export_command(
    tickets: Tickets, names: tuple[str, ...], format_name: str, as_json: bool
) -> int:
    """Print tickets, by default all, in the format of another tracker.

    Notes become comments; the priority, the type and the status become labels. `--json` is the
    format of GitHub itself. Exit code 1 if a ticket is damaged.
    """
    del as_json
    if names:
        exported, damaged = [tickets.get(name) for name in names], {}
    else:
        reading = tickets.read_all()
        exported, damaged = sort_tickets(reading.tickets), reading.damaged
    click.echo(FORMATS[format_name].write(export_issues(tickets.store, exported)))
    return print_damaged(damaged)


EXCHANGE_COMMANDS = (import_command, export_command)
