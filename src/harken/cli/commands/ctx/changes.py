"""`harken ctx resolve`, `checkpoint`, `compact`, `snapshot`, `materialize` and `branch`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec

from harken.cli.commands.ctx.store_command import make_store_command
from harken.cli.options.identity import identity_options
from harken.cli.options.name_types import COMMIT
from harken.cli.redaction_report import print_redacted
from harken.config.home import current_folder, environment
from harken.config.identity import load_identity
from harken.config.name_resolver import NameResolver
from harken.config.settings import load_settings
from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint
from harken.context.compaction import compact, snapshot
from harken.context.history import get_commit
from harken.context.materialize import materialize
from harken.context.refs import abbreviate_name
from harken.context.render import render
from harken.core.clock import format_rfc3339, system_clock
from harken.core.commits import CommitId
from harken.core.secrets.redaction import Credentials
from harken.errors import ConfigError, NameNotFound
from harken.service.schemas import TimedMessage
from harken.store.base import Store
from harken.store.branches import rename_branch
from harken.terminal.text import print_json, print_text

_BRANCH_HELP = "The branch to move to the new commit; its head must be the parent."
branch_option = click.option("--branch", default="", metavar="NAME", help=_BRANCH_HELP)


@make_store_command
@click.argument("ctx", type=COMMIT)
def resolve_command(store: Store, resolver: NameResolver, ctx: str, as_json: bool) -> None:
    """Print the full name of the commit that CTX stands for."""
    del store
    name = resolver.commit(ctx)
    if as_json:
        print_json({"id": name})
    else:
        print_text(name)


@partial(make_store_command, creates=True)
@click.argument("messages", metavar="[FILE]", type=click.File("rb"), default="-")
@click.option("--parent", metavar="CTX", help="The commit before (default: the head of --branch).")
@branch_option
@click.option("--session", "session_id", default="", help="The session of the commit.")
@click.option("--summary", default="", help="The summary (default: derived from the messages).")
@click.option("--label", "labels", multiple=True, help="A label of the commit. Repeatable.")
@identity_options
def checkpoint_command(
    store: Store,
    resolver: NameResolver,
    messages: BinaryIO,
    parent: str | None,
    branch: str,
    as_json: bool,
    **values: Any,
) -> None:
    """Commit messages: a JSON array of `{"role": ..., "content": ...}` in a file or from stdin."""
    identity = load_identity(values, environment(), git_folder=current_folder())
    redact = load_settings(resolver.home).credentials()
    draft = CommitDraft(
        messages=_read_messages(messages, redact),
        parent=resolver.commit(parent) if parent else store.find_branch(branch),
        branch=branch,
        origin=identity.origin(values["session_id"]),
        summary=_redact_text(values["summary"], redact),
        labels=values["labels"],
        created_at=format_rfc3339(system_clock()),
    )
    _print_commit(store, checkpoint(store, draft), as_json=as_json)
    print_redacted(redact)


@make_store_command
@click.argument("ctx", type=COMMIT)
@click.argument("summary", metavar="SUMMARY")
@branch_option
def compact_command(
    store: Store, resolver: NameResolver, ctx: str, summary: str, branch: str, as_json: bool
) -> None:
    """Commit a compaction of CTX: its system prompt, and SUMMARY in place of all messages.

    The messages before it stay in the store (`ctx cat --stop root`).
    """
    name = resolver.commit(ctx)
    before = get_commit(store, name).commit
    draft = CommitDraft(parent=name, branch=branch, origin=CommitOrigin.of(before))
    redact = load_settings(resolver.home).credentials()
    created = compact(store, draft, _redact_text(summary, redact))
    _print_commit(store, created, as_json=as_json)
    print_redacted(redact)


@make_store_command
@click.argument("ctx", type=COMMIT)
@branch_option
def snapshot_command(
    store: Store, resolver: NameResolver, ctx: str, branch: str, as_json: bool
) -> None:
    """Commit the complete conversation of CTX as one object, so that it is read at once."""
    name = resolver.commit(ctx)
    _print_commit(store, snapshot(store, name, branch=branch), as_json=as_json)


@make_store_command
@click.argument("ctx", type=COMMIT)
@click.option(
    "--stop",
    default="compaction",
    help="Where the history starts: compaction, root, or an ancestor commit.",
)
@click.option("--format", "format_name", help="Also write it in this format: events-v1, ...")
def materialize_command(
    store: Store,
    resolver: NameResolver,
    ctx: str,
    stop: str,
    format_name: str | None,
    as_json: bool,
) -> None:
    """Store the complete conversation of CTX as an artifact, and print its name.

    `harken cat` prints the bytes of an artifact in a --format.
    """
    name = resolver.commit(ctx)
    until = stop if stop in ("compaction", "root") else resolver.commit(stop)
    row: dict[str, Any]
    if format_name is None:
        context = materialize(store, name, until)
        row = {"ref": context.ref, "message_count": context.message_count}
        row["token_count"] = context.token_count
    else:
        rendered = render(store, name, format_name, until)
        row = {"ref": rendered.ref, "message_count": rendered.message_count}
        row |= {"token_count": rendered.token_count, "format": rendered.format}
        row["tier"] = rendered.tier
    if as_json:
        print_json(row)
    else:
        print_text(f"{row['ref']}  {row['message_count']} messages, {row['token_count']} tokens")


@make_store_command
@click.argument("name", required=False)
@click.argument("ctx", type=COMMIT, required=False)
@click.option("--from", "expected", metavar="CTX", help="The current head, to move a branch.")
@click.option("--rename", "new_name", metavar="NEW", help="Rename the branch.")
@click.option("--delete", is_flag=True, help="Delete the branch; its commits stay.")
def branch_command(
    store: Store, resolver: NameResolver, name: str | None, as_json: bool, **changes: Any
) -> None:
    """List branches, or create the branch NAME at CTX.

    An existing branch is moved only --from its current head, so that no move of another writer is
    lost.
    """
    if name is not None:
        name = _change_branch(store, resolver, name, **changes)
    elif any(changes.values()):
        raise ConfigError("--from, --rename and --delete need the name of a branch")
    branches = store.branches()
    if name is not None and not changes["delete"] and name not in branches:
        raise NameNotFound("branch", name, branches)
    heads = {key: head for key, head in branches.items() if name in (None, key)}
    if as_json:
        print_json(heads)
        return
    for key, head in heads.items():
        summary = get_commit(store, head).notes.summary
        print_text(f"{abbreviate_name(store, head)}  {key}  {summary[:60]}")


def _change_branch(
    store: Store,
    resolver: NameResolver,
    name: str,
    *,
    ctx: str | None,
    expected: str | None,
    new_name: str | None,
    delete: bool,
) -> str:
    """Change a branch, and return its name after that. Raises ConfigError."""
    if (ctx is not None) + (new_name is not None) + delete > 1:
        raise ConfigError("pass only one of CTX, --rename and --delete")
    if delete:
        store.move_branch(name, None, expected=_find_head(store, resolver, name, expected))
    elif new_name is not None:
        rename_branch(store, name, new_name, _find_head(store, resolver, name, expected))
        return new_name
    elif ctx is not None:
        head = None if expected is None else resolver.commit(expected)
        store.move_branch(name, resolver.commit(ctx), expected=head)
    elif expected is not None:
        raise ConfigError("--from needs --delete, --rename or the commit to move the branch to")
    return name


def _find_head(store: Store, resolver: NameResolver, name: str, expected: str | None) -> CommitId:
    """Return the commit at which a branch is expected. Raises NameNotFound."""
    if expected is not None:
        return resolver.commit(expected)
    branches = store.branches()
    if name not in branches:
        raise NameNotFound("branch", name, branches)
    return branches[name]


def _redact_text(text: str, redact: Credentials | None) -> str:
    return text if redact is None else redact.replace(text)


def _read_messages(file: BinaryIO, redact: Credentials | None) -> list[TimedMessage]:
    """Return the messages of a JSON array. Raises ConfigError."""
    data = file.read() if redact is None else redact.replace_in_bytes(file.read())
    try:
        return msgspec.json.decode(data, type=list[TimedMessage])
    except msgspec.DecodeError as error:
        name = Path(getattr(file, "name", "stdin")).name
        raise ConfigError(f"{name}: not a JSON array of messages: {error}") from None


def _print_commit(store: Store, name: CommitId, *, as_json: bool) -> None:
    if as_json:
        print_json({"id": name})
    else:
        print_text(abbreviate_name(store, name))


COMMANDS = (
    resolve_command,
    checkpoint_command,
    compact_command,
    snapshot_command,
    materialize_command,
    branch_command,
)
