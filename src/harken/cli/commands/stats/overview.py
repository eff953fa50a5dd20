"""The overview of all sessions in a terminal, the most interesting figures first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import date, timedelta, tzinfo
from pathlib import Path

from harken.analytics.activity import WEEKDAYS, ActivityByHour, Concurrency, Day
from harken.analytics.number_text import count_tokens, format_cost, format_duration, format_number
from harken.analytics.overview import Overview
from harken.analytics.sessions import Compactions, EndingStats, Lifecycle
from harken.analytics.times import format_minute
from harken.analytics.usage import DayUsage, ProjectUsage, RuntimeUsage
from harken.cli.commands.stats.evaluations import show_labels, show_scorers
from harken.cli.commands.stats.sections import (
    NAMELESS,
    SHOWN,
    more,
    show_amplification,
    show_models,
    show_sums,
    show_tools,
)
from harken.terminal.sparkline import fit_to_width
from harken.terminal.table import NARROW_CELLS, Sheet, TextColumn
from harken.views.message_text import format_count

LAST = 5
"""The number of sessions that are listed."""
_MARGIN = 26
_OTHERS = 46


def show_overview(sheet: Sheet, overview: Overview, zone: tzinfo) -> None:
    """Print all sections."""
    folders = len({session.project for session in overview.sessions if session.project})
    where = f" in {format_count(folders, 'project')}" if folders else ""
    sheet.line((format_count(len(overview.sessions), "session"), "bold"), where, indent=0)
    show_sums(sheet, overview.amplification, overview.usage)
    _show_activity(sheet, overview, zone)
    sheet.heading("Amplification")
    show_amplification(sheet, overview.amplification)
    if overview.models:
        sheet.heading("Models", "tokens, each response counted once")
        show_models(sheet, overview.models)
    if len(overview.projects) > 1:
        sheet.heading("Projects")
        width = max(sheet.width - _OTHERS, 12)
        names = (_truncate_path(usage.project or NAMELESS, width) for usage in overview.projects)
        _show_groups(sheet, "folder", [*zip(names, overview.projects, strict=True)])
    if len(overview.runtimes) > 1:
        sheet.heading("Runtimes")
        _show_groups(sheet, "runtime", [(usage.runtime, usage) for usage in overview.runtimes])
    if overview.tools.calls:
        sheet.heading("Tools")
        show_tools(sheet, overview.tools)
    if overview.scores:
        sheet.heading("Scores")
        show_scorers(sheet, overview.scores)
    if overview.labels:
        sheet.heading("Labels")
        show_labels(sheet, overview.labels)
    sheet.heading("Sessions")
    _show_outcomes(sheet, overview.outcomes)
    _show_compactions(sheet, overview.compactions)
    sheet.line("")
    _show_last(sheet, overview.sessions, zone)


def _show_activity(sheet: Sheet, overview: Overview, zone: tzinfo) -> None:
    days = overview.activity.days
    if not days:
        return
    sheet.heading("Activity", "messages")
    if len(days) > 1:
        _show_days(sheet, days, overview.days)
    _show_week(sheet, overview.activity)
    sheet.line("")
    _show_peak(sheet, overview.concurrency, zone)


def _show_days(sheet: Sheet, days: Sequence[Day], usage: Sequence[DayUsage]) -> None:
    """Show the messages and output tokens over time."""
    first, last = days[0].day, days[-1].day
    width = max(sheet.width - _MARGIN, 10)
    busiest = max(days, key=lambda day: day.messages)
    messages = fit_to_width(_by_day(days, first, last), width)
    sheet.line(f"{first} ", (sheet.sparkline.line(messages), "green"), f" {last}")
    token_counts = fit_to_width(_tokens_by_day(usage, first, last), width)
    if any(token_counts):
        sheet.line(" " * 11, (sheet.sparkline.line(token_counts), "magenta"), " tokens")
    sheet.line((f"The most on {busiest.day}: {format_number(busiest.messages)} messages.", "dim"))
    sheet.line("")


def _by_day(days: Iterable[Day], first: date, last: date) -> list[float]:
    """Return the number of messages of each day, including days without messages."""
    by_day = {day.day: day.messages for day in days}
    return [by_day.get(first + timedelta(offset), 0) for offset in range((last - first).days + 1)]


def _tokens_by_day(days: Iterable[DayUsage], first: date, last: date) -> list[float]:
    by_day = {day.day: day.output_tokens or 0 for day in days}
    return [by_day.get(first + timedelta(offset), 0) for offset in range((last - first).days + 1)]


def _show_week(sheet: Sheet, activity: ActivityByHour) -> None:
    """Show the hours of the week: darker with more messages."""
    cell = 2 if sheet.width >= NARROW_CELLS else 1
    maximum = max(max(row) for row in activity.messages)
    hours = "".join(f"{hour:<{cell * 3}}" for hour in range(0, 24, 3))
    sheet.line((f"     {hours}", "dim"))
    for name, row in zip(WEEKDAYS, activity.messages, strict=True):
        spans: list[str | tuple[str, str]] = [(f"{name}  ", "dim")]
        for value in row:
            style = "green" if value else "dim"
            spans.append((sheet.sparkline.shade(value, maximum) * cell, style))
        sheet.line(*spans)


def _show_peak(sheet: Sheet, peak: Concurrency, zone: tzinfo) -> None:
    if peak.at_work_at is not None:
        when = format_minute(peak.at_work_at, zone)
        sheet.line(
            "At most ",
            (format_count(peak.at_work, "session"), "bold"),
            f" active in the same quarter of an hour ({when}), and ",
            (format_number(peak.open), "bold"),
            f" open at once ({format_minute(peak.open_at, zone)}).",
        )


def _show_groups(
    sheet: Sheet, title: str, groups: Sequence[tuple[str, ProjectUsage | RuntimeUsage]]
) -> None:
    """Show the usage of groups of sessions."""
    columns = (
        TextColumn(title, is_text=True),
        TextColumn("sessions"),
        TextColumn("responses", from_width=NARROW_CELLS),
        TextColumn("tokens"),
        TextColumn("cost", style="green"),
    )
    rows = [
        (
            name,
            format_number(usage.sessions),
            format_number(usage.responses),
            format_number(count_tokens(usage)),
            format_cost(usage.cost_usd, usage.unpriced),
        )
        for name, usage in groups[:SHOWN]
    ]
    sheet.table(columns, rows)
    more(sheet, len(groups))


def _show_outcomes(sheet: Sheet, outcomes: Sequence[EndingStats]) -> None:
    if [outcome.outcome for outcome in outcomes] == [None]:
        return
    columns = (
        TextColumn("outcome", is_text=True),
        TextColumn("sessions"),
        TextColumn("median duration"),
        TextColumn("compactions"),
    )
    rows = [
        (
            outcome.outcome or "(not said)",
            format_number(outcome.sessions),
            format_duration(outcome.median_duration_s),
            format_number(outcome.compactions),
        )
        for outcome in outcomes[:SHOWN]
    ]
    sheet.table(columns, rows)
    sheet.line("")


def _show_compactions(sheet: Sheet, compactions: Compactions) -> None:
    if not compactions.compactions:
        sheet.line("No context was compacted.")
        return
    words = ""
    if compactions.correlation is not None:
        words = f"; correlation with duration {compactions.correlation:.2f}"
    sheet.line(
        (format_count(compactions.compactions, "compaction"), "bold"),
        f" in {format_count(compactions.sessions, 'session')}, "
        f"at most {compactions.max_per_session} in one{words}.",
    )
    columns = (
        TextColumn("lasted", is_text=True),
        TextColumn("sessions"),
        TextColumn("compactions"),
        TextColumn("per session"),
        TextColumn("", is_text=True, style="cyan", from_width=NARROW_CELLS),
    )
    maximum = max(band.per_session or 0 for band in compactions.bands)
    rows = [
        (
            _band(band.from_s, band.below_s),
            format_number(band.sessions),
            format_number(band.compactions),
            format_number(band.per_session),
            sheet.sparkline.length(band.per_session or 0, maximum, 16),
        )
        for band in compactions.bands
        if band.sessions
    ]
    sheet.table(columns, rows)


def _band(from_s: float, below_s: float | None) -> str:
    if below_s is None:
        return f"{format_duration(from_s)} or more"
    return (
        f"{format_duration(from_s)} to {format_duration(below_s)}"
        if from_s
        else f"below {format_duration(below_s)}"
    )


def _show_last(sheet: Sheet, sessions: Sequence[Lifecycle], zone: tzinfo) -> None:
    columns = (
        TextColumn("ended", from_width=NARROW_CELLS),
        TextColumn("session", is_text=True),
        TextColumn("lasted"),
        TextColumn("prompts"),
        TextColumn("calls", from_width=NARROW_CELLS),
        TextColumn("cost", style="green"),
    )
    rows = [
        (
            format_minute(session.ended, zone),
            session.title or session.session,
            format_duration(session.duration_s),
            format_number(session.prompts),
            format_number(session.tool_calls),
            format_cost(session.cost_usd, session.unpriced),
        )
        for session in sessions[:LAST]
    ]
    sheet.table(columns, rows)
    more(sheet, len(sessions), LAST)


def _truncate_path(path: str, width: int) -> str:
    """Return the end of a path, in complete parts if possible: there folders differ."""
    home = str(Path.home())
    if path == home or path.startswith(home + os.sep):
        path = "~" + path.removeprefix(home)
    parts = path.split("/")
    while len(path) > width and len(parts) > 1:
        path = "/".join(["…", *(parts := parts[1:])])
    return path if len(path) <= width else f"…{path[-width + 1 :]}"
