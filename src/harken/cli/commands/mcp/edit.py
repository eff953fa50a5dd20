"""`harken mcp add` and `remove`: edit the servers in the user's `config.toml`.

A server is appended, and removed line by line: comments are kept. The new file is parsed before it
replaces the old one, and must be equal except for this server; if it is not, the file is not
changed and the user is asked to edit it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from harken.cli.commands.init import toml_text
from harken.cli.options.home import home_option
from harken.config.file import parse_config, read_config
from harken.config.home import CONFIG, Home
from harken.core.arguments import format_existing
from harken.errors import ConfigError
from harken.terminal.text import print_text, program_name
from harken.world.mcp.auth.token_store import Logins
from harken.world.private_file import replace_file

_BARE_KEY_PATTERN = re.compile(r"[A-Za-z0-9_-]+")


@click.command(name="add")
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="The URL of a server over HTTP, instead of a program.")
@click.option(
    "--env",
    "env",
    multiple=True,
    metavar="NAME=VALUE",
    help="An environment variable of the program. Repeatable.",
)
@click.option(
    "--header", multiple=True, metavar="NAME: VALUE", help="An HTTP header for the URL. Repeatable."
)
@click.option("--client-id", help="The OAuth client id, for servers without client registration.")
@click.option(
    "--oauth",
    multiple=True,
    metavar="MEMBER=VALUE",
    help="An OAuth setting: 'grant=client_credentials', 'client_secret=${NAME}'.",
)
@click.option("--sandbox", is_flag=True, help="Run the program in a sandbox.")
@click.option("--network", is_flag=True, help="Allow network access in the sandbox.")
@home_option
def add_command(name: str, home: Home, **options: Any) -> None:
    """Add a server to config.toml: `harken mcp add NAME -- COMMAND ARGUMENTS...`, or with --url.

    Do not write secrets: use '${NAME}' in single quotes for an environment variable.
    """
    file = home.folder / CONFIG
    config = read_config(file)
    if name in config.mcp.servers:
        raise ConfigError(
            f"server {name!r} exists in {file}; remove it first: `{program_name()} "
            f"mcp remove {name}`"
        )
    text = _read_text(file)
    new = f"{text.rstrip()}\n\n" if text.strip() else ""
    new += _section(name, _server_config(options))
    if "\r\n" in text:
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    home.create_folders()
    _replace(file, text, new, name, is_there=True)
    print_text(f"Added {name} to {file}. `{program_name()} mcp test {name}` shows its tools.")


@click.command(name="remove")
@click.argument("name")
@home_option
def remove_command(name: str, home: Home) -> None:
    """Remove a server from config.toml."""
    file = home.folder / CONFIG
    servers = read_config(file).mcp.servers
    if name not in servers:
        existing = format_existing(servers, "servers")
        raise ConfigError(f"MCP server {name!r} not found in {file}{existing}")
    text = _read_text(file)
    _replace(file, text, without_server(text, name), name, is_there=False)
    print_text(f"Removed {name} from {file}.")
    with suppress(ConfigError):
        if any(login.name == name for login in Logins(home.logins_file).by_key().values()):
            print_text(f"Its login still exists: `{program_name()} mcp logout {name}` removes it.")


def _server_config(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a server. Raises ConfigError for an invalid value."""
    command, *args = options["command"] or (None,)
    oauth = _pairs(options["oauth"], "=", "--oauth MEMBER=VALUE")
    if options["client_id"]:
        oauth = {"client_id": options["client_id"], **oauth}
    members = {
        "command": command,
        "args": args,
        "url": options["url"],
        "env": _pairs(options["env"], "=", "--env NAME=VALUE"),
        "headers": _pairs(options["header"], ":", "--header 'NAME: VALUE'"),
        "oauth": oauth,
        "sandbox": options["sandbox"],
        "network": options["network"],
    }
    return {name: value for name, value in members.items() if value}


