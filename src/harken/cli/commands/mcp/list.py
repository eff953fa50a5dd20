"""`harken mcp`: the configured MCP servers, their state and their tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from harken.chat.world import build_mcp_servers
from harken.cli.command_group import CommandGroup, check_options_before_subcommand
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
from harken.views.message_text import format_count
from harken.world.mcp.server_config import McpServerConfig
from harken.world.mcp.servers import McpServerInfo, McpServers

SHOWN = 12
"""The number of tools of a server in the list of all servers."""


@click.group(name="mcp", cls=CommandGroup, invoke_without_command=True)
@json_option
@home_option
@click.pass_context
def command(context: click.Context, as_json: bool, home: Home) -> int:
    """List the MCP servers, their states, and their tools.

    Each server is started and stopped for this. `harken mcp test NAME` shows details of one. Exit
    code 1 if no server is usable.
    """
    if context.invoked_subcommand is not None:
        check_options_before_subcommand(context)
        return 0
    settings = load_settings(home)
    for note in settings.notes:
        click.echo(escape_control_characters(note), err=True)
    servers = [row for row, _ in start_servers(home, settings, settings.servers)]
    if as_json:
        print_json([msgspec.structs.asdict(server) for server in servers])
    elif not servers:
        print_text(
            f"No MCP servers. `{program_name()} mcp add NAME -- COMMAND` adds "
            f"[mcp.servers.NAME] to {home.folder / 'config.toml'}."
        )
    for server in [] if as_json else servers:
        show(server, limit=SHOWN)
    return int(bool(servers) and all(server.state != "open" for server in servers))


@command.command(name="test")
@click.argument("name")
@json_option
@home_option
def try_command(name: str, as_json: bool, home: Home) -> int:
    """Start one server, and show its tools, resources and prompts. Exit code 1 on failure."""
    settings = load_settings(home)
    by_name = {server.name: server for server in settings.servers}
    if name not in by_name:
        raise NameNotFound("MCP server", name, by_name)
    [(server, prompts)] = start_servers(home, settings, [by_name[name]])
    if as_json:
        print_json({**msgspec.structs.asdict(server), "prompts": prompts})
    else:
        show(server, limit=None)
        for prompt in prompts:
            print_text(f"  /{prompt}")
    return int(server.state != "open")


for _one in (add_command, remove_command, login_command, logout_command):
    command.add_command(_one)


def start_servers(
    home: Home, settings: Settings, servers: Sequence[McpServerConfig]
) -> list[tuple[McpServerInfo, list[str]]]:
    """Start servers, and return their descriptions and prompts; all are stopped again."""
    if not servers:
        return []
    with TemporaryDirectory(prefix="harken-mcp-") as folder:
        connections = build_mcp_servers(servers, settings, Path(folder), None, home=home)
        return asyncio.run(_describe_servers(connections))


async def _describe_servers(connections: McpServers) -> list[tuple[McpServerInfo, list[str]]]:
    try:
        await connections.wait_ready(connections.servers)
        prompts = await connections.prompts()
        described = connections.describe()
    finally:
        await connections.close()
    return [
        (description, [prompt.command for prompt in prompts if prompt.server == description.name])
        for description in described
    ]


def show(server: McpServerInfo, *, limit: int | None) -> None:
    """Print the description of a server; without a limit all its tools."""
    state = "ready" if server.state == "open" else server.state
    state = "needs login" if server.needs_login else state
    for_whom = ", only for agents of templates that use it" if server.reserved else ""
    click.echo(
        click.style(escape_control_characters(server.name), bold=True) + f"  {state}{for_whom}"
    )
    print_text(f"  {one_line(server.program)} (from {server.origin})")
    if server.reason:
        print_text(f"  {server.reason}")
    if (
        server.state != "open" and not server.needs_login
    ):  # a reason of a missing login contains the next step
        print_text(f"  {what_to_do(server)}")
    if server.about:
        print_text(f"  {server.about}, {format_count(len(server.tools), 'tool')}")
    for tool in server.tools[:limit]:
        print_text(f"    {tool}")
    if len(server.tools[:limit]) < len(server.tools):
        hidden_count = len(server.tools) - len(server.tools[:limit])
        print_text(f"    and {hidden_count} more: `{program_name()} mcp test {server.name}`")
    for note in server.notes:
        print_text(f"  {note}")


def what_to_do(server: McpServerInfo) -> str:
    """Return the step that makes a server usable."""
    if server.reason.startswith("it needs a token"):
        look = "check the `oauth` settings with the authorization server"
    elif server.program.startswith(("http://", "https://")):
        look = "check that the server is running"
    elif server.reason.endswith("not found in PATH"):
        look = "install it"
    else:
        look = "run the command by hand to see its error"
    return f"{look}, or change its settings in {server.origin}"
