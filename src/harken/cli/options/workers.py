"""Options of commands whose work is done by other processes or machines."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harken.terminal.text import one_line
from harken.views.message_text import format_count

if TYPE_CHECKING:
    from harken.executors.workers import Workers

Command = TypeVar("Command", bound=Callable[..., Any])
MAX_JOBS = 64
_RAY_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # Otherwise a warning is printed.
    "RAY_DEDUP_LOGS": "0",
}
"""Settings that Ray reads when it is imported, unless the user has set them."""


def on_option(command: Command) -> Command:
    """Add `--on`, passed as `on`: where the work is done. See `parse_on`."""
    return click.option(
        "--on",
        metavar="ENGINE",
        default="local",
        show_default=True,
        help="Where it is done: local (processes of this machine), ray, or ray:ADDRESS.",
    )(command)


def parse_on(on: str, jobs: int | None, default_jobs: int | None = None) -> Workers:
    """Return the workers that the options select. Raises ConfigError.

    jobs: what the user said. default_jobs: for processes of this machine, if the user said nothing.
    """
    from harken.executors.workers import LOCAL, RAY, parse_workers

    if on.startswith(RAY):
        for name, value in _RAY_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
    return parse_workers(on, default_jobs if on == LOCAL and jobs is None else jobs)


def print_lost_workers(number: int) -> None:
    """Print that workers have died, if any have."""
    if number:
        click.echo(
            one_line(f"{format_count(number, 'worker')} died; the work was repeated", 200), err=True
        )
