"""Slash commands of a chat that run a command of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

import harken.chat.commands  # noqa: F401 - it registers those of the chat itself
from harken.chat.commands.agent_paths import list_agent_names
from harken.chat.commands.base import CommandContext, run_cli_command, slash, split_arguments
from harken.chat.commands.forks import commit_conversation
from harken.config.home import home_arguments
from harken.world.result import InvalidArguments


def _complete_export(_: CommandContext, before: Sequence[str]) -> Iterable[str]:
    """Return the formats, and then the option of the output file."""
    from harken.cli.commands.export import LIST
    from harken.formats.registry import FORMATS

    if not before or before[-1] == "--format":
        return (*FORMATS.list_names(), LIST)
    return ("-o",) if "-o" not in before else ()


@slash(
    "export",
    "export the conversation, as `harken export`",
    "[FORMAT|list] [-o FILE]",
    group="session",
    completes=_complete_export,
)
def _export(talk: CommandContext, argument: str) -> None:
    from harken.cli.commands.export import LIST, command
    from harken.formats.registry import FORMATS

    words = split_arguments(talk, "/export", argument)
    if words is None:
        return
    if words and not words[0].startswith("-"):
        words.insert(0, "--format")
    if LIST in words or "--help" in words or "--otlp" in words:
        talk.print_text(run_cli_command(command, "/export", [*_session(talk, words), *words]))
        return
    file = _find_option_value(words, "-o", "--out")
    format_name = _find_option_value(words, "--format")
    fmt = None if format_name is None else FORMATS.find(format_name)
    if fmt is not None and file is None and not fmt.media_type.startswith("text/"):
        raise InvalidArguments(
            f"{fmt.name} is for programs; name an output file: /export {fmt.name} -o FILE"
        )
    output = run_cli_command(command, "/export", [commit_conversation(talk.primary)[1], *words])
    talk.print_text(f"{output}, in {file}" if file is not None and Path(file).exists() else output)


def _session(talk: CommandContext, words: Sequence[str]) -> list[str]:
    """Return the argument of the session that is sent as spans."""
    return [str(talk.session.path)] if "--otlp" in words else []


def _find_option_value(words: Sequence[str], *names: str) -> str | None:
    """Return the value of the last of these options."""
    option_value = None
    for name, value in zip(words, [*words[1:], None], strict=False):
        option_value = value if name in names else option_value
    return option_value


def _complete_view(talk: CommandContext, before: Sequence[str]) -> Iterable[str]:
    """Return the views, and then the names of agents where a view is about some."""
    from harken.cli.commands.view.command import command

    if not before:
        return sorted(command.commands)
    several = before[0] == "dialog" or len(before) == 1
    is_about_agents = before[0] in ("context", "dialog", "perspective", "transcript")
    return list_agent_names(talk, "everybody") if is_about_agents and several else ()


@slash(
    "view",
    "show a view of the session, as `harken view`",
    "[tree|dialog A B|timeline|...]",
    completes=_complete_view,
)
def _view(talk: CommandContext, argument: str) -> None:
    from harken.cli.commands.view.command import command

    if not argument:
        width = max(map(len, command.commands))
        talk.print_text(
            "\n".join(f"/view {n:<{width}}  {_describe_view(view)}" for n, view in _views(command))
        )
    elif (words := split_arguments(talk, "/view", argument)) is not None:
        talk.print_text(run_cli_command(command, "/view", [str(talk.session.path), *words]))


def _views(command: click.Group) -> list[tuple[str, click.Command]]:
    return sorted(command.commands.items())


def _describe_view(view: click.Command) -> str:
    """Describe a view and its required arguments."""
    needs = " ".join(
        parameter.make_metavar(click.Context(view))
        for parameter in view.params
        if parameter.required
    )
    return " ".join(filter(None, [view.get_short_help_str(100), f"({needs})" if needs else ""]))


_PRINTS = frozenset({"--check", "--context", "--help", "--json", "-h"})
"""Options with which `harken replay` prints, also in a terminal."""


@slash(
    "replay",
    "step through the requests of a session, as `harken replay`",
    "[SESSION] [--at N]",
    group="session",
)
def replay(talk: CommandContext, argument: str) -> None:
    """Step through a session (default: this one). Without a terminal, print the steps."""
    from harken.cli.commands.replay import command

    words = split_arguments(talk, "/replay", argument)
    if words is None:
        return
    this = [] if words and not words[0].startswith("-") else [str(talk.session.path)]
    if not _PRINTS.isdisjoint(words) or not talk.lend(["replay", *this, *words, *home_arguments()]):
        talk.print_text(run_cli_command(command, "/replay", [*this, *words]))
