"""Check the arguments of git: which of them name a command, and which are aliases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harken.world.permissions.bash.programs import (
    GIT_OPTIONS,
    GIT_SAFE_SETTINGS,
    GIT_SHORT_OPTIONS,
    GIT_SUBCOMMANDS,
)

_SAFE_SETTINGS = tuple(GIT_SAFE_SETTINGS)


def git_names_command(values: Sequence[str]) -> bool:
    """Whether an argument names a command: a setting, an option, a transport, `bisect run`."""
    if any(not setting.casefold().startswith(_SAFE_SETTINGS) for setting in _git_settings(values)):
        return True
    if any(value.startswith(("--exec-path=", "--config-env")) for value in values):
        return True
    return any("ext::" in value for value in values) or _git_runs(*git_subcommand(values))


def is_git_builtin(subcommand: str) -> bool:
    """Whether a subcommand is certainly no alias or extension; true if there is none.

    What follows an expansion is unknown, but no alias contains a dot.
    """
    match = re.match(r"[\w-]*", subcommand)
    start = "" if match is None else match[0]
    if start != subcommand:
        return subcommand[len(start)] == "."
    return not subcommand or subcommand in GIT_SUBCOMMANDS


def git_subcommand(values: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the subcommand of git and the arguments after it."""
    index = 0
    while index < len(values) and values[index].startswith("-"):
        takes_value = values[index] in (
            "-C",
            "-c",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--exec-path",
        )
        index += 2 if takes_value and values[index] != "--exec-path" else 1
    return ("".join(values[index : index + 1]), values[index + 1 :])


def _git_settings(values: Sequence[str]) -> Iterator[str]:
    """Yield the settings that `git -c`, `git config` and `git clone -c` make."""
    subcommand, arguments = git_subcommand(values)
    before = values[: len(values) - len(arguments)]
    for index, value in enumerate(before):
        if value == "-c":
            yield "".join(before[index + 1 : index + 2])
        elif value.startswith("-c"):
            yield value[2:]
    if subcommand == "config":
        operands = [
            value
            for value in arguments
            if not value.startswith("-") and value not in ("set", "get")
        ]
        reads = {
            "--get",
            "--list",
            "-l",
            "--get-all",
            "--get-regexp",
            "get",
            "list",
            "--unset",
        } & set(arguments)
        if not reads and len(operands) > 1:
            yield operands[0]
        if {"-e", "--edit", "edit"} & set(arguments):
            yield "alias."


def _git_runs(subcommand: str, arguments: Sequence[str]) -> bool:
    """Whether arguments of a subcommand of git name a command."""
    if (subcommand, arguments[:1]) in (("submodule", ["foreach"]), ("bisect", ["run"])):
        return True
    if subcommand in ("submodule", "bisect") and {"foreach", "run", "visualize", "view"} & set(
        arguments
    ):
        return True
    short = GIT_SHORT_OPTIONS.get(subcommand, "")
    for value in arguments:
        if value == "--":
            return False
        name = value.partition("=")[0]
        if name.startswith("--") and len(name) > 3:
            if any(option.startswith(name) for option in GIT_OPTIONS) and name != "--interactive":
                return True
            if name == "--interactive" and subcommand == "rebase":
                return True
        elif re.match(r"-\w", value) and any(letter in value for letter in short):
            return True
    return False
