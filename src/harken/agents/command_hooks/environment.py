"""What commands at the beginning of a session set for the programs that agents run after it.

They append lines such as `export A=b` to the file that `CLAUDE_ENV_FILE` names. These are run once,
when the commands have ended; what they leave in the environment is kept for as long as the program
runs. Functions and aliases are not. What is written later, by whomever, counts for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harken.agents.command_hooks.config import CommandHookConfig
from harken.agents.command_hooks.run import run_command
from harken.world.world import World

FILE = "CLAUDE_ENV_FILE"
EVENT = "SessionStart"
_SHOW = CommandHookConfig(
    event=EVENT, command=f'set -a; . "${FILE}" </dev/null >/dev/null 2>&1; env -0', timeout_s=30
)
_OF_THE_SHELL = {FILE, "_", "OLDPWD", "PWD", "SHLVL"}


async def keep(world: World, file: Path, folder: Path, environment: Mapping[str, str]) -> str:
    """Keep what a file sets, where there is something in it; return what went wrong, if anything.

    environment: that of the commands. A variable that names a socket is left out: it would lead
    out of a sandbox.
    """
    if not file.is_file() or not file.stat().st_size:
        return ""
    ended = await run_command(
        _SHOW, b"", folder=folder, environment={**environment, FILE: str(file)}
    )
    if ended.problem or ended.exit_code:
        return f"{FILE}: {ended.problem or f'exit code {ended.exit_code}'}"
    pairs = (one.split("=", 1) for one in ended.stdout.split("\0") if "=" in one)
    new = {name: value for name, value in pairs if environment.get(name) != value}
    own = {name: value for name, value in new.items() if name not in _OF_THE_SHELL}
    kept = {name: value for name, value in own.items() if not _is_socket(value)}
    world.environment.update(kept)
    return ""


def _is_socket(value: str) -> bool:
    try:
        return Path(value).is_socket()
    except (OSError, ValueError):
        return False
