"""Plots of the results on log axes, as SVG, and their tables.

plotly draws them, which `harken stats --html` needs, too; Chromium runs it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import plotly.graph_objects as go
from playwright.sync_api import sync_playwright
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

from benchmarks.scale.operations import REFERENCE, WHOLE, Measurement
from benchmarks.scale.results import list_operations, read_results, table_lines

IMAGES = Path(__file__).parents[2] / "docs" / "images"
_COLUMNS = 4
_DECADES = 2.5
"""A panel shows at least so many powers of ten, so that noise looks small."""
_PANEL_WIDTH, _PANEL_HEIGHT = 250, 200
_COLORS = {
    "sqlite, full sessions": "#1f77b4",
    "postgresql, full sessions": "#d62728",
    "sqlite, short sessions": "#2ca02c",
}
_NAMES = {
    "sqlite, full sessions": "SQLite",
    "postgresql, full sessions": "PostgreSQL and S3",
    "sqlite, short sessions": "SQLite, one question and answer a session",
}


def draw_all() -> None:
    """Draw the operations that a user waits for, and those that read everything. Print tables."""
    results = read_results()
    names = list_operations(m for kind in results.values() for m in kind)
    waits = [name for name in names if name not in WHOLE]
    _draw(results, waits, IMAGES / "scale-waits.svg")
    _draw(results, list(WHOLE), IMAGES / "scale-whole.svg")
    for kind, measurements in results.items():
        print(f"\n{_NAMES[kind]}\n")
        print("\n".join(table_lines(measurements)))


def _draw(results: Mapping[str, Sequence[Measurement]], names: Sequence[str], path: Path) -> None:
    rows = -(-len(names) // _COLUMNS)
    figure = make_subplots(
        rows, _COLUMNS, subplot_titles=names, vertical_spacing=0.35 / rows, horizontal_spacing=0.06
    )
    for index, name in enumerate(names):
        row, column = index // _COLUMNS + 1, index % _COLUMNS + 1
        for kind, measurements in results.items():
            points = [m for m in measurements if name in m.costs]
            figure.add_trace(_trace(kind, points, name, is_first=index == 0), row, column)
        costs = [m.costs[name].cpu_ms for kind in results.values() for m in kind if name in m.costs]
        figure.update_yaxes(range=_find_range(costs), row=row, col=column)
    figure.update_xaxes(type="log", dtick=1, exponentformat="power", showexponent="all")
    figure.update_yaxes(type="log", dtick=1, exponentformat="power", tickfont_size=9)
    figure.update_annotations(font_size=11)
    figure.update_layout(
        template="plotly_white",
        width=_COLUMNS * _PANEL_WIDTH,
        height=rows * _PANEL_HEIGHT + 90,
        margin={"l": 40, "r": 15, "t": 40, "b": 80},
        legend={"orientation": "h", "y": -70 / (rows * _PANEL_HEIGHT)},
        font_size=10,
    )
    path.write_text(_render(figure))


def _find_range(costs: Sequence[float]) -> list[float]:
    """Return the powers of ten between which a panel shows costs: equally many in most panels."""
    low, high = math.log10(min(costs)), math.log10(max(costs))
    margin = max(_DECADES - (high - low), 0.3) / 2
    return [low - margin, high + margin]


def _trace(kind: str, points: Sequence[Measurement], name: str, *, is_first: bool) -> Any:
    return go.Scatter(
        x=[m.sessions for m in points],
        y=[m.costs[name].cpu_ms for m in points],
        name=f"{_NAMES[kind]}: ms of CPU against sessions",
        mode="lines+markers",
        line={"color": _COLORS[kind], "dash": "dot" if name == REFERENCE else "solid"},
        legendgroup=kind,
        showlegend=is_first,
    )


def _render(figure: Any) -> str:
    """Return a figure as SVG."""
    from tests.web.browser_kit import ARGUMENTS, CHROMIUM

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page()
        page.add_script_tag(content=get_plotlyjs())
        options = {"format": "svg", **{n: figure.layout[n] for n in ("width", "height")}}
        call = "([figure, options]) => Plotly.toImage(figure, options)"
        url = str(page.evaluate(call, [json.loads(figure.to_json()), options]))
        browser.close()
    return unquote(url.partition(",")[2])
