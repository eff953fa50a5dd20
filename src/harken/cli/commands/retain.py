"""`harken store retain`: set how long commits and artifacts are kept."""

from __future__ import annotations

import click

from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import COMMIT
from harken.cli.options.time import Duration
from harken.config.home import Home
from harken.config.name_resolver import NameResolver
from harken.config.store import open_configured_store
from harken.context.refs import PREFIX, find_commit_or_artifact
from harken.core.clock import format_rfc3339, system_clock
from harken.core.commits import SHORT_NAME_DIGITS
from harken.store.base import RetentionPolicy, Store
from harken.terminal.text import print_json, print_text


@click.command()
@click.argument("names", type=COMMIT, nargs=-1, metavar="[CTX|SESSION|ART]...")
@click.option("--pin", is_flag=True, help="Retain permanently in the local store.")
@click.option(
    "--replicate", is_flag=True, help="Retain permanently in the local and the backing store."
)
@click.option("--default", is_flag=True, help="Use the default retention.")
@click.option(
    "--for", "seconds", type=Duration(), help="Retain for this time: 90s, 45m, 12h, 7d, 2w."
)
@json_option
@home_option
def command(
    names: tuple[str, ...], seconds: float | None, as_json: bool, home: Home, **flags: bool
) -> None:
    """Set the retention of commits and artifacts; without names, list the settings.

    By default commits are retained permanently, and artifacts as long as a commit refers to them.
    After the time of `--for`, the next `harken store gc` removes a commit, unless another commit is
    based on it or it has a label.
    """
    policies = [name for name, is_set in flags.items() if is_set]
    if not names and (policies or seconds is not None):
        raise click.UsageError("no CTX or ART given")
    if names and len(policies) + (seconds is not None) != 1:
        raise click.UsageError("pass exactly one of --pin, --for, --replicate, --default")
    with open_configured_store(home) as store:
        if names:
            resolver = NameResolver(home, store)
            pinned = [
                find_commit_or_artifact(store, name)
                if name.startswith("art-")
                else resolver.commit(name)
                for name in names
            ]
            store.set_retention(
                dict.fromkeys(
                    pinned, build_policy(*policies, seconds=seconds, now_us=system_clock())
                )
            )
        rows = [{"name": n, **row(k)} for n, k in sorted(store.retention().items())]
        if as_json:
            print_json(rows)
            return
        for policy_row in rows:
            print_text(line(store, policy_row["name"], policy_row))


def build_policy(
    policy: str = "default", *, seconds: float | None, now_us: int
) -> RetentionPolicy | None:
    """Return the retention policy of the options.

    >>> build_policy(seconds=1.5, now_us=0)
    RetentionPolicy(policy='ephemeral', until='1970-01-01T00:00:01.500000Z')
    """
    if seconds is not None:
        return RetentionPolicy("ephemeral", format_rfc3339(now_us + int(seconds * 1_000_000)))
    return (
        None if policy == "default" else RetentionPolicy("pin" if policy == "pin" else "replicate")
    )


def row(policy: RetentionPolicy) -> dict[str, str]:
    """Return a policy as JSON values."""
    return {"policy": policy.policy, **({"until": policy.until} if policy.until else {})}


def line(store: Store, name: str, policy: dict[str, str]) -> str:
    """Return a line about a retention policy."""
    until = f" until {policy['until'][:16].replace('T', ' ')}" if "until" in policy else ""
    note = "" if store.names_with_prefix(name, 1) else "  (not in the store)"
    return f"{name[: len(PREFIX) + SHORT_NAME_DIGITS]}  {policy['policy']}{until}{note}"
