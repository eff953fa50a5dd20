"""Token usage and cost by model, day, project and session.

Each response is one row of the index, however many files contain it, so sums count it once. Unknown
values are not zero: unknown token counts are None, and responses without a known price are counted
separately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, tzinfo
from typing import Any, NamedTuple

import apsw

from harken.analytics.quarter_hours import QUARTER_US, quarter_start
from harken.analytics.scope import Scope
from harken.core.record import Record

# A response with zero tokens, such as an error of the API, is free even without a price. Counts in
# the index are limited, so that sums do not exceed 64 bits.
_SUMS_SQL = """
    count(*), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
    sum(output_tokens), sum(reasoning_tokens), sum(cost_usd),
    count(*) FILTER (WHERE cost_usd IS NULL AND NOT coalesce(input_tokens = 0
        AND output_tokens = 0 AND NOT cache_read_tokens > 0 AND NOT cache_write_tokens > 0, 0))
"""
_MODELS_SQL = f"SELECT model, {_SUMS_SQL} FROM requests WHERE {{scope}} GROUP BY 1"  # noqa: S608 - ours
_SESSIONS_SQL = f"SELECT session_id, {_SUMS_SQL} FROM requests WHERE {{scope}} GROUP BY 1"  # noqa: S608
_QUARTERS_SQL = f"SELECT time / {QUARTER_US}, {_SUMS_SQL} FROM requests WHERE {{scope}} GROUP BY 1"  # noqa: S608
_AGENTS_SQL = f"""
    SELECT coalesce(nullif(agents.name, ''), 'main'), agents.template, sums.*
    FROM (SELECT agent_id AS agent, {_SUMS_SQL} FROM requests WHERE {{scope}} GROUP BY 1) AS sums
    JOIN agents ON agents.id = sums.agent
    ORDER BY sums.agent
