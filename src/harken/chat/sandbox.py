"""The sandbox of the agents' commands, and notes for the user about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from harken.config.home import Home, environment
from harken.config.settings import Settings
from harken.config.trust import FOLDER, Trust
from harken.core import structs
from harken.errors import ConfigError
from harken.world.shell.sandbox import Sandbox, SandboxMode

_BARE = "Commands run without a sandbox: the shell of an agent has all your rights"


class ShellSandbox(msgspec.Struct, frozen=True):
    """The sandbox of shell commands, or the reason for having none."""

    sandbox: Sandbox | None = None
    refusal: str = ""
    """The reason for which no command is run."""
    notes: tuple[str, ...] = ()
    """Messages for the user, one per line."""


def build_shell_sandbox(
    home: Home,
    settings: Settings,
    *,
    outputs: Path,
    allowed: Sequence[Path] = (),
    wanted: SandboxMode | None = None,
) -> ShellSandbox:
    """Return the sandbox for commands in the current folder; `wanted` is from the command line.

    A sandbox is tried once, which takes some milliseconds. Raises ConfigError if the list of
    trusted folders cannot be read.
    """
    wanted = wanted or settings.sandbox
    if wanted == "off":
        return ShellSandbox(notes=(f"{_BARE} (sandbox off).",))
    wanted_walls = structs.replace(
        build_sandbox(home, settings, outputs),
        allowed=[*allowed, *settings.allow_folders],
        network=settings.network,
    )
    try:
        sandbox = wanted_walls.resolve(environment())
    except ConfigError as error:
        if wanted == "auto":
            return ShellSandbox(notes=(f"{_BARE} ({error}).",))
        refusal = f"it requires a sandbox, which is not available: {error}"
        return ShellSandbox(refusal=refusal, notes=(f"Commands do not run: {error}.",))
    return ShellSandbox(sandbox)


def build_sandbox(home: Home, settings: Settings, outputs: Path) -> Sandbox:
    """Return the configuration of every sandbox: hidden and read-only paths.

    Raises ConfigError if the list of trusted folders cannot be read.
    """
    return Sandbox(
        folder=settings.working_folder,
        outputs=outputs.absolute(),
        private=[home.folder],
        readable=settings.skills.folders,
        steering=[folder / FOLDER for folder in Trust(home).folders()],
    )
