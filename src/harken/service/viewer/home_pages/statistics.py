"""`StatisticsSource`: the protocol through which the routes get statistics of the home."""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import Field

from harken.core.record import Record
from harken.service.viewer.library import IndexState, QueryText, ViewerQuery


class StatisticsQuery(ViewerQuery):
    """The sessions and times of statistics. A condition that is None matches all."""

    session: QueryText = None
    since: QueryText = None
    until: QueryText = None
    project: QueryText = None
    runtime: QueryText = None


class StatisticsRowsQuery(StatisticsQuery):
    """A range of a list of statistics."""

    name: str = Field(max_length=100, alias="list")
    """The path of the list in the statistics, such as `sessions` or `tools.tools`."""
    start: int = Field(default=0, ge=0, le=10**9, alias="from")
    limit: int = Field(default=500, ge=1, le=500)


class Statistics(Record, frozen=True, kw_only=True):
    """Statistics, as `harken stats --json` prints them, and how much of the home they cover."""

    members: dict[str, Any]
    index: IndexState


class StatisticsSource(Protocol):
    """The statistics of a home. Methods are called by several threads at a time."""

    def summarize(self, query: StatisticsQuery) -> Statistics:
        """Return the statistics of all sessions, or of one, as far as they are indexed.

        Raises NameNotFound for an unknown name, RequestRefused if the session is not indexed yet,
        HarkenError.
        """
