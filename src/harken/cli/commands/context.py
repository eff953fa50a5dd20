"""`harken context`: the context of an agent, for a program that it runs."""

from __future__ import annotations

import click

from harken.cli.command_group import CommandGroup
from harken.config.home import environment
from harken.context.socket_client import VARIABLE, current_context


@click.group(cls=CommandGroup)
def command() -> None:
    """Print the current commit of the agent that runs this program."""


@command.command()
def current() -> None:
    """Print the full name of the commit of the turn that runs this command.

    Prints nothing if no agent runs it, if the agent has no commits, or if there is no response
    within a second.
    """
    path = environment().get(VARIABLE, "")
    context_id = current_context(path) if path else ""
    if context_id:
        click.echo(context_id)
