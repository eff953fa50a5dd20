"""`harken remote`: list, add and remove named remotes."""

from __future__ import annotations

from pathlib import Path

import click

from harken.cli.command_group import CommandGroup, check_options_before_subcommand
from harken.cli.commands.remotes.token import read_given_token, token_option
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home
from harken.remotes.registry import Remotes
from harken.terminal.text import escape_control_characters, print_json, print_text, program_name


@click.group(name="remote", cls=CommandGroup, invoke_without_command=True)
@json_option
@home_option
@click.pass_context
def command(context: click.Context, as_json: bool, home: Home) -> None:
    """List the named remotes: other homes that `harken serve` serves.

    `harken push` and `harken pull` use the remote `origin` if none is named.
    """
    if context.invoked_subcommand is not None:
        check_options_before_subcommand(context)
        return
    list_remotes(home, as_json=as_json)


@command.command("list")
@json_option
@home_option
def list_command(as_json: bool, home: Home) -> None:
    """List the named remotes."""
    list_remotes(home, as_json=as_json)


@command.command("add")
@click.argument("name")
@click.argument("url")
@token_option
@home_option
def add_command(name: str, url: str, token_file: Path | None, home: Home) -> None:
    """Add a remote: the URL of a service, or unix:PATH.

    Without a token of its own, the token is read from HARKEN_STORE_TOKEN.
    """
    token = read_given_token(token_file)
    home.create_folders()
    remote = Remotes(home.remotes_folder).add(name, url, token=token)
    print_text(escape_control_characters(f"remote {remote.name} added: {remote.url}"))


@command.command("remove")
@click.argument("name")
@home_option
def remove_command(name: str, home: Home) -> None:
    """Remove a remote with its token. Sessions and commits stay."""
    Remotes(home.remotes_folder).remove(name)
    print_text(f"remote {name} removed")


def list_remotes(home: Home, *, as_json: bool) -> None:
    """Print the remotes of a home. Raises ConfigError."""
    remotes = Remotes(home.remotes_folder).list_remotes()
    if as_json:
        print_json(
            [
                {"name": remote.name, "url": remote.url, "has_token": remote.token_file.exists()}
                for remote in remotes
            ]
        )
        return
    if not remotes:
        print_text(f"No remotes. `{program_name()} remote add NAME URL` adds one.")
    width = max((len(remote.name) for remote in remotes), default=0)
    for remote in remotes:
        print_text(escape_control_characters(f"{remote.name:<{width}}  {remote.url}"))
