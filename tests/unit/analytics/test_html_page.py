"""The statistics page: its content, and the requests that it must not make."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC
from html.parser import HTMLParser

import pytest

from harken.analytics.charts import escape_label, overview_charts, session_charts
from harken.analytics.html_page import render_page
from harken.analytics.overview import overview, session_overview
from harken.analytics.scope import ALL, Scope
from tests.unit.analytics.row_builder import DAY, RowBuilder, at

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m\ud800"
MORNING = at("2026-03-02 09:00")


class Tags(HTMLParser):
    """Collects the tags of a page and the URLs of its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str | None] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "onerror")]


def hostile() -> RowBuilder:
    """A session with markup in all its names."""
    story = RowBuilder()
    name = EVIL.replace("\ud800", "\ufffd")  # no database holds a lone surrogate
    session_id = story.session("claude:1", title=name, project=f"/{name}", outcome=name)
    story.session("claude:2", project="/srv/bar")
    story.say(session_id, "prompt", MORNING, 5)
    answer = story.say(session_id, "response", MORNING + 60, 5)
    story.call(answer, name, 5, is_error=True)
    story.request(session_id, name, MORNING + 60, (1, 1, 1, 1), 0.5)
    story.compaction(session_id, MORNING + 61)
    return story


@pytest.mark.req("D-07")
@pytest.mark.parametrize("is_one", [True, False])
def test_external_text_is_never_markup(is_one: bool) -> None:
    database = hostile().database
    urls = (
        session_overview(database, Scope(session_id=1)) if is_one else overview(database, ALL, UTC)
    )
    text = render_page(urls, UTC)
    tags = Tags(text)
    assert "img" not in tags.tags
    assert tags.addresses == []
    assert tags.tags.count("script") == 1 + len(re.findall('id="chart-', text))
    assert "alert(1)</script>" not in text
    assert "\x1b" not in text.split("</head>")[1]
    assert "\u202e" not in text


@pytest.mark.req("D-07")
def test_page_forbids_network_requests() -> None:
    text = render_page(overview(hostile().database, ALL, UTC), UTC)
    assert "default-src 'none'" in text.split("<script>")[0]
    assert "<link" not in text
    assert "viewport" in text


@pytest.mark.req("D-07")
def test_chart_labels_are_escaped() -> None:
    """plotly itself reads `<a href=...>` in labels."""
    for chart in overview_charts(overview(hostile().database, ALL, UTC)):
        assert "<" not in str([chart.data, chart.layout])


def test_every_chart_is_valid_for_plotly() -> None:
    import plotly.graph_objects as go

    story = hostile()
    charts = overview_charts(overview(story.database, ALL, UTC))
    titles = [chart.title for chart in charts]
    assert titles == ["Activity", "Cost", "Hours of the week", "Models", "Tools", "Compactions"]
    charts += session_charts(session_overview(story.database, Scope(session_id=1)), UTC)
    for chart in charts:
        go.Figure({"data": chart.data, "layout": chart.layout})


def test_bars_of_a_long_period_are_weeks() -> None:
    """Two Mondays in a row, and 200 days later: sums by weeks that begin on Mondays."""
    story = RowBuilder()
    session_id = story.session()
    for days in (0, 1, 7, 200):
        story.say(session_id, "prompt", MORNING + days * DAY)
    chart = overview_charts(overview(story.database, ALL, UTC))[0]
    assert chart.data[0]["x"] == ["2026-03-02", "2026-03-09", "2026-09-14"]
    assert chart.data[0]["y"] == [2, 1, 1]


def test_empty_index_gives_a_page() -> None:
    assert "<h1>" in render_page(overview(RowBuilder().database, ALL, UTC), UTC)


def test_lone_surrogate_is_replaced() -> None:
    assert escape_label("a\ud800b\nc") == "a\N{REPLACEMENT CHARACTER}b c"


def test_missing_library_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['plotly'] = None\n"
        "from harken.analytics.html_page import _import_plotly\n"
        "try: _import_plotly()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("ConfigError")
    assert "pip install 'harken[charts]'" in ran.stdout
