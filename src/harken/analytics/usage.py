"""Usage: tokens and cost, by model, by day, by project, by session.

One idea: each response is one row of the facts, in however many files and lines it stands, so sums
count it once. What is not known is not nothing: tokens that nobody counted are None, and responses
without a known price are counted beside the sum of those that have one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, tzinfo
from typing import Any, NamedTuple

import apsw

from harken.analytics.quarter_hours import QUARTER_US, begins
from harken.analytics.scope import Scope
from harken.core.record import Record

# Nothing is unknown of the price of nothing: what an API refused is free. The facts have no count
# so large that sums would stop at 64 bits.
_SUMS = """
    count(*), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
    sum(output_tokens), sum(reasoning_tokens), sum(cost_usd),
    count(*) FILTER (WHERE cost_usd IS NULL AND NOT coalesce(input_tokens = 0
        AND output_tokens = 0 AND NOT cache_read_tokens > 0 AND NOT cache_write_tokens > 0, 0))
"""
_MODELS = f"SELECT model, {_SUMS} FROM requests WHERE {{scope}} GROUP BY 1"  # noqa: S608 - ours
_SESSIONS = f"SELECT session_id, {_SUMS} FROM requests WHERE {{scope}} GROUP BY 1"  # noqa: S608
_QUARTERS = f"SELECT time / {QUARTER_US}, {_SUMS} FROM requests WHERE {{scope}} GROUP BY 1"  # noqa: S608
_PROJECTS = "SELECT id, project FROM sessions WHERE {scope}"


class UsageStats(Record, frozen=True, kw_only=True):
    """What responses used. None: nobody counted, or nobody knows a price."""

    responses: int
    input_tokens: int | None
    """Read anew: neither read from a cache nor written into one."""
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    """With those of thoughts."""
    reasoning_tokens: int | None
    """Of `output_tokens`, where the provider says so."""
    cost_usd: float | None
    """Of the responses whose price is known."""
    unpriced: int
    """Responses that cost something nobody knows."""

    @property
    def total_tokens(self) -> int | None:
        """All tokens that were read and written. None if no count is known."""
        read = (self.input_tokens, self.cache_read_tokens, self.cache_write_tokens)
        known = [count for count in (*read, self.output_tokens) if count is not None]
        return sum(known) if known else None


class ModelUsage(UsageStats, frozen=True, kw_only=True):
    """What the responses of a model used."""

    model: str


class DayUsage(UsageStats, frozen=True, kw_only=True):
    """What the responses of a day used."""

    day: date | None
    """None: those without a time."""


class ProjectUsage(UsageStats, frozen=True, kw_only=True):
    """What the responses in a folder used."""

    project: str
    """Its path; "" where that is not known."""
    sessions: int
    """In which there were responses."""


class UsageSums(NamedTuple):
    """What some responses used, to be added up."""

    responses: int = 0
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    unpriced: int = 0

    def members(self) -> dict[str, Any]:
        """Return them by their names, the cost to a millionth of a dollar."""
        cost = self.cost_usd
        return self._asdict() | {"cost_usd": None if cost is None else round(cost, 6)}


class UsageRows(NamedTuple):
    """What the responses of a scope used, seen from three sides.

    Three queries: one by all of these at once has nearly as many groups as there are responses.
    """

    models: dict[str, UsageSums]
    sessions: dict[int, UsageSums]
    """By their ids in the facts."""
    quarters: dict[int | None, UsageSums]
    """By quarters of an hour since 1970, UTC; None: those without a time."""


def added(all_sums: Iterable[UsageSums]) -> UsageSums:
    """Return the sums of sums; what is not known of any is not known.

    >>> (
    ...     added([UsageSums(1, 5), UsageSums(2, None)]).input_tokens,
    ...     added([UsageSums(1)]).input_tokens,
    ... )
    (5, None)
    """
    found: list[Any] = list(UsageSums())
    for sums in all_sums:
        for at, value in enumerate(sums):
            if value is not None:
                found[at] = (found[at] or 0) + value
    return UsageSums(*found)


def used(database: apsw.Connection, scope: Scope) -> UsageRows:
    """Read what was used."""
    sides: list[dict[Any, UsageSums]] = [
        {name: UsageSums(*sums) for name, *sums in scope.rows(database, query, "requests")}
        for query in (_MODELS, _SESSIONS, _QUARTERS)
    ]
    return UsageRows(*sides)


def total(spent: UsageRows) -> UsageStats:
    """Return what was used in all."""
    return UsageStats(**added(spent.models.values()).members())


def by_model(spent: UsageRows) -> list[ModelUsage]:
    """Return what each model used, the one with the most tokens first.

    By tokens and not by cost, since a model without a known price would come last.
    """
    usages = [ModelUsage(model=model, **sums.members()) for model, sums in spent.models.items()]
    return sorted(usages, key=lambda usage: (-(usage.total_tokens or 0), usage.model))


def by_day(spent: UsageRows, zone: tzinfo) -> list[DayUsage]:
    """Return what was used on each day of a time zone, in order; last what has no time."""
    of_day: dict[date | None, list[UsageSums]] = defaultdict(list)
    for quarter, sums in spent.quarters.items():
        of_day[None if quarter is None else begins(quarter, zone).date()].append(sums)
    days = sorted(of_day, key=lambda day: (day is None, day or date.min))
    return [DayUsage(day=day, **added(of_day[day]).members()) for day in days]


def by_project(database: apsw.Connection, scope: Scope, spent: UsageRows) -> list[ProjectUsage]:
    """Return what was used in each folder, the one that cost most first.

    `spent`: what was used in the same scope.
    """
    of_project: dict[str, list[UsageSums]] = defaultdict(list)
    for id_, project in scope.rows(database, _PROJECTS, "sessions"):
        if id_ in spent.sessions:
            of_project[project].append(spent.sessions[id_])
    found = [
        ProjectUsage(project=project, sessions=len(all_sums), **added(all_sums).members())
        for project, all_sums in of_project.items()
    ]
    return sorted(found, key=lambda one: (*_weight(one), one.project))


def _weight(one: UsageStats) -> tuple[float, int]:
    return -(one.cost_usd or 0), -(one.output_tokens or 0)
