"""`harken context`: the context of an agent, for a program that it runs."""

from __future__ import annotations

import click

from harken.cli.command_group import CommandGroup
from harken.config.home import environment
from harken.context.socket_client import VARIABLE, current_context


@click.group(cls=CommandGroup)
def command() -> None:
    """Say which commit the agent is at that runs this program."""


@command.command()
def current() -> None:
    """Print the commit of the turn that runs this, by its full name.

    Nothing where no agent does, where it keeps no commits, or where nobody answers in a second.
    """
    path = environment().get(VARIABLE, "")
    context_id = current_context(path) if path else ""
    if context_id:
        click.echo(context_id)
