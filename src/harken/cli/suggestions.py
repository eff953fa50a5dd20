"""Suggestions for a misspelled or misplaced command or option.

They are computed from the tree of commands itself, also from subcommands: `gc` suggests `store gc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import click

from harken.cli.command_group import CommandGroup
from harken.cli.command_tree import CommandEntry
from harken.core.arguments import format_alternatives

_MAX_SUGGESTIONS = 3
_MIN_SIBLING_RATIO = 0.6
_MIN_RATIO = 0.75
"""A command in another group must be more similar than one in the same group."""
_TOLERANCE = 0.1
"""Names that are less similar than the best one by more than this are not suggested."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    path: tuple[str, ...]
    ratio: float
    is_sibling: bool


def explain_no_such_command(error: click.NoSuchCommand) -> str:
    """Return the message for an unknown command: the command, suggestions, where the list is."""
    context = error.ctx
    assert context is not None  # Groups raise it with their context.
    group = command_words(context)
    text = f"No such command {' '.join([*group, error.command_name])!r}"
    suggestions = suggest_commands(context, error.command_name)
    text += format_alternatives(suggestions)
    is_in_group = any(name.split()[:-1] == group for name in suggestions)
    if group and not is_in_group and isinstance(context.command, click.Group):
        names = ", ".join(context.command.list_commands(context))
        text += (
            f" Commands of '{' '.join(group)}': {names}" if suggestions else f"; commands: {names}"
        )
    return text if suggestions else f"{text}; see `{context.command_path} --help`"


def explain_no_such_option(error: click.NoSuchOption) -> str:
    """Return the message for an unknown option: the option, suggestions, where the list is."""
    name, context = error.option_name, error.ctx
    text = f"No such option {name!r}"
    if context is None:
        return text
    close = [
        _Candidate((option,), _ratio(name, option), is_sibling=True)
        for parameter in context.command.get_params(context)
        for option in parameter.opts
        if option.startswith("--")
    ]
    best = _best([suggestion for suggestion in close if suggestion.ratio >= _MIN_SIBLING_RATIO])
    if best and _ratio(name, best[0]) >= _MIN_RATIO:
        return f"{text}{format_alternatives(best)}"
    owners = [
        path
        for path, command in _all_commands(context.find_root())
        if any(name in parameter.opts for parameter in command.params)
    ]
    group = tuple(command_words(context))
    if isinstance(context.command, click.Group) and any(p[: len(group)] == group for p in owners):
        help_line = f"`{context.command_path} --help`"
        return f"{text} in this position: put it after the subcommand; see {help_line}"
    if 0 < len(owners) <= _MAX_SUGGESTIONS:
        return text + format_alternatives([" ".join([*path, name]) for path in owners])
    return text + (format_alternatives(best) or f"; see `{context.command_path} --help`")


def suggest_commands(context: click.Context, name: str) -> list[str]:
    """Return the paths of the commands that an unknown name in a group may mean, best first."""
    group = tuple(command_words(context))
    root = context.find_root()
    # Modules are imported only if the names that are known without it do not suffice.
    for paths in (_table_paths(root), (path for path, _ in _all_commands(root))):
        best = _best(list(_rate(paths, group, name)))
        if best:
            return best
    return []


def command_words(context: click.Context) -> list[str]:
    """Return the names of a context's command and its parents, without the program and values."""
    words: list[str] = []
    while context.parent is not None:
        words.insert(0, context.info_name or "")
        context = context.parent
    return words


def _rate(
    paths: Iterator[tuple[str, ...]], group: tuple[str, ...], name: str
) -> Iterator[_Candidate]:
    for path in paths:
        is_sibling = path[:-1] == group
        ratio = _ratio(name, path[-1])
        if ratio >= (_MIN_SIBLING_RATIO if is_sibling else _MIN_RATIO):
            yield _Candidate(path, ratio, is_sibling)


def _ratio(typed: str, name: str) -> float:
    return SequenceMatcher(None, typed.lower(), name).ratio()


def _best(candidates: Sequence[_Candidate]) -> list[str]:
    """Return the paths of the most similar candidates; of equal ones, those of the same group."""
    limit = max((candidate.ratio for candidate in candidates), default=0.0) - _TOLERANCE
    best = [candidate for candidate in candidates if candidate.ratio >= limit]
    best = [candidate for candidate in best if candidate.is_sibling] or best
    best.sort(key=lambda candidate: -candidate.ratio)
    return [" ".join(candidate.path) for candidate in best[:_MAX_SUGGESTIONS]]


def _table_paths(root: click.Context) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all commands in the table; import nothing."""
    if isinstance(root.command, CommandGroup):
        for name, entry in root.command.entries.items():
            yield from _entry_paths((name,), entry)


def _entry_paths(path: tuple[str, ...], entry: CommandEntry) -> Iterator[tuple[str, ...]]:
    yield path
    for name, below in entry.subcommands.items():
        yield from _entry_paths((*path, name), below)


def _all_commands(root: click.Context) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield the path and command of every command; import all modules."""
    yield from _iter_subcommands((), root.command, root)


def _iter_subcommands(
    path: tuple[str, ...], group: click.Command, root: click.Context
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(root):
        command = group.get_command(root, name)
        if command is not None:
            yield (*path, name), command
            yield from _iter_subcommands((*path, name), command, root)
