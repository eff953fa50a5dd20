"""The identity options of commands that record sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
CHAT_IDENTITY_NAMES = tuple(name for name in IDENTITY_NAMES if name != "template")


def identity_options(command: Command) -> Command:
    """Add `--as`, `--template`, `--ticket` and `--thread` to a command."""
    return _add(command, IDENTITY_NAMES)


def chat_identity_options(command: Command) -> Command:
    """Add `--as`, `--ticket` and `--thread`: a chat's agents have templates of their own."""
    return _add(command, CHAT_IDENTITY_NAMES)


def _add(command: Command, names: Sequence[str]) -> Command:
    for flag, name, metavar, text in reversed(_OPTIONS):
        if name in names:
            command = click.option(flag, name, metavar=metavar, help=text)(command)
    return command
