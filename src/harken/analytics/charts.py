"""Build charts as data for a plotting library.

A chart is plain data in the format of plotly figures, so it can be inspected and tested without a
browser. Names are untrusted, and plotly interprets markup in labels, so they are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta, tzinfo
from html import escape
from typing import Any, TypeAlias

import msgspec

from harken.analytics.activity import WEEKDAYS
from harken.analytics.number_text import (
    count_tokens,
    format_cost,
    format_dollars,
    format_duration,
    format_number,
)
from harken.analytics.overview import OneSession, Overview
from harken.analytics.profile import Profile
from harken.analytics.sessions import Lifecycle
from harken.analytics.tools import Tools
from harken.analytics.usage import DayUsage, ModelUsage, ProjectUsage

Data: TypeAlias = dict[str, Any]
MAX_BARS = 15
"""Maximum number of bars in a chart."""
_MAX_LABEL_CHARS = 24
_ROW_PX = 26
_DAY_MS = 86_400_000
_MAX_TIME_BARS = 120
_MAX_DOTS = 3000
_BAR_DAYS = {1: "a day", 7: "a week", 28: "in four weeks", 364: "in 52 weeks"}
"""Days per bar -> label. These are the possible widths of a bar."""
_TICKS_S = (1, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400)
COLORS = {
    "prompt": "#e9a23b",
    "response": "#2a9d8f",
    "thinking": "#9b5de5",
    "tool": "#3a86ff",
    "compaction": "#d1495b",
    "idle": "#dfe3e6",
}
_TEAL = COLORS["response"]
_HIDDEN_PATTERN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Chart(msgspec.Struct, frozen=True):
    """A chart with its title."""

    title: str
    note: str
    data: Sequence[Data]
    layout: Data
    height: int
    """In pixels."""


def escape_label(text: str, width: int = 200) -> str:
    """Escape an untrusted text for a page: one line, truncated, without control characters.

    >>> escape_label("<b>Tea</b>"), escape_label("a" * 9, 4)
    ('&lt;b&gt;Tea&lt;/b&gt;', 'aaa…')
    """
    line = " ".join(
        _HIDDEN_PATTERN.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split())).split(" ")
    )
    return escape(line if len(line) <= width else line[: width - 1] + "…")


def overview_charts(report: Overview) -> list[Chart]:
    """Return the charts of an overview, without empty charts."""
    charts = [
        _activity_chart(report),
        _cost_chart(report.days),
        _week_chart(report.activity.messages),
        _models_chart(report.models),
        _projects_chart(report.projects),
        _tools_chart(report.tools),
        _compactions_chart(report.sessions),
    ]
    return [chart for chart in charts if chart is not None]


def session_charts(report: OneSession, zone: tzinfo) -> list[Chart]:
    """Return the charts of one session."""
    charts = [
        _profile_chart(report.profile, zone),
        _models_chart(report.models),
        _tools_chart(report.tools),
    ]
    return [chart for chart in charts if chart is not None]


def _activity_chart(report: Overview) -> Chart | None:
    days = {day_activity.day: day_activity for day_activity in report.activity.days}
    if not days:
        return None
    step = _choose_bar_days(days)
    kinds = (
        (
            "prompts",
            {day: day_activity.prompts for day, day_activity in days.items()},
            COLORS["prompt"],
        ),
        ("responses", {day: day_activity.responses for day, day_activity in days.items()}, _TEAL),
    )
    bars = [
        _time_bars(_sum_by_bar(counts, step), step, colour)
        | {"name": name, "hoverinfo": "x+y+name"}
        for name, counts, colour in kinds
    ]
    layout = {"barmode": "stack", "xaxis": {"type": "date"}, "showlegend": True}
    return Chart("Activity", f"prompts and responses {_BAR_DAYS[step]}", bars, layout, 260)


def _cost_chart(days: Sequence[DayUsage]) -> Chart | None:
    cost_by_day = {
        day_usage.day: day_usage.cost_usd or 0.0 for day_usage in days if day_usage.day is not None
    }
    if not any(cost_by_day.values()):
        return None
    step = _choose_bar_days(cost_by_day)
    sums = _sum_by_bar(cost_by_day, step)
    hover_texts = [f"{day}: {format_dollars(value)}" for day, value in sums.items()]
    bar = _time_bars(sums, step, COLORS["tool"]) | {"hovertext": hover_texts, "hoverinfo": "text"}
    layout = {"xaxis": {"type": "date"}, "yaxis": {"tickprefix": "$"}}
    note = f"{_BAR_DAYS[step]}, of responses whose price is known"
    return Chart("Cost", note, [bar], layout, 240)


def _choose_bar_days(days: Iterable[date]) -> int:
    """Return the number of days per bar, so that bars are wide enough to be visible."""
    all_days = [*days]
    span = (max(all_days) - min(all_days)).days
    return next((step for step in _BAR_DAYS if span <= step * _MAX_TIME_BARS), max(_BAR_DAYS))


def _sum_by_bar(values: Mapping[date, float], step: int) -> dict[date, float]:
    """Return sums of `step` days by their first day; weeks start on Monday."""
    sums: dict[date, float] = {}
    for day in sorted(values):
        first = day - timedelta(days=(day.toordinal() - 1) % step)
        sums[first] = sums.get(first, 0) + values[day]
    return sums


def _time_bars(values: Mapping[date, float], step: int, colour: str) -> Data:
    return {
        "type": "bar",
        "x": [day.isoformat() for day in values],
        "y": [*values.values()],
        "width": step * _DAY_MS * 0.9,
        "offset": 0,
        "marker": {"color": colour},
    }


def _week_chart(messages: Sequence[Sequence[int]]) -> Chart | None:
    if not any(map(any, messages)):
        return None
    text = [
        [f"{name} {hour}:00, {format_number(value)} messages" for hour, value in enumerate(row)]
        for name, row in zip(WEEKDAYS, messages, strict=True)
    ]
    heat = {
        "type": "heatmap",
        "z": [[value**0.5 for value in row] for row in messages],
        "x": list(range(24)),
        "y": list(WEEKDAYS),
        "text": text,
        "hoverinfo": "text",
        "colorscale": [[0, "#f1f4f5"], [1, "#12685f"]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }
    layout = {"yaxis": {"autorange": "reversed"}, "xaxis": {"dtick": 3}}
    return Chart("Hours of the week", "the darker, the more messages", [heat], layout, 260)


def _models_chart(models: Sequence[ModelUsage]) -> Chart | None:
    kinds = (
        ("read anew", "input_tokens", COLORS["prompt"]),
        ("from a cache", "cache_read_tokens", "#a8dadc"),
        ("into a cache", "cache_write_tokens", "#6a8caf"),
        ("written", "output_tokens", _TEAL),
    )
    shown_models = [model for model in models if count_tokens(model)][:MAX_BARS]
    names = [model.model or "(not named)" for model in shown_models]
    hover_texts = [
        f"{format_number(model.responses)} responses, {_format_cost(model)}"
        for model in shown_models
    ]
    bars = [
        _horizontal_bars(
            names, [getattr(model, member) or 0 for model in shown_models], hover_texts, colour
        )
        | {"name": name}
        for name, member, colour in kinds
    ]
    layout = {"barmode": "stack", "showlegend": True}
    return _with_row_labels(Chart("Models", "tokens", bars, layout, 0), names)


def _projects_chart(projects: Sequence[ProjectUsage]) -> Chart | None:
    shown_projects = projects[:MAX_BARS]
    names = [project.project or "(not known)" for project in shown_projects]
    hover_texts = [
        f"{format_number(project.sessions)} sessions, {_format_cost(project)}"
        for project in shown_projects
    ]
    if len(shown_projects) < 2:
        return None
    bars = _horizontal_bars(
        names, [project.cost_usd or 0 for project in shown_projects], hover_texts, COLORS["tool"]
    )
    layout = {"xaxis": {"tickprefix": "$"}}
    return _with_row_labels(
        Chart("Projects", "cost, as far as it is known", [bars], layout, 0), names
    )


def _format_cost(usage: ModelUsage | ProjectUsage) -> str:
    money = format_cost(usage.cost_usd, usage.unpriced)
    return f"cost {money}" if money == "unknown" else money


def _tools_chart(tools: Tools) -> Chart | None:
    shown_tools = tools.tools[:MAX_BARS]
    names = [tool.name for tool in shown_tools]
    hover_texts = [
        f"{format_number(tool.calls)} calls, {format_number(tool.errors)} failed"
        for tool in shown_tools
    ]
    succeeded = _horizontal_bars(
        names, [tool.calls - tool.errors for tool in shown_tools], hover_texts, _TEAL
    )
    failed = _horizontal_bars(
        names, [tool.errors for tool in shown_tools], hover_texts, COLORS["compaction"]
    )
    data = [{**succeeded, "name": "calls"}, {**failed, "name": "failed"}]
    layout = {"barmode": "stack", "showlegend": any(tool.errors for tool in shown_tools)}
    return _with_row_labels(Chart("Tools", "calls", data, layout, 0), names)


def _compactions_chart(sessions: Iterable[Lifecycle]) -> Chart | None:
    timed = [session for session in sessions if session.duration_s][:_MAX_DOTS]
    if not any(session.compactions for session in timed):
        return None
    titles = [escape_label(session.title or session.session, 60) for session in timed]
    hover_texts = [
        f"{title}: {format_duration(session.duration_s)}, {session.compactions}"
        for title, session in zip(titles, timed, strict=True)
    ]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": [session.duration_s for session in timed],
        "y": [session.compactions for session in timed],
        "hovertext": hover_texts,
        "hoverinfo": "text",
        "marker": {"color": COLORS["compaction"], "size": 9, "opacity": 0.6},
    }
    layout = {
        "xaxis": {
            "type": "log",
            "tickvals": list(_TICKS_S),
            "ticktext": [format_duration(seconds) for seconds in _TICKS_S],
        },
        "yaxis": {"rangemode": "tozero"},
    }
    return Chart("Compactions", "of sessions, by how long they lasted", [dots], layout, 260)


def _profile_chart(profile: Profile, zone: tzinfo) -> Chart | None:
    if not profile.bins:
        return None
    # A naive time is drawn as it stands: plotly knows no zones.
    times = [bin_.began.astimezone(zone).replace(tzinfo=None).isoformat() for bin_ in profile.bins]
    bars = [
        {
            "type": "bar",
            "name": name,
            "x": times,
            "y": [getattr(bin_.seconds, name) for bin_ in profile.bins],
            "width": profile.bin_s * 1000,
            "offset": 0,
            "marker": {"color": colour},
        }
        for name, colour in COLORS.items()
    ]
    layout = {"barmode": "stack", "showlegend": True, "yaxis": {"ticksuffix": " s"}}
    note = f"seconds in each {format_duration(profile.bin_s)}; agents side by side add up"
    return Chart("Profile", note, bars, layout, 320)


def _horizontal_bars(
    names: Sequence[str], values: Sequence[float], hover_texts: Sequence[str], colour: str
) -> Data:
    """Build horizontal bars, one below the other."""
    return {
        "type": "bar",
        "orientation": "h",
        "x": list(values),
        "y": list(range(len(names))),
        "hovertext": [
            f"{escape_label(name)}: {text}" for name, text in zip(names, hover_texts, strict=True)
        ],
        "hoverinfo": "text",
        "marker": {"color": colour},
    }


def _with_row_labels(chart: Chart, names: Sequence[str]) -> Chart | None:
    """Add row labels to a chart and set its height. Return None if there are no rows."""
    if not names:
        return None
    axis = {
        "autorange": "reversed",
        "tickvals": list(range(len(names))),
        "ticktext": [escape_label(_path_tail(name), _MAX_LABEL_CHARS) for name in names],
    }
    layout = {**chart.layout, "yaxis": axis}
    return Chart(chart.title, chart.note, chart.data, layout, 90 + _ROW_PX * len(names))


def _path_tail(name: str) -> str:
    """Return the end of a long path, which distinguishes folders."""
    return (
        name
        if len(name) <= _MAX_LABEL_CHARS or "/" not in name
        else f"…{name[1 - _MAX_LABEL_CHARS :]}"
    )
