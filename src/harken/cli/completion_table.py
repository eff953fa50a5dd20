"""The parameters of all commands as data, so that shell completion imports no command.

`completion.json` is generated from the commands by `tools/cli_docs.py`, one line for each command.
From it, a tree of click commands is built that has the same names, options and types, and does
nothing: click's own completion runs on it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import click

from harken.cli.command_tree import HIDDEN
from harken.cli.options.name_types import NAME_TYPES, NameType

TABLE_FILE = Path(__file__).with_name("completion.json")
Row: TypeAlias = dict[str, Any]


def table_of(root: click.Group) -> dict[str, Row]:
    """Return the table of a tree of commands: the path of each command and its parameters."""
    table: dict[str, Row] = {}
    _describe(root, "", click.Context(root), table)
    return table


def table_text(table: dict[str, Row]) -> str:
    """Return the text of the file: JSON with a line for each command."""
    lines = (f"{json.dumps(path)}: {json.dumps(row)}" for path, row in table.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def stub_tree(table: dict[str, Row]) -> click.Group:
    """Return a tree of commands with the parameters of a table."""
    commands: dict[str, click.Command] = {}
    for path, row in table.items():
        parameters = [_parameter(parameter) for parameter in row["parameters"]]
        name = path.rpartition(" ")[2]
        make = click.Group if row["is_group"] else click.Command
        commands[path] = make(
            name or "harken",
            params=parameters,
            hidden=path in HIDDEN,
            add_help_option=False,
        )
    for path, command in commands.items():
        above = commands[path.rpartition(" ")[0]]
        if path and isinstance(above, click.Group):
            above.add_command(command)
    root = commands[""]
    assert isinstance(root, click.Group)
    return root


def load_table() -> dict[str, Row]:
    """Return the generated table."""
    table: dict[str, Row] = json.loads(TABLE_FILE.read_text("utf-8"))
    return table


def _describe(
    command: click.Command, path: str, context: click.Context, table: dict[str, Row]
) -> None:
    table[path] = {
        "is_group": isinstance(command, click.Group),
        "parameters": [_row(parameter) for parameter in command.get_params(context)],
    }
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            _describe(below, f"{path} {name}".strip(), context, table)


def _row(parameter: click.Parameter) -> Row:
    row: Row = {"name": parameter.name, "names": [*parameter.opts, *parameter.secondary_opts]}
    if isinstance(parameter, click.Option):
        row["is_option"] = True
        row["is_flag"] = parameter.is_flag or parameter.count
        row["multiple"] = parameter.multiple
    else:
        row["nargs"] = parameter.nargs
    if isinstance(parameter.type, NameType):
        row["type"] = parameter.type.name
    elif isinstance(parameter.type, click.Choice):
        row["choices"] = [*parameter.type.choices]
    elif isinstance(parameter.type, click.Path):
        row["type"] = "file" if parameter.type.file_okay else "folder"
    return {key: value for key, value in row.items() if value not in (False, "")}


def _parameter(row: Row) -> click.Parameter:
    kind: click.ParamType[Any] = click.STRING
    if "choices" in row:
        kind = click.Choice(row["choices"])
    elif row.get("type") in ("file", "folder"):
        kind = click.Path(file_okay=row["type"] == "file")
    elif "type" in row:
        kind = NAME_TYPES[row["type"]]
    if not row.get("is_option"):
        return click.Argument([row["name"]], nargs=row["nargs"], type=kind, required=False)
    names = [*row["names"], row["name"]]
    if row.get("is_flag"):
        return click.Option(names, is_flag=True, flag_value=True)
    multiple = row.get("multiple", False)
    return click.Option(names, type=kind, multiple=multiple)
