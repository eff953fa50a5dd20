"""`harken store purge`: remove a text, such as a leaked key, from all stored files."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from harken.cli.commands.purge.home_files import (
    forget_in_indexes,
    is_ours,
    iter_files_with,
    rewrite_without,
)
from harken.cli.home_team import open_holds
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home
from harken.config.settings import load_settings
from harken.config.store import open_configured_store
from harken.context.purge import PurgeMatch, PurgeRequest, find_text, purge_text
from harken.core.secrets.removal import Secret
from harken.errors import ConfigError
from harken.session.log.compressed import stat_log
from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.terminal.stdin import take_type_ahead
from harken.terminal.text import print_json, print_text
from harken.views.message_text import format_count

REVOKE = "Revoke the secret at its issuer: recipients, such as model providers, may still have it."


class _TextMatches(msgspec.Struct, frozen=True):
    """The locations of a text."""

    places: Sequence[PurgeMatch]
    rewritable: Sequence[Path]
    """Files that Harken can rewrite."""
    foreign: Sequence[Path]
    """Files that the user has to change."""

    def rows(self) -> list[dict[str, str]]:
        return [
            *(msgspec.structs.asdict(place) for place in self.places),
            *({"where": str(path), "kind": "file", "name": ""} for path in self.rewritable),
            *({"where": str(path), "kind": "yours", "name": ""} for path in self.foreign),
        ]


@click.command()
@click.option("--reason", "why", default="", metavar="TEXT", help="The reason, which is stored.")
@click.option("--dry-run", is_flag=True, help="List the occurrences, without removing them.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@home_option
def command(why: str, dry_run: bool, yes: bool, as_json: bool, home: Home) -> int:
    """Remove a text permanently from the store, all logs, and the files beside them.

    The text is read from a prompt or from stdin, so that it is not in the shell history. It is
    replaced by `[purged]`; all else is unchanged and can be resumed. Exit code 1 if a file outside
    the home still contains it.
    """
    text = _read_secret()
    try:
        secrets = [
            Secret(text),
            Secret(text.replace("\n", "\n+")),
        ]  # the form of the text in the history file
        purge = PurgeRequest(secret=secrets[0], by=getpass.getuser(), why=why)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    with _store_of(home) as store:
        matches = _find(home, store, secrets)
        if dry_run or as_json:
            _show(matches, as_json=as_json)
        if dry_run:
            return 0
        with open_holds(home, store) as holds:
            if holds is not None:
                holds.check(place.name for place in matches.places if place.where == "store")
        _confirm(matches, yes=yes)
        try:
            purge_text(store, home.list_logs(), purge)
        except ValueError as error:
            raise ConfigError(f"{error}; nothing was changed") from None
    for path in matches.rewritable:
        rewrite_without(path, secrets)
    forget_in_indexes(home, secrets)
    _print_result(matches, as_json=as_json)
    return int(bool(matches.foreign))


def _read_secret() -> str:
    """Return the text to remove. Raises ConfigError if it is empty."""
    if sys.stdin.isatty():
        text: str = click.prompt("The text to remove", hide_input=True, err=True)
    else:
        text = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not text:
        raise ConfigError("stdin is empty: pass the text to remove on stdin")
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@contextmanager
def _store_of(home: Home) -> Iterator[Store]:
    """Open the store of a home, or an empty one if it does not exist."""
    if not home.store_file.exists() and load_settings(home).store is None:
        yield MemoryStore()
        return
    with open_configured_store(home) as store:
        yield store


def _find(home: Home, store: Store, secrets: Sequence[Secret]) -> _TextMatches:
    logs = [path for path in home.list_logs() if stat_log(path).size_bytes]
    files = [*iter_files_with(home, secrets)]
    harken_files = [path for path in files if is_ours(home, path)]
    user_files = [path for path in files if path not in harken_files]
    return _TextMatches(find_text(store, logs, secrets[0]), harken_files, user_files)


def _show(matches: _TextMatches, *, as_json: bool) -> None:
    rows = matches.rows()
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print_text(f"{row['where']}: {row['kind']} {row['name']}".rstrip())
    if not rows:
        print_text("The text was not found.")


def _confirm(matches: _TextMatches, *, yes: bool) -> None:
    """Ask before anything is changed. Raises ConfigError if no user can answer."""
    if yes or not matches.rows():
        return
    if not sys.stdin.isatty():
        raise ConfigError(
            "a purge cannot be undone: --dry-run lists the occurrences, --yes removes them"
        )
    locations = format_count(len(matches.places) + len(matches.rewritable), "place")
    take_type_ahead()  # Type-ahead is not an answer.
    click.confirm(f"Purge it from {locations}? This cannot be undone.", abort=True, err=True)


def _print_result(matches: _TextMatches, *, as_json: bool) -> None:
    for path in matches.foreign:
        click.echo(f"It is still in {path}: edit that file yourself.", err=True)
    if not as_json:
        locations = format_count(len(matches.places) + len(matches.rewritable), "place")
        print_text(f"Purged from {locations}." if matches.rows() else "The text was not found.")
    click.echo(REVOKE, err=True)
