"""`harken pull`: fetch new content of a remote."""

from __future__ import annotations

import click

from harken.cli.commands.remotes.report import ProgressLines, report
from harken.cli.commands.remotes.transfer import OpenTransfer, open_transfer, split_remote
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home
from harken.context.shipping.outbox import read_ship_state
from harken.core.clock import system_clock
from harken.remotes.logs import LogPuller
from harken.remotes.pull import Puller, PullOptions


@click.command("pull")
@click.argument("arguments", metavar="[REMOTE] [SESSION]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Pull everything (the default).")
@click.option("--dry-run", is_flag=True, help="Show what would be pulled, and change nothing.")
@click.option(
    "--purge", is_flag=True, help="Purge here what was purged on the remote. This is permanent."
)
@json_option
@home_option
def command(
    arguments: tuple[str, ...],
    everything: bool,
    dry_run: bool,
    purge: bool,
    as_json: bool,
    home: Home,
) -> int:
    """Pull sessions, commits, notes, branches, tickets and files from a remote.

    Nothing here is overwritten: what has diverged is reported, with exit code 1. REMOTE is a name
    or an address, by default `origin`. With sessions, only these are pulled, with their commits.
    An interrupted pull continues where it stopped.
    """
    target, sessions = split_remote(home, arguments, first=True)
    if sessions and everything:
        raise click.UsageError("--all pulls everything; do not name sessions")
    home.create_folders()
    with open_transfer(home, target) as transfer, ProgressLines("Pulling") as progress:
        options = PullOptions(dry_run=dry_run, purge=purge, logs_only=transfer.is_lazy)
        puller = make_puller(home, transfer, options)
        puller.on_progress = progress.on_progress
        result = puller.pull_sessions(sessions) if sessions else puller.pull_all()
    return report(result, target, "pulled", as_json=as_json, dry_run=dry_run)


def make_puller(home: Home, transfer: OpenTransfer, options: PullOptions) -> Puller:
    """Return the puller of a transfer."""
    url = transfer.target.url
    logs = LogPuller(
        transfer.remote,
        home.sessions_folder,
        transfer.mirror,
        lambda name: read_ship_state(home.outbox_folder, url, name),
        system_clock,
        refuses_credentials=transfer.refuses_credentials,
        dry_run=options.dry_run,
    )
    return Puller(transfer.store, transfer.remote, transfer.mirror, logs, options)
