"""Compute all statistics of a scope or of one session together.

The index is read in a few queries, and all statistics are computed from the same rows.
"""

from __future__ import annotations

from datetime import tzinfo

import apsw

from harken.analytics.activity import ActivityByHour, Concurrency, activity, concurrency
from harken.analytics.profile import Profile, profile
from harken.analytics.quarter_hours import spells
from harken.analytics.scope import Scope
from harken.analytics.sessions import (
    Compactions,
    EndingStats,
    Lifecycle,
    ScopeTotals,
    compactions,
    lifecycles,
    outcomes,
)
from harken.analytics.tools import Amplification, Tools, amplification, tools
from harken.analytics.usage import (
    DayUsage,
    ModelUsage,
    ProjectUsage,
    UsageStats,
    by_day,
    by_model,
    by_project,
    total,
    used,
)
from harken.core.record import Record


class Overview(Record, frozen=True, kw_only=True):
    """Statistics of all sessions of a scope."""

    amplification: Amplification
    activity: ActivityByHour
    concurrency: Concurrency
    usage: UsageStats
    models: list[ModelUsage]
    days: list[DayUsage]
    projects: list[ProjectUsage]
    tools: Tools
    compactions: Compactions
    outcomes: list[EndingStats]
    sessions: list[Lifecycle]
    """The most recently written session comes first."""


class OneSession(Record, frozen=True, kw_only=True):
    """Statistics of one session."""

    session: Lifecycle
    profile: Profile
    amplification: Amplification
    usage: UsageStats
    models: list[ModelUsage]
    tools: Tools


def overview(database: apsw.Connection, scope: Scope, zone: tzinfo) -> Overview:
    """Compute the statistics of all sessions of a scope, with hours and days in a time zone."""
    quarters, usage_rows = spells(database, scope), used(database, scope)
    sessions = lifecycles(database, scope, ScopeTotals(quarters, usage_rows.sessions))
    tool_stats = tools(database, scope)
    return Overview(
        amplification=amplification(quarters, tool_stats.calls),
        activity=activity(quarters, zone),
        concurrency=concurrency(database, scope, quarters),
        usage=total(usage_rows),
        models=by_model(usage_rows),
        days=by_day(usage_rows, zone),
        projects=by_project(database, scope, usage_rows),
        tools=tool_stats,
        compactions=compactions(sessions),
        outcomes=outcomes(sessions),
        sessions=sessions,
    )


def one_session(database: apsw.Connection, scope: Scope, most_bins: int = 60) -> OneSession:
    """Compute the statistics of the only session of a scope."""
    quarters, usage_rows = spells(database, scope), used(database, scope)
    (session,) = lifecycles(database, scope, ScopeTotals(quarters, usage_rows.sessions))
    tool_stats = tools(database, scope)
    return OneSession(
        session=session,
        profile=profile(database, scope, most_bins),
        amplification=amplification(quarters, tool_stats.calls),
        usage=total(usage_rows),
        models=by_model(usage_rows),
        tools=tool_stats,
    )
