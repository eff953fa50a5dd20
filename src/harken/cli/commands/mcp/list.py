"""`harken mcp`: the MCP servers that there are, whether they can be used, and what they have."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from harken.chat.world import connections_of
from harken.cli.command_group import CommandGroup, refuse_options_before_subcommand
from harken.cli.commands.mcp.edit import add_command, remove_command
from harken.cli.commands.mcp.login import login_command, logout_command
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home
from harken.config.settings import Settings, load_settings
from harken.errors import NameNotFound
from harken.terminal.text import (
    escape_control_characters,
    one_line,
    print_json,
    print_text,
    program_name,
)
from harken.views.message_text import count
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.servers import McpServerInfo, McpServers

SHOWN = 12
"""How many tools of a server a list of all shows."""


@click.group(name="mcp", cls=CommandGroup, invoke_without_command=True)
@json_option
@home_option
@click.pass_context
def command(context: click.Context, as_json: bool, home: Home) -> int:
    """List the MCP servers, whether each can be used now, and its tools.

    They are started for it, and ended again. `harken mcp test NAME` says all of one. Exit code 1
    where none of them can be used.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before_subcommand(context)
        return 0
    settings = load_settings(home)
    for note in settings.notes:
        click.echo(escape_control_characters(note), err=True)
    found = [row for row, _ in tried(home, settings, settings.servers)]
    if as_json:
        print_json([asdict(one) for one in found])
    elif not found:
        print_text(
            f"There are none: `{program_name()} mcp add NAME -- COMMAND` writes [mcp.servers.NAME] "
            f"into "
            f"{home.folder / 'config.toml'}."
        )
    for one in [] if as_json else found:
        show(one, limit=SHOWN)
    return int(bool(found) and all(one.state != "open" for one in found))


@command.command(name="test")
@click.argument("name")
@json_option
@home_option
def try_command(name: str, as_json: bool, home: Home) -> int:
    """Start one server and say all that it has. Exit code 1 where it cannot be used."""
    settings = load_settings(home)
    by_name = {server.name: server for server in settings.servers}
    if name not in by_name:
        raise NameNotFound("MCP server", name, by_name)
    [(found, prompts)] = tried(home, settings, [by_name[name]])
    if as_json:
        print_json({**asdict(found), "prompts": prompts})
    else:
        show(found, limit=None)
        for prompt in prompts:
            print_text(f"  /{prompt}")
    return int(found.state != "open")


for _one in (add_command, remove_command, login_command, logout_command):
    command.add_command(_one)


def tried(
    home: Home, settings: Settings, servers: Sequence[McpServerConfig]
) -> list[tuple[McpServerInfo, list[str]]]:
    """Start servers, and return what each is like, with its prompts; all are ended again."""
    if not servers:
        return []
    with TemporaryDirectory(prefix="harken-mcp-") as folder:
        connections = connections_of(servers, settings, Path(folder), None, home=home)
        return asyncio.run(_looked_at(connections))


async def _looked_at(connections: McpServers) -> list[tuple[McpServerInfo, list[str]]]:
    try:
        await connections.ready(connections.servers)
        prompts = await connections.prompts()
        described = connections.describe()
    finally:
        await connections.close()
    return [
        (one, [prompt.command for prompt in prompts if prompt.server == one.name])
        for one in described
    ]


def show(one: McpServerInfo, *, limit: int | None) -> None:
    """Print what a server is like; without a limit all its tools."""
    state = "ready" if one.state == "open" else one.state
    state = "needs login" if one.needs_login else state
    for_whom = ", for agents of templates that name it" if one.reserved else ""
    click.echo(click.style(escape_control_characters(one.name), bold=True) + f"  {state}{for_whom}")
    print_text(f"  {one_line(one.program)} (from {one.origin})")
    if one.reason:
        print_text(f"  {one.reason}")
    if one.state != "open" and not one.needs_login:  # then the reason says what to do
        print_text(f"  {what_to_do(one)}")
    if one.about:
        print_text(f"  {one.about}, {count(len(one.tools), 'tool')}")
    for tool in one.tools[:limit]:
        print_text(f"    {tool}")
    if len(one.tools[:limit]) < len(one.tools):
        left = len(one.tools) - len(one.tools[:limit])
        print_text(f"    and {left} more: `{program_name()} mcp test {one.name}`")
    for note in one.notes:
        print_text(f"  {note}")


def what_to_do(one: McpServerInfo) -> str:
    """Say what a person can do about a server that cannot be used."""
    if one.reason.startswith("it needs a token"):
        look = "see whether who gives tokens knows what `oauth` says"
    elif one.program.startswith(("http://", "https://")):
        look = "see whether something listens there"
    elif one.reason.endswith("install it"):
        look = "install it"
    else:
        look = "run that line by hand to see why"
    return f"to do: {look}, or change it in {one.origin}"