"""  # noqa: S608 - as above
_PROJECTS_SQL = "SELECT id, project FROM sessions WHERE {scope}"
_RUNTIMES_SQL = "SELECT id, runtime FROM sessions WHERE {scope}"


class UsageStats(Record, frozen=True, kw_only=True):
    """Usage of responses. A value is None if no count or price is known."""

    responses: int
    input_tokens: int | None
    """Uncached input tokens."""
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    """Output tokens including thoughts."""
    reasoning_tokens: int | None
    """Part of `output_tokens`, if the provider reports it."""
    cost_usd: float | None
    """Cost of the responses with a known price."""
    unpriced: int
    """Number of responses with an unknown price."""

    @property
    def total_tokens(self) -> int | None:
        """Sum of input and output tokens, or None if no count is known."""
        read = (self.input_tokens, self.cache_read_tokens, self.cache_write_tokens)
        counts = [count for count in (*read, self.output_tokens) if count is not None]
        return sum(counts) if counts else None


class ModelUsage(UsageStats, frozen=True, kw_only=True):
    """Usage of a model."""

    model: str


class AgentUsage(UsageStats, frozen=True, kw_only=True):
    """Usage of an agent of a session."""

    agent: str
    """Its name in the session; that of the main conversation is `main`."""
    template: str
    """Its kind, or "" if it has none."""


class DayUsage(UsageStats, frozen=True, kw_only=True):
    """Usage on a day."""

    day: date | None
    """None for responses without a time."""


class ProjectUsage(UsageStats, frozen=True, kw_only=True):
    """Usage in a project folder."""

    project: str
    """Path of the folder, or "" if it is unknown."""
    sessions: int
    """Number of sessions with responses."""


class RuntimeUsage(UsageStats, frozen=True, kw_only=True):
    """Usage in sessions of a runtime."""

    runtime: str
    sessions: int
    """Number of sessions with responses."""


class UsageSums(NamedTuple):
    """Sums over responses that can be added."""

    responses: int = 0
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    unpriced: int = 0

    def members(self) -> dict[str, Any]:
        """Return the sums by name, with the cost rounded to a millionth of a dollar."""
        cost = self.cost_usd
        return self._asdict() | {"cost_usd": None if cost is None else round(cost, 6)}


class UsageRows(NamedTuple):
    """Usage of the responses of a scope, by model, session and time.

    Read by three queries: grouping by all three columns would give nearly one group per response.
    """

    models: dict[str, UsageSums]
    sessions: dict[int, UsageSums]
    """By row id of the session."""
    quarters: dict[int | None, UsageSums]
    """By quarter hour since 1970, UTC; None for responses without a time."""


def add_sums(all_sums: Iterable[UsageSums]) -> UsageSums:
    """Add sums. A value that is unknown in all of them stays unknown.

    >>> (
    ...     add_sums([UsageSums(1, 5), UsageSums(2, None)]).input_tokens,
    ...     add_sums([UsageSums(1)]).input_tokens,
    ... )
    (5, None)
    """
    totals: list[Any] = list(UsageSums())
    for sums in all_sums:
        for index, value in enumerate(sums):
            if value is not None:
                totals[index] = (totals[index] or 0) + value
    return UsageSums(*totals)


def load_usage(database: apsw.Connection, scope: Scope) -> UsageRows:
    """Read the usage of a scope."""
    groupings: list[dict[Any, UsageSums]] = [
        {name: UsageSums(*sums) for name, *sums in scope.rows(database, query, "requests")}
        for query in (_MODELS_SQL, _SESSIONS_SQL, _QUARTERS_SQL)
    ]
    return UsageRows(*groupings)


def total_usage(rows: UsageRows) -> UsageStats:
    """Return the total usage."""
    return UsageStats(**add_sums(rows.models.values()).members())


def usage_by_model(rows: UsageRows) -> list[ModelUsage]:
    """Return the usage of each model, the largest number of tokens first.

    Models are not sorted by cost, because a model without a known price would come last.
    """
    usages = [ModelUsage(model=model, **sums.members()) for model, sums in rows.models.items()]
    return sorted(usages, key=lambda usage: (-(usage.total_tokens or 0), usage.model))


def usage_by_agent(database: apsw.Connection, scope: Scope) -> list[AgentUsage]:
    """Return the usage of each agent of a scope, the largest number of tokens first."""
    usages = [
        AgentUsage(agent=name, template=template, **UsageSums(*sums).members())
        for name, template, _, *sums in scope.rows(database, _AGENTS_SQL, "requests")
    ]
    return sorted(usages, key=lambda usage: -(usage.total_tokens or 0))


def usage_by_day(rows: UsageRows, zone: tzinfo) -> list[DayUsage]:
    """Return the usage per day of a time zone, in order; responses without a time come last."""
    by_date: dict[date | None, list[UsageSums]] = defaultdict(list)
    for quarter, sums in rows.quarters.items():
        by_date[None if quarter is None else quarter_start(quarter, zone).date()].append(sums)
    days = sorted(by_date, key=lambda day: (day is None, day or date.min))
    return [DayUsage(day=day, **add_sums(by_date[day]).members()) for day in days]


def usage_by_project(
    database: apsw.Connection, scope: Scope, rows: UsageRows
) -> list[ProjectUsage]:
    """Return the usage of each project folder, the largest cost first.

    `rows` is the usage of the same scope.
    """
    usages = [
        ProjectUsage(project=project, sessions=len(all_sums), **add_sums(all_sums).members())
        for project, all_sums in _group(scope.rows(database, _PROJECTS_SQL, "sessions"), rows)
    ]
    return sorted(usages, key=lambda usage: (*_sort_key(usage), usage.project))


def usage_by_runtime(
    database: apsw.Connection, scope: Scope, rows: UsageRows
) -> list[RuntimeUsage]:
    """Return the usage of each runtime, the largest cost first.

    `rows` is the usage of the same scope.
    """
    usages = [
        RuntimeUsage(runtime=runtime, sessions=len(all_sums), **add_sums(all_sums).members())
        for runtime, all_sums in _group(scope.rows(database, _RUNTIMES_SQL, "sessions"), rows)
    ]
    return sorted(usages, key=lambda usage: (*_sort_key(usage), usage.runtime))


def _group(
    sessions: Iterable[tuple[int, str]], rows: UsageRows
) -> Iterable[tuple[str, list[UsageSums]]]:
    """Return the usage of sessions with responses, grouped by a value of the session."""
    groups: dict[str, list[UsageSums]] = defaultdict(list)
    for id_, value in sessions:
        if id_ in rows.sessions:
            groups[value].append(rows.sessions[id_])
    return groups.items()


def _sort_key(usage: UsageStats) -> tuple[float, int]:
    return -(usage.cost_usd or 0), -(usage.output_tokens or 0)
