"""Imported sessions on the command line: which there are, and one of them as a view sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harken.cli.home import LATEST, Home
from harken.cli.opened_store import store_of
from harken.cli.terminal import one_line
from harken.context.history import show
from harken.context.names import find, name_of
from harken.errors import AmbiguousName, UnknownName
from harken.views.viewer import SessionViewer

if TYPE_CHECKING:
    from harken.capture.sessions import ImportedSession
    from harken.context.retelling.lanes import End
    from harken.index.catalogue import Catalogue
    from harken.store.base import Store

_SHOWN_ENDS = 4
"""So many commits are named of where a view comes from."""


@contextmanager
def catalogue_of(home: Home) -> Iterator[Catalogue | None]:
    """Open the catalogue of a home; None: nothing was ever imported. Raises ConfigError."""
    if not home.index_file.exists():
        yield None
        return
    from harken.index.catalogue import Catalogue
    from harken.index.database import begun_anew

    with begun_anew(home.index_file), closing(Catalogue(home.index_file)) as catalogue:
        yield catalogue


def imported(home: Home) -> list[ImportedSession]:
    """Return all imported sessions, the newest first."""
    with catalogue_of(home) as catalogue:
        if catalogue is None:
            return []
        from harken.capture.sessions import imported_sessions

        return imported_sessions(catalogue)


def find_log(home: Home, given: str) -> Path | None:
    """Return the log that a person means; None: it is none, so an imported session may be meant.

    Raises ConfigError for an ambiguous beginning, and where there is nothing at all.
    """
    if given == LATEST and not any(home.started_logs()) and imported(home):
        return None
    try:
        path = home.find(given)
    except UnknownName:
        return None
    if path.parent != home.sessions_folder and any(one.is_of(given) for one in imported(home)):
        return None
    return path


def view_imported(home: Home, given: str) -> SessionViewer:
    """Return what is seen of an imported session; `latest` is the newest.

    Raises UnknownName, which lists all sessions that there are, and AmbiguousName.
    """
    from harken.capture.sessions import ends_of, find_session, imported_sessions

    with catalogue_of(home) as catalogue:
        sessions = [] if catalogue is None else imported_sessions(catalogue)
        try:
            name = sessions[0].name if given == LATEST else given
            session = find_session(sessions, name)
        except AmbiguousName:
            raise
        except UnknownName as error:
            logs = [path.stem for path in home.logs()]
            raise UnknownName("session", given, [*logs, *error.known]) from None
        assert catalogue is not None  # else there is no session to be found
        ends = ends_of(session, sessions, catalogue)
    title = f"{one_line(session.title, 60)} " if session.title else ""
    what = f"Imported from {session.runtime}: {title}({one_line(session.sources[0], 200)})"
    with store_of(home) as store:
        _tell(what, store, ends)
        return _retold(store, session.name, ends)


def view_commit(home: Home, given: str) -> SessionViewer:
    """Return what is seen of the conversation up to a commit: that of its agent alone."""
    from harken.context.retelling.lanes import End

    with store_of(home) as store:
        ctx = find(store, given)
        commit = show(store, ctx).commit
        _, _, agent = commit.principal.partition("/")
        ends = [End(agent or commit.template or "main", ctx)]
        _tell(f"As far as a commit of {one_line(commit.principal or 'nobody', 60)}", store, ends)
        return _retold(store, name_of(store, ctx), ends)


def _tell(what: str, store: Store, ends: Sequence[End]) -> None:
    """Say on standard error what is looked at, since there is no log of it."""
    named = [f"{name_of(store, end.ctx)} ({one_line(end.agent, 20)})" for end in ends[:_SHOWN_ENDS]]
    more = f" and {len(ends) - _SHOWN_ENDS} more" if len(ends) > _SHOWN_ENDS else ""
    click.echo(f"{what}; commits {', '.join(named)}{more}", err=True)


def _retold(store: Store, name: str, ends: Sequence[End]) -> SessionViewer:
    from harken.context.retelling.telling import retell

    return SessionViewer.of(retell(store, name, ends), name)
