"""The overview of all sessions, in a terminal: what one enjoys most first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import date, timedelta, tzinfo
from pathlib import Path

from harken.analytics.activity import WEEKDAYS, ActivityByHour, Concurrency, Day
from harken.analytics.number_text import cost, duration, number, tokens
from harken.analytics.overview import Overview
from harken.analytics.sessions import Compactions, EndingStats, Lifecycle
from harken.analytics.times import minute
from harken.analytics.usage import DayUsage, ProjectUsage
from harken.cli.commands.stats.sections import (
    NAMELESS,
    SHOWN,
    more,
    show_amplification,
    show_models,
    show_sums,
    show_tools,
)
from harken.terminal.sparkline import fitted
from harken.terminal.table import NARROW, Sheet, TextColumn
from harken.views.message_text import count

LAST = 5
"""So many sessions are told one by one."""
_MARGIN = 26
_OTHERS = 46


def show_overview(sheet: Sheet, found: Overview, zone: tzinfo) -> None:
    """Print all sections."""
    folders = len({one.project for one in found.sessions if one.project})
    where = f" in {count(folders, 'project')}" if folders else ""
    sheet.line((count(len(found.sessions), "session"), "bold"), where, indent=0)
    show_sums(sheet, found.amplification, found.usage)
    _show_activity(sheet, found, zone)
    sheet.heading("Amplification")
    show_amplification(sheet, found.amplification)
    if found.models:
        sheet.heading("Models", "tokens, each response once")
        show_models(sheet, found.models)
    if len(found.projects) > 1:
        sheet.heading("Projects")
        _show_projects(sheet, found.projects)
    if found.tools.calls:
        sheet.heading("Tools")
        show_tools(sheet, found.tools)
    sheet.heading("Sessions")
    _show_outcomes(sheet, found.outcomes)
    _show_compactions(sheet, found.compactions)
    sheet.line("")
    _show_last(sheet, found.sessions, zone)


def _show_activity(sheet: Sheet, found: Overview, zone: tzinfo) -> None:
    days = found.activity.days
    if not days:
        return
    sheet.heading("Activity", "messages")
    if len(days) > 1:
        _show_days(sheet, days, found.days)
    _show_week(sheet, found.activity)
    sheet.line("")
    _show_peak(sheet, found.concurrency, zone)


def _show_days(sheet: Sheet, days: Sequence[Day], used: Sequence[DayUsage]) -> None:
    """Show how much was said over time, and how many tokens were written."""
    first, last = days[0].day, days[-1].day
    width = max(sheet.width - _MARGIN, 10)
    most = max(days, key=lambda one: one.messages)
    said = fitted(_by_day(days, first, last), width)
    sheet.line(f"{first} ", (sheet.strokes.line(said), "green"), f" {last}")
    written = fitted(_written_by_day(used, first, last), width)
    if any(written):
        sheet.line(" " * 11, (sheet.strokes.line(written), "magenta"), " tokens")
    sheet.line((f"The most on {most.day}: {number(most.messages)} messages.", "dim"))
    sheet.line("")


def _by_day(days: Iterable[Day], first: date, last: date) -> list[float]:
    """Return how much was said on each day; those on which nothing was said, too."""
    known = {one.day: one.messages for one in days}
    return [known.get(first + timedelta(at), 0) for at in range((last - first).days + 1)]


def _written_by_day(days: Iterable[DayUsage], first: date, last: date) -> list[float]:
    known = {one.day: one.output_tokens or 0 for one in days}
    return [known.get(first + timedelta(at), 0) for at in range((last - first).days + 1)]


def _show_week(sheet: Sheet, activity: ActivityByHour) -> None:
    """Show the hours of the week: the more was said, the darker."""
    cell = 2 if sheet.width >= NARROW else 1
    most = max(max(row) for row in activity.messages)
    hours = "".join(f"{hour:<{cell * 3}}" for hour in range(0, 24, 3))
    sheet.line((f"     {hours}", "dim"))
    for name, row in zip(WEEKDAYS, activity.messages, strict=True):
        spans: list[str | tuple[str, str]] = [(f"{name}  ", "dim")]
        for value in row:
            style = "green" if value else "dim"
            spans.append((sheet.strokes.shade(value, most) * cell, style))
        sheet.line(*spans)


def _show_peak(sheet: Sheet, peak: Concurrency, zone: tzinfo) -> None:
    if peak.at_work_at is not None:
        when = minute(peak.at_work_at, zone)
        sheet.line(
            "At most ",
            (count(peak.at_work, "session"), "bold"),
            f" at work in the same quarter of an hour ({when}), and ",
            (number(peak.open), "bold"),
            f" open at once ({minute(peak.open_at, zone)}).",
        )


def _show_projects(sheet: Sheet, projects: Sequence[ProjectUsage]) -> None:
    columns = (
        TextColumn("folder", is_text=True),
        TextColumn("sessions"),
        TextColumn("responses", from_width=NARROW),
        TextColumn("tokens"),
        TextColumn("cost", style="green"),
    )
    rows = [
        (
            _tail(one.project or NAMELESS, max(sheet.width - _OTHERS, 12)),
            number(one.sessions),
            number(one.responses),
            number(tokens(one)),
            cost(one.cost_usd, one.unpriced),
        )
        for one in projects[:SHOWN]
    ]
    sheet.table(columns, rows)
    more(sheet, len(projects))


def _show_outcomes(sheet: Sheet, outcomes: Sequence[EndingStats]) -> None:
    if [one.outcome for one in outcomes] == [None]:
        return
    columns = (
        TextColumn("outcome", is_text=True),
        TextColumn("sessions"),
        TextColumn("half lasted less than"),
        TextColumn("compactions"),
    )
    rows = [
        (
            one.outcome or "(not said)",
            number(one.sessions),
            duration(one.median_duration_s),
            number(one.compactions),
        )
        for one in outcomes[:SHOWN]
    ]
    sheet.table(columns, rows)
    sheet.line("")


def _show_compactions(sheet: Sheet, known: Compactions) -> None:
    if not known.compactions:
        sheet.line("No context was compacted.")
        return
    words = ""
    if known.correlation is not None:
        words = f"; correlation with duration {known.correlation:.2f}"
    sheet.line(
        (count(known.compactions, "compaction"), "bold"),
        f" in {count(known.sessions, 'session')}, at most {known.most} in one{words}.",
    )
    columns = (
        TextColumn("lasted", is_text=True),
        TextColumn("sessions"),
        TextColumn("compactions"),
        TextColumn("per session"),
        TextColumn("", is_text=True, style="cyan", from_width=NARROW),
    )
    most = max(one.per_session or 0 for one in known.bands)
    rows = [
        (
            _band(one.from_s, one.below_s),
            number(one.sessions),
            number(one.compactions),
            number(one.per_session),
            sheet.strokes.length(one.per_session or 0, most, 16),
        )
        for one in known.bands
        if one.sessions
    ]
    sheet.table(columns, rows)


def _band(from_s: float, below_s: float | None) -> str:
    if below_s is None:
        return f"{duration(from_s)} or more"
    return f"{duration(from_s)} to {duration(below_s)}" if from_s else f"below {duration(below_s)}"


def _show_last(sheet: Sheet, sessions: Sequence[Lifecycle], zone: tzinfo) -> None:
    columns = (
        TextColumn("ended", from_width=NARROW),
        TextColumn("session", is_text=True),
        TextColumn("lasted"),
        TextColumn("prompts"),
        TextColumn("calls", from_width=NARROW),
        TextColumn("cost", style="green"),
    )
    rows = [
        (
            minute(one.ended, zone),
            one.title or one.session,
            duration(one.duration_s),
            number(one.prompts),
            number(one.tool_calls),
            cost(one.cost_usd, one.unpriced),
        )
        for one in sessions[:LAST]
    ]
    sheet.table(columns, rows)
    more(sheet, len(sessions), LAST)


def _tail(path: str, width: int) -> str:
    """Return the end of a path, whole parts where they fit: there the folders differ."""
    home = str(Path.home())
    if path == home or path.startswith(home + os.sep):
        path = "~" + path.removeprefix(home)
    parts = path.split("/")
    while len(path) > width and len(parts) > 1:
        path = "/".join(["…", *(parts := parts[1:])])
    return path if len(path) <= width else f"…{path[-width + 1 :]}"
