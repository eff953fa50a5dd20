"""`harken store gc`: remove unreferenced objects from the store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from harken.cli.commands.purge.home_files import forget_facts, index_files
from harken.cli.home_team import open_holds
from harken.cli.options.home import home_option, json_option
from harken.cli.options.time import Duration
from harken.config.home import Home, command_prefix
from harken.config.settings import load_settings
from harken.config.store import open_configured_store
from harken.core.clock import format_rfc3339, system_clock
from harken.errors import StoreWriteError
from harken.session.log.reader import find_mentioned_names
from harken.store.base import EvictionResult, GcResult, Store, UnusedSpace
from harken.store.capabilities import TierStore, measure_unused
from harken.store.tiered.push import DifferentHead
from harken.terminal.progress import ProgressCallback, progress
from harken.terminal.text import one_line, print_json, print_text
from harken.views.message_text import format_count, format_size

T = TypeVar("T")
_ROOM_BYTES = 8 * 1024 * 1024
"""The space for the write-ahead log: SQLite writes it back to the file every 4 MB."""


@click.command()
@click.option("--dry-run", is_flag=True, help="Print what would be removed, without removing it.")
@click.option(
    "--grace",
    type=Duration(),
    default="1h",
    show_default=True,
    help="Keep objects written within this time: 90s, 45m, 12h, 7d.",
)
@json_option
@home_option
def command(dry_run: bool, grace: float, as_json: bool, home: Home) -> int:
    """Remove objects that no commit, session or pin refers to.

    Also removes derived objects that can be created again, and ephemeral commits that expired.
    Other processes may use the store meanwhile, and the command can be interrupted and run again.
    If a backing store is configured, missing objects are pushed to it, and objects beyond the size
    limit are evicted here. A branch, a ticket or an imported file that was changed otherwise in the
    backing store stays there and is reported, with exit code 1. If the disk is full, the search
    index is removed first; the next search rebuilds it.
    """
    work = partial(_collect_and_push, home, grace, dry_run=dry_run)
    result, moved, unused = run_with_disk_space(home, work, keep_index=dry_run)
    different = () if moved is None else moved.different
    for head in different:
        click.echo(f"harken: {describe_different(head)}", err=True)
    if as_json:
        about_tiers = {} if moved is None else {"moved": msgspec.to_builtins(moved)}
        print_json({**msgspec.to_builtins(result), "dry_run": dry_run, **about_tiers})
        return int(bool(different))
    print_text(format_summary(result, dry_run=dry_run))
    if moved is not None:
        backed_up, evicted = format_count(moved.commits, "commit"), format_size(moved.evicted_bytes)
        print_text(f"{backed_up} sent to the backing store, {evicted} evicted from this store")
    if unused.size_bytes and not dry_run:
        size, room = format_size(unused.size_bytes), format_size(unused.room_bytes)
        print_text(
            f"{size} of the file are unused, and will be reused. To shrink the file, "
            f"run gc with {room} of free disk space while no other program uses the "
            "store."
        )
    return int(bool(different))


def describe_different(head: DifferentHead) -> str:
    """Return a line about a name that a push did not move: what differs, and what to do."""
    name, local, remote = (one_line(text, 200) for text in (head.name, head.local, head.remote))
    local, remote = local[:16], remote[:16]
    take_over = f"`{command_prefix('ctx', 'branch', name, remote, '--from', local)}`"
    match head.kind:
        case "branch" if head.is_behind:
            return f"branch {name} is behind the backing store; {take_over} moves it there"
        case "branch":
            keep = f"`{command_prefix('ctx', 'branch', 'OTHER', local)}`"
            fact = f"is at {local} here and at {remote} in the backing store, which stays"
            return f"branch {name} {fact}; {keep} names the local one, then {take_over} moves it"
        case "ticket":
            fact = "has changes here that its version in the backing store lacks, which stays"
            return (
                f"ticket {name[:16]} {fact}; `{command_prefix('cat', local)}` prints the local one"
            )
        case "file":
            place = one_line(head.place, 200) or name[:16]
            way = f"`{command_prefix('cat', remote)}` prints what is there"
            return f"file {place} differs in the backing store, where it stays; {way}"


def _collect_and_push(
    home: Home, grace_s: float, *, dry_run: bool
) -> tuple[GcResult, TierTransfer | None, UnusedSpace]:
    """Collect garbage, push to the backing store, and return the removed and the unused objects."""
    settings = load_settings(home)
    with open_configured_store(home) as store, progress("Collecting") as tell:
        with open_holds(home, store) as holds:
            roots = find_roots(home) | {*(holds.list_commits() if holds else ())}
        result = collect(store, roots, grace_s=grace_s, dry_run=dry_run, tell=tell)
        moved = None if dry_run else move(store, settings.most_mb)
        if not dry_run and result.commits:
            forget_facts(home)
        return result, moved, measure_unused(store)


def run_with_disk_space(home: Home, work: Callable[[], T], *, keep_index: bool = False) -> T:
    """Run `work`. If the disk is full, remove the search index and try once more.

    The index is created again from the store when it is needed, so it is the reserve of a full
    disk. Raises StoreWriteError with advice if there is no index, it was too small, or it must be
    kept.
    """
    try:
        return work()
    except StoreWriteError as error:
        if free_bytes(home) >= _ROOM_BYTES:
            raise
        reason = error.reason
    size = sum(file.stat().st_size for file in index_files(home))
    if size and not keep_index:
        forget_facts(home)
        click.echo(
            f"The disk is full: the search index ({format_size(size)}) was removed. "
            "The next search rebuilds it.",
            err=True,
        )
        try:
            return work()
        except StoreWriteError as error:
            reason = error.reason
    raise StoreWriteError(
        home.store_file,
        reason=reason,
        advice=f"gc needs {format_size(_ROOM_BYTES)} of free disk space, and "
        f"{format_size(free_bytes(home))} are free; delete or move other files, "
        "then run it again",
    )


def free_bytes(home: Home) -> int:
    """Return the free bytes of the disk of a home."""
    return shutil.disk_usage(home.folder).free


class TierTransfer(msgspec.Struct, frozen=True):
    """The data sent to the backing store, and evicted locally."""

    commits: int
    evicted_objects: int
    evicted_bytes: int
    different: tuple[DifferentHead, ...] = ()
    """The names that were not moved in the backing store."""


def collect(
    store: Store, roots: set[str], *, grace_s: float, dry_run: bool, tell: ProgressCallback
) -> GcResult:
    """Collect garbage, and report the progress if the store knows it."""
    now = format_rfc3339(system_clock())
    return store.collect(roots, now=now, grace_s=grace_s, dry_run=dry_run, on_progress=tell)


def move(store: Store, most_mb: float | None) -> TierTransfer | None:
    """Push new objects to the backing store, and evict local ones. Return None without tiers."""
    if not isinstance(store, TierStore):
        return None
    transfer = store.push()
    evicted = EvictionResult() if most_mb is None else store.evict(int(most_mb * 1024 * 1024))
    return TierTransfer(transfer.commits, evicted.objects, evicted.size_bytes, transfer.different)


def find_roots(home: Home, accepts: Callable[[Path], bool] = lambda _: True) -> set[str]:
    """Return the names that the logs of a home mention, or some of them. Raises LogError."""
    logs = filter(accepts, home.list_logs())
    return {name for path in logs for name in find_mentioned_names(path)}


def format_summary(result: GcResult, *, dry_run: bool) -> str:
    """Return a line about the removed objects, or about those of a dry run.

    >>> format_summary(GcResult(objects=2, size_bytes=2048), dry_run=True)
    '2 objects and 0 commits would be removed, about 2.0 KB'
    """
    verb = "would be removed" if dry_run else "removed"
    objects = format_count(result.objects, "object")
    commits = format_count(len(result.commits), "commit")
    return f"{objects} and {commits} {verb}, about {format_size(result.size_bytes)}"
