"""The form of `harken ticket` commands: they get the tickets of the open store.

Each change carries the commit of the agent that runs the command, as the context socket reports it,
and its author. Outside of an agent there is no socket, and the change has no commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import click

from harken.cli.options.home import home_option, json_option
from harken.config.home import Home, current_folder, environment
from harken.config.identity import load_identity
from harken.config.store import open_configured_store, open_or_create_store
from harken.context.socket_client import VARIABLE, current_context
from harken.core.commits import CommitId, TicketId
from harken.errors import ConfigError, HarkenError
from harken.store.base import Store
from harken.terminal.text import escape_control_characters, print_json, print_text
from harken.tickets.ticket import Ticket, short_id
from harken.tickets.tracker import Tickets

_AUTHOR_HELP = "The author (default: HARKEN_PRINCIPAL, the agent that runs this, git, the user)."


def reading_command(function: Callable[..., int | None]) -> click.Command:
    """Return a command of a function that reads tickets."""
    return _make_command(function, open_configured_store)


def changing_command(function: Callable[..., int | None]) -> click.Command:
    """Return a command of a function that changes tickets. The store is created if necessary."""
    option = click.option("--as", "principal", metavar="PRINCIPAL", help=_AUTHOR_HELP)
    return _make_command(option(function), open_or_create_store)


def _make_command(
    function: Callable[..., int | None], open_store: Callable[..., Any]
) -> click.Command:
    @wraps(function)
    def run(home: Home, principal: str | None = None, **arguments: Any) -> int | None:
        if open_store is open_or_create_store:
            home.create_folders()
        with open_store(home) as store:
            try:
                return function(open_tickets(store, environment(), principal), **arguments)
            except HarkenError:
                raise
            except ValueError as error:
                raise ConfigError(str(error)) from None

    return click.command(function.__name__.removesuffix("_command"))(json_option(home_option(run)))


def open_tickets(
    store: Store,
    environ: Mapping[str, str],
    principal: str | None,
    find_context: Callable[[str], str] = current_context,
) -> Tickets:
    """Return the tickets of a store for the author of a command.

    find_context: returns the commit of the agent with a context socket, or an empty text.
    """
    path = environ.get(VARIABLE, "")
    context_id = find_context(path) if path else ""
    author = principal or load_identity({}, environ).principal
    author = author or _find_principal(store, context_id)
    author = author or load_identity({}, environ, git_folder=current_folder()).principal
    return Tickets(store, author or Path.home().name, context=lambda: context_id)


def _find_principal(store: Store, context_id: str) -> str:
    """Return the principal of a commit, or an empty text if the store does not have it."""
    stored = store.commits([CommitId(context_id)]) if context_id else {}
    return "".join(commit.commit.principal for commit in stored.values())


def print_damaged(damaged: Mapping[TicketId, str]) -> int:
    """Print damaged tickets to stderr, and return the exit code: 1 if there is one."""
    for id_, problem in damaged.items():
        text = f"ticket {short_id(id_)} cannot be read: {problem}"
        click.echo(f"harken: {escape_control_characters(text)}", err=True)
    return int(bool(damaged))


def print_change(ticket: Ticket, text: str, *, as_json: bool) -> None:
    """Print a changed ticket: its id and a text, or all of it as JSON."""
    if as_json:
        print_json(ticket.as_json())
    else:
        print_text(f"{short_id(ticket.id)}  {text}" if text else short_id(ticket.id))
