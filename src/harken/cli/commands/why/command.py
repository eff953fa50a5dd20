"""`harken why`: the message of the agent that wrote a line, its request and its reason."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from harken.attribution.target import (
    FunctionTarget,
    LineTarget,
    RevisionTarget,
    Target,
    parse_target,
)
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home, current_folder
from harken.config.index import read_edits
from harken.errors import ConfigError
from harken.terminal.ansi import AnsiStyler
from harken.terminal.commit_graph import detect_terminal_style
from harken.terminal.text import print_json

if TYPE_CHECKING:
    from harken.attribution.attribution import Attribution
    from harken.attribution.edit_index import EditIndex
    from harken.cli.commands.why.answer import Answer
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store


@click.command()
@click.argument("target", metavar="TARGET")
@click.option("--rev", "revision", default="", metavar="COMMIT", help="The file in this commit.")
@json_option
@home_option
def command(home: Home, target: str, revision: str, as_json: bool) -> None:
    """Show why an agent wrote a line: its message, its reason and the user's request.

    A TARGET is FILE:LINE, FILE:FROM-TO or FILE:FUNCTION.
    """
    from harken.attribution.attribution import Attribution
    from harken.attribution.git.repository import GitRepository

    with closing(GitRepository(current_folder())) as repository:

        def read(index: EditIndex, facts: SessionIndex, store: Store) -> Answer:
            attribution = Attribution(repository, index, facts, store)
            return _answer(attribution, target, revision)

        answer = read_edits(home, read)
    if as_json:
        print_json([*answer.rows()])
        return
    style = detect_terminal_style()
    styler = AnsiStyler(color=style.color)
    for line in answer.lines(style):
        fitted = style.fit(line)
        click.echo(styler.draw(fitted) if style.styled else "".join(text for _, text in fitted))


def _answer(attribution: Attribution, text: str, revision: str) -> Answer:
    from harken.attribution.line_groups import group_origins
    from harken.cli.commands.why.answer import Answer, GroupAnswer

    name = text.rpartition(":")[0] or text
    target = parse_target(text, is_file=(attribution.repository.folder / name).is_file())
    if isinstance(target, RevisionTarget):
        raise ConfigError(f"{text}: name a line of a file: FILE:LINE")
    path = attribution.resolve_path(target.path, revision)
    first, last = _find_lines(attribution, path, target, revision)
    origins = attribution.origins(path, [(first, last)], revision)
    explain = attribution.explainer.explain
    return Answer(
        f"{target.path}:{first}" if first == last else f"{target.path}:{first}-{last}",
        [
            GroupAnswer(path, group, None if group.edit is None else explain(group.edit))
            for group in group_origins(origins)
        ],
    )


def _find_lines(
    attribution: Attribution, path: str, target: Target, revision: str
) -> tuple[int, int]:
    """Return the first and the last line of a target. Raises ConfigError."""
    data = attribution.read_file(path, revision)
    if isinstance(target, FunctionTarget):
        return attribution.find_function(path, target.name, data, revision)
    assert isinstance(target, LineTarget)
    count = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    if target.last > count:
        raise ConfigError(f"{target.path}: line {target.last} is out of range; it has {count}")
    return target.first, target.last
