"""`harken why`: the message of the agent that wrote a line, its request and its reason."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harken.attribution.target import (
    STDIN,
    FunctionTarget,
    LineTarget,
    RevisionTarget,
    Target,
    parse_target,
)
from harken.capture.resume.clients import RUNTIMES
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home, current_folder
from harken.config.index import read_edits
from harken.errors import ConfigError
from harken.terminal.commit_graph import detect_terminal_style
from harken.terminal.text import print_json

if TYPE_CHECKING:
    from harken.attribution.attribution import Attribution
    from harken.attribution.line_origin import LineOrigin
    from harken.attribution.records.edit_index import EditIndex
    from harken.cli.commands.why.answer import Answer
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store
    from harken.terminal.styled_text import Line

_HARKEN = "harken"


class _Continuation(msgspec.Struct, frozen=True, kw_only=True):
    """How to go on with the agent after the answer."""

    question: str | None
    """The question to ask it, or None."""
    client: str | None
    """The client to open its conversation in, or None."""
    model: str
    is_printed: bool


class WhyOutput(msgspec.Struct, frozen=True):
    """An answer with all that is printed of it, read before the stores are closed."""

    answer: Answer
    conversation: list[Line]
    agent: str | None
    """The position of the agent in its conversation: a commit and a message number."""
    message: int

    @property
    def lines(self) -> list[Line]:
        """The answer, and the conversation around the edit if it was read."""
        return [*self.answer.lines(), *self.conversation]


@click.command()
@click.argument("target", metavar="TARGET")
@click.option(
    "--rev", "revision", default="", metavar="COMMIT", help="Show the file of this commit."
)
@click.option("--full", is_flag=True, help="Show the conversation from the request to the edit.")
@click.option(
    "--ask", "question", metavar="QUESTION", help="Ask the agent, in a branch of its conversation."
)
@click.option("--model", default="", metavar="MODEL", help="The model for --ask or --in.")
@click.option(
    "--in",
    "client",
    type=click.Choice([*RUNTIMES, _HARKEN]),
    help="Open the conversation at the edit in this client.",
)
@click.option("--print", "is_printed", is_flag=True, help="With --in: only print the command.")
@json_option
@home_option
def command(
    home: Home, target: str, revision: str, full: bool, as_json: bool, **options: Any
) -> int:
    """Show why an agent wrote a line: its message, its reason and the user's request.

    A TARGET is FILE:LINE, FILE:FROM-TO, FILE:FUNCTION, a git commit, or - for a diff on standard
    input. The answer is derived from git blame and from the recorded sessions of all runtimes; an
    uncertain one says so.
    """
    then = _Continuation(**options)
    if then.question is not None and then.client is not None:
        raise click.UsageError("--ask and --in cannot be combined: --ask answers here")
    if then.question is not None and not then.question.strip():
        raise click.UsageError("--ask needs a question")
    diff = sys.stdin.read() if target == STDIN else ""
    output = read_output(home, current_folder(), target, revision, diff=diff, full=full)
    if then.question is None and then.client is None:
        _print(output, as_json=as_json)
        return 0
    if output.agent is None:
        raise ConfigError(f"{target}: no agent wrote it, so there is none to ask")
    if then.client is None:
        return _ask(home, output, then, as_json=as_json)
    from harken.cli.commands.resume import resume_in_client

    place, client, model = str(output.message), then.client, then.model
    return resume_in_client(
        home, output.agent, place, client, None, model, is_printed=then.is_printed
    )


def read_output(
    home: Home, folder: Path, target: str, revision: str, *, diff: str = "", full: bool = False
) -> WhyOutput:
    """Explain a target in the repository of a folder. Raises ConfigError, StoreError."""
    from harken.attribution.attribution import Attribution
    from harken.attribution.commit_record import has_records
    from harken.attribution.git.repository import GitRepository

    with closing(GitRepository(folder)) as repository:

        def read(index: EditIndex, facts: SessionIndex, store: Store) -> WhyOutput:
            attribution = Attribution(repository, index, facts, store)
            origins = dict(_origins(attribution, target, revision, diff))
            return _build_output(attribution, target, origins, full=full)

        return read_edits(home, read, needs_edits=not has_records(repository))


def _origins(
    attribution: Attribution, text: str, revision: str, diff: str
) -> Iterable[tuple[str, list[LineOrigin]]]:
    """Return the origins of the lines of a target, by file."""
    if text == STDIN:
        if revision:
            raise ConfigError("--rev names the commit of a file; a diff has none")
        return attribution.diff_origins(diff)
    commit = attribution.files.resolve_revision(revision)
    name = text.rpartition(":")[0] or text
    target = parse_target(text, is_file=attribution.files.is_file(name, commit))
    if isinstance(target, RevisionTarget):
        if commit:
            raise ConfigError(f"{text}: no file in {revision}; without --rev it may be a commit")
        return attribution.commit_origins(target.revision)
    path = attribution.files.resolve_path(target.path, commit)
    lines = _find_lines(attribution, path, target, commit)
    return [(path, attribution.origins(path, [lines], commit))]


def _find_lines(
    attribution: Attribution, path: str, target: Target, revision: str
) -> tuple[int, int]:
    """Return the first and the last line of a target. Raises ConfigError."""
    data = attribution.files.read_file(path, revision)
    if isinstance(target, FunctionTarget):
        return attribution.files.find_function(path, target.name, data, revision)
    assert isinstance(target, LineTarget)
    attribution.files.check_line(target.path, target.last, data)
    return target.first, target.last


def _build_output(
    attribution: Attribution, target: str, origins: dict[str, list[LineOrigin]], *, full: bool
) -> WhyOutput:
    from harken.attribution.answers.explained_lines import explain_origins
    from harken.cli.commands.why.answer import Answer
    from harken.cli.commands.why.conversation import conversation_lines

    explainer = attribution.explainer
    groups = explain_origins(attribution, origins)
    if not groups:
        raise ConfigError(f"{target}: adds no lines of text")
    edit = groups[0].group.edit
    lines: list[Line] = []
    if full and edit is not None:
        lines = [*conversation_lines(explainer.conversation(edit), edit.call_id)]
    title = next(iter(origins)) if len(origins) == 1 and target == STDIN else target
    answer = Answer("the diff" if target == STDIN else title, groups, len(origins) > 1)
    if edit is None:
        return WhyOutput(answer, lines, None, 0)
    return WhyOutput(answer, lines, edit.row.commit, explainer.find_message_number(edit))


def _print(output: WhyOutput, *, as_json: bool) -> None:
    if as_json:
        print_json([*output.answer.rows()])
        return
    style = detect_terminal_style()
    for line in output.lines:
        click.echo(style.draw(line))


def _ask(home: Home, output: WhyOutput, then: _Continuation, *, as_json: bool) -> int:
    """Ask the agent in a branch of its conversation, at the edit."""
    from harken.chat.options import ChatOptions
    from harken.cli.commands.chat.command import talk_in_lines
    from harken.config.store import open_configured_store
    from harken.context.position import find_position, get_or_create_commit
    from harken.context.refs import abbreviate_name
    from harken.core.commits import CommitId

    assert output.agent is not None
    assert then.question is not None
    with open_configured_store(home) as store:
        position = find_position(store, CommitId(output.agent), str(output.message))
        ctx = abbreviate_name(store, get_or_create_commit(store, position))
    sys.stdout.flush()
    wish = ChatOptions(ctx=ctx, model=then.model or None)
    return talk_in_lines(home, wish, then.question, as_json=as_json)
