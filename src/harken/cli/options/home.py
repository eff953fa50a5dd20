"""Options of commands that use a home folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from harken.config.home import HOME_KEY, Home

Command = TypeVar("Command", bound=Callable[..., Any])


def home_option(command: Command) -> Command:
    """Add `--home` to a command, and pass the `Home` as `home`. A home must be a folder.

    It may stand at any level of a command line; the last one counts.
    """
    return _add_home(command, _checked_home)


def unchecked_home_option(command: Command) -> Command:
    """Add `--home` to a command that also runs, in part, with a home that cannot be used."""
    return _add_home(command, _home)


def _add_home(command: Command, callback: Callable[..., Home]) -> Command:
    return click.option(
        "--home",
        metavar="FOLDER",
        callback=callback,
        help="The home folder (default: HARKEN_HOME, else ~/.harken).",
    )(command)


def _home(context: click.Context, _option: click.Parameter, value: str | None) -> Home:
    if value:
        context.meta[HOME_KEY] = value
    return Home(context.meta.get(HOME_KEY))


def _checked_home(context: click.Context, option: click.Parameter, value: str | None) -> Home:
    home = _home(context, option, value)
    home.check_folder()
    return home


def json_option(command: Command) -> Command:
    """Add `--json` to a command, passed as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
