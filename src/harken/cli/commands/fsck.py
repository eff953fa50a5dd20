"""`harken store fsck`: check the store and the logs of all sessions; change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from harken.cli.options.home import home_option, json_option
from harken.config.home import Home, has_no_event, warn_of_unstarted
from harken.config.settings import load_settings
from harken.config.store import open_configured_store
from harken.core.commits import CommitId
from harken.core.events import ContextCommitted, ContextLoaded
from harken.errors import LogError
from harken.session.log.file import is_being_written
from harken.session.log.reader import iter_events
from harken.session.repair import verify
from harken.store.base import Store
from harken.store.capabilities import get_local_store
from harken.store.fsck import StoreFinding, fsck
from harken.store.imported_files import iter_unreadable_files
from harken.terminal.progress import ProgressCallback, progress
from harken.terminal.text import print_json, print_text
from harken.tickets.check import check_tickets


@click.command()
@json_option
@home_option
def command(as_json: bool, home: Home) -> int:
    """Check the store, the logs of all sessions, and the indexes. Exit code 1 if one is damaged.

    All objects and log lines are compared with their checksums; nothing is changed. A damaged index
    is rebuilt by the next command that reads it. A log without events, left by an interrupted
    start, is reported but is not an error.
    """
    with progress("Checking") as tell:
        problems = list(findings(home, tell))
    if as_json:
        print_json([msgspec.structs.asdict(finding) for finding in problems])
    else:
        for finding in problems:
            print_text(f"{finding.place}: {finding.problem}")
        if not problems:
            print_text(f"{home.folder}: intact")
    warn_of_unstarted(home.list_logs())
    return int(bool(problems))


def findings(home: Home, tell: ProgressCallback) -> Iterator[StoreFinding]:
    """Yield the problems of the store of a home, of its logs, and of derived files."""
    yield from _of_store_and_logs(home, tell)
    yield from _of_derived(home)


def _of_derived(home: Home) -> Iterator[StoreFinding]:
    """Yield the problems of the databases that can be rebuilt."""
    from harken.index.database import find_damage
    from harken.interactions.logger import INDEX

    for path in (home.facts_file, home.edits_file, home.index_file, home.folder / INDEX):
        for problem in find_damage(path):
            yield StoreFinding(str(path), f"{problem}; the next command that reads it rebuilds it")


def _of_store_and_logs(home: Home, tell: ProgressCallback) -> Iterator[StoreFinding]:
    if not home.store_file.exists() and load_settings(home).store is None:
        yield from _of_logs(home, None, tell)
        return
    with open_configured_store(home) as store:
        local = get_local_store(store)
        yield from fsck(local, tell)
        for name, problem in iter_unreadable_files(local):
            yield StoreFinding(f"source {name}", problem)
        yield from check_tickets(local)
        yield from _of_logs(home, store, tell)


def _of_logs(home: Home, store: Store | None, tell: ProgressCallback) -> Iterator[StoreFinding]:
    logs = home.list_logs()
    for index, path in enumerate(logs):
        tell(index, len(logs))
        if has_no_event(path):
            continue  # `warn_of_unstarted` reports it
        try:
            for finding in verify(path):
                if finding.kind != "torn" or not is_being_written(path):
                    place = f"{path}:{finding.line} (byte {finding.byte})"
                    yield StoreFinding(place, f"{finding.kind}: {finding.message}")
        except LogError as error:
            yield StoreFinding(str(path), str(error).removeprefix(f"{path}: "))
            continue
        yield from _lost_commits(path, store)


def _lost_commits(path: Path, store: Store | None) -> Iterator[StoreFinding]:
    """Yield the commits that a log names but the store does not contain."""
    sessions_by_commit: dict[CommitId, str] = {}
    try:
        for event in iter_events(path):
            if isinstance(event, ContextCommitted | ContextLoaded):
                sessions_by_commit.setdefault(CommitId(event.ctx), event.message_id)
    except LogError:
        pass  # `verify` reports the error
    existing = {} if store is None else store.commits(sessions_by_commit)
    for name, event_id in sessions_by_commit.items():
        if name not in existing:
            yield StoreFinding(str(path), f"{event_id} refers to {name}, which is not in the store")
