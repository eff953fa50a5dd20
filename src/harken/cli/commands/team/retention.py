"""`harken retention`: rules of how long commits are kept, and legal holds."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from harken.cli.commands.gc import find_roots, format_summary
from harken.cli.commands.purge.home_files import forget_facts
from harken.cli.home_team import is_in_service, open_directory, open_holds, record_action
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import COMMIT
from harken.cli.options.time import Duration
from harken.config.home import Home
from harken.config.name_resolver import NameResolver
from harken.config.store import open_configured_store
from harken.core.clock import system_clock
from harken.core.commits import CommitId
from harken.errors import ConfigError
from harken.store.base import GcResult
from harken.store.changes import ChangeStore
from harken.teams.caller import USER_SEPARATOR
from harken.teams.directory import RetentionRule
from harken.teams.retention import ExpiryPlan, plan_expiry, remove_expired
from harken.teams.scopes import CommitScope, check_project
from harken.terminal.text import one_line, print_json, print_text
from harken.views.message_text import format_count

_AGE_UNITS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
"""Unit -> seconds."""


@click.command(name="add")
@click.argument("name")
@click.option("--older-than", "age_s", type=Duration(min_s=1), help="Remove commits after: 90d.")
@click.option("--hold", is_flag=True, help="Keep the commits, whatever else is asked for.")
@click.option("--project", help="The commits of a project.")
@click.option("--label", help="The commits with a label.")
@click.option("--principal", help="The commits of a principal.")
@click.option("--commit", "ctx", type=COMMIT, metavar="CTX", help="Hold one commit.")
@click.option("--reason", default="", help="The reason, which is stored.")
@json_option
@home_option
def add_command(
    name: str, age_s: float | None, ctx: str | None, reason: str, home: Home, **options: Any
) -> None:
    """Add a rule: remove commits of an age, or hold them.

    Rules select commits by project, label and principal, or all. Old commits are removed
    by `harken retention apply`. A hold also covers the commits that a commit is based on. It wins
    over every rule, `gc` and `purge`.
    """
    hold, as_json = options.pop("hold"), options.pop("as_json")
    if hold == (age_s is not None):
        raise click.UsageError("pass either --older-than or --hold")
    scope = CommitScope(**options)
    if scope.project is not None:
        check_project(scope.project)
    if ctx is not None and (not hold or not scope.is_unlimited):
        raise click.UsageError("--commit needs --hold, and no other selection")
    rule = RetentionRule(
        name=name,
        kind="hold" if hold else "expire",
        scope=scope,
        older_than_s=None if age_s is None else int(age_s),
        commit=None if ctx is None else _resolve(home, ctx),
        reason=reason,
    )
    with open_directory(home, creates=True) as directory:
        directory.add_rule(rule)
    record_action(home, f"retention add {rule.kind}", name)
    _print_rules([rule], as_json=as_json)


@click.command(name="list")
@json_option
@home_option
def list_command(home: Home, as_json: bool) -> None:
    """List the rules and holds."""
    with open_directory(home) as directory:
        _print_rules(directory.rules(), as_json=as_json)


@click.command(name="remove")
@click.argument("name")
@home_option
def remove_command(name: str, home: Home) -> None:
    """Remove a rule or a hold."""
    with open_directory(home) as directory:
        directory.remove_rule(name)
    record_action(home, "retention remove", name)


@click.command(name="apply")
@click.option("--dry-run", is_flag=True, help="Show the commits that would be removed.")
@click.option(
    "--grace", type=Duration(), default="1h", help="Keep objects written within this time."
)
@json_option
@home_option
def apply_command(home: Home, *, dry_run: bool, grace: float, as_json: bool) -> None:
    """Remove the commits that have expired, with all that only they need.

    A commit stays while another commit is based on it, while it is held, pinned, the head of a
    branch, or mentioned in a session log.
    """
    now_us = system_clock()
    with open_directory(home) as directory, open_configured_store(home) as store:
        if is_in_service(home) or not isinstance(store, ChangeStore):
            raise ConfigError("rules are applied where the store is: run this in its home")
        with open_holds(home, store) as holds:
            held_names = {*(holds.list_commits() if holds else ())}
        # A user must not keep commits by naming them in a log.
        mentioned = find_roots(home, lambda log: USER_SEPARATOR not in log.name)
        plan = plan_expiry(
            store, directory.rules(), held_names=held_names, mentioned=mentioned, now_us=now_us
        )
        result = GcResult()
        if not dry_run and plan.expired:
            roots = held_names | mentioned
            result = remove_expired(store, plan, roots=roots, now_us=now_us, grace_s=grace)
    if result.commits:
        forget_facts(home)
    if not dry_run:
        record_action(home, "retention apply", *result.commits[:20])
    _print_result(plan, result, dry_run=dry_run, as_json=as_json)


def _resolve(home: Home, ctx: str) -> CommitId:
    with open_configured_store(home) as store:
        return NameResolver(home, store).commit(ctx)


def _print_rules(rules: list[RetentionRule], *, as_json: bool) -> None:
    if as_json:
        print_json([msgspec.to_builtins(rule) for rule in rules])
        return
    for rule in rules:
        subject = rule.commit[:16] if rule.commit else str(rule.scope)
        age = "" if rule.older_than_s is None else f" after {_format_age(rule.older_than_s)}"
        reason = f" ({rule.reason})" if rule.reason else ""
        print_text(one_line(f"{rule.name}: {rule.kind} {subject}{age}{reason}", 300))


def _format_age(age_s: int) -> str:
    """Return an age in the largest unit that divides it."""
    for unit, unit_s in _AGE_UNITS.items():
        if age_s % unit_s == 0:
            return format_count(age_s // unit_s, unit)
    raise AssertionError(age_s)


def _print_result(plan: ExpiryPlan, result: GcResult, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        row = {"expired": list(plan.expired), "kept": dict(plan.kept_counts), "dry_run": dry_run}
        print_json({**row, "removed": msgspec.to_builtins(result)})
        return
    verb = "would be removed" if dry_run else "expired"
    print_text(f"{format_count(len(plan.expired), 'commit')} {verb}")
    for reason, count in plan.kept_counts.items():
        verb = "stays" if count == 1 else "stay"
        print_text(f"{format_count(count, 'commit')} {verb}: {reason}")
    if not dry_run:
        print_text(format_summary(result, dry_run=False))
