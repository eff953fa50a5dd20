"""Environment variables that `SessionStart` commands set for programs that agents run.

The commands append lines such as `export A=b` to the file that `CLAUDE_ENV_FILE` names. The file is
run once, when the commands have ended; the resulting variables are kept while Harken runs.
Functions and aliases are not kept, nor are later changes of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harken.agents.command_hooks.config import CommandHookConfig
from harken.agents.command_hooks.run import run_command
from harken.world.world import World

FILE = "CLAUDE_ENV_FILE"
EVENT = "SessionStart"
_PRINT_ENVIRONMENT = CommandHookConfig(
    event=EVENT, command=f'set -a; . "${FILE}" </dev/null >/dev/null 2>&1; env -0', timeout_s=30
)
_SHELL_VARIABLES = {FILE, "_", "OLDPWD", "PWD", "SHLVL"}


async def import_variables(
    world: World, file: Path, folder: Path, environment: Mapping[str, str]
) -> str:
    """Add the variables that a file sets to the world. Return an error, or an empty string.

    environment: that of the commands. A variable that names a socket is left out, since it would
    lead out of a sandbox.
    """
    if not file.is_file() or not file.stat().st_size:
        return ""
    result = await run_command(
        _PRINT_ENVIRONMENT, b"", folder=folder, environment={**environment, FILE: str(file)}
    )
    if result.problem or result.exit_code:
        return f"{FILE}: {result.problem or f'exit code {result.exit_code}'}"
    pairs = (line.split("=", 1) for line in result.stdout.split("\0") if "=" in line)
    changed = {name: value for name, value in pairs if environment.get(name) != value}
    without_shell = {name: value for name, value in changed.items() if name not in _SHELL_VARIABLES}
    variables = {name: value for name, value in without_shell.items() if not _is_socket(value)}
    world.environment.update(variables)
    return ""


def _is_socket(value: str) -> bool:
    try:
        return Path(value).is_socket()
    except (OSError, ValueError):
        return False
