"""The option for the token of a remote: from a file, or from standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from harken.errors import ConfigError
from harken.world.private_file import read_own_file

_MAX_BYTES = 8192
Command = TypeVar("Command", bound=Callable[..., Any])


def token_option(command: Command) -> Command:
    """Add `--token-file` to a command, passed as `token_file`."""
    return click.option(
        "--token-file",
        metavar="FILE",
        type=click.Path(path_type=Path, allow_dash=True),
        help="Copy the token of the service from a file that only you can read; - is stdin.",
    )(command)


def read_given_token(file: Path | None) -> str | None:
    """Return the token in a file. Raises ConfigError if it cannot be read or others can read it."""
    if file is None:
        return None
    if str(file) == "-":
        data = sys.stdin.buffer.read(_MAX_BYTES)
    else:
        try:
            data = read_own_file(
                file, _MAX_BYTES, what="this token", then="it is written again, for you only"
            )
        except FileNotFoundError:
            raise ConfigError(f"{file}: file not found") from None
    return data.decode("ascii", "replace").strip()
