"""`harken git`: hooks of a git repository that record the agent of each commit."""

from __future__ import annotations

import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harken.attribution.git.hooks import GitHooks, RecordPlace
from harken.attribution.git.repository import GitRepository
from harken.cli.command_group import CommandGroup
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home, current_folder, environment, program_line
from harken.context.socket_client import VARIABLE, current_context
from harken.errors import HarkenError
from harken.terminal.text import print_json, print_text

if TYPE_CHECKING:
    from harken.attribution.records.edit_index import EditIndex
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store


@click.group(name="git", cls=CommandGroup)
def command() -> None:
    """Record in each git commit the context of the agent that made it."""


@command.command()
@click.option(
    "--in",
    "place",
    type=click.Choice(["trailer", "notes"]),
    default="trailer",
    help="Record the context in the commit message (default), or in git notes.",
)
def install(place: RecordPlace) -> None:
    """Install hooks in the repository of the current folder, for all of its worktrees.

    A commit that an agent makes gets the trailer `Context-Id: ctx-...`. Commits of a person are not
    changed. Existing hooks run as before. If Harken fails, git goes on.
    """
    with closing(GitRepository(current_folder())) as repository:
        hooks = GitHooks(repository)
        hooks.install(place, program_line())
        kind = "its notes" if place == "notes" else "a trailer"
        scope = " of this worktree" if hooks.is_of_worktree else ""
        print_text(
            f"installed in {hooks.folder}{scope}: a commit of an agent has its context in {kind}"
        )
        if hooks.is_tracked:
            click.echo(
                f"harken: {hooks.folder} is a folder of tracked files; do not commit the hooks, "
                "which are of this machine",
                err=True,
            )


@command.command()
def uninstall() -> None:
    """Remove the hooks, and put the earlier ones back. One that was changed since is left."""
    with closing(GitRepository(current_folder())) as repository:
        hooks = GitHooks(repository)
        result = hooks.uninstall()
        print_text(f"removed from {hooks.folder}: {', '.join(result.removed) or 'nothing'}")
        for text in result.left:
            print_text(f"left: {text}")


@command.command()
@json_option
def status(as_json: bool) -> int:
    """Show the state of the hooks. Exit code 1 if they are not installed."""
    with closing(GitRepository(current_folder())) as repository:
        hooks = GitHooks(repository)
        rows, place = hooks.status(), hooks.place
    if as_json:
        print_json(
            {
                "folder": str(hooks.folder),
                "in": place,
                "hooks": [msgspec.structs.asdict(row) for row in rows],
            }
        )
    else:
        print_text(f"{hooks.folder} (context in {place})")
        for row in rows:
            then = ", then the earlier hook" if row.has_earlier else ""
            print_text(f"  {row.name:<20} {row.state}{then}")
    return int(any(row.state != "installed" for row in rows))


@command.command()
@click.argument("commit", default="HEAD")
@click.option("--note", "is_note", is_flag=True, help="Store the record in the notes of git.")
@home_option
def trace(home: Home, commit: str, is_note: bool) -> None:
    """Print the Agent Trace record of a git commit: the messages that wrote its lines.

    The notes are those of `refs/notes/agent-trace`; `harken why` reads them. A record without files
    is not stored.
    """
    from harken.attribution.agent_trace import write_note

    with closing(GitRepository(current_folder())) as repository:
        record = _build_trace(home, repository, commit)
        if is_note and record["files"]:
            write_note(repository, record["vcs"]["revision"], record)
    print_json(record)


def _build_trace(home: Home, repository: GitRepository, commit: str) -> dict[str, Any]:
    """Return the record of a commit. Raises ConfigError, StoreError."""
    from importlib.metadata import version

    from harken.attribution.agent_trace import build_record
    from harken.attribution.attribution import Attribution
    from harken.attribution.changes import resolve_commit
    from harken.config.index import read_edits

    def read(index: EditIndex, facts: SessionIndex, store: Store) -> dict[str, Any]:
        attribution = Attribution(repository, index, facts, store)
        files = [*attribution.commit_origins(commit)]
        writers = attribution.find_writers(origin for _, origins in files for origin in origins)
        return build_record(resolve_commit(repository, commit), files, writers, version("harken"))

    return read_edits(home, read)


def _trace_later(commit: str) -> None:
    """Store the record of a commit in a process of its own: git does not wait for the index."""
    subprocess.Popen(
        [*program_line(), "git", "trace", "--note", commit],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@command.command("run-hook", hidden=True)
@click.argument("name")
@click.argument("arguments", nargs=-1)
def run_hook(name: str, arguments: tuple[str, ...]) -> int:
    """Record the current context in a commit: the hooks call this."""
    from harken.attribution.git.commit_context import record_context

    context_id = current_context(environment().get(VARIABLE, ""))
    if not context_id:
        return 0
    try:
        with closing(GitRepository(current_folder())) as repository:
            is_recorded = record_context(repository, name, arguments, context_id, environment())
            if is_recorded and name == "post-commit":
                _trace_later(repository.run("rev-parse", "HEAD").decode().strip())
    except (HarkenError, OSError, ValueError) as error:
        click.echo(f"harken: {error}", err=True)
        return 1
    return 0
