"""The agents of `harken review`, `harken discuss` and `harken agents watch`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import click

from harken.chat.options import ChatOptions
from harken.chat.turn_limit import MAX_MODEL_CALLS
from harken.cli.commands.ticket.ticket_command import open_tickets
from harken.cli.options.agent import allow_option, permission_option
from harken.cli.options.time import Duration
from harken.config.home import Home, environment
from harken.config.store import open_or_create_store
from harken.errors import ConfigError, HarkenError
from harken.review.conditions import REVIEW_CONDITIONS
from harken.review.run import TAKE_OVER_S, StartEvent, StartRunner
from harken.terminal.text import escape_control_characters, one_line
from harken.tickets.start import StartCondition
from harken.tickets.starts import StartLedger
from harken.tickets.ticket import short_id
from harken.tickets.tracker import Tickets

Command = TypeVar("Command", bound=Callable[..., Any])
_OPTIONS = (
    click.option(
        "--model",
        metavar="MODEL",
        help="The model of all agents (default: that of the template, else as configured).",
    ),
    permission_option,
    allow_option,
    click.option(
        "--max-calls",
        metavar="N",
        type=click.IntRange(min=1),
        default=MAX_MODEL_CALLS,
        show_default=True,
        help="The maximum number of model calls of an agent.",
    ),
    click.option(
        "--take-over",
        "take_over_s",
        type=Duration(),
        default=f"{TAKE_OVER_S / 3600:g}h",
        show_default=True,
        help="Take over an agent of another home that has had no commit for this time.",
    ),
    click.option(
        "--as",
        "principal",
        metavar="PRINCIPAL",
        help="Who asks (default: HARKEN_PRINCIPAL, the agent that runs this, git, the user).",
    ),
)


def agent_options(command: Command) -> Command:
    """Add the options of the agents to a command, passed as keywords."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@contextmanager
def open_runner(
    home: Home,
    options: dict[str, Any],
    *,
    conditions: Iterable[StartCondition] = REVIEW_CONDITIONS,
    prints_answers: bool = True,
) -> Iterator[tuple[Tickets, StartRunner]]:
    """Open the store; yield its tickets for the author of the command, and the runner of agents.

    options: the parameters of `agent_options`. Raises ConfigError, StoreError.
    """
    from harken.chat.started_agent import StartedAgents

    home.create_folders()
    chat_options = ChatOptions(
        model=options["model"],
        permission=options["permission"],
        allowed=options["allow"],
        max_calls=options["max_calls"],
    )
    with open_or_create_store(home) as store:
        tickets = open_tickets(store, environment(), options["principal"])
        ledger = StartLedger(store, conditions, author=tickets.author, owner=home.load_owner_id())
        runner = StartRunner(
            ledger=ledger,
            agents=StartedAgents(home, chat_options),
            on_event=partial(print_event, prints_answers=prints_answers),
            take_over_s=options["take_over_s"],
        )
        try:
            yield tickets, runner
        except HarkenError:
            raise
        except ValueError as error:
            raise ConfigError(str(error)) from None


def print_event(event: StartEvent, *, prints_answers: bool = True) -> None:
    """Print a step of a start on standard error, with the first words of an answer."""
    if event.phase == "finished" and not prints_answers:
        return
    text = f": {one_line(event.text, 200)}" if event.text else ""
    line = f"{short_id(event.ticket)}  {event.principal} {event.phase}{text}"
    if event.phase == "failed" and event.condition:
        line += f"; `harken agents retry {short_id(event.ticket)}` starts it again"
    click.echo(escape_control_characters(line), err=True)
