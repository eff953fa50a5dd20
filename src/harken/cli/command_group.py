"""Command groups that import a subcommand only when it runs.

The names and one-line helps come from the table in `command_tree`, so listing a group imports
nothing. A group may also have subcommands of its own module, as any click group.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import click
from click.core import ParameterSource

from harken.cli.command_tree import CommandEntry
from harken.cli.options.home import home_option
from harken.config.home import Home


class CommandGroup(click.Group):
    """A group with lazily imported subcommands, listed under headings."""

    def __init__(
        self,
        *args: Any,
        entries: Mapping[str, CommandEntry] | None = None,
        sections: Mapping[str, Mapping[str, CommandEntry]] | None = None,
        **kwargs: Any,
    ) -> None:
        """Make a group of `entries`. The first page of help lists `sections`, or else all."""
        super().__init__(*args, **kwargs)
        self.entries = {} if entries is None else entries
        self.sections = {"Commands": self.entries} if sections is None else sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands, lazily imported ones first, in the table's order."""
        return [*self.entries, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand; import its module if it is a lazy one."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        return load_command(cmd_name, entry)

    def subcommand_help(self, ctx: click.Context) -> Iterator[tuple[str, str]]:
        """Yield the name and one-line help of each subcommand; import nothing."""
        for name, entry in self.entries.items():
            yield name, entry.summary
        for name in super().list_commands(ctx):
            command = self.commands[name]
            if not command.hidden:
                yield name, command.get_short_help_str(limit=80)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands, lazily imported ones under their headings."""
        if not self.entries:
            super().format_commands(ctx, formatter)
            return
        width = max(len(name) for entries in self.sections.values() for name in entries)
        for heading, entries in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(f"{name:<{width}}", entry.summary) for name, entry in entries.items()]
                )


def load_command(name: str, entry: CommandEntry) -> click.Command:
    """Import the command of an entry of the table."""
    if not entry.target:
        return _group_without_module(name, entry)
    module, _, attribute = entry.target.partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return command


def _group_without_module(name: str, entry: CommandEntry) -> click.Command:
    @click.group(name=name, cls=CommandGroup, entries=entry.subcommands, help=entry.summary)
    @home_option
    def group(home: Home) -> None:
        del home  # The subcommand gets the home itself.

    return group


def check_options_before_subcommand(context: click.Context) -> None:
    """Raise UsageError for an option of the group itself, such as `sessions --json check`.

    A group that does something without a subcommand has options of its own. Before a subcommand
    they would be ignored silently. `--home` may be given at any level.
    """
    for parameter in context.command.params:
        is_typed = (
            parameter.name is not None
            and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        )
        if is_typed and parameter.name != "home":
            raise click.UsageError(
                f"{parameter.opts[0]} does not apply to '{context.invoked_subcommand}': "
                f"options of a subcommand come after it",
                context,
            )
