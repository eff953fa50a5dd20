"""`harken token`: the tokens with which users reach a service."""

from __future__ import annotations

from typing import Any

import click

from harken.cli.commands.team.user import check_known_rights
from harken.cli.home_team import open_directory, record_action
from harken.cli.options.home import home_option, json_option
from harken.cli.options.time import Duration
from harken.config.home import Home
from harken.core.clock import format_rfc3339, parse_rfc3339, system_clock
from harken.errors import ConfigError
from harken.teams.directory import TokenRecord
from harken.teams.tokens import create_token
from harken.terminal.text import one_line, print_json, print_text

_MAX_NAME_CHARS = 64


@click.command(name="create")
@click.argument("user")
@click.option("--name", default="default", show_default=True, help="A name, such as laptop.")
@click.option("--for", "seconds", type=Duration(min_s=1), help="Let it expire: 12h, 30d.")
@click.option(
    "--only", multiple=True, metavar="RIGHT", help="Give it fewer rights than the user: read."
)
@json_option
@home_option
def create_command(
    user: str, name: str, seconds: float | None, only: tuple[str, ...], home: Home, *, as_json: bool
) -> None:
    """Create a token and print it. It is shown once: only its hash is kept."""
    if not 0 < len(name) <= _MAX_NAME_CHARS or not name.isprintable():
        raise ConfigError(f"the name of a token has 1 to {_MAX_NAME_CHARS} printable characters")
    token, record = create_token(
        user, name, now_us=system_clock(), lifetime_s=seconds, rights=check_known_rights(only)
    )
    with open_directory(home) as directory:
        directory.add_token(record)
    record_action(home, "token create", user, record.id)
    if as_json:
        print_json({"token": token, **_row(record)})
        return
    print_text(token)
    click.echo(f"Token {record.id} of {user}: it is not shown again.", err=True)


@click.command(name="list")
@click.argument("user", required=False)
@json_option
@home_option
def list_command(user: str | None, home: Home, as_json: bool) -> None:
    """List the tokens of a user, or of all users."""
    with open_directory(home) as directory:
        rows = [_row(record) for record in directory.tokens(user)]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        rights = f" only {', '.join(row['only'])}" if row["only"] else ""
        end = f", until {row['expires_at'][:16]}" if row["expires_at"] else ""
        line = f"{row['id']}  {row['user']}  {row['name']}  {row['state']}{end}{rights}"
        print_text(one_line(line, 300))


@click.command(name="revoke")
@click.argument("token_id", metavar="ID")
@home_option
def revoke_command(token_id: str, home: Home) -> None:
    """Revoke a token by its id. The next request with it is refused."""
    with open_directory(home) as directory:
        record = directory.revoke_token(token_id, format_rfc3339(system_clock()))
    record_action(home, "token revoke", record.user, record.id)


def _row(record: TokenRecord) -> dict[str, Any]:
    expires_us = None if record.expires_at is None else parse_rfc3339(record.expires_at)
    is_expired = expires_us is not None and expires_us <= system_clock()
    state = "revoked" if record.revoked_at else "expired" if is_expired else "valid"
    return {
        "id": record.id,
        "user": record.user,
        "name": record.name,
        "state": state,
        "only": list(record.rights),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
    }
