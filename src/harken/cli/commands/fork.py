"""`harken fork SESSION --at MESSAGE`: branch a session at any message, with all of its agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from harken.cli.commands.sessions.picker import check_new_name
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import SESSION
from harken.config.home import Home, command_prefix
from harken.config.name_resolver import ImportedName, NamedLogFile, NameResolver, SessionLog
from harken.config.settings import load_settings
from harken.config.store import build_commit_resolver
from harken.core.ids import Origin, message_id
from harken.errors import ConfigError
from harken.session.branch import (
    Branch,
    branch,
    branch_with_edit,
    change_model,
    disarm_triggers,
    find_free_name,
    remove_hooks,
)
from harken.session.session import Session, SessionOptions
from harken.terminal.text import one_line, print_json, print_text
from harken.views.tree import format_origin

_MAX_DIGITS = 18


class ForkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The point of a fork, and its changes."""

    at: str | None = None
    """The id of the last message of the fork. None: the end of the session."""
    before: bool = False
    """Whether the fork ends before that message."""
    edit: str | None = None
    """The text that the message has in the fork. None: its own."""
    model: str | None = None
    without_hooks: tuple[str, ...] = ()
    keep_triggers: bool = False
    name: str | None = None
    """The name of the new session. None: one that is free."""

    def find_conflict(self) -> str | None:
        """Return how options contradict each other. Return None if they do not."""
        if self.at is None and (self.before or self.edit is not None):
            return f"{'--before' if self.before else '--edit'} needs a message: add --at"
        if self.before and self.edit is not None:
            return "--before and --edit cannot be combined: an edit replaces a message"
        if self.edit is not None and not self.edit.strip():
            return "--edit needs a text; --before forks without the message"
        return None


class Fork(msgspec.Struct, frozen=True):
    """A session that was forked off another one."""

    name: str
    path: Path
    origin: Origin
    disarmed: tuple[str, ...]
    """The triggers that were disarmed."""


class ForkChange(msgspec.Struct):
    """The changes of a fork, besides an edited message."""

    model: str | None
    without_hooks: tuple[str, ...]
    keep_triggers: bool
    disarmed: list[str] = msgspec.field(default_factory=list)
    """The triggers that were disarmed."""

    @property
    def descriptions(self) -> list[str]:
        """The changes, one line each."""
        model = [] if self.model is None else [f"model {self.model}"]
        return model + [f"without hook {name}" for name in self.without_hooks]

    def apply(self, session: Session) -> None:
        """Append the changes to the new session. Raises NameNotFound for an unknown hook."""
        if self.model is not None:
            change_model(session, self.model)
        if self.without_hooks:
            remove_hooks(session, self.without_hooks)
        if not self.keep_triggers:
            self.disarmed += disarm_triggers(session)


@click.command()
@click.argument("session", type=SESSION)
@click.option(
    "--at",
    "message",
    metavar="MESSAGE",
    help="The last message of the fork: msg_041 or 41 (default: the end).",
)
@click.option("--before", is_flag=True, help="Fork before the message of --at, not after it.")
@click.option("--edit", metavar="TEXT", help="Give the message of --at this text instead.")
@click.option(
    "--model", metavar="MODEL", help="The model of the agents that share that of the first one."
)
@click.option("--without-hook", metavar="NAME", multiple=True, help="Remove this hook. Repeatable.")
@click.option("--keep-triggers", is_flag=True, help="Keep the triggers of agents armed.")
@click.option("--name", metavar="NAME", help="The name of the new session.")
@json_option
@home_option
def command(home: Home, session: str, *, as_json: bool, **options: Any) -> None:
    """Fork a SESSION at any message, with all agents, hooks and open discussions.

    The new session begins with the same messages and is continued with `harken chat --resume`; the
    other session is not changed. Files and servers are not restored.
    """
    message, names = options.pop("message"), options.pop("without_hook")
    at = None if message is None else parse_message(message)
    wish = ForkOptions(at=at, without_hooks=names, **options)
    if conflict := wish.find_conflict():
        raise click.UsageError(conflict)
    fork = create_fork(home, resolve_log(home, session), wish)
    if as_json:
        origin = msgspec.to_builtins(fork.origin)
        print_json({"session": fork.name, "log": str(fork.path), "origin": origin})
        return
    print_text(f"{fork.name}  {format_origin(fork.origin)}")
    if fork.disarmed:
        print_text(f"  disarmed triggers: {one_line(', '.join(fork.disarmed))}")
    resume_command = command_prefix("chat", "--resume", fork.name)
    click.echo(f"Continue with `{resume_command}`. Files and servers are not restored.", err=True)


def create_fork(home: Home, log: Path, wish: ForkOptions) -> Fork:
    """Fork the session with this log into the home.

    Raises ConfigError for options that contradict each other, and as `branch`.
    """
    if conflict := wish.find_conflict():
        raise ConfigError(conflict)
    model = _check_model(home, wish.model)
    change = ForkChange(model, wish.without_hooks, wish.keep_triggers)
    stem = _new_name(home, log, wish.name)
    to = home.sessions_folder / f"{stem}.jsonl"
    session_options = SessionOptions(
        resolver=build_commit_resolver(home), redact=load_settings(home).credentials()
    )
    result = _create(log, to, wish, change, session_options)
    return Fork(stem, result.path, result.origin, tuple(change.disarmed))


def resolve_log(home: Home, name: str) -> Path:
    """Return the log of a session.

    Raises ConfigError for a commit and for an imported session without a recording.
    """
    resolver = NameResolver(home)
    resolved = resolver.resolve(name)
    if isinstance(resolved, SessionLog | NamedLogFile):
        return resolved.path
    recording = resolver.find_recording(resolved) if isinstance(resolved, ImportedName) else None
    if recording is not None:
        return recording
    kind = "an imported session" if isinstance(resolved, ImportedName) else "a commit"
    raise ConfigError(
        f"{name}: {kind} has no log to fork; `{command_prefix('chat', '--resume', name)}` "
        "continues it in a new session"
    )


def parse_message(ref: str) -> str:
    """Return the id of a message: `msg_007`, or its number."""
    is_number = ref.isascii() and ref.isdecimal() and len(ref) <= _MAX_DIGITS
    return message_id(int(ref)) if is_number else ref


def _check_model(home: Home, model: str | None) -> str | None:
    """Return the name of a model as it is logged. Raises ConfigError if it cannot be used."""
    if model is None:
        return None
    from harken.chat.models import build_model_resolver, load_named_model, with_absolute_path

    load_named_model(build_model_resolver(home, load_settings(home)), model)
    return with_absolute_path(model)


def _new_name(home: Home, log: Path, name: str | None) -> str:
    home.create_folders()
    if name is None:
        return find_free_name(home.sessions_folder, log.stem, "fork")
    return check_new_name(home, name)


def _create(
    log: Path, to: Path, wish: ForkOptions, change: ForkChange, options: SessionOptions
) -> Branch:
    if wish.at is not None and wish.edit is not None:
        return branch_with_edit(
            log,
            to,
            wish.at,
            wish.edit,
            change=change.apply,
            changes=change.descriptions,
            options=options,
        )
    return branch(
        log,
        to,
        wish.at,
        before=wish.before,
        change=change.apply,
        changes=change.descriptions,
        options=options,
    )
