"""`harken ctx`: commits, and their conversations."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import click
import msgspec

from harken.cli.command_group import CommandGroup
from harken.cli.commands.ctx.changes import COMMANDS
from harken.cli.commands.ctx.store_command import make_store_command
from harken.cli.commands.ctx.summarize import command as summarize
from harken.cli.options.name_types import COMMIT
from harken.config.home import command_prefix
from harken.config.name_resolver import NameResolver
from harken.context.checkpoint import CommitOrigin
from harken.context.commit_content import read_entries
from harken.context.fork import fork
from harken.context.graph import layout_graph
from harken.context.history import (
    CommitDiff,
    diff,
    get_commit,
    iter_histories,
    move_labels,
    update_metadata,
)
from harken.context.materialize import Stop, materialize, select_commits
from harken.context.position import number_commits
from harken.context.refs import abbreviate_name
from harken.core.clock import format_rfc3339, system_clock
from harken.core.commits import SHORT_NAME_DIGITS, CommitId
from harken.core.messages import Message, text_of
from harken.errors import FormatError, NameNotFound
from harken.formats.runtimes.base import read_conversation
from harken.formats.runtimes.new_session import derive_session_info
from harken.formats.runtimes.registry import find_runtime_format, list_runtime_formats
from harken.store.base import NO_LIMIT, Store, StoredCommit
from harken.terminal.text import escape_control_characters, one_line, print_json, print_text
from harken.views.history.commit_comparison import CommitComparison
from harken.views.message_text import format_count, format_size

ART = "art-"
DEFAULT_COMMITS = 20
"""The default number of commits of `log`."""
WINDOW = 1000
"""The number of last written commits that are sorted by time."""
AT_ONCE = 1000


@click.group(cls=CommandGroup)
def command() -> None:
    """List, show, create, compare, fork and label context commits.

    A CTX is the name of a commit (ctx-..., or a unique prefix), a branch, a label, PRINCIPAL@TIME
    (the last commit of a principal at that time; TIME may be `now`), `latest`, or a session, which
    means the last commit of its main agent.
    """


def store_command(function: Callable[..., None]) -> click.Command:
    """Make a command from a function, which also gets the open store and a name resolver."""
    created = make_store_command(function)
    command.add_command(created)
    return created


@store_command
@click.argument("ctxs", type=COMMIT, metavar="[CTX]...", nargs=-1)
@click.option(
    "-n",
    "most",
    type=click.IntRange(1),
    default=DEFAULT_COMMITS,
    show_default=True,
    help="The maximum number of commits.",
)
@click.option("--all", "every", is_flag=True, help="Show all.")
@click.option("--graph", "as_graph", is_flag=True, help="Draw the history as a graph.")
def log_command(
    store: Store,
    resolver: NameResolver,
    ctxs: tuple[str, ...],
    most: int,
    every: bool,
    as_graph: bool,
    as_json: bool,
) -> None:
    """List commits, newest first: the history of each CTX, or the latest commits.

    The graph has own symbols for compactions, spawns (the first commit of a subagent) and other
    snapshots; `:` means that the history continues.
    """
    commits = iter_selected_commits(
        store, [resolver.commit(ctx) for ctx in ctxs], None if every else most
    )
    if as_graph and not as_json:
        print_graph(store, commits)
        return
    if as_json:
        print_json([row(stored) for stored in commits])
        return
    for stored in commits:
        print_text(line(store, stored))


@store_command
@click.argument("ctx", type=COMMIT)
def show_command(store: Store, resolver: NameResolver, ctx: str, as_json: bool) -> None:
    """Show the fields of a commit."""
    fields = row(get_commit(store, resolver.commit(ctx)))
    if as_json:
        print_json(fields)
        return
    for name, value in fields.items():
        if value not in ("", None, []):
            print_text(f"{name:<14} {value}")


@store_command
@click.argument("ctx", type=COMMIT)
@click.option(
    "--stop",
    default="compaction",
    help="Where the history starts: compaction, root, or an ancestor commit.",
)
@click.option(
    "--as-request",
    "runtime",
    help="Print the request that this runtime would send, as JSON: claude, codex, ...",
)
def cat_command(
    store: Store, resolver: NameResolver, ctx: str, stop: str, runtime: str | None, as_json: bool
) -> None:
    """Print the conversation of a commit."""
    until = stop if stop in ("compaction", "root") else resolver.commit(stop)
    if runtime is not None:
        print_json(list_sent_messages(store, resolver.commit(ctx), until, runtime))
        return
    name = resolver.commit(ctx)
    messages = materialize(store, name, until).messages
    outputs = find_outputs(store, name, until, len(messages))
    if as_json:
        rows = [msgspec.to_builtins(message) for message in messages]
        for index, output in outputs.items():
            rows[index]["output"] = output
        print_json(rows)
        return
    numbered_messages = number_messages(store, name, until, messages)
    for index, (number, message) in enumerate(numbered_messages):
        print_message(message, number)
        if index in outputs:
            output = outputs[index]
            size, art = (
                format_size(int(output["bytes"])),
                str(output["artifact"])[: len(ART) + SHORT_NAME_DIGITS],
            )
            print_text(f"(the whole output, {size}: `{command_prefix('cat', art)}`)\n")


@store_command
@click.argument("ours", type=COMMIT)
@click.argument("theirs", type=COMMIT)
def diff_command(
    store: Store, resolver: NameResolver, ours: str, theirs: str, as_json: bool
) -> None:
    """Show the messages of two commits since their common ancestor."""
    difference = diff(store, resolver.commit(ours), resolver.commit(theirs))
    if as_json:
        comparison = CommitComparison.read(store, *map(resolver.commit, (ours, theirs)))
        rows = [row.as_json() for row in comparison.rows()]
        sides = msgspec.to_builtins(difference)
        print_json({**sides, "kept": comparison.kept, "messages": rows})
        return
    print_difference(store, ours, theirs, difference)


@store_command
@click.argument("ctx", type=COMMIT)
@click.option("--label", "labels", multiple=True, help="The label of the branch.")
@click.option("--principal", help="The principal of the branch (default: you).")
@click.option("--thread", default="", help="The thread of the branch.")
def fork_command(
    store: Store,
    resolver: NameResolver,
    ctx: str,
    labels: tuple[str, ...],
    principal: str | None,
    thread: str,
    as_json: bool,
) -> None:
    """Create a branch at CTX: a new commit name for the same context. Nothing is copied."""
    origin = CommitOrigin(
        principal=Path.home().name if principal is None else principal,
        machine=platform.node(),
        thread_id=thread,
    )
    commit_id = fork(
        store, resolver.commit(ctx), origin, format_rfc3339(system_clock()), labels=labels
    )
    if as_json:
        print_json(row(get_commit(store, commit_id)))
        return
    name = abbreviate_name(store, commit_id)
    print_text(name)
    click.echo(f"Resume with `{command_prefix('chat', '--from-commit', name)}`", err=True)


@store_command
@click.argument("ctx", type=COMMIT)
@click.argument("labels", nargs=-1)
@click.option("--from", "source", metavar="CTX", help="Move the LABELS from this commit.")
def label_command(
    store: Store,
    resolver: NameResolver,
    ctx: str,
    labels: tuple[str, ...],
    source: str | None,
    as_json: bool,
) -> None:
    """Set the LABELS of a commit, replacing its current ones, or move them --from another one."""
    name = resolver.commit(ctx)
    if source is None:
        notes = update_metadata(store, name, labels=labels)
    else:
        notes = move_labels(store, labels, resolver.commit(source), name)
    if as_json:
        print_json(msgspec.to_builtins(notes))
    else:
        print_text(
            (
                f"{abbreviate_name(store, name)} {' '.join(f'[{label}]' for label in notes.labels)}"
            ).rstrip()
        )


for created_command in (summarize, *COMMANDS):
    command.add_command(created_command)


def list_sent_messages(
    store: Store, ctx: CommitId, stop: Stop, runtime: str
) -> list[dict[str, Any]]:
    """Return the messages that a client would send to its provider when it resumes a commit.

    A conversation of another runtime is first written for the client, as for `harken resume`.

    Raises NameNotFound for a client that is not known, or of which that is not.
    """
    runtimes = [
        native.runtime
        for native in list_runtime_formats()
        if native.build_resume_request is not None
    ]
    native = find_runtime_format(runtime)
    if native is None or native.build_resume_request is None:
        raise NameNotFound("client", runtime, runtimes)
    commits = select_commits(store, ctx, stop)
    entries = read_entries(store, commits)
    is_own = all(stored.commit.format == native.name for stored in commits)
    if entries and not is_own and native.writes is not None:
        data = native.writes(entries, derive_session_info(entries))
        with suppress(FormatError):  # It has no message that the client can resume.
            return native.build_resume_request(read_conversation(native.steps, data))
    return native.build_resume_request(entries)


def iter_selected_commits(
    store: Store, ctxs: Sequence[CommitId], limit: int | None
) -> Iterator[StoredCommit]:
    """Yield commits and their ancestors, or the last of all, newest first, at most `limit`."""
    commits = iter_histories(store, ctxs) if ctxs else list_newest_commits(store, limit)
    yield from islice(commits, limit)


def list_newest_commits(store: Store, max_commits: int | None) -> list[StoredCommit]:
    """Return the last commits of all by their time, newest first.

    An import writes old commits late. So more commits are read than are shown, but not all.
    """
    limit = NO_LIMIT if max_commits is None else max(max_commits, WINDOW)
    return sort_by_time(iter_last_written(store, limit))


def sort_by_time(commits: Iterable[StoredCommit]) -> list[StoredCommit]:
    """Return commits by time, newest first. The sort is stable."""
    return sorted(commits, key=lambda stored: stored.commit.created_at, reverse=True)


def iter_last_written(store: Store, limit: int) -> Iterator[StoredCommit]:
    """Yield the commits that were written last, newest first."""
    names = store.newest_commits(limit)
    for start in range(0, len(names), AT_ONCE):
        batch = names[start : start + AT_ONCE]
        by_name = store.commits(batch)
        yield from (by_name[name] for name in batch if name in by_name)


def print_graph(store: Store, commits: Iterable[StoredCommit]) -> None:
    """Print commits as a graph."""
    from harken.terminal.commit_graph import detect_terminal_style, graph_lines

    for text in graph_lines(
        layout_graph(sort_by_time(commits)),
        partial(abbreviate_name, store),
        detect_terminal_style(),
    ):
        click.echo(text)


def line(store: Store, stored: StoredCommit) -> str:
    """Return a commit on one line."""
    commit, notes = stored.commit, stored.notes
    kind = "" if commit.type == "delta" else f" {commit.type}"
    labels = "".join(f" [{escape_control_characters(label)}]" for label in notes.labels)
    when = commit.created_at[:16].replace("T", " ")
    principal = one_line(commit.principal, 24)
    messages = format_count(commit.message_count, "message")
    summary = one_line(notes.summary, 60)
    return (
        f"{abbreviate_name(store, stored.id)}  {when}  {principal}  "
        f"{messages}{kind}{labels}  {summary}"
    )


def row(stored: StoredCommit) -> dict[str, Any]:
    """Return all fields of a commit as JSON values."""
    commit: dict[str, Any] = msgspec.to_builtins(stored.commit)
    notes: dict[str, Any] = msgspec.to_builtins(stored.notes)
    return {"id": stored.id, **commit, **notes}


def number_messages(
    store: Store, ctx: CommitId, stop: Stop, messages: Iterable[Message]
) -> Iterator[tuple[int | None, Message]]:
    """Yield the messages of a conversation with their numbers (`harken resume --at` takes them)."""
    firsts = number_commits(store, ctx)
    numbers = (
        firsts[stored.id] + index
        for stored in select_commits(store, ctx, stop)
        for index in range(stored.commit.message_count)
    )
    return ((next(numbers, None), message) for message in messages)


def find_outputs(
    store: Store, ctx: CommitId, stop: Stop, messages: int
) -> dict[int, dict[str, Any]]:
    """Return the outputs that a client stored beside its transcript, by the result's index."""
    entries = read_entries(store, select_commits(store, ctx, stop))
    if len(entries) != messages:  # some messages could not be decoded
        return {}
    outputs = ((index, (entry.source or {}).get("output")) for index, entry in enumerate(entries))
    return {
        index: output
        for index, output in outputs
        if isinstance(output, dict) and isinstance(output.get("bytes"), int)
    }


def print_message(message: Message, number: int | None = None) -> None:
    """Print a message for a person."""
    text = text_of(message.content)
    heading = f"{message.role} {message.name or ''}".rstrip()
    click.secho(escape_control_characters(f"#{number} {heading}" if number else heading), bold=True)
    if text:
        print_text(text)
    for call in message.tool_calls or ():
        print_text(f"-> {call.function.name}({call.function.arguments})")
    click.echo()


def print_difference(store: Store, left: str, right: str, difference: CommitDiff) -> None:
    """Print the difference of two commits."""
    ancestor = difference.ancestor
    print_text(
        "no common ancestor"
        if ancestor is None
        else f"common ancestor: {abbreviate_name(store, ancestor)}"
    )
    for name, messages in ((left, difference.ours), (right, difference.theirs)):
        click.echo()
        click.secho(
            f"{escape_control_characters(name)}: {format_count(len(messages), 'new message')}",
            bold=True,
        )
        for message in messages:
            calls = ", ".join(call.function.name for call in message.tool_calls or ())
            text = one_line(text_of(message.content), 90) or f"calls {calls}"
            print_text(f"  {message.role}: {text}")
