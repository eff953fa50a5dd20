"""Render statistics as a self-contained HTML page with charts.

Untrusted text is escaped, and a content security policy forbids all network requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo
from html import escape
from typing import Any, TypeAlias

from harken.analytics.charts import Chart, Data, escape_label, overview_charts, session_charts
from harken.analytics.number_text import count_tokens, format_cost, format_duration, format_number
from harken.analytics.overview import OneSession, Overview
from harken.analytics.sessions import Lifecycle
from harken.analytics.times import format_minute
from harken.analytics.tools import Amplification
from harken.analytics.usage import UsageStats
from harken.errors import ConfigError

MAX_SESSIONS = 100
"""Maximum number of sessions in the table."""
Figure: TypeAlias = tuple[str, str]
"""A formatted number and its label."""
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; background: #fafbfb; color: #22303a;
  font: 16px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0; } h2 small { font-weight: normal; color: #6b7a85; }
section { background: #fff; border: 1px solid #e3e8ea; border-radius: .6rem; margin: 1rem 0;
  padding: .8rem 1rem; }
.figures { display: grid; gap: .6rem;
  grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); }
.figures div { background: #fff; border: 1px solid #e3e8ea; border-radius: .6rem;
  padding: .6rem .8rem; }
.figures b { display: block; font-size: 1.2rem; color: #12685f; white-space: nowrap; }
.figures span { color: #6b7a85; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th { text-align: left; color: #6b7a85; font-weight: normal; }
td, th { padding: .25rem .6rem .25rem 0; vertical-align: top; }
.number { text-align: right; white-space: nowrap; }
td.title { overflow-wrap: anywhere; min-width: 12rem; } small { color: #6b7a85; }
"""
_LAYOUT: Data = {
    "margin": {"l": 10, "r": 10, "t": 10, "b": 30},
    "font": {"family": "system-ui, sans-serif", "size": 12, "color": "#22303a"},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "showlegend": False,
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    "dragmode": False,
}
_AXIS: Data = {"automargin": True, "fixedrange": True, "gridcolor": "#edf0f1", "zeroline": False}
_NUMBER = ' class="number"'
_CONFIG: Data = {"displayModeBar": False, "responsive": True}


def render_page(report: Overview | OneSession, zone: tzinfo) -> str:
    """Render a page. Raises ConfigError if plotly is not installed."""
    if isinstance(report, OneSession):
        title = report.session.title or report.session.session
        charts, subtitle = session_charts(report, zone), _session_subtitle(report.session, zone)
        table: Sequence[Lifecycle] = ()
        peaks: list[Figure] = []
    else:
        title, charts, table = "Harken: what was done", overview_charts(report), report.sessions
        subtitle = f"{format_number(len(report.sessions))} sessions"
        peaks = [(format_number(report.concurrency.at_work), "sessions at work at once, at most")]
    body = [
        f"<h1>{escape_label(title)}</h1>",
        f"<p>{subtitle}</p>",
        _render_figures(_summary_figures(report.amplification, report.usage) + peaks),
        *(_render_section(index, chart) for index, chart in enumerate(charts)),
        _render_sessions(table, zone),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape_label(title)}</title>\n<style>{_STYLE}</style>\n"
        f"<script>{_import_plotly().offline.get_plotlyjs()}</script>\n</head>\n<body>\n"
        + "\n".join(filter(None, body))
        + "\n</body>\n</html>\n"
    )


def _import_plotly() -> Any:
    """Import plotly. Raises ConfigError if it is not installed."""
    try:
        import plotly.io  # noqa: PLC0415 - an extra
        import plotly.offline  # noqa: PLC0415 - as above
    except ImportError:
        raise ConfigError(
            "a page with charts needs the package plotly: pip install 'harken[charts]'"
        ) from None
    return plotly


def _session_subtitle(session: Lifecycle, zone: tzinfo) -> str:
    facts = [
        escape_label(session.session),
        escape_label(session.project),
        f"{format_minute(session.began, zone)} to {format_minute(session.ended, zone)}",
        format_duration(session.duration_s),
        f"outcome {escape_label(session.outcome)}" if session.outcome else "",
        f"{session.compactions} compactions",
    ]
    return " · ".join(filter(None, facts))


def _summary_figures(sums: Amplification, usage: UsageStats) -> list[Figure]:
    return [
        (format_number(sums.prompts), "prompts"),
        (format_number(sums.responses), "responses"),
        (format_number(sums.tool_calls), "tool calls"),
        (format_number(count_tokens(usage)), "tokens"),
        (format_cost(usage.cost_usd, usage.unpriced) or "none", "cost"),
        (format_number(sums.responses_per_prompt), "responses for a prompt"),
        (format_number(sums.tool_calls_per_prompt), "tool calls for a prompt"),
        (format_number(sums.output_per_input), "characters for each one asked"),
    ]


def _render_figures(figures: Iterable[Figure]) -> str:
    cells = (f"<div><b>{escape(figure)}</b><span>{label}</span></div>" for figure, label in figures)
    return f'<div class="figures">{"".join(cells)}</div>'


def _render_section(index: int, chart: Chart) -> str:
    layout = {**_LAYOUT, **chart.layout}
    for axis in ("xaxis", "yaxis"):
        layout[axis] = {**_AXIS, **chart.layout.get(axis, {})}
    chart_html = _import_plotly().io.to_html(
        {"data": chart.data, "layout": layout},
        config=_CONFIG,
        include_plotlyjs=False,
        full_html=False,
        default_height=f"{chart.height}px",
        div_id=f"chart-{index}",
    )
    return f"<section><h2>{chart.title} <small>{chart.note}</small></h2>{chart_html}</section>"


def _render_sessions(sessions: Sequence[Lifecycle], zone: tzinfo) -> str:
    if not sessions:
        return ""
    heads = ("ended", "session", "lasted", "prompts", "calls", "compactions", "outcome", "cost")
    rows = "".join(_render_row(session, zone) for session in sessions[:MAX_SESSIONS])
    hidden_count = len(sessions) - MAX_SESSIONS
    note = (
        f"<p>... and {format_number(hidden_count)} more, with --json</p>"
        if hidden_count > 0
        else ""
    )
    head = "".join(f"<th{'' if name in heads[:2] else _NUMBER}>{name}</th>" for name in heads)
    table = f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>{note}'
    return f"<section><h2>Sessions <small>the last ones first</small></h2>{table}</section>"


def _render_row(session: Lifecycle, zone: tzinfo) -> str:
    numbers = [
        format_duration(session.duration_s),
        format_number(session.prompts),
        format_number(session.tool_calls),
        format_number(session.compactions),
        escape_label(session.outcome or "", 40),
        format_cost(session.cost_usd, session.unpriced),
    ]
    title = escape_label(session.title or session.session)
    name, project = escape_label(session.session), escape_label(session.project)
    location = f'<br><small title="{name}">{project}</small>'
    return (
        f'<tr><td class="number">{format_minute(session.ended, zone)}</td>'
        f'<td class="title">{title}{location}</td>{_render_cells(numbers)}</tr>'
    )


def _render_cells(texts: Iterable[str]) -> str:
    return "".join(f'<td class="number">{text}</td>' for text in texts)
