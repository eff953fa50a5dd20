"""`harken agents watch`: run the agents that changes of tickets start."""

from __future__ import annotations

import time
from typing import Any

import click

from harken.cli.command_group import CommandGroup
from harken.cli.commands.review.running import agent_options, open_runner
from harken.cli.options.home import home_option
from harken.cli.options.time import Duration
from harken.config.home import Home
from harken.config.settings import load_settings
from harken.errors import StoreError
from harken.review.conditions import REVIEW_CONDITIONS
from harken.review.run import TAKE_OVER_S, StartRunner
from harken.terminal.text import escape_control_characters, print_text

FIRST_RETRY_S = 30.0
"""The time after which failed agents are run again. It doubles with each failure."""
MAX_RETRY_S = 3600.0


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
@click.option(
    "--take-over",
    "take_over_s",
    type=Duration(),
    default=f"{TAKE_OVER_S / 3600:g}h",
    show_default=True,
    help="Take over an agent of another home that has had no commit for this time.",
)
@agent_options
@home_option
def watch_command(
    home: Home, once: bool, interval_s: float, take_over_s: float, **options: Any
) -> int:
    """Watch tickets, and run the agents that their changes start.

    A ticket in review starts its reviewers, a note on a finding its reviewer, and a closed finding
    the reviewer that verifies it; config.toml adds others. Each start is recorded in the store
    before its agent runs, and happens once; any number of homes may watch one store. Run it again
    after a crash: it continues its agents. No agent runs while it waits. Ctrl-C ends it. With
    --once, the exit code is 1 if an agent failed.
    """
    conditions = [*REVIEW_CONDITIONS, *load_settings(home).starts]
    with open_runner(home, options, conditions=conditions, take_over_s=take_over_s) as opened:
        runner = opened[1]
        if once:
            runner.run_all()
            return int(runner.has_failed)
        print_text("Watching; Ctrl-C ends it.")
        try:
            _watch(runner, interval_s)
        except KeyboardInterrupt:
            print_text()
    return 0


def _watch(runner: StartRunner, interval_s: float) -> None:
    """Run due agents, without end. Failed agents are run again after a growing time."""
    retry_s, retry_at = FIRST_RETRY_S, 0.0
    while True:
        try:
            runner.run_all()
        except StoreError as error:
            text = escape_control_characters(f"harken: {error}; retrying")
            click.echo(text, err=True)
        if not runner.failed:
            retry_s, retry_at = FIRST_RETRY_S, 0.0
        elif not retry_at:
            retry_at = time.monotonic() + retry_s
        elif time.monotonic() >= retry_at:
            retry_s, retry_at = min(2 * retry_s, MAX_RETRY_S), 0.0
            runner.retry_failed()
        time.sleep(interval_s)
