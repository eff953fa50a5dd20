"""Charts: figures as the data that a plotting library draws.

One idea: a chart is plain data, in the form of plotly's figures, so it can be looked at and tested
without a browser. Names come from outside, and plotly reads markup in labels: they are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from html import escape
from typing import Any, TypeAlias

from harken.analytics.activity import WEEKDAYS
from harken.analytics.number_text import cost, dollars, duration, number, tokens
from harken.analytics.overview import OneSession, Overview
from harken.analytics.profile import Profile
from harken.analytics.sessions import Lifecycle
from harken.analytics.tools import Tools
from harken.analytics.usage import DayUsage, ModelUsage, ProjectUsage

Data: TypeAlias = dict[str, Any]
MOST = 15
"""So many bars; all figures are in the JSON."""
_LABEL = 24
_ROW = 26
_DAY_MS = 86_400_000
_BARS = 120
_DOTS = 3000
_STEPS = {1: "a day", 7: "a week", 28: "in four weeks", 364: "in 52 weeks"}
"""Of so many days may be a bar."""
_TICKS_S = (1, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400)
COLOURS = {
    "prompt": "#e9a23b",
    "response": "#2a9d8f",
    "thinking": "#9b5de5",
    "tool": "#3a86ff",
    "compaction": "#d1495b",
    "idle": "#dfe3e6",
}
_TEAL = COLOURS["response"]
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, and what it shows."""

    title: str
    note: str
    data: Sequence[Data]
    layout: Data
    height: int
    """In pixels."""


def escape_label(text: str, width: int = 200) -> str:
    """Return a text from outside as a page may have it: one line, cut, without markup or tricks.

    >>> escape_label("<b>Tea</b>"), escape_label("a" * 9, 4)
    ('&lt;b&gt;Tea&lt;/b&gt;', 'aaa…')
    """
    line = " ".join(_HIDDEN.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split())).split(" "))
    return escape(line if len(line) <= width else line[: width - 1] + "…")


def overview_charts(found: Overview) -> list[Chart]:
    """Return the charts of an overview; those of which there is nothing to show are left out."""
    charts = [
        _days(found),
        _costs(found.days),
        _week(found.activity.messages),
        _models(found.models),
        _projects(found.projects),
        _tools(found.tools),
        _compactions(found.sessions),
    ]
    return [one for one in charts if one is not None]


def session_charts(found: OneSession, zone: tzinfo) -> list[Chart]:
    """Return the charts of one session."""
    charts = [_profile(found.profile, zone), _models(found.models), _tools(found.tools)]
    return [one for one in charts if one is not None]


def _days(found: Overview) -> Chart | None:
    days = {one.day: one for one in found.activity.days}
    if not days:
        return None
    step = _step(days)
    kinds = (
        ("prompts", {day: one.prompts for day, one in days.items()}, COLOURS["prompt"]),
        ("responses", {day: one.responses for day, one in days.items()}, _TEAL),
    )
    bars = [
        _over_time(_in_steps(counts, step), step, colour) | {"name": name, "hoverinfo": "x+y+name"}
        for name, counts, colour in kinds
    ]
    layout = {"barmode": "stack", "xaxis": {"type": "date"}, "showlegend": True}
    return Chart("Activity", f"prompts and responses {_STEPS[step]}", bars, layout, 260)


def _costs(days: Sequence[DayUsage]) -> Chart | None:
    known = {one.day: one.cost_usd or 0.0 for one in days if one.day is not None}
    if not any(known.values()):
        return None
    step = _step(known)
    sums = _in_steps(known, step)
    told = [f"{day}: {dollars(value)}" for day, value in sums.items()]
    bar = _over_time(sums, step, COLOURS["tool"]) | {"hovertext": told, "hoverinfo": "text"}
    layout = {"xaxis": {"type": "date"}, "yaxis": {"tickprefix": "$"}}
    note = f"{_STEPS[step]}, of responses whose price is known"
    return Chart("Cost", note, [bar], layout, 240)


def _step(days: Iterable[date]) -> int:
    """Return how many days go into a bar, so that bars are not too thin to be seen."""
    known = [*days]
    span = (max(known) - min(known)).days
    return next((step for step in _STEPS if span <= step * _BARS), max(_STEPS))


def _in_steps(values: Mapping[date, float], step: int) -> dict[date, float]:
    """Return the sums of so many days each, by the first of them; weeks begin on Mondays."""
    sums: dict[date, float] = {}
    for day in sorted(values):
        first = day - timedelta(days=(day.toordinal() - 1) % step)
        sums[first] = sums.get(first, 0) + values[day]
    return sums


def _over_time(values: Mapping[date, float], step: int, colour: str) -> Data:
    return {
        "type": "bar",
        "x": [day.isoformat() for day in values],
        "y": [*values.values()],
        "width": step * _DAY_MS * 0.9,
        "offset": 0,
        "marker": {"color": colour},
    }


