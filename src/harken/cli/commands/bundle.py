"""`harken store bundle`: write sessions and commits to one file, or add those of one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from harken.cli.command_group import CommandGroup
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import COMMIT
from harken.config.home import Home, command_prefix
from harken.config.imported_sessions import add_imports
from harken.config.name_resolver import CommitName, ImportedName, NameResolver
from harken.config.settings import load_settings
from harken.config.store import open_store
from harken.context.bundle.create import BundleRequest, BundleResult, create_bundle
from harken.context.bundle.open import BundleImportResult, OpenBundle, import_bundle, open_bundle
from harken.context.refs import abbreviate_name
from harken.core.clock import format_rfc3339, system_clock
from harken.core.commits import CommitId
from harken.errors import BundleError, ConfigError
from harken.store.base import NO_LIMIT, Store
from harken.store.branches import TICKET_PREFIX
from harken.store.copying.commits import find_missing_commits
from harken.store.copying.tickets import TicketCopyResult
from harken.store.imported_files import ImportedFile
from harken.store.memory import MemoryStore
from harken.terminal.progress import progress
from harken.terminal.text import (
    escape_control_characters,
    one_line,
    print_json,
    print_text,
)
from harken.tickets.check import check_versions
from harken.tickets.ticket import short_id
from harken.tickets.tracker import find_related
from harken.views.message_text import format_count, format_size

_TIPS = 3
"""The maximum number of listed commits from which the user can continue."""


@click.group(name="bundle", cls=CommandGroup)
def command() -> None:
    """Export and import sessions and commits as one file."""


@command.command(name="create")
@click.argument("wanted", type=COMMIT, metavar="[CTX|SESSION|TICKET]...", nargs=-1)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="The new file. An existing file is not overwritten.",
)
@click.option(
    "--no-redact", is_flag=True, help="Do not redact credentials: write all content unchanged."
)
@json_option
@home_option
def create_command(
    wanted: tuple[str, ...], out: Path | None, no_redact: bool, as_json: bool, home: Home
) -> int:
    """Write commits with their history, sessions with their commits, and tickets to one file.

    A TICKET (tkt-...) comes with its children, the tickets that block them, and the commits of
    its changes. Without arguments, everything is written. Credentials of known formats are
    redacted; ids and names do not change. Exit code 1 if a damaged log was skipped.
    """
    out = out or Path(f"harken_{datetime.now().astimezone():%Y%m%d_%H%M%S}.zip")
    with ExitStack() as opening, progress("Bundling") as tell:
        store = _store_of(home, opening)
        tickets = [name for name in wanted if name.startswith(TICKET_PREFIX)]
        names = [name for name in wanted if name not in tickets]
        tips, logs = _resolve_names(NameResolver(home, store), names)
        ticket_ids, contexts = find_related(store, tickets)
        if not wanted:
            tips, logs = store.newest_commits(NO_LIMIT), home.list_logs()
            ticket_ids = [*store.heads(TICKET_PREFIX)]
            if not tips and not logs and not ticket_ids:
                raise ConfigError(f"{home.folder}: no commits and no sessions, and no tickets")
        request = BundleRequest(
            store=store,
            tips=[*tips, *contexts],
            tickets=ticket_ids,
            logs=list(dict.fromkeys(logs)),
            created_at=format_rfc3339(system_clock()),
            as_is=no_redact,
        )
        result = create_bundle(out, request, on_copy=tell, on_pack=tell)
    print_created_bundle(out, result, as_json=as_json)
    return int(bool(result.left_out))


def _resolve_names(
    resolver: NameResolver, names: Sequence[str]
) -> tuple[list[CommitId], list[Path]]:
    """Resolve names to commits and logs. An imported session may have a log, too."""
    tips: list[CommitId] = []
    logs: list[Path] = []
    for name in names:
        resolved = resolver.resolve(name)
        if isinstance(resolved, CommitName):
            tips.append(resolved.id)
        elif isinstance(resolved, ImportedName):
            tips += [end.ctx for end in resolved.session.branch_tips]
            recording = resolver.find_recording(resolved)
            logs += [] if recording is None else [recording]
        else:
            logs.append(resolved.path)
    return tips, logs


def _store_of(home: Home, opening: ExitStack) -> Store:
    """Open the configured store, or an empty one if it does not exist."""
    settings = load_settings(home)
    if settings.store is None and not home.store_file.exists():
        return MemoryStore()
    store = open_store(home, settings)
    opening.callback(store.close)
    return store


def print_created_bundle(out: Path, result: BundleResult, *, as_json: bool) -> None:
    """Print the contents of a created bundle, and what was left out."""
    for skipped_log in result.left_out:
        click.echo(
            escape_control_characters(f"skipped: {skipped_log.path}: {skipped_log.why}"), err=True
        )
    if result.lacking:
        summary = format_count(result.lacking, "commit")
        click.echo(f"the logs refer to {summary} that are not in the store", err=True)
    if result.credentials:
        kinds = ", ".join(f"{kind} ({number})" for kind, number in result.credentials.items())
        redaction = "not redacted" if result.manifest.redaction is None else "redacted"
        click.echo(f"credentials {redaction}: {kinds}", err=True)
    if as_json:
        left_out = [
            {"path": str(skipped_log.path), "why": skipped_log.why}
            for skipped_log in result.left_out
        ]
        fields: dict[str, Any] = {
            "path": str(out),
            "size_bytes": result.size_bytes,
            "left_out": left_out,
        }
        fields["credentials"] = dict(result.credentials)
        print_json({**fields, "manifest": msgspec.to_builtins(result.manifest)})
        return
    manifest = result.manifest
    summary = (
        f"{format_count(manifest.commits, 'commit')}, "
        f"{format_count(len(manifest.sessions), 'session')}"
    )
    if result.tickets:
        summary += f", {format_count(result.tickets, 'ticket')}"
    print_text(f"{out}: {summary}, {format_size(result.size_bytes)}")


@command.command(name="open")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check the bundle and print what would be imported, without importing it.",
)
@json_option
@home_option
def open_command(file: Path, dry_run: bool, as_json: bool, home: Home) -> None:
    """Check a bundle, and import its sessions and commits.

    Existing sessions and commits do not change. A session whose name exists is imported under a new
    name.
    """
    with ExitStack() as opening:
        folder = home.folder if home.folder.is_dir() else Path(tempfile.gettempdir())
        settings = load_settings(home)
        refuses_credentials = settings.redact == "store"
        if not dry_run:
            home.create_folders()
            # The files of a bundle may have credentials, also those that an end by force leaves.
            folder = Path(tempfile.gettempdir()) if refuses_credentials else home.folder
        with progress("Checking") as tell:
            bundle = opening.enter_context(open_bundle(file, folder, on_read=tell))
            for finding in check_versions(bundle.store):
                raise BundleError(file, f"{finding.place}: {finding.problem}")
        if dry_run:
            store = _store_of(home, opening)
            new = len(find_missing_commits(bundle.store, store, bundle.manifest.tip_ids()))
            print_bundle_contents(bundle, new, as_json=as_json)
            return
        mine = open_store(home, settings)
        opening.callback(mine.close)
        with progress("Copying") as tell:
            result = import_bundle(
                bundle,
                mine,
                home.sessions_folder,
                on_copy=tell,
                refuses_credentials=refuses_credentials,
            )
        add_imports(home, mine)
        print_imported_bundle(mine, bundle, result, as_json=as_json)


def print_bundle_contents(bundle: OpenBundle, new: int, *, as_json: bool) -> None:
    """Print the contents of a bundle."""
    manifest = bundle.manifest
    if as_json:
        print_json({"new_commits": new, "manifest": msgspec.to_builtins(manifest)})
        return
    print_text(f"{format_count(manifest.commits, 'commit')}, {new} of them new")
    for log in bundle.logs:
        print_text(f"session {log.path.stem}, {format_size(log.size_bytes)}")


def print_imported_bundle(
    store: Store, bundle: OpenBundle, result: BundleImportResult, *, as_json: bool
) -> None:
    """Print the imported logs and commits, and the commands to continue."""
    if as_json:
        logs = [
            {"name": log.name, "path": str(log.path), "is_new": log.is_new} for log in result.logs
        ]
        tips = list(bundle.manifest.tips)
        row: dict[str, Any] = {"new_commits": result.commits, "tips": tips, "sessions": logs}
        files = {
            "created": [_file_row(file) for file in result.files.created],
            "continued": [_file_row(file) for file in result.files.continued],
            "conflicting": [_file_row(file) for file in result.files.conflicting],
        }
        print_json(row | {"tickets": msgspec.structs.asdict(result.tickets), "files": files})
        return
    new = sum(log.is_new for log in result.logs)
    commits = f"{format_count(bundle.manifest.commits, 'commit')}, {result.commits} of them new"
    print_text(f"{commits}; {format_count(len(result.logs), 'session')}, {new} of them new")
    for log in result.logs:
        if log.path.name != log.name:
            print_text(f"session {log.name.removesuffix('.jsonl')} was imported as {log.path.stem}")
    print_imported_tickets(result.tickets)
    print_files_beside(result.files.conflicting)
    print_next_steps(store, [log.path.stem for log in result.logs], bundle.manifest.tip_ids())


def print_imported_tickets(tickets: TicketCopyResult) -> None:
    """Print the number of imported tickets, and those that were not continued."""
    if tickets.created or tickets.continued:
        created = format_count(len(tickets.created), "new ticket")
        print_text(f"{created}, {len(tickets.continued)} continued")
    for id_ in tickets.diverged:
        reason = "has changes here that the bundle lacks; it was not changed"
        click.echo(f"ticket {short_id(id_)} {reason}", err=True)


def print_files_beside(files: Sequence[ImportedFile]) -> None:
    """Print the imported files of which the store has other bytes, and how to read theirs."""
    for file in files:
        where = one_line(f"{file.record.machine}:{file.record.path}", 200)
        way = command_prefix("cat", file.raw[:16])
        text = f"{where} has other bytes here, which were not changed; those of the bundle: {way}"
        click.echo(text, err=True)


def _file_row(file: ImportedFile) -> dict[str, Any]:
    record = file.record
    names = {"raw": file.raw, "tips": [*file.tips], "session": file.session}
    return {"machine": record.machine, "path": record.path, **names}


def print_next_steps(store: Store, sessions: Sequence[str], tips: Sequence[CommitId]) -> None:
    """Print the commands to show imported sessions and to continue them."""
    ways = [command_prefix("view", session, "tree") for session in sessions[:_TIPS]]
    first = [
        tip for tip, stored in store.commits(tips).items() if "/" not in stored.commit.principal
    ]
    ways += [
        command_prefix("chat", "--from-commit", abbreviate_name(store, tip))
        for tip in (first or tips)[:_TIPS]
    ]
    for way in ways:
        click.echo(f"  {escape_control_characters(way)}", err=True)
