"""`harken user`: the members of a team, their rights and quotas, and the audit log."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

import click
import msgspec

from harken.cli.home_team import open_directory, record_action
from harken.cli.options.home import home_option, json_option
from harken.cli.options.time import Duration
from harken.config.home import Home
from harken.core import structs
from harken.core.clock import format_rfc3339, system_clock
from harken.errors import ConfigError, NameNotFound
from harken.teams.audit import AuditRecord, read_audit
from harken.teams.directory import Quota, TeamDirectory, TeamUser
from harken.teams.scopes import RIGHTS, Grant, Right, check_project, check_user_name, parse_scope
from harken.terminal.text import one_line, print_json, print_text

Command = TypeVar("Command", bound=Callable[..., Any])
_HELP: dict[Right, str] = {
    "read": "Read commits in a scope, such as project:cafe or label:public.",
    "write": "Write commits as this user, labels and branches; includes --read.",
    "copy": "Write commits of other principals unchanged, as `harken push` does.",
    "purge": "Purge content, and set its retention.",
    "admin": "Collect, and read the audit log.",
}


def rights_options(command: Command) -> Command:
    """Add the options of rights, of the project and of the quota to a command."""
    for option in (
        click.option("--max-bytes", type=click.IntRange(0), help="Bytes in a period of the quota."),
        click.option("--max-commits", type=click.IntRange(0), help="Commits in a period."),
        click.option("--period", type=Duration(min_s=1), help="The period (default: 1d)."),
        click.option("--project", help="The project of commits that name none."),
        *(
            click.option(f"--{right}", right, multiple=True, metavar="SCOPE", help=_HELP[right])
            for right in reversed(RIGHTS)
        ),
    ):
        command = option(command)
    return command


@click.command(name="add")
@click.argument("name")
@rights_options
@json_option
@home_option
def add_command(name: str, home: Home, as_json: bool, **options: Any) -> None:
    """Add a user: the principal of the commits that are written with the user's tokens.

    A SCOPE is `*`, or members with commas: `project:cafe`, `label:public`, `principal:ann`. Options
    may be repeated. `harken token create NAME` gives access.
    """
    user = _change(TeamUser(check_user_name(name), format_rfc3339(system_clock())), options)
    with open_directory(home, creates=True) as directory:
        directory.add_user(user)
    record_action(home, "user add", name, *map(str, user.grants))
    _print_users([user], as_json=as_json)


@click.command(name="rights")
@click.argument("name")
@rights_options
@json_option
@home_option
def rights_command(name: str, home: Home, as_json: bool, **options: Any) -> None:
    """Show the rights of a user, or replace those of each kind that is given.

    `--read ''` removes all rights of a kind. Valid at once, also in running services.
    """
    with open_directory(home) as directory:
        user = _get_user(directory, name)
        new_user = _change(user, options)
        if new_user != user:
            directory.change_user(new_user)
            record_action(home, "user rights", name, *map(str, new_user.grants))
    _print_users([new_user], as_json=as_json)


@click.command(name="list")
@json_option
@home_option
def list_command(home: Home, as_json: bool) -> None:
    """List the users and their rights."""
    with open_directory(home) as directory:
        _print_users(directory.users(), as_json=as_json, is_list=True)


@click.command(name="remove")
@click.argument("name")
@home_option
def remove_command(name: str, home: Home) -> None:
    """Remove a user and revoke all tokens. The name cannot be used again."""
    with open_directory(home) as directory:
        directory.remove_user(name, format_rfc3339(system_clock()))
    record_action(home, "user remove", name)


@click.command(name="audit")
@click.option("--user", help="Show the actions of a user only.")
@click.option("--after", type=click.IntRange(0), default=0, help="Skip this many records.")
@click.option("--limit", type=click.IntRange(1), help="Show at most this many records.")
@json_option
@home_option
def audit_command(
    home: Home, user: str | None, after: int, limit: int | None, *, as_json: bool
) -> None:
    """Show the audit log: the user, time, sender, action and outcome of each request."""
    records = (r for r in read_audit(home.audit_file) if user is None or r.user == user)
    for record in islice(records, after, None if limit is None else after + limit):
        if as_json:
            print_json(msgspec.to_builtins(record), indent=None)
        else:
            print_text(_format_record(record))


def _get_user(directory: TeamDirectory, name: str) -> TeamUser:
    user = directory.find_user(name)
    if user is None:
        raise NameNotFound("user", name, [user.name for user in directory.users()])
    return user


def _change(user: TeamUser, options: dict[str, Any]) -> TeamUser:
    """Return a user with the options that are given. Raises ConfigError."""
    grants = list(user.grants)
    for right in RIGHTS:
        if texts := options[right]:
            grants = [grant for grant in grants if grant.right != right]
            grants += [Grant(right, parse_scope(text)) for text in texts if text]
    quota = Quota(
        user.quota.size_bytes if options["max_bytes"] is None else options["max_bytes"],
        user.quota.commits if options["max_commits"] is None else options["max_commits"],
        int(options["period"] or user.quota.period_s),
    )
    project = user.project if options["project"] is None else options["project"]
    if project:
        check_project(project)
    return structs.replace(user, grants=tuple(grants), quota=quota, project=project)


def _print_users(users: list[TeamUser], *, as_json: bool, is_list: bool = False) -> None:
    rows = [_row(user) for user in users]
    if as_json:
        print_json(rows if is_list else rows[0])
        return
    for row in rows:
        rights = "; ".join(row["rights"]) or "no rights"
        print_text(one_line(f"{row['name']}: {rights}{_format_quota(row)}", 500))


def _row(user: TeamUser) -> dict[str, Any]:
    return {
        "name": user.name,
        "rights": [str(grant) for grant in user.grants],
        "project": user.project,
        "max_bytes": user.quota.size_bytes,
        "max_commits": user.quota.commits,
        "period_s": user.quota.period_s,
        "created_at": user.created_at,
    }


def _format_quota(row: dict[str, Any]) -> str:
    limits = [
        f"{row[key]:,} {unit}"
        for key, unit in (("max_bytes", "bytes"), ("max_commits", "commits"))
        if row[key] is not None
    ]
    return f" (at most {' and '.join(limits)} in {row['period_s']} s)" if limits else ""


def _format_record(record: AuditRecord) -> str:
    sender = f"{record.user or '(unknown)'} {record.token}".strip()
    outcome = f"{record.status or 'done'} {record.code}".strip()
    names = ", ".join(n[:16] if n.startswith(("ctx-", "art-")) else n for n in record.names)
    text = f"{record.time[:19]} {sender} {record.remote} {record.action}: {outcome} {names}"
    return one_line(" ".join(text.split()), 300)


def check_known_rights(texts: tuple[str, ...]) -> tuple[Right, ...]:
    """Return rights by their names. Raises ConfigError."""
    for text in texts:
        if text not in RIGHTS:
            raise ConfigError(f"{text!r} is not a right: use {', '.join(RIGHTS)}")
    return tuple(right for right in RIGHTS if right in texts)
