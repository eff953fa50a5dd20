"""Statistics: everything that is told at once, of all sessions of a scope or of one.

One idea: the facts are read a few times, whatever is told, and all figures come of these rows.
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
    """All sessions of a scope."""

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
    """The last written first."""


class OneSession(Record, frozen=True, kw_only=True):
    """One session."""

    session: Lifecycle
    profile: Profile
    amplification: Amplification
    usage: UsageStats
    models: list[ModelUsage]
    tools: Tools


def overview(database: apsw.Connection, scope: Scope, zone: tzinfo) -> Overview:
    """Return the figures of all sessions of a scope; hours and days are those of a time zone."""
    said, spent = spells(database, scope), used(database, scope)
    sessions = lifecycles(database, scope, ScopeTotals(said, spent.sessions))
    called = tools(database, scope)
    return Overview(
        amplification=amplification(said, called.calls),
        activity=activity(said, zone),
        concurrency=concurrency(database, scope, said),
        usage=total(spent),
        models=by_model(spent),
        days=by_day(spent, zone),
        projects=by_project(database, scope, spent),
        tools=called,
        compactions=compactions(sessions),
        outcomes=outcomes(sessions),
        sessions=sessions,
    )


def one_session(database: apsw.Connection, scope: Scope, most_bins: int = 60) -> OneSession:
    """Return the figures of the one session of a scope."""
    said, spent = spells(database, scope), used(database, scope)
    (session,) = lifecycles(database, scope, ScopeTotals(said, spent.sessions))
    called = tools(database, scope)
    return OneSession(
        session=session,
        profile=profile(database, scope, most_bins),
        amplification=amplification(said, called.calls),
        usage=total(spent),
        models=by_model(spent),
        tools=called,
    )
