"""Options of commands that use a home folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from harken.config.home import HOME_KEY, Home

Command = TypeVar("Command", bound=Callable[..., Any])


def home_option(command: Command) -> Command:
    """Add `--home` to a command, and pass the `Home` as `home`.

    It may stand at any level of a command line; the last one counts.
    """

    def chosen(context: click.Context, _option: click.Parameter, value: str | None) -> Home:
        if value:
            context.meta[HOME_KEY] = value
        home = Home(context.meta.get(HOME_KEY))
        home.check_folder()
        return home

    return click.option(
        "--home",
        metavar="FOLDER",
        callback=chosen,
        help="The home folder (default: HARKEN_HOME, else ~/.harken).",
    )(command)


def json_option(command: Command) -> Command:
    """Add `--json` to a command, passed as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
