"""`harken mcp login`, `logout`: give or revoke agents' access to a server for the user."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from harken.cli.options.home import home_option, json_option
from harken.cli.options.time import Duration
from harken.config.home import Home, environment
from harken.config.settings import Settings, load_settings
from harken.errors import ConfigError, NameNotFound
from harken.terminal.text import escape_control_characters, print_json, print_text, program_name
from harken.world.mcp.auth.token_store import Login, Logins
from harken.world.mcp.server_config import McpServerConfig

TIMEOUT = "5m"
_MAX_BYTES = 16 << 10
_DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
"""Variables that show that a browser can be displayed."""


@click.command(name="login")
@click.argument("name")
@click.option("--no-browser", is_flag=True, help="Print the URL instead of opening a browser.")
@click.option(
    "--timeout",
    "wait_s",
    type=Duration(min_s=1, max_s=3600),
    default=TIMEOUT,
    show_default=True,
    help="The time to wait for the login in the browser: 90s, 5m.",
)
@json_option
@home_option
def login_command(name: str, no_browser: bool, wait_s: float, as_json: bool, home: Home) -> None:
    """Log in to an HTTP server with OAuth, in your browser.

    The tokens are stored in the home folder, readable only by you, and are sent to this server
    only. `harken mcp logout NAME` revokes and removes them.
    """
    server = _find_server(load_settings(home), name)
    if server.oauth.grant == "client_credentials":
        if as_json:
            print_json({"name": name, "state": "no_login_needed"})
        else:
            print_text(f"{name} needs no login: it uses client credentials from `oauth`.")
        return
    login = _log_in(server, home, opens=not no_browser and _has_browser(), wait_s=wait_s)
    if as_json:
        print_json({"name": name, "place": login.place, "scope": login.scope, "state": "logged_in"})
        return
    allowed = f", which may: {login.scope}" if login.scope else ""
    print_text(f"Logged in: {name} ({login.place}){allowed}.")
    print_text(f"`{program_name()} mcp test {name}` shows its tools.")


@click.command(name="logout")
@click.argument("name")
@json_option
@home_option
def logout_command(name: str, as_json: bool, home: Home) -> None:
    """Remove the tokens of a login, and revoke them if the server supports it."""
    logins = Logins(home.logins_file)
    names = [login.name for login in logins.by_key().values()]
    if name not in names:
        raise NameNotFound("login", name, names)
    removed = asyncio.run(_library().log_out(logins, name))
    if as_json:
        print_json(
            [{"name": login.name, "place": login.place, "state": "logged_out"} for login in removed]
        )
    for login in [] if as_json else removed:
        print_text(f"Logged out: {login.name} ({login.place}).")


def _find_server(settings: Settings, name: str) -> McpServerConfig:
    """Return the server of a name, its variables filled in. Raises NameNotFound, ConfigError."""
    described = (server for template in settings.templates for server in template.servers)
    by_name = {server.name: server for server in (*described, *settings.servers)}
    if name not in by_name:
        raise NameNotFound("MCP server", name, by_name)
    server = by_name[name]
    hidden = server.variables & settings.key_variables
    if hidden and not server.may_have_keys:
        raise ConfigError(
            f"{name}: it uses {min(hidden)}, the API key of a model, which servers do not get"
        )
    if server.url is None:
        raise ConfigError(f"{name} is a program and has no login; use `env` for its credentials")
    if any(header.lower() == "authorization" for header in server.headers):
        raise ConfigError(f"{name}: no login is needed: `headers` has Authorization")
    return server.with_resolved_variables(environment())


def _log_in(server: McpServerConfig, home: Home, *, opens: bool, wait_s: float) -> Login:
    oauth = _library()
    home.create_folders()

    async def scene() -> Login:
        async with oauth.Callback(server.oauth.callback_port) as callback:
            with _read_pasted_address(callback.accept):
                show = _address_printer(opens=opens, wait_s=wait_s)
                login: Login = await oauth.log_in(
                    server, Logins(home.logins_file), callback, show, wait_s=wait_s
                )
                return login

    try:
        return asyncio.run(scene())
    except ConfigError as error:
        raise ConfigError(f"{server.name}: {error}") from None


def _library() -> Any:
    """Return the login module. Raises ConfigError if the extra is not installed."""
    try:
        return import_module("harken.world.mcp.auth.authorization_code")
    except ImportError as error:
        raise ConfigError(
            f"a login needs the extra `mcp`: pip install 'harken[mcp]' ({error})"
        ) from None


def _has_browser() -> bool:
    """Whether a browser can be opened outside this terminal."""
    return sys.platform == "darwin" or any(environment().get(name) for name in _DISPLAYS)


def _address_printer(*, opens: bool, wait_s: float) -> Callable[[str], None]:
    """Return a function that prints the address of the login page, and opens it."""

    def show(address: str) -> None:
        click.echo(f"Open this URL to log in (within {wait_s:g} s):\n", err=True)
        click.echo(f"  {escape_control_characters(address)}\n", err=True)
        if sys.stdin.isatty():
            click.echo(
                "If the browser is on another machine, paste the last URL that it could "
                "not open here.",
                err=True,
            )
        if opens:
            open_page(address)

    return show


def open_page(address: str) -> None:
    """Open a page in the user's browser, in the background and without its output."""
    subprocess.Popen(
        [sys.executable, "-I", "-m", "webbrowser", address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@contextmanager
def _read_pasted_address(take: Callable[[str], bool]) -> Iterator[None]:
    """Read a pasted text from the terminal as the address to which the browser was redirected."""
    if not sys.stdin.isatty():
        yield
        return
    loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        try:
            line = os.read(descriptor, _MAX_BYTES).decode("utf-8", "replace")
        except OSError:  # the terminal is closed
            line = ""
        if not line:
            loop.remove_reader(descriptor)
        elif line.strip() and not take(line):
            click.echo("This is not the redirect URL of this login.", err=True)

    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
