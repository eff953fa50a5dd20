"""Options of commands that use a home folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any, TypeVar

import click

from harken.cli.home import Home
from harken.cli.terminal import program

_CHOSEN = "harken.home"


Command = TypeVar("Command", bound=Callable[..., Any])


def home_option(command: Command) -> Command:
    """Give a command `--home`, and pass it the `Home` as `home`.

    It may stand at any level of a command line; the last one counts.
    """

    def chosen(context: click.Context, _option: click.Parameter, value: str | None) -> Home:
        if value:
            context.meta[_CHOSEN] = value
        return Home(context.meta.get(_CHOSEN))

    return click.option(
        "--home",
        metavar="FOLDER",
        callback=chosen,
        help="Where sessions are kept (default: HARKEN_HOME, else ~/.harken).",
    )(command)


def command_line(*words: str) -> str:
    """Return what a person types to run another command of this program, with the same home."""
    return " ".join([program(), *map(shlex.quote, [*words, *same_home()])])


def same_home() -> list[str]:
    """Return the words with which another command is given the home of this one."""
    context = click.get_current_context(silent=True)
    chosen = None if context is None else context.meta.get(_CHOSEN)
    return ["--home", str(chosen)] if chosen else []


def json_option(command: Command) -> Command:
    """Give a command `--json`, passed as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
