"""`harken ctx summarize`: a summary by hand, or by a model for all commits that nobody gave one."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from harken.cli.duration import Duration
from harken.cli.home import Home
from harken.cli.home_options import home_option, json_option
from harken.cli.name_resolver import NameResolver
from harken.cli.opened_store import store_of
from harken.cli.parameter_types import COMMIT
from harken.cli.terminal import say, say_json
from harken.context.history import update_metadata
from harken.context.names import name_of
from harken.core.commits import CommitId
from harken.store.base import Store


@click.command(name="summarize")
@click.argument("ctx", type=COMMIT, required=False)
@click.argument("text", required=False)
@click.option("--missing", is_flag=True, help="Ask a model about all commits without a summary.")
@click.option("--all", "every", is_flag=True, help="Also about those that have one.")
@click.option("--principal", help="Only those of this principal.")
@click.option("--older-than", "age_s", type=Duration(), help="Only those older than, say, 7d.")
@click.option("--model", metavar="NAME", help="The model; a small one will do.")
@click.option("--whole", is_flag=True, help="Show it the whole conversation, not only what is new.")
@click.option(
    "--per-minute", type=click.FloatRange(0, min_open=True), help="At most so many calls."
)
@click.option("--at-once", type=click.IntRange(1, 64), default=4, show_default=True)
@click.option("--dry-run", is_flag=True, help="Say how many, and what it would cost; ask nobody.")
@json_option
@home_option
def command(
    home: Home, ctx: str | None, text: str | None, missing: bool, as_json: bool, **options: Any
) -> int:
    """Give a commit another summary: TEXT for CTX, or what a model says of all that lack one.

    A commit without a summary of its own shows the beginning of its last answer. What was done
    is not done again: a run that was stopped goes on where it was. Credentials of well-known
    shapes do not reach the model.
    """
    if missing == (ctx is not None) or (text is None) != (ctx is None):
        raise click.UsageError("say CTX and TEXT, or --missing")
    if ctx is not None and text is not None:
        if not text.strip():
            raise click.UsageError("a commit always has a summary: say something")
        with store_of(home) as store:
            by_hand(store, NameResolver(home, store).commit(ctx), text, as_json=as_json)
        return 0
    from harken.cli.summary_run import Wish, of_all

    return of_all(home, Wish(**options), as_json=as_json)


def by_hand(store: Store, name: CommitId, text: str, *, as_json: bool) -> None:
    """Write a summary that a person gave."""
    try:
        notes = update_metadata(store, name, summary=text)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        say_json(msgspec.to_builtins(notes))
    else:
        say(f"{name_of(store, name)} {notes.summary}")
