"""`harken ctx summarize`: write a summary, or let a model summarize all commits without one.

A run of a model reports the selected commits, an estimate of its usage, and its results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click
import msgspec

from harken.chat.models import (
    build_model_resolver,
    choose_default_model,
    load_model_of_home,
    load_named_model,
)
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import COMMIT
from harken.cli.options.time import Duration
from harken.cli.options.workers import MAX_JOBS, on_option, parse_on, print_lost_workers
from harken.config.home import Home
from harken.config.name_resolver import NameResolver
from harken.config.settings import Settings, load_settings
from harken.config.store import open_configured_store
from harken.context.history import END_OF_TIME, update_metadata
from harken.context.refs import abbreviate_name
from harken.context.summaries.batch import BatchSummarizer
from harken.context.summaries.summarize import (
    SummaryFilter,
    SummaryOptions,
    SummaryResult,
    estimate_usage,
    select_commits,
    summarize,
)
from harken.core.clock import format_rfc3339, system_clock
from harken.core.commits import CommitId
from harken.core.events import Usage
from harken.errors import NameNotFound
from harken.executors.workers import Workers
from harken.llm.base import Model
from harken.store.base import Store, StoredCommit
from harken.terminal.progress import progress
from harken.terminal.text import escape_control_characters, one_line, print_json, print_text
from harken.views.message_text import format_count

_RECENT_COMMITS = 1000
_FAILURES = 10
"""The maximum number of failures that are printed one by one."""


class SummarizeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    include_summarized: bool
    principal: str | None
    age_s: float | None
    model: str | None
    full: bool
    per_minute: float | None
    at_once: int
    dry_run: bool
    workers: Workers

    def choice(self) -> SummaryFilter:
        """Return the filter of commits."""
        before = None
        if self.age_s is not None:
            before = format_rfc3339(max(0, system_clock() - int(self.age_s * 1_000_000)))
        return SummaryFilter(
            include_summarized=self.include_summarized, principal=self.principal, before=before
        )

    def manner(self, parameters: Mapping[str, Any]) -> SummaryOptions:
        """Return the options of the model calls."""
        return SummaryOptions(
            use_full_conversation=self.full,
            max_concurrent=self.at_once,
            per_minute=self.per_minute,
            parameters=parameters,
        )


class SummaryTotals(msgspec.Struct):
    """The totals of all summarized commits."""

    results: list[SummaryResult] = msgspec.field(default_factory=list)
    failed: list[SummaryResult] = msgspec.field(default_factory=list)

    def add(self, outcome: SummaryResult) -> None:
        """Count the result of one commit."""
        (self.failed if outcome.failure else self.results).append(outcome)

    @property
    def usage(self) -> Usage:
        """The known tokens."""
        usages = [result.usage for result in self.results if result.usage is not None]
        return Usage(
            input_tokens=sum(usage.input_tokens or 0 for usage in usages),
            output_tokens=sum(usage.output_tokens or 0 for usage in usages),
        )

    @property
    def cost_usd(self) -> float | None:
        """The total cost, or None if the cost of any call is not known."""
        costs = [result.cost_usd for result in self.results]
        known_costs = [cost for cost in costs if cost is not None]
        return sum(known_costs) if costs and len(known_costs) == len(costs) else None


def summarize_all(home: Home, wish: SummarizeOptions, *, as_json: bool) -> int:
    """Write summaries of a model; return the exit code, 1 if any failed."""
    settings = load_settings(home, model=wish.model)
    name = settings.model or choose_default_model(settings)
    with open_configured_store(home) as store:
        check_principal(store, wish.principal)
        commits = list(select_commits(store, wish.choice(), name))
        if wish.dry_run:
            check_model_name(home, settings, name)
            print_estimate(commits, settings, name, is_full=wish.full, as_json=as_json)
            return 0
        model = load_named_model(build_model_resolver(home, settings), name)
        assert model is not None
        manner = wish.manner(settings.model_parameters.get(name, {}))
        if not wish.workers.has_processes:
            work = partial(_ask, store, model, commits, manner)
        else:
            summarizer = BatchSummarizer(
                model=model.name,
                load_model=partial(load_model_of_home, str(home.folder.absolute()), model.name),
                journal=home.journal_folder.absolute(),
                manner=manner,
            )
            work = partial(_ask_workers, wish.workers, summarizer, store, commits)
        return run_summaries(store, model.name, len(commits), work, as_json=as_json)


def check_principal(store: Store, principal: str | None) -> None:
    """Raise NameNotFound for a principal without commits; it lists principals of recent ones."""
    if principal is None or store.latest_commit(principal, END_OF_TIME) is not None:
        return
    recent = store.commits(store.newest_commits(_RECENT_COMMITS)).values()
    raise NameNotFound("principal", principal, sorted({new.commit.principal for new in recent}))


def check_model_name(home: Home, settings: Settings, name: str) -> None:
    """Raise ConfigError for a model that cannot be called. A key may be missing."""
    provider, slash, model = name.partition("/")
    if not (slash and model and provider in settings.providers):
        load_named_model(build_model_resolver(home, settings), name)


def run_summaries(
    store: Store,
    model: str,
    count: int,
    work: Callable[[Callable[[SummaryResult], None]], None],
    *,
    as_json: bool,
) -> int:
    """Summarize commits and report the results, also if interrupted; return the exit code.

    count: the number of commits. work: calls its argument with each result.
    """
    total = SummaryTotals()
    try:
        with progress("Summarizing") as show:

            def add(result: SummaryResult) -> None:
                total.add(result)
                failed = f", {len(total.failed)} failed" if total.failed else ""
                done = len(total.results) + len(total.failed)
                show(done, count, f"{done:,} of {count:,}{failed}")

            work(add)
    finally:
        report(store, total, model, as_json=as_json)
    return int(bool(total.failed))


def _ask(
    store: Store,
    model: Model,
    commits: Sequence[StoredCommit],
    manner: SummaryOptions,
    on_result: Callable[[SummaryResult], None],
) -> None:
    asyncio.run(summarize(store, model, commits, on_result, manner))


def _ask_workers(
    workers: Workers,
    summarizer: BatchSummarizer,
    store: Store,
    commits: Sequence[StoredCommit],
    on_result: Callable[[SummaryResult], None],
) -> None:
    with workers.open() as executor:
        try:
            summarizer.run(executor, store, commits, on_result)
        finally:
            print_lost_workers(executor.lost_workers)


def print_estimate(
    commits: Sequence[StoredCommit], settings: Settings, name: str, *, is_full: bool, as_json: bool
) -> None:
    """Print the number of commits to summarize, and the maximum usage."""
    usage = estimate_usage(commits, whole=is_full)
    price = settings.prices.price(name, datetime.now(UTC).date())
    cost_usd = None if price is None else price.cost(usage)
    if as_json:
        fields = {"commits": len(commits), "model": name, "cost_usd": cost_usd}
        print_json({**fields, "usage": msgspec.to_builtins(usage)})
        return
    print_text(
        f"{format_count(len(commits), 'commit')} for {name}: at most "
        f"{format_usage(usage, cost_usd)}"
    )


def report(store: Store, total: SummaryTotals, model: str, *, as_json: bool) -> None:
    """Print the totals."""
    redacted = sum(result.redacted for result in total.results)
    if as_json:
        print_json(
            {
                "summarized": [
                    {"id": result.ctx, "summary": result.summary} for result in total.results
                ],
                "failed": [{"id": result.ctx, "why": result.failure} for result in total.failed],
                "model": model,
                "usage": msgspec.to_builtins(total.usage),
                "cost_usd": total.cost_usd,
                "redacted": redacted,
            }
        )
        return
    print_text(
        f"{format_count(len(total.results), 'commit')} summarized: "
        f"{format_usage(total.usage, total.cost_usd)}"
    )
    if redacted:
        print_text(f"{format_count(redacted, 'credential')} redacted")
    for result in total.failed[:_FAILURES]:
        line = (
            f"{abbreviate_name(store, result.ctx)} has no new summary: "
            f"{one_line(result.failure, 200)}"
        )
        click.echo(escape_control_characters(line), err=True)
    if len(total.failed) > _FAILURES:
        click.echo(f"and {len(total.failed) - _FAILURES} more", err=True)


def format_usage(usage: Usage, cost_usd: float | None) -> str:
    """Format tokens, and the cost if it is known."""
    cost = "" if cost_usd is None else f", ${cost_usd:.4f}"
    return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"


@click.command(name="summarize")
@click.argument("ctx", type=COMMIT, required=False)
@click.argument("text", required=False)
@click.option(
    "--missing", is_flag=True, help="Summarize all commits without a summary with a model."
)
@click.option(
    "--all", "include_summarized", is_flag=True, help="Include commits that have a summary."
)
@click.option("--principal", help="Filter by principal.")
@click.option("--older-than", "age_s", type=Duration(), help="Filter by age: 7d.")
@click.option("--model", metavar="NAME", help="The model. A small one is sufficient.")
@click.option("--full", is_flag=True, help="Send the full conversation, not only the new messages.")
@click.option(
    "--per-minute",
    type=click.FloatRange(0, min_open=True),
    help="The maximum number of model calls per minute.",
)
@click.option(
    "--concurrency",
    "at_once",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="The number of concurrent model calls, in each worker.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, MAX_JOBS),
    help="The number of worker processes (default: 1, this process).",
)
@on_option
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the number of commits and the estimated cost, without calling the model.",
)
@json_option
@home_option
def command(
    home: Home,
    ctx: str | None,
    text: str | None,
    missing: bool,
    jobs: int | None,
    on: str,
    as_json: bool,
    **options: Any,
) -> int:
    """Set the summary of a commit: TEXT for CTX, or by a model for commits without one.

    Without a summary, lists show the beginning of the last answer of a commit. An interrupted run
    continues where it stopped. Credentials of known formats are not sent to the model.
    """
    if missing == (ctx is not None) or (text is None) != (ctx is None):
        raise click.UsageError("pass CTX and TEXT, or --missing")
    if ctx is not None and text is not None:
        if not text.strip():
            raise click.UsageError("TEXT is empty: the summary of a commit cannot be empty")
        with open_configured_store(home) as store:
            write_summary(store, NameResolver(home, store).commit(ctx), text, as_json=as_json)
        return 0

    workers = parse_on(on, jobs, 1)
    return summarize_all(home, SummarizeOptions(**options, workers=workers), as_json=as_json)


def write_summary(store: Store, name: CommitId, text: str, *, as_json: bool) -> None:
    """Write a summary from the user."""
    try:
        notes = update_metadata(store, name, summary=text)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print_json(msgspec.to_builtins(notes))
    else:
        print_text(f"{abbreviate_name(store, name)} {notes.summary}")
