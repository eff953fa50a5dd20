"""`SessionFilter`: the sessions of a listing that match a query.

Conditions on facts, such as a tool or a cost, can only be checked as far as the sessions are
indexed. A session that might match is counted, so that the page can tell that it is missing.
"""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import NamedTuple

from harken.cli.commands.sessions.listing import ListedSession, is_in_folder
from harken.cli.commands.ui.listing.session_list import IndexedRow, Listing
from harken.cli.commands.ui.listing.session_summaries import (
    find_title_and_project,
    has_known_title,
    is_live,
)
from harken.cli.options.time import parse_time_us
from harken.config.local_zone import LocalZone
from harken.index.session_facts import SessionFacts
from harken.service.viewer.library import LeftOut, SessionQuery

MAX_READ_LOGS = 500
"""The number of logs that a request reads for their titles: some tenths of a second."""


class SessionMatches(NamedTuple):
    """The sessions that match a query, in the order of the listing."""

    sessions: list[ListedSession]
    left_out: LeftOut


class SessionFilter:
    """The conditions of a query, the cheapest ones first."""

    def __init__(self, listing: Listing, query: SessionQuery) -> None:
        """Raises ConfigError for an invalid time."""
        self._listing, self._query = listing, query
        now, zone = datetime.now(UTC), LocalZone()
        since, until = query.since, query.until
        self._since_s = -math.inf if since is None else parse_time_us(since, zone, now) / 1e6
        self._until_s = (
            math.inf if until is None else parse_time_us(until, zone, now, is_end=True) / 1e6
        )
        self._text = None if query.text is None else query.text.casefold()
        self._id_sets = _find_id_sets(listing.facts, query)
        self._unread_count = 0
        """The number of sessions whose titles were read from their logs."""
        self._has_cost = (query.min_cost_usd, query.max_cost_usd) != (None, None)

    def find_matches(self) -> SessionMatches:
        """Return the sessions that match."""
        matches: list[ListedSession] = []
        unindexed_count = unpriced_count = 0
        for session in self._listing.sessions:
            words_match = self._match_source(session) and self._match_words(session)
            if words_match is None:
                unindexed_count += 1
            if not words_match:
                continue
            indexed = self._listing.find_indexed(session)
            match self._match_facts(indexed):
                case True:
                    matches.append(session)
                case None if indexed.is_current:
                    unpriced_count += 1
                case None:
                    unindexed_count += 1
        return SessionMatches(matches, LeftOut(unindexed=unindexed_count, unpriced=unpriced_count))

    def _match_source(self, session: ListedSession) -> bool:
        """Whether the times, the runtime and the lock of a session match."""
        query = self._query
        if session.modified_s < self._since_s or query.runtime not in (None, session.runtime):
            return False
        if self._until_s != math.inf and self._start_s(session) >= self._until_s:
            return False
        return query.is_live is None or is_live(session) == query.is_live

    def _start_s(self, session: ListedSession) -> float:
        """Return the time of the first message, as far as it is known without reading a log."""
        row = self._listing.find_indexed(session).row
        if row is None or row.began_us is None:
            return session.modified_s
        return row.began_us / 1e6

    def _match_facts(self, indexed: IndexedRow) -> bool | None:
        """Whether the facts of a session match. Return None if they are not known.

        Agents, tools and models are only added to a session: one that is known stays.
        """
        row, is_unknown = indexed.row, False
        for ids in self._id_sets:
            if row is None or row.id not in ids:
                if indexed.is_current:
                    return False
                is_unknown = True
        if self._query.outcome is not None:
            if row is None or not indexed.is_current:
                is_unknown = True
            elif row.outcome != self._query.outcome:
                return False
        if self._has_cost:
            is_cost_match = self._match_cost(indexed)
            if is_cost_match is False:
                return False
            is_unknown = is_unknown or is_cost_match is None
        return None if is_unknown else True

    def _match_cost(self, indexed: IndexedRow) -> bool | None:
        if indexed.row is None or not indexed.is_current:
            return None
        cost_usd = self._listing.facts.costs().get(indexed.row.id)
        if cost_usd is None:
            return None
        minimum, maximum = self._query.min_cost_usd, self._query.max_cost_usd
        return (minimum is None or cost_usd >= minimum) and (maximum is None or cost_usd <= maximum)

    def _match_words(self, session: ListedSession) -> bool | None:
        """Whether the texts of a session match. Return None if too many logs would be read."""
        folder, text = self._query.project, self._text
        if folder is None and (text is None or text in session.name.casefold()):
            return True
        if not has_known_title(self._listing, session):
            self._unread_count += 1
            if self._unread_count > MAX_READ_LOGS:
                return None
        title, project = find_title_and_project(self._listing, session)
        if folder is not None and not is_in_folder(project, folder):
            return False
        texts = (session.name, project, title)
        return text is None or any(text in words.casefold() for words in texts)


def _find_id_sets(facts: SessionFacts, query: SessionQuery) -> list[AbstractSet[int]]:
    """Return the row ids of the sessions that meet each condition on a name."""
    finders = (
        (query.agent, facts.find_sessions_of_agent),
        (query.tool, facts.find_sessions_of_tool),
        (query.model, facts.find_sessions_of_model),
    )
    return [find(name) for name, find in finders if name is not None]
