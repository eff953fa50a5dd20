"""`HomeStatistics`: the statistics of a home, for the routes of the viewer."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from contextlib import closing
from typing import Any

import apsw

from harken.analytics.overview import overview, session_overview
from harken.cli.commands.ui.listing.background_index import BackgroundIndex
from harken.cli.commands.ui.listing.session_list import Listing, SessionList
from harken.cli.options.scope import ScopeOptions
from harken.config.home import Home
from harken.config.local_zone import LocalZone
from harken.errors import ConfigError, NameNotFound
from harken.index.database import open_read_only
from harken.index.session_facts import SessionFacts
from harken.index.session_index import SessionIndex
from harken.service.viewer.home_pages.statistics import Statistics, StatisticsQuery
from harken.service.viewer.library import IndexState
from harken.store.remote.errors import RequestRefused

_WAIT_S = 2.0
"""An answer waits so long for an update of the index, which is mostly short."""
_MAX_RESULTS = 4
_MAX_AGE_S = 60.0
"""A time such as `7d` is relative to now, so a result is computed again after this time."""


class HomeStatistics:
    """The statistics of the indexed sessions of a home. The index is updated meanwhile."""

    def __init__(self, home: Home, sessions: SessionList, index: BackgroundIndex) -> None:
        """Nothing is read yet."""
        self._home, self._sessions, self._index = home, sessions, index
        self._lock = threading.Lock()
        self._results: OrderedDict[StatisticsQuery, _Result] = OrderedDict()

    def summarize(self, query: StatisticsQuery) -> Statistics:
        """Return the statistics of all sessions, or of one. See `StatisticsSource`."""
        listing, state = self._request_update()
        if state.is_running:
            self._index.wait(_WAIT_S)
            listing, state = self._request_update()
        facts = SessionFacts(self._home.facts_file)
        name = None if query.session is None else self._find_name(query.session, listing, facts)
        with self._lock:
            result = self._results.pop(query, None)
            if result is None or not result.is_valid():
                result = _Result(facts, self._compute(query, name))
            self._results[query] = result
            if len(self._results) > _MAX_RESULTS:
                self._results.popitem(last=False)
        return Statistics(members=result.members, index=state)

    def _request_update(self) -> tuple[Listing, IndexState]:
        listing = self._sessions.current()
        return listing, self._index.request(listing)

    def _find_name(self, session: str, listing: Listing, facts: SessionFacts) -> str:
        """Return the name of a session in the index.

        Raises NameNotFound, RequestRefused if it is not indexed yet, ConfigError if it cannot be.
        """
        entry = self._sessions.find(session)
        if entry is None:
            raise NameNotFound("session", session, [])
        name = Listing(listing.sessions, listing.states, facts).index_name(entry)
        if name not in facts.sessions:
            if entry.name in listing.states and self._index.has_failed(listing, entry.name):
                raise ConfigError(f"{session}: has no statistics: it is empty, or cannot be read")
            raise RequestRefused("busy", f"{session} is not indexed yet; try again in some seconds")
        return name

    def _compute(self, query: StatisticsQuery, session: str | None) -> dict[str, Any]:
        options = ScopeOptions(
            since=query.since,
            until=query.until,
            project=query.project,
            runtime=query.runtime,
            zone=LocalZone(),
            session=session,
        )
        try:
            with closing(self._open()) as database:
                scope = options.scope(database)
                if session is not None:
                    members = session_overview(database, scope).as_json()
                else:
                    members = overview(database, scope, options.zone).as_json()
                return {**scope.as_json(), **members}
        except apsw.Error as error:  # It is damaged, or of another version, until it is rebuilt.
            raise ConfigError(f"{self._home.facts_file}: cannot be read ({error})") from None

    def _open(self) -> apsw.Connection:
        """Open the index. An empty one stands for one that does not exist yet."""
        if not self._home.facts_file.exists():
            return SessionIndex(None).database
        return open_read_only(self._home.facts_file)


class _Result:
    """Statistics, and the state of the index that they are of."""

    def __init__(self, facts: SessionFacts, members: dict[str, Any]) -> None:
        self.members = members
        self._facts, self._computed_at = facts, time.monotonic()

    def is_valid(self) -> bool:
        """Whether computing them again would give the same."""
        return time.monotonic() - self._computed_at < _MAX_AGE_S and self._facts.is_current
