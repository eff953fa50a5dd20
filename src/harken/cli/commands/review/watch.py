"""`harken agents watch`: run the agents that changes of tickets start."""

from __future__ import annotations

import time
from typing import Any

import click

from harken.cli.command_group import CommandGroup
from harken.cli.commands.review.running import agent_options, open_runner
from harken.cli.options.home import home_option
from harken.cli.options.name_types import TICKET
from harken.cli.options.time import Duration
from harken.config.home import Home
from harken.config.settings import load_settings
from harken.errors import ConfigError, StoreError
from harken.review.conditions import REVIEW_CONDITIONS
from harken.review.run import StartRunner
from harken.terminal.text import escape_control_characters, print_text
from harken.tickets.ticket import short_id


@click.group(name="agents", cls=CommandGroup)
def command() -> None:
    """Run the agents that changes of tickets start."""


@command.command(name="watch")
@click.option("--once", is_flag=True, help="Run the agents that are due, and exit.")
@click.option(
    "--interval",
    "interval_s",
    type=Duration(min_s=0.1),
    default="2s",
    show_default=True,
    help="The interval of checks for changed tickets.",
)
@agent_options
@home_option
def watch_command(home: Home, once: bool, interval_s: float, **options: Any) -> int:
    """Watch tickets, and run the agents that their changes start.

    A ticket in review starts its reviewers, a note on a finding its reviewer, and a closed finding
    the reviewer that verifies it; config.toml adds others. Each start is recorded in the store
    before its agent runs, and happens once; any number of homes may watch one store. Run it again
    after a crash: it continues its agents. No agent runs while it waits. Ctrl-C ends it. A failure
    that may pass is attempted again, three times in all; another one ends the start, until
    `harken agents retry`. With --once, the exit code is 1 if an agent failed.
    """
    conditions = [*REVIEW_CONDITIONS, *load_settings(home).starts]
    with open_runner(home, options, conditions=conditions) as (_, runner):
        runner.retries = not once
        if once:
            runner.run_all()
            return int(runner.has_failed)
        print_text("Watching; Ctrl-C ends it.")
        try:
            _watch(runner, interval_s)
        except KeyboardInterrupt:
            print_text()
    return 0


@command.command(name="retry")
@click.argument("ticket", type=TICKET)
@agent_options
@home_option
def retry_command(home: Home, ticket: str, **options: Any) -> int:
    """Start the failed agents of a ticket again, and run them.

    Each one begins anew, from the last commit of its principal in the ticket. Exit code 1 if one
    failed again.
    """
    conditions = [*REVIEW_CONDITIONS, *load_settings(home).starts]
    with open_runner(home, options, conditions=conditions) as (tickets, runner):
        id_ = tickets.find_id(ticket)
        failed = [start.id for start in runner.ledger.read({id_}).failed]
        if not failed:
            raise ConfigError(f"{short_id(id_)}: no agent of it has failed")
        for start_id in failed:
            runner.restart(id_, start_id)
        return int(runner.has_failed)


def _watch(runner: StartRunner, interval_s: float) -> None:
    """Run due agents, without end."""
    while True:
        try:
            runner.run_all()
        except StoreError as error:
            text = escape_control_characters(f"harken: {error}; retrying")
            click.echo(text, err=True)
        time.sleep(interval_s)
