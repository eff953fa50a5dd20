"""The statistics of a home, for the routes of the viewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harken.analytics.times import to_datetime
from harken.cli.options.scope import ScopeOptions
from harken.config.home import Home
from harken.config.index import read_facts
from harken.config.local_zone import LocalZone
from harken.service.viewer.library import StatisticsQuery

if TYPE_CHECKING:
    from harken.index.session_index import SessionIndex
    from harken.store.base import Store


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
