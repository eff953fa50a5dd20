"""`McpHost`: where servers run, and who is told what of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeAlias

from harken.world.shell.sandbox import Sandbox

Tell: TypeAlias = Callable[[str], None]


def _nobody(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpHost:
    """What all servers of a world share."""

    folder: Path
    """Where they run, and the root that they are told of."""
    outputs: Path = field(default_factory=lambda: Path(mkdtemp(prefix="harken-outputs-")))
    """Where results go that are too long to be read at once, and what programs write to stderr."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Passed on in part, and what `${NAME}` in a description stands for."""
    hide: frozenset[str] = frozenset()
    """Variables that only the user's own servers may name: the keys of models."""
    sandbox: Sandbox | None = None
    """What a sandbox for a program shall be here; None: there is none."""
    logins: Path | None = None
    """The file with what servers gave when a person logged in; None: nobody can."""
    tell: Tell = _nobody
    """Told what a person should know, a line each."""
