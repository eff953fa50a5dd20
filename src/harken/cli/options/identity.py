"""The identity options of commands that record sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    ("--as", "principal", "PRINCIPAL", "The principal that commits name (HARKEN_PRINCIPAL)."),
    ("--template", "template", "NAME", "The template of the agent (HARKEN_TEMPLATE)."),
    ("--ticket", "ticket", "TICKET", "The ticket that the agent works on (HARKEN_TICKET)."),
    ("--thread", "thread", "THREAD", "The thread that the session belongs to (HARKEN_THREAD)."),
)

IDENTITY_NAMES = tuple(name for _, name, _, _ in _OPTIONS)
"""The parameters that `identity_options` adds."""


def identity_options(command: Command) -> Command:
    """Add `--as`, `--template`, `--ticket` and `--thread` to a command."""
    for flag, name, metavar, text in reversed(_OPTIONS):
        command = click.option(flag, name, metavar=metavar, help=text)(command)
    return command
