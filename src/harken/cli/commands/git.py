"""`harken git`: hooks of a git repository that record the agent of each commit."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

import click

from harken.attribution.git.hooks import GitHooks, RecordPlace, program_line
from harken.attribution.git.repository import GitRepository
from harken.cli.command_group import CommandGroup
from harken.cli.options.home import json_option
from harken.config.home import current_folder, environment
from harken.context.socket_client import VARIABLE, current_context
from harken.errors import HarkenError
from harken.terminal.text import print_json, print_text


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
        print_text(
            f"installed in {hooks.folder}: a commit of an agent has its context in a {place}"
        )


@command.command()
def uninstall() -> None:
    """Remove the hooks, and put the earlier ones back."""
    with closing(GitRepository(current_folder())) as repository:
        hooks = GitHooks(repository)
        removed = hooks.uninstall()
        print_text(f"removed from {hooks.folder}: {', '.join(removed) or 'nothing'}")


@command.command()
@json_option
def status(as_json: bool) -> int:
    """Show the state of the hooks. Exit code 1 if they are not installed."""
    with closing(GitRepository(current_folder())) as repository:
        hooks = GitHooks(repository)
        rows, place = hooks.status(), hooks.place
    if as_json:
        print_json(
            {"folder": str(hooks.folder), "in": place, "hooks": [asdict(row) for row in rows]}
        )
    else:
        print_text(f"{hooks.folder} (context in {place})")
        for row in rows:
            then = ", then the earlier hook" if row.has_earlier else ""
            print_text(f"  {row.name:<20} {row.state}{then}")
    return int(any(row.state != "installed" for row in rows))


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
            record_context(repository, name, arguments, context_id)
    except (HarkenError, OSError, ValueError) as error:
        click.echo(f"harken: {error}", err=True)
        return 1
    return 0
