"""`McpHost`: the local settings that all MCP servers of a world share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeAlias

import msgspec

from harken.world.shell.sandbox import Sandbox

OnNotice: TypeAlias = Callable[[str], None]


def _ignore(_: str) -> None:
    """Ignore a notice."""


class McpHost(msgspec.Struct, frozen=True, kw_only=True):
    """The settings shared by all servers of a world."""

    folder: Path
    """The folder in which they run, and the root that they are told."""
    outputs: Path = msgspec.field(default_factory=lambda: Path(mkdtemp(prefix="harken-outputs-")))
    """The folder for long results and for stderr of programs."""
    environ: Mapping[str, str] = msgspec.field(default_factory=lambda: os.environ)
    """The environment: passed on in part, and the source of `${NAME}` in configurations."""
    hide: frozenset[str] = frozenset()
    """Variables that only the user's own servers may name: API keys."""
    sandbox: Sandbox | None = None
    """The sandbox settings for programs. None if there is no sandbox."""
    logins: Path | None = None
    """The file with stored logins. None if no one can log in."""
    on_notice: OnNotice = _ignore
    """Called with each notice for a person."""