def _week(messages: Sequence[Sequence[int]]) -> Chart | None:
    if not any(map(any, messages)):
        return None
    text = [
        [f"{name} {hour}:00, {number(value)} messages" for hour, value in enumerate(row)]
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


def _models(models: Sequence[ModelUsage]) -> Chart | None:
    kinds = (
        ("read anew", "input_tokens", COLOURS["prompt"]),
        ("from a cache", "cache_read_tokens", "#a8dadc"),
        ("into a cache", "cache_write_tokens", "#6a8caf"),
        ("written", "output_tokens", _TEAL),
    )
    used = [one for one in models if tokens(one)][:MOST]
    names = [one.model or "(not named)" for one in used]
    told = [f"{number(one.responses)} responses, {_money(one)}" for one in used]
    bars = [
        _bars(names, [getattr(one, member) or 0 for one in used], told, colour) | {"name": name}
        for name, member, colour in kinds
    ]
    layout = {"barmode": "stack", "showlegend": True}
    return _of_rows(Chart("Models", "tokens", bars, layout, 0), names)


def _projects(projects: Sequence[ProjectUsage]) -> Chart | None:
    used = projects[:MOST]
    names = [one.project or "(not known)" for one in used]
    told = [f"{number(one.sessions)} sessions, {_money(one)}" for one in used]
    if len(used) < 2:
        return None
    bars = _bars(names, [one.cost_usd or 0 for one in used], told, COLOURS["tool"])
    layout = {"xaxis": {"tickprefix": "$"}}
    return _of_rows(Chart("Projects", "cost, as far as it is known", [bars], layout, 0), names)


def _money(one: ModelUsage | ProjectUsage) -> str:
    money = cost(one.cost_usd, one.unpriced)
    return f"cost {money}" if money == "unknown" else money


def _tools(tools: Tools) -> Chart | None:
    used = tools.tools[:MOST]
    names = [one.name for one in used]
    told = [f"{number(one.calls)} calls, {number(one.errors)} failed" for one in used]
    fine = _bars(names, [one.calls - one.errors for one in used], told, _TEAL)
    failed = _bars(names, [one.errors for one in used], told, COLOURS["compaction"])
    data = [{**fine, "name": "calls"}, {**failed, "name": "failed"}]
    layout = {"barmode": "stack", "showlegend": any(one.errors for one in used)}
    return _of_rows(Chart("Tools", "calls", data, layout, 0), names)


def _compactions(sessions: Iterable[Lifecycle]) -> Chart | None:
    timed = [one for one in sessions if one.duration_s][:_DOTS]
    if not any(one.compactions for one in timed):
        return None
    titles = [escape_label(one.title or one.session, 60) for one in timed]
    told = [
        f"{title}: {duration(one.duration_s)}, {one.compactions}"
        for title, one in zip(titles, timed, strict=True)
    ]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": [one.duration_s for one in timed],
        "y": [one.compactions for one in timed],
        "hovertext": told,
        "hoverinfo": "text",
        "marker": {"color": COLOURS["compaction"], "size": 9, "opacity": 0.6},
    }
    layout = {
        "xaxis": {
            "type": "log",
            "tickvals": list(_TICKS_S),
            "ticktext": [duration(seconds) for seconds in _TICKS_S],
        },
        "yaxis": {"rangemode": "tozero"},
    }
    return Chart("Compactions", "of sessions, by how long they lasted", [dots], layout, 260)


def _profile(profile: Profile, zone: tzinfo) -> Chart | None:
    if not profile.bins:
        return None
    # A naive time is drawn as it stands: plotly knows no zones.
    times = [one.began.astimezone(zone).replace(tzinfo=None).isoformat() for one in profile.bins]
    bars = [
        {
            "type": "bar",
            "name": name,
            "x": times,
            "y": [getattr(one.seconds, name) for one in profile.bins],
            "width": profile.bin_s * 1000,
            "offset": 0,
            "marker": {"color": colour},
        }
        for name, colour in COLOURS.items()
    ]
    layout = {"barmode": "stack", "showlegend": True, "yaxis": {"ticksuffix": " s"}}
    note = f"seconds in each {duration(profile.bin_s)}; agents side by side add up"
    return Chart("Profile", note, bars, layout, 320)


def _bars(names: Sequence[str], values: Sequence[float], told: Sequence[str], colour: str) -> Data:
    """Return bars from left to right, one below the other."""
    return {
        "type": "bar",
        "orientation": "h",
        "x": list(values),
        "y": list(range(len(names))),
        "hovertext": [
            f"{escape_label(name)}: {text}" for name, text in zip(names, told, strict=True)
        ],
        "hoverinfo": "text",
        "marker": {"color": colour},
    }


def _of_rows(chart: Chart, names: Sequence[str]) -> Chart | None:
    """Return a chart with a name for each row, as high as it takes; None: there is no row."""
    if not names:
        return None
    axis = {
        "autorange": "reversed",
        "tickvals": list(range(len(names))),
        "ticktext": [escape_label(_tail(name), _LABEL) for name in names],
    }
    layout = {**chart.layout, "yaxis": axis}
    return Chart(chart.title, chart.note, chart.data, layout, 90 + _ROW * len(names))


def _tail(name: str) -> str:
    """Return the end of a long path: there the folders differ."""
    return name if len(name) <= _LABEL or "/" not in name else f"…{name[1 - _LABEL :]}"
