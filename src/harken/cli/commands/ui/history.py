"""The commits and the statistics of a home, for the routes of the viewer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from harken.analytics.times import to_datetime
from harken.cli.commands.ctx.command import WINDOW, iter_last_written, row
from harken.cli.commands.sessions.listing import ListedSession
from harken.cli.options.scope import ScopeOptions
from harken.config.home import Home
from harken.config.index import read_facts
from harken.config.local_zone import LocalZone
from harken.config.name_resolver import NameResolver, SessionLog
from harken.config.store import open_configured_store
from harken.context.history import iter_histories
from harken.core.commits import CommitId
from harken.errors import ConfigError
from harken.service.viewer.library import CommitPage, StatisticsQuery

if TYPE_CHECKING:
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store, StoredCommit


def list_commits(home: Home, session: ListedSession | None, start: int, stop: int) -> CommitPage:
    """Return a range of the commits of a session, or of the home, newest first.

    A home without a store has none. Raises StoreError.
    """
    try:
        with open_configured_store(home) as store:
            if session is None:
                commits = read_newest(store, start, stop + 1)
            else:
                tips = _find_tips(home, store, session)
                commits = [*islice(iter_histories(store, tips), start, stop + 1)] if tips else []
    except ConfigError:  # There is no store yet.
        commits = []
    size = stop - start
    return CommitPage(commits=[*map(row, commits[:size])], is_more=len(commits) > size)


def read_newest(store: Store, start: int, stop: int) -> list[StoredCommit]:
    """Return a range of all commits by their time, as `list_newest_commits` orders them.

    No commit is read if the store has fewer, and of those before the range only times are kept.
    """
    limit = max(stop, WINDOW)
    if len(store.newest_commits(limit)) <= start:
        return []
    times = [(stored.commit.created_at, stored.id) for stored in iter_last_written(store, limit)]
    times.sort(key=lambda entry: entry[0], reverse=True)  # The sort is stable.
    names = [name for _, name in times[start:stop]]
    by_name = store.commits(names)
    return [by_name[name] for name in names if name in by_name]


def _find_tips(home: Home, store: Store, session: ListedSession) -> Sequence[CommitId]:
    """Return the last commits of the agents of an import, or of the main agent of a log."""
    if session.imported is not None:
        return [tip.ctx for tip in session.imported.branch_tips]
    try:
        return [NameResolver(home, store).commit_of(SessionLog(session.logs[0]))]
    except ConfigError:  # The session has no commit yet.
        return []


def summarize(home: Home, query: StatisticsQuery) -> dict[str, Any]:
    """Return the statistics of all sessions, or of one. New content is indexed first.

    Raises ConfigError, NameNotFound, StoreError.
    """
    from harken.analytics.overview import overview, session_overview

    options = ScopeOptions(
        since=query.since,
        until=query.until,
        project=query.project,
        runtime=query.runtime,
        zone=LocalZone(),
        session=query.session,
    )

    def read(facts: SessionIndex, _: Store | None) -> dict[str, Any]:
        scope = options.scope(facts.database)
        if query.session is not None:
            data = session_overview(facts.database, scope, _BINS).as_json()
        else:
            data = overview(facts.database, scope, options.zone).as_json()
        since, until = to_datetime(scope.since_us), to_datetime(scope.until_us)
        return {
            "since": None if since is None else since.isoformat(),
            "until": None if until is None else until.isoformat(),
            **data,
        }

    return read_facts(home, read)


_BINS = 60
"""The number of bins of the profile of a session."""
