"""`harken gc`: what nobody needs any more goes, and the store gets smaller."""

from __future__ import annotations

import click
import msgspec

from harken.cli.ctx import store_of
from harken.cli.duration import Duration
from harken.cli.home import Home, home_option, json_option
from harken.cli.progress import progress
from harken.cli.terminal import say, say_json
from harken.core.clock import rfc3339, system_clock
from harken.session.mentions import mentions
from harken.store.base import Collected
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
    over. Others may use the store meanwhile. It may be stopped at any time and run again.
    """
    with store_of(home) as store, progress("Collecting") as tell:
        roots = roots_of(home)
        now = rfc3339(system_clock())
        taken = store.collect(roots, now=now, grace_s=grace, dry_run=dry_run, on_progress=tell)
    if as_json:
        say_json({**msgspec.to_builtins(taken), "dry_run": dry_run})
    else:
        say(told(taken, dry_run=dry_run))


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