def _pairs(texts: Sequence[str], between: str, shape: str) -> dict[str, str]:
    pairs = [text.partition(between) for text in texts]
    if not all(separator for _, separator, _ in pairs):
        raise ConfigError(f"write {shape}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _section(name: str, members: Mapping[str, Any]) -> str:
    lines = [f"{_key(member)} = {_value(value)}\n" for member, value in members.items()]
    return "".join([f"[mcp.servers.{_key(name)}]\n", *lines])


def _key(name: str) -> str:
    return name if _BARE_KEY_PATTERN.fullmatch(name) else toml_text(name)


def _value(value: Any) -> str:
    """Return a value as TOML writes it.

    >>> _value({"A b": ["x", True]})
    '{ "A b" = ["x", true] }'
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return (
            f"{{ {', '.join(f'{_key(name)} = {_value(item)}' for name, item in value.items())} }}"
        )
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return toml_text(str(value))


def without_server(text: str, name: str) -> str:
    r"""Return a `config.toml` without the sections of a server. Text after them is kept.

    >>> without_server("a = 1\n\n[mcp.servers.x]\nurl = 'u'\n\n# next\n[tools]\n", "x")
    'a = 1\n\n# next\n[tools]\n'
    """
    lines: list[str] = []
    buffered: list[str] = []
    """Comments and empty lines of a removed section: they may belong to the next one."""
    is_going = False
    for line in [*re.split(r"(?<=\n)", text), ""]:  # TOML has no other line endings
        header = _header(line)
        if header is not None:
            is_going = name in _servers(header)
        if not is_going or not line:
            while buffered and not buffered[0].strip() and (not lines or not lines[-1].strip()):
                del buffered[0]  # two empty lines become one
            lines += [*buffered, line]
            buffered = []
        elif not line.strip() or line.lstrip().startswith("#"):
            buffered.append(line)
        else:
            buffered = []
    return "".join(lines)


def _header(line: str) -> Mapping[str, Any] | None:
    """Return the tables that a line begins. Return None if the line is no header."""
    if not line.lstrip().startswith("["):
        return None
    try:
        return tomllib.loads(line)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _servers(document: Mapping[str, Any]) -> dict[str, Any]:
    mcp = document.get("mcp")
    servers = mcp.get("servers") if isinstance(mcp, dict) else None
    return servers if isinstance(servers, dict) else {}


def _read_text(file: Path) -> str:
    """Return the text of a file. Return an empty text if it does not exist."""
    try:
        return file.read_bytes().decode("utf-8") if file.exists() else ""
    except (OSError, UnicodeDecodeError):
        raise ConfigError(f"{file}: read failed") from None


def _replace(file: Path, old: str, new: str, name: str, *, is_there: bool) -> None:
    """Put a text in the place of another, where but for one server both say the same.

    is_there: whether the new one has that server. Raises ConfigError, and the file stays as it is.
    """
    try:
        is_same = _document_without(old, name) == _document_without(new, name)
        is_same = is_same and (name in _servers(tomllib.loads(new))) is is_there
        data = new.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError("not a valid value: it is not UTF-8 text") from None
    except tomllib.TOMLDecodeError:
        is_same = False
    if not is_same:
        raise ConfigError(f"{file}: its TOML form cannot be edited safely; edit the file by hand")
    try:
        parse_config(new)
    except ConfigError as error:
        why = str(error).partition(": ")[2]  # without the name of a line that was not written
        raise ConfigError(f"not a valid value: {why}") from None
    real = Path(os.path.realpath(file))  # The file may be a link to another folder.
    mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
    try:
        replace_file(real, data, mode)
    except OSError as error:
        raise ConfigError(f"{file}: write failed: {error.strerror or error}") from None


def _document_without(text: str, without: str) -> dict[str, Any]:
    """Return the contents of a file without one server. A missing table equals an empty one."""
    document = tomllib.loads(text)
    servers = {name: server for name, server in _servers(document).items() if name != without}
    others = {name: value for name, value in document.items() if name != "mcp"}
    mcp = {name: value for name, value in document.get("mcp", {}).items() if name != "servers"}
    return {**others, "mcp": {**mcp, "servers": servers}}
