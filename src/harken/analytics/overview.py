"""Compute all statistics of a scope or of one session together.

The index is read in a few queries, and all statistics are computed from the same rows.
"""

from __future__ import annotations

from datetime import tzinfo

import apsw

from harken.analytics.activity import ActivityByHour, Concurrency, activity, concurrency
from harken.analytics.evaluations import (
    LabelStats,
    ScorerStats,
    SessionLabel,
    SessionScore,
    label_stats,
    scorer_stats,
    session_labels,
    session_scores,
)
from harken.analytics.profile import Profile, profile
from harken.analytics.quarter_hours import load_quarter_hours
from harken.analytics.scope import Scope
from harken.analytics.sessions import (
    Compactions,
    EndingStats,
    Lifecycle,
    ScopeTotals,
    compactions,
    lifecycles,
)
from harken.analytics.sessions import group_outcomes as outcomes
from harken.analytics.tools import Amplification, Tools, amplification, tools
from harken.analytics.usage import (
    AgentUsage,
    DayUsage,
    ModelUsage,
    ProjectUsage,
    RuntimeUsage,
    UsageStats,
    load_usage,
    total_usage,
    usage_by_agent,
    usage_by_day,
    usage_by_model,
    usage_by_project,
    usage_by_runtime,
)
from harken.core.record import Record

MAX_BINS = 60
"""The number of bins of a profile for programs and pages."""


class Overview(Record, frozen=True, kw_only=True):
    """Statistics of all sessions of a scope."""

    amplification: Amplification
    activity: ActivityByHour
    concurrency: Concurrency
    usage: UsageStats
    models: list[ModelUsage]
    days: list[DayUsage]
    projects: list[ProjectUsage]
    runtimes: list[RuntimeUsage]
    tools: Tools
    compactions: Compactions
    outcomes: list[EndingStats]
    scores: list[ScorerStats]
    labels: list[LabelStats]
    sessions: list[Lifecycle]
    """The most recently written session comes first."""


class OneSession(Record, frozen=True, kw_only=True):
    """Statistics of one session."""

    session: Lifecycle
    profile: Profile
    amplification: Amplification
    usage: UsageStats
    models: list[ModelUsage]
    agents: list[AgentUsage]
    tools: Tools
    scores: list[SessionScore]
    labels: list[SessionLabel]


def overview(database: apsw.Connection, scope: Scope, zone: tzinfo) -> Overview:
    """Compute the statistics of all sessions of a scope, with hours and days in a time zone."""
    quarters, usage_rows = load_quarter_hours(database, scope), load_usage(database, scope)
    sessions = lifecycles(database, scope, ScopeTotals(quarters, usage_rows.sessions))
    tool_stats = tools(database, scope)
    return Overview(
        amplification=amplification(quarters, tool_stats.calls),
        activity=activity(quarters, zone),
        concurrency=concurrency(database, scope, quarters),
        usage=total_usage(usage_rows),
        models=usage_by_model(usage_rows),
        days=usage_by_day(usage_rows, zone),
        projects=usage_by_project(database, scope, usage_rows),
        runtimes=usage_by_runtime(database, scope, usage_rows),
        tools=tool_stats,
        compactions=compactions(sessions),
        outcomes=outcomes(sessions),
        scores=scorer_stats(database, scope),
        labels=label_stats(database, scope),
        sessions=sessions,
    )


def session_overview(
    database: apsw.Connection, scope: Scope, most_bins: int = MAX_BINS
) -> OneSession:
    """Compute the statistics of the only session of a scope."""
    quarters, usage_rows = load_quarter_hours(database, scope), load_usage(database, scope)
    (session,) = lifecycles(database, scope, ScopeTotals(quarters, usage_rows.sessions))
    tool_stats = tools(database, scope)
    return OneSession(
        session=session,
        profile=profile(database, scope, most_bins),
        amplification=amplification(quarters, tool_stats.calls),
        usage=total_usage(usage_rows),
        models=usage_by_model(usage_rows),
        agents=usage_by_agent(database, scope),
        tools=tool_stats,
        scores=session_scores(database, scope),
        labels=session_labels(database, scope),
    )
