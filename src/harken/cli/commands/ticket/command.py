"""`harken ticket create`, `update`, `close`, `reopen`, `defer`, `note` and `claim`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from harken.cli.command_group import CommandGroup
from harken.cli.commands.ticket.exchange import EXCHANGE_COMMANDS
from harken.cli.commands.ticket.fields import (
    build_change,
    field_options,
    read_text,
    removal_options,
)
from harken.cli.commands.ticket.reading import READING_COMMANDS
from harken.cli.commands.ticket.ticket_command import changing_command, print_change
from harken.cli.options.name_types import TICKET
from harken.cli.options.time import Duration, parse_time_us
from harken.config.local_zone import LocalZone
from harken.core.clock import format_rfc3339, system_clock
from harken.tickets.tracker import Tickets

_reason_option = click.option("--reason", default="", help="A note with the change.")


@click.group(cls=CommandGroup)
def command() -> None:
    """Create, change, claim and list tickets: work items in the store.

    A TICKET is an id (tkt-..., or a unique prefix). Every change is kept as a version, with its
    author, its time, and the current commit of the agent that runs the command.
    """


@changing_command
@click.argument("title")
@field_options
def create_command(tickets: Tickets, title: str, as_json: bool, **values: Any) -> None:
    """Create a ticket and print its id."""
    note = read_text(values["note"]) or ""
    ticket = tickets.create(title, build_change(tickets, values), note=note)
    print_change(ticket, "", as_json=as_json)


@changing_command
@click.argument("ticket", type=TICKET)
@field_options
@removal_options
def update_command(tickets: Tickets, ticket: str, as_json: bool, **values: Any) -> None:
    """Change fields of a ticket."""
    note = read_text(values["note"]) or ""
    ticket_after = tickets.update(ticket, build_change(tickets, values), note=note)
    print_change(ticket_after, "updated", as_json=as_json)


@changing_command
@click.argument("ticket", type=TICKET)
@_reason_option
def close_command(tickets: Tickets, ticket: str, reason: str, as_json: bool) -> None:
    """Close a ticket."""
    print_change(tickets.close(ticket, note=reason), "closed", as_json=as_json)


@changing_command
@click.argument("ticket", type=TICKET)
@_reason_option
def reopen_command(tickets: Tickets, ticket: str, reason: str, as_json: bool) -> None:
    """Open a closed or deferred ticket."""
    print_change(tickets.reopen(ticket, note=reason), "open", as_json=as_json)


@changing_command
@click.argument("ticket", type=TICKET)
@click.option(
    "--until",
    default="",
    metavar="TIME",
    help="When it is ready again: 2026-12-24, '2026-12-24 14:30', or in 12h, 7d, 2w.",
)
@_reason_option
def defer_command(tickets: Tickets, ticket: str, until: str, reason: str, as_json: bool) -> None:
    """Defer a ticket, until a time or until it is reopened."""
    ticket_after = tickets.defer(ticket, until=_parse_until(until) if until else "", note=reason)
    print_change(ticket_after, "deferred", as_json=as_json)


@changing_command
@click.argument("ticket", type=TICKET)
@click.argument("text", default="-")
def note_command(tickets: Tickets, ticket: str, text: str, as_json: bool) -> None:
    """Add a note to a ticket: TEXT, or stdin."""
    ticket_after = tickets.note(ticket, read_text(text) or "")
    print_change(ticket_after, "noted", as_json=as_json)


@changing_command
@click.argument("ticket", type=TICKET, required=False)
def claim_command(tickets: Tickets, ticket: str | None, as_json: bool) -> None:
    """Claim a ready ticket.

    It is assigned to the author and set to in_progress. Without TICKET, claim the most urgent one.
    Of all that claim a ticket at once, one gets it; for
    the others the exit code is 2.
    """
    claimed = tickets.claim(ticket)
    print_change(claimed, claimed.state.title, as_json=as_json)


def _parse_until(text: str) -> str:
    """Return a time, or the time after a duration, as RFC 3339. Raises ConfigError."""
    try:
        seconds = Duration().convert(text, None, None)
    except click.BadParameter:
        now = datetime.now(UTC)
        return format_rfc3339(parse_time_us(text, LocalZone(), now))
    return format_rfc3339(system_clock() + int(seconds * 1_000_000))


for _command in (
    *(create_command, update_command, close_command, reopen_command, defer_command),
    *(note_command, claim_command, *READING_COMMANDS, *EXCHANGE_COMMANDS),
):
    command.add_command(_command)
