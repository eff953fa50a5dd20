"""The configured MCP servers: those of `config.toml`, and those of a trusted project.

A server runs programs. So a server of a project counts only if the project is trusted, it never
replaces a server of the user, and it never gets the key of a model.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from harken.config.file import ConfigFile
from harken.errors import ConfigError
from harken.world.mcp.server_config import (
    MCP_JSON,
    McpServerConfig,
    distinct,
    read_mcp_json,
    server_of,
)


def load_user_servers(config: ConfigFile, file: Path) -> list[McpServerConfig]:
    """Return the servers of the user's own file. Raises ConfigError.

    A relative `cwd` starts at the file's folder; without a `cwd` a server runs in the working
    folder.
    """
    return [
        replace(server, may_have_keys=True)
        for server in _enabled_servers(config, file, file.parent)
    ]


def _enabled_servers(config: ConfigFile, file: Path, base: Path) -> list[McpServerConfig]:
    servers = []
    for name, table in config.mcp.servers.items():
        if table.enabled:
            try:
                server = server_of(name, table, str(file))
            except ConfigError as error:
                raise ConfigError(f"{file}: mcp.servers.{name}: {error}") from None
            servers.append(server if server.cwd is None else _with_folder(server, base))
    return servers


def _with_folder(server: McpServerConfig, base: Path) -> McpServerConfig:
    """Return a server that runs in `base`, or in its `cwd` relative to `base`."""
    if server.command is None:
        return server
    return replace(server, cwd=str(base.absolute() / Path(server.cwd or ".").expanduser()))


def load_project_servers(
    root: Path, config: ConfigFile, file: Path, keys: Collection[str] = (), obstacle: str = ""
) -> tuple[list[McpServerConfig], list[str]]:
    """Return the servers of a trusted project, and a note for each server that cannot be used.

    The servers run in the project's folder, `root`. config: the parsed `file`. keys: variables that
    the servers may not name. obstacle: the reason to ignore its `.mcp.json`, if any.
    Raises ConfigError.
    """
    servers = _enabled_servers(config, file, root)
    notes: list[str] = []
    if obstacle:
        notes.append(f"{root / MCP_JSON} is ignored: {obstacle}")
    else:
        json_servers, notes = read_mcp_json(root / MCP_JSON)
        servers += json_servers
    usable: list[McpServerConfig] = []
    for server in servers:
        if keys_used := server.variables & set(keys):
            why = f"it uses {min(keys_used)}, the API key of a model, which servers do not get"
            notes.append(f"MCP server {server.name} of {server.origin} skipped: {why}")
        else:
            usable.append(_with_folder(server, root))
    return usable, notes


def all_servers(
    user_servers: Iterable[McpServerConfig],
    project_entries: Iterable[McpServerConfig],
    off: Collection[str],
) -> tuple[tuple[McpServerConfig, ...], list[str]]:
    """Merge the servers of the user and of a project, without those that the user disabled."""
    servers, notes = distinct(
        [[*user_servers], [server for server in project_entries if server.name not in off]]
    )
    return tuple(servers), notes


def disabled_servers(config: ConfigFile) -> set[str]:
    """Return the names of the servers that a file disables."""
    return {name for name, table in config.mcp.servers.items() if not table.enabled}


def describe_servers(servers: Iterable[McpServerConfig], root: Path | None = None) -> list[str]:
    """Describe each server in a line: its program or address, and the variables that it gets.

    The line also names settings that change the program or its sandbox: environment variables, and
    a folder outside of `root`.

    >>> describe_servers([McpServerConfig(name="docs", command="sh", env={"A": "${B}"})])
    ['MCP server docs runs sh, with A=${B}, gets the variable B']
    """
    lines = []
    for server in servers:
        gets = ", ".join(sorted(server.variables))
        many = "variable" if len(server.variables) == 1 else "variables"
        lines.append(
            f"MCP server {server.name} {'runs' if server.command else 'talks with'} "
            + server.program
            + (" in a sandbox" if server.sandbox else "")
            + (" with network access" if server.network else "")
            + _describe_folder(server, root)
            + (f", with {_format_environment(server)}" if server.env else "")
            + (f", gets the {many} {gets}" if gets else "")
        )
    return lines


def _describe_folder(server: McpServerConfig, root: Path | None) -> str:
    """Describe the folder in which a server runs, if it is outside of the project."""
    if server.cwd is None or root is None:
        return ""
    folder = Path(os.path.realpath(root / os.path.expanduser(server.cwd)))  # noqa: PTH111 - any name
    is_inside = folder.is_relative_to(root)
    return "" if is_inside and "${" not in server.cwd else f" in the folder {folder}"


def _format_environment(server: McpServerConfig) -> str:
    return " ".join(f"{name}={value}" for name, value in server.env.items())
