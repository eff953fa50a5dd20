"""Imported sessions for the command line: list them, and view the conversation of one session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from harken.config.home import Home, command_prefix
from harken.config.store import open_configured_store
from harken.errors import StoreError
from harken.store.branches import SOURCE_PREFIX
from harken.terminal.text import one_line

if TYPE_CHECKING:
    from harken.capture.files.imported_sessions import ImportedSession
    from harken.core.commits import CommitId
    from harken.formats.runtimes.sent_requests import SentRequests
    from harken.index.catalogue import Catalogue
    from harken.recording.from_commits.branches import BranchTip
    from harken.store.base import Store
    from harken.views.viewer import SessionViewer

T = TypeVar("T")
_logger = logging.getLogger("harken")
_MAX_SHOWN_ENDS = 4
"""Commits that a view names as its source, at most."""


def open_catalogue(home: Home) -> Catalogue:
    """Open the catalogue of a home. One that was not restored from the store is restored first.

    Print a warning if it lost records by damage. Raises ConfigError, StoreError.
    """
    from harken.index.catalogue import Catalogue

    catalogue = Catalogue(home.index_file, repair=repair_imports)
    try:
        if not catalogue.is_restored and home.store_file.exists():
            from harken.capture.files.restore import restore_catalogue
            from harken.store.sqlite.store import SqliteStore

            with closing(SqliteStore(home.store_file)) as store:
                restore_catalogue(store, catalogue)
        is_incomplete = catalogue.is_incomplete
    except BaseException:
        catalogue.close()  # A repair waits until no connection is open.
        raise
    if is_incomplete:
        command = command_prefix("import")
        click.echo(
            f"harken: {home.index_file} was damaged and lost records; `{command}` "
            "restores missing imported sessions",
            err=True,
        )
    return catalogue


def add_imports(home: Home, store: Store) -> int:
    """Add to the catalogue of a home the imported files of its store that it lacks.

    Return their number. Raises ConfigError, StoreError.
    """
    from harken.capture.files.restore import restore_catalogue

    if not store.heads(SOURCE_PREFIX):
        return 0
    with closing(open_catalogue(home)) as catalogue:
        return restore_catalogue(store, catalogue)


def has_catalogue(home: Home) -> bool:
    """Whether a home has a catalogue, or a store from which it can be restored."""
    if home.index_file.exists():
        return True
    if not home.store_file.exists():
        return False
    from harken.store.sqlite.store import SqliteStore

    with closing(SqliteStore(home.store_file)) as store:
        return bool(store.heads(SOURCE_PREFIX))


def repair_imports(path: Path) -> None:
    """Repair a damaged catalogue from its readable records, and print a note."""
    from harken.index.catalogue import repair_catalogue

    repair_catalogue(path)
    click.echo(f"harken: {path} was damaged; its readable records were kept", err=True)


def read_catalogue(home: Home, read: Callable[[Catalogue], T]) -> T | None:
    """Return the result of `read` for the catalogue. Repair a damaged catalogue and retry.

    Return None if nothing was ever imported. Raises ConfigError, StoreError.
    """
    if not has_catalogue(home):
        return None
    from harken.index.database import run_with_repair

    def run() -> T:
        with closing(open_catalogue(home)) as catalogue:
            return read(catalogue)

    return run_with_repair(run, {home.index_file: repair_imports})


def list_imported(home: Home, text: str = "") -> list[ImportedSession]:
    """Return all imported sessions and those of agent frameworks, the newest first.

    With a text, return at least those that `list_imported_sessions` returns.
    """
    sessions: list[ImportedSession] = []
    if has_catalogue(home):
        from harken.capture.files.imported_sessions import list_imported_sessions

        sessions += read_catalogue(home, partial(list_imported_sessions, text=text)) or []
    if home.store_file.exists():
        sessions += _list_conversations(home)
    if home.checkpoints_file.exists():
        from harken.adapters.sessions import list_threads

        sessions += list_threads(home.checkpoints_file, home.store_file)
    sessions.sort(key=lambda session: (session.last_message_time, session.name), reverse=True)
    return sessions


def _list_conversations(home: Home) -> list[ImportedSession]:
    """Return the conversations in the store of the home. A damaged store hides no other session."""
    from harken.adapters.sessions import list_conversations
    from harken.store.sqlite.store import SqliteStore

    try:
        with closing(SqliteStore(home.store_file)) as store:
            return list_conversations(store, home.store_file)
    except StoreError as error:
        _logger.warning("conversations of agent frameworks are not listed: %s", error)
        return []


def view_imported(home: Home, session: ImportedSession) -> SessionViewer:
    """Return a viewer of an imported session and of the sessions that it spawned.

    Print its source to stderr.
    """
    ends = _find_ends(home, session)
    title = f"{one_line(session.title, 60)} " if session.title else ""
    label = f"Imported from {session.runtime}: {title}({one_line(session.sources[0], 200)})"
    with open_configured_store(home) as store:
        _print_source(label, store, ends)
        return _build_viewer(store, session.name, ends, _read_sent_requests(store, session))


def read_imported(home: Home, session: ImportedSession) -> SessionViewer:
    """Return a viewer of an imported session, as `view_imported`, without printing its source."""
    ends = _find_ends(home, session)
    with open_configured_store(home) as store:
        return _build_viewer(store, session.name, ends, _read_sent_requests(store, session))


def _find_ends(home: Home, session: ImportedSession) -> list[BranchTip]:
    from harken.capture.files.imported_sessions import find_branch_tips, list_imported_sessions

    ends = read_catalogue(
        home,
        lambda catalogue: find_branch_tips(session, list_imported_sessions(catalogue), catalogue),
    )
    return session.branch_tips if ends is None else ends


def view_commit(home: Home, ctx: CommitId) -> SessionViewer:
    """Return a viewer of the conversation of one agent up to a commit."""
    from harken.context.history import get_commit
    from harken.context.refs import abbreviate_name
    from harken.recording.from_commits.branches import BranchTip

    with open_configured_store(home) as store:
        commit = get_commit(store, ctx).commit
        _, _, agent = commit.principal.partition("/")
        ends = [BranchTip(agent or commit.template or "main", ctx)]
        _print_source(
            f"History of principal {one_line(commit.principal or 'unknown', 60)}", store, ends
        )
        return _build_viewer(store, abbreviate_name(store, ctx), ends)


def _print_source(label: str, store: Store, ends: Sequence[BranchTip]) -> None:
    """Print the commits that a view shows to stderr, since there is no log to name."""
    from harken.context.refs import abbreviate_name

    names = [
        f"{abbreviate_name(store, end.ctx)} ({one_line(end.agent, 20)})"
        for end in ends[:_MAX_SHOWN_ENDS]
    ]
    suffix = f" and {len(ends) - _MAX_SHOWN_ENDS} more" if len(ends) > _MAX_SHOWN_ENDS else ""
    click.echo(f"{label}, up to {', '.join(names)}{suffix}", err=True)


def _read_sent_requests(store: Store, session: ImportedSession) -> list[SentRequests]:
    """Return the requests that the files of a session record. A missing file has none."""
    from harken.formats.runtimes.registry import find_runtime_format

    runtime_format = find_runtime_format(session.runtime)
    if runtime_format is None or runtime_format.sent_requests is None:
        return []
    requests: list[SentRequests] = []
    for raw in session.raw_files:
        with suppress(StoreError):
            requests.append(runtime_format.sent_requests(store.read_chunks(raw)))
    return requests


def _build_viewer(
    store: Store, name: str, ends: Sequence[BranchTip], requests: Sequence[SentRequests] = ()
) -> SessionViewer:
    from harken.recording.from_commits.session import retell
    from harken.views.viewer import SessionViewer

    return SessionViewer.of(retell(store, name, ends, requests), name)
