"""Which MCP servers there are: those of `config.toml`, and those of a project that is trusted.

What a project describes runs programs. So it counts only where the project is trusted, never in the
place of a server of the user's own, and never with the key of a model in it.
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


def own_servers(config: ConfigFile, file: Path) -> list[McpServerConfig]:
    """Return the servers of the user's own file. Raises ConfigError.

    A relative `cwd` starts at the file's folder; without one a server runs where Harken does.
    """
    return [replace(one, may_have_keys=True) for one in _of_config(config, file, file.parent)]


def _of_config(config: ConfigFile, file: Path, base: Path) -> list[McpServerConfig]:
    found = []
    for name, table in config.mcp.servers.items():
        if table.enabled:
            try:
                server = server_of(name, table, str(file))
            except ConfigError as error:
                raise ConfigError(f"{file}: mcp.servers.{name}: {error}") from None
            found.append(server if server.cwd is None else _at(server, base))
    return found


def _at(server: McpServerConfig, base: Path) -> McpServerConfig:
    """Return a server that runs in `base`, or in a folder that it names from there."""
    if server.command is None:
        return server
    return replace(server, cwd=str(base.absolute() / Path(server.cwd or ".").expanduser()))


def project_servers(
    root: Path, config: ConfigFile, file: Path, keys: Collection[str] = (), obstacle: str = ""
) -> tuple[list[McpServerConfig], list[str]]:
    """Return the servers of a trusted project, and a line for each that cannot be used.

    They run in its folder, `root`. config: what its `file` says. keys: variables that they may not
    name. obstacle: why its `.mcp.json` cannot count, where it cannot. Raises ConfigError.
    """
    found = _of_config(config, file, root)
    notes: list[str] = []
    if obstacle:
        notes.append(f"{root / MCP_JSON} is ignored: {obstacle}")
    else:
        more, notes = read_mcp_json(root / MCP_JSON)
        found += more
    kept: list[McpServerConfig] = []
    for server in found:
        if named := server.variables & set(keys):
            why = f"it names {min(named)}, the key of a model"
            notes.append(f"the MCP server {server.name} of {server.origin} is left out: {why}")
        else:
            kept.append(_at(server, root))
    return kept, notes


def all_servers(
    own: Iterable[McpServerConfig], theirs: Iterable[McpServerConfig], off: Collection[str]
) -> tuple[tuple[McpServerConfig, ...], list[str]]:
    """Return all servers, the user's own first, without those that the user switched off."""
    found, notes = distinct([[*own], [one for one in theirs if one.name not in off]])
    return tuple(found), notes


def switched_off(config: ConfigFile) -> set[str]:
    """Return the servers that a file switches off."""
    return {name for name, table in config.mcp.servers.items() if not table.enabled}


def runs(servers: Iterable[McpServerConfig], root: Path | None = None) -> list[str]:
    """Say of each server what it runs, or what it talks with, and what of yours it gets.

    Also what makes another program of it, or of its sandbox: variables, and a folder out of `root`.

    >>> runs([McpServerConfig(name="docs", command="sh", env={"A": "${B}"})])
    ['MCP server docs runs sh, with A=${B}, gets the variable B']
    """
    found = []
    for one in servers:
        gets = ", ".join(sorted(one.variables))
        many = "variable" if len(one.variables) == 1 else "variables"
        found.append(
            f"MCP server {one.name} {'runs' if one.command else 'talks with'} {one.program}"
            + (" in a sandbox" if one.sandbox else "")
            + (" that reaches the network" if one.network else "")
            + _elsewhere(one, root)
            + (f", with {_set(one)}" if one.env else "")
            + (f", gets the {many} {gets}" if gets else "")
        )
    return found


def _elsewhere(one: McpServerConfig, root: Path | None) -> str:
    """Say where a server runs, and in a sandbox writes, where that is not in the project."""
    if one.cwd is None or root is None:
        return ""
    where = Path(os.path.realpath(root / os.path.expanduser(one.cwd)))  # noqa: PTH111 - any name
    is_inside = where.is_relative_to(root)
    return "" if is_inside and "${" not in one.cwd else f" in the folder {where}"


def _set(one: McpServerConfig) -> str:
    return " ".join(f"{name}={value}" for name, value in one.env.items())
