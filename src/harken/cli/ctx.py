"""`harken ctx`: commits, and the conversations that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
import msgspec

from harken.cli.home import Home, home_option, json_option
from harken.cli.opened_store import store_of
from harken.cli.terminal import one_line, safe, say, say_json
from harken.context.history import Difference, diff, history, show, update_metadata
from harken.context.materialize import materialize
from harken.context.names import find, name_of
from harken.core.messages import Message, text_of
from harken.store.base import Store, Stored
from harken.views.written import count

NEWEST = 20
"""How many commits `log` shows where nobody says how many."""


@click.group()
def command() -> None:
    """Look at commits: what agents understood, and when.

    A CTX is the name of a commit (ctx-...), or any unique beginning of one.
    """


def looks(function: Callable[..., None]) -> click.Command:
    """Make a command of a function that takes the open store first, then arguments and options."""

    @wraps(function)
    def looking(home: Home, **arguments: Any) -> None:
        with store_of(home) as store:
            function(store, **arguments)

    made: click.Command = command.command(function.__name__.removesuffix("_command"))(
        json_option(home_option(looking))
    )
    return made


@looks
@click.argument("ctx", required=False)
@click.option("-n", "most", type=click.IntRange(1), default=NEWEST, show_default=True)
def log_command(store: Store, ctx: str | None, most: int, as_json: bool) -> None:
    """List commits, newest first: those before CTX, or the last ones of all."""
    found = history(store, find(store, ctx), most) if ctx else newest(store, most)
    if as_json:
        say_json([row(one) for one in found])
        return
    for one in found:
        say(line(store, one))


@looks
@click.argument("ctx")
def show_command(store: Store, ctx: str, as_json: bool) -> None:
    """Show all fields of a commit."""
    fields = row(show(store, find(store, ctx)))
    if as_json:
        say_json(fields)
        return
    for name, value in fields.items():
        if value not in ("", None, []):
            say(f"{name:<14} {value}")


@looks
@click.argument("ctx")
@click.option("--stop", default="compaction", help="compaction, root, or a commit before it.")
def cat_command(store: Store, ctx: str, stop: str, as_json: bool) -> None:
    """Print the conversation that a commit stands for."""
    until = stop if stop in ("compaction", "root") else find(store, stop)
    messages = materialize(store, find(store, ctx), until).messages
    if as_json:
        say_json([msgspec.to_builtins(message) for message in messages])
        return
    for message in messages:
        print_message(message)


@looks
@click.argument("ours")
@click.argument("theirs")
def diff_command(store: Store, ours: str, theirs: str, as_json: bool) -> None:
    """Show where two commits went apart, and what each saw since."""
    found = diff(store, find(store, ours), find(store, theirs))
    if as_json:
        say_json(msgspec.to_builtins(found))
        return
    print_difference(store, ours, theirs, found)


@looks
@click.argument("ctx")
@click.argument("labels", nargs=-1)
def label_command(store: Store, ctx: str, labels: tuple[str, ...], as_json: bool) -> None:
    """Give a commit these LABELS, in place of those that it has."""
    name = find(store, ctx)
    notes = update_metadata(store, name, labels=labels)
    if as_json:
        say_json(msgspec.to_builtins(notes))
    else:
        say(f"{name_of(store, name)} {' '.join(f'[{label}]' for label in notes.labels)}".rstrip())


@looks
@click.argument("ctx")
@click.argument("summary")
def summarize_command(store: Store, ctx: str, summary: str, as_json: bool) -> None:
    """Give a commit this SUMMARY, in place of the one that it has."""
    name = find(store, ctx)
    notes = update_metadata(store, name, summary=summary)
    if as_json:
        say_json(msgspec.to_builtins(notes))
    else:
        say(f"{name_of(store, name)} {notes.summary}")


def newest(store: Store, most: int) -> list[Stored]:
    """Return the last commits of all, newest first."""
    found = store.newest(most)
    by_name = store.commits(found)
    return [by_name[name] for name in found if name in by_name]


def line(store: Store, one: Stored) -> str:
    """Return a commit on one line."""
    commit, notes = one.commit, one.notes
    kind = "" if commit.type == "delta" else f" {commit.type}"
    labels = "".join(f" [{safe(label)}]" for label in notes.labels)
    when = commit.created_at[:16].replace("T", " ")
    who = one_line(commit.principal, 24)
    messages = count(commit.message_count, "message")
    summary = one_line(notes.summary, 60)
    return f"{name_of(store, one.id)}  {when}  {who}  {messages}{kind}{labels}  {summary}"


def row(one: Stored) -> dict[str, Any]:
    """Return all fields of a commit as JSON values."""
    commit: dict[str, Any] = msgspec.to_builtins(one.commit)
    notes: dict[str, Any] = msgspec.to_builtins(one.notes)
    return {"id": one.id, **commit, **notes}


def print_message(message: Message) -> None:
    """Print a message for a person."""
    text = text_of(message.content)
    click.secho(f"{message.role}{f' {message.name}' if message.name else ''}", bold=True)
    if text:
        say(text)
    for call in message.tool_calls or ():
        say(f"-> {call.function.name}({call.function.arguments})")
    click.echo()


def print_difference(store: Store, ours: str, theirs: str, found: Difference) -> None:
    """Print where two commits went apart."""
    ancestor = found.ancestor
    say(f"in common: {name_of(store, ancestor) if ancestor is not None else 'nothing'}")
    for name, messages in ((ours, found.ours), (theirs, found.theirs)):
        click.echo()
        click.secho(f"{safe(name)} saw {count(len(messages), 'message')} since", bold=True)
        for message in messages:
            calls = ", ".join(call.function.name for call in message.tool_calls or ())
            said = one_line(text_of(message.content), 90) or f"calls {calls}"
            say(f"  {message.role}: {said}")
