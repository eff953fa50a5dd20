"""`harken ticket list`, `show` and `ready`."""

from __future__ import annotations

from typing import Any, get_args

import click

from harken.cli.commands.ticket.page import print_page
from harken.cli.commands.ticket.ticket_command import print_damaged, reading_command
from harken.cli.options.name_types import TICKET
from harken.core.clock import format_rfc3339, system_clock
from harken.terminal.table import Sheet, TextColumn
from harken.terminal.text import print_json, print_text
from harken.tickets import query
from harken.tickets.query import SortKey, TicketFilter, filter_tickets, sort_tickets
from harken.tickets.ticket import (
    MAX_PRIORITY,
    MIN_PRIORITY,
    STATUSES,
    TYPES,
    Ticket,
    short_id,
    version_as_json,
)
from harken.tickets.tracker import Tickets, resolve_context

_COLUMNS = (
    TextColumn("id"),
    TextColumn("p"),
    TextColumn("status", is_text=True),
    TextColumn("type", is_text=True, from_width=90),
    TextColumn("title", is_text=True),
    TextColumn("assignee", is_text=True, from_width=70),
)
_limit_option = click.option(
    *("-n", "limit"), type=click.IntRange(1), help="The maximum number of tickets."
)


@reading_command
@click.option(
    "--status",
    "statuses",
    type=click.Choice(STATUSES),
    multiple=True,
    help="Filter by status (default: all but closed). Repeatable.",
)
@click.option("--all", "every", is_flag=True, help="Show closed tickets, too.")
@click.option("--type", "types", type=click.Choice(TYPES), multiple=True, help="Filter by type.")
@click.option("--label", "labels", multiple=True, help="Filter by label. Repeatable: all of them.")
@click.option("--assignee", metavar="NAME", help='Filter by assignee; "" means none.')
@click.option("--author", metavar="NAME", help="Filter by the author who created the ticket.")
@click.option("--reviewer", metavar="NAME", help="Filter by reviewer.")
@click.option("--parent", metavar="TICKET", type=TICKET, help="Filter by parent.")
@click.option(
    *("-p", "--priority", "priorities"),
    type=click.IntRange(MIN_PRIORITY, MAX_PRIORITY),
    multiple=True,
    help="Filter by priority.",
)
@click.option("--text", default="", help="Filter by a text in the title or the body.")
@click.option("--sort", type=click.Choice(get_args(SortKey)), default="priority", show_default=True)
@click.option("--reverse", "is_reversed", is_flag=True, help="Reverse the order.")
@_limit_option
def list_command(
    tickets: Tickets,
    *,
    as_json: bool,
    every: bool,
    sort: SortKey,
    is_reversed: bool,
    limit: int | None,
    **values: Any,
) -> int:
    """List tickets, the most urgent first. Exit code 1 if a ticket is damaged."""
    open_statuses = tuple(status for status in STATUSES if status != "closed")
    statuses = values["statuses"] or (None if every else open_statuses)
    conditions = TicketFilter(
        statuses=statuses,
        types=values["types"] or None,
        labels=values["labels"],
        assignee=values["assignee"],
        author=values["author"],
        reviewer=values["reviewer"],
        parent=tickets.find_id(values["parent"]) if values["parent"] else None,
        priorities=values["priorities"] or None,
        text=values["text"],
    )
    reading = tickets.read_all()
    matches = filter_tickets(sort_tickets(reading.tickets), conditions)
    matches = sort_tickets(matches, sort, is_reversed=is_reversed)
    _print_list(matches[:limit], as_json=as_json)
    return print_damaged(reading.damaged)


@reading_command
@_limit_option
def ready_command(tickets: Tickets, limit: int | None, as_json: bool) -> int:
    """List the tickets that can be worked on, the most urgent first.

    They are open, and all tickets that block them are closed. Exit code 1 if a ticket is damaged.
    """
    reading = tickets.read_all()
    _print_list(tickets.select_ready(reading.tickets)[:limit], as_json=as_json)
    return print_damaged(reading.damaged)


@reading_command
@click.argument("ticket", type=TICKET)
@click.option("--full", is_flag=True, help="Show all versions, and full names.")
def show_command(tickets: Tickets, ticket: str, full: bool, as_json: bool) -> None:
    """Show a ticket with its notes and its history.

    A change that was made outside of an agent is shown with the last commit of its author at that
    time, if there is one.
    """
    current = tickets.get(ticket)
    history = tickets.history(current.id)
    contexts = {name: resolve_context(tickets.store, version) for name, version in history}
    every = tickets.list_tickets()
    if as_json:
        now = format_rfc3339(system_clock())
        rows = [
            version_as_json(name, version) | {"resolved_context_id": contexts[name] or ""}
            for name, version in history
        ]
        children = [child.id for child in query.children(current.id, every)]
        is_ready = current.id in [ready.id for ready in query.ready(every, now=now)]
        extra = {"is_ready": is_ready, "children": children, "history": rows}
        print_json(current.as_json() | extra)
        return
    print_page(Sheet(), current, every, history=history, contexts=contexts, is_full=full)


def _print_list(tickets: list[Ticket], *, as_json: bool) -> None:
    if as_json:
        print_json([ticket.as_json() for ticket in tickets])
    elif not tickets:
        print_text("no tickets")
    else:
        Sheet().table(_COLUMNS, [_row(ticket) for ticket in tickets])


def _row(ticket: Ticket) -> tuple[str, ...]:
    state = ticket.state
    fields = (str(state.priority), state.status, state.type, state.title, state.assignee)
    return (short_id(ticket.id), *fields)


READING_COMMANDS = (list_command, show_command, ready_command)
