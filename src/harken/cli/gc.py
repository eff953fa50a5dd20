"""`harken store gc`: remove unreferenced objects from the store."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import click
import msgspec

from harken.cli.duration import Duration
from harken.cli.home import Home, home_option, json_option
from harken.cli.opened_store import store_of
from harken.cli.progress import Tell, progress
from harken.cli.settings import load_settings
from harken.cli.side_files import forget_facts
from harken.cli.terminal import say, say_json
from harken.core.clock import rfc3339, system_clock
from harken.session.mentions import mentions
from harken.store.base import Collected, Store
from harken.store.evict import Evicted
from harken.store.sqlite import SqliteStore
from harken.store.tiered import TieredStore
from harken.views.written import count, size_text


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
@click.option(
    "--grace",
    type=Duration(),
    default="1h",
    show_default=True,
    help="What was written so lately stays: 90s, 45m, 12h, 7d.",
)
@json_option
@home_option
def command(dry_run: bool, grace: float, as_json: bool, home: Home) -> None:
    """Remove from the store what no commit, no session and no pin needs.

    That is what was never committed, what can be made again, and ephemeral commits whose time is
    over. Others may use the store meanwhile. It may be stopped at any time and run again. Where a
    backing store is configured, it is sent what it has not, and what is too much here is evicted.
    """
    settings = load_settings(home)
    with store_of(home) as store, progress("Collecting") as tell:
        taken = collect(store, roots_of(home), grace_s=grace, dry_run=dry_run, tell=tell)
        moved = None if dry_run else move(store, settings.most_mb)
        if not dry_run and taken.commits:
            forget_facts(home)
    if as_json:
        about_tiers = {} if moved is None else {"moved": asdict(moved)}
        say_json({**msgspec.to_builtins(taken), "dry_run": dry_run, **about_tiers})
        return
    say(told(taken, dry_run=dry_run))
    if moved is not None:
        there, here = count(moved.commits, "commit"), size_text(moved.evicted_bytes)
        say(f"{there} sent to the backing store, {here} evicted here")


@dataclass(frozen=True, slots=True)
class Moved:
    """What went to the backing store, and from here."""

    commits: int
    evicted_things: int
    evicted_bytes: int


def collect(
    store: Store, roots: set[str], *, grace_s: float, dry_run: bool, tell: Tell
) -> Collected:
    """Collect; where the store is a file of this machine, tell how far it is."""
    now = rfc3339(system_clock())
    if isinstance(store, SqliteStore | TieredStore):
        return store.collect(roots, now=now, grace_s=grace_s, dry_run=dry_run, on_progress=tell)
    return store.collect(roots, now=now, grace_s=grace_s, dry_run=dry_run)


def move(store: Store, most_mb: float | None) -> Moved | None:
    """Send what is new to the backing store, and evict what is too much here; None: no tiers."""
    if not isinstance(store, TieredStore):
        return None
    sent = store.push()
    evicted = Evicted() if most_mb is None else store.evict(int(most_mb * 1024 * 1024))
    return Moved(sent.commits, evicted.things, evicted.size_bytes)


def roots_of(home: Home) -> set[str]:
    """Return the names that the logs of a home mention. Raises LogError."""
    return {name for path in home.logs() for name in mentions(path)}


def told(taken: Collected, *, dry_run: bool) -> str:
    """Say in a line what went, or would go.

    >>> told(Collected(things=2, size_bytes=2048), dry_run=True)
    '2 things and 0 commits would go, about 2.0 KB'
    """
    verb = "would go" if dry_run else "went"
    what = f"{count(taken.things, 'thing')} and {count(len(taken.commits), 'commit')}"
    return f"{what} {verb}, about {size_text(taken.size_bytes)}"
