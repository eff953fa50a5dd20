"""The statistics page: every member of `harken stats --json` is shown, and numbers lead to sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from harken.cli.main import run_cli
from harken.core.event_types.spec import AgentSpec
from harken.session.session import Session
from tests.acceptance.shared_data import DATA, needed
from tests.cli.large_home import write_large_home
from tests.cli.ui_kit import show_home
from tests.session_kit import (
    create_agent,
    log_tool_calls,
    log_user_message,
    session_options,
)
from tests.web.browser_kit import Browser, Page, Tab, expect

FIGURES = """() => Object.fromEntries([...document.querySelectorAll("[data-figure]")]
    .filter((node) => node.offsetParent !== null && node.textContent.trim() !== "")
    .map((node) => [node.dataset.figure, [node.dataset.value, node.textContent.trim()]]))"""
"""Return the members that are shown: by their paths, the value and the text of each."""


@pytest.fixture(scope="module")
def rich_home(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Path:
    """A home with many sessions, an import, subagents, hooks, failures and unknown costs."""
    folder = tmp_path_factory.mktemp("stats")
    write_large_home(folder / "home", 40)
    if DATA.exists():
        import_data(folder / "home")
    return folder / "home"


def import_data(home: Path) -> None:
    """Import some real sessions, which have costs, compactions and subagents."""
    for path in ("claude-code/simonw+claude-code-transcripts", "codex"):
        run(home, "import", str(DATA / "transcripts" / path))


def run(home: Path, command: str, *arguments: str) -> str:
    """Return the output of a command."""
    out = StringIO()
    with redirect_stdout(out):
        assert run_cli([command, "--home", str(home), *arguments], {}) == 0
    return out.getvalue()


@pytest.fixture
def stats(rich_home: Path, browser: Browser) -> Iterator[Tab]:
    run(rich_home, "stats", "--json")
    with (
        show_home(rich_home) as server,
        browser.new_context(viewport={"width": 1280, "height": 900}) as context,
    ):
        tab = Tab(context, server.address)
        yield tab
        assert tab.problems == []


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the paths of all members, with their values. A list of plain values is one."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and not all(isinstance(item, str) for item in value):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif not (isinstance(value, list) and not value and path != "folders"):
        yield path, value


def open_all(page: Page) -> dict[str, list[str]]:
    """Open all tables of the page completely. Return the figures that were shown."""
    for closed in (
        "details:not([open]) > summary",
        "[data-columns][aria-pressed=false]",
        "[data-more]",
    ):
        while page.locator(f"main {closed}").count():
            page.locator(f"main {closed}").first.click()
    figures: dict[str, list[str]] = page.evaluate(FIGURES)
    for button in page.locator("[data-kind][aria-pressed=false]").all():
        button.click()
        figures |= page.evaluate(FIGURES)
    return figures


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", []),
        ("?runtime=harken&since=2026-01-01", ["--runtime", "harken", "--since", "2026-01-01"]),
        ("?session=talk-00003", ["talk-00003"]),
    ],
)
def test_every_member_of_the_statistics_is_shown(
    stats: Tab, rich_home: Path, query: str, options: list[str]
) -> None:
    members = json.loads(run(rich_home, "stats", "--json", *options))
    page = stats.open(f"#/stats{query}")
    expect(page.locator("dl").first).to_be_visible()
    figures = open_all(page)
    expected = dict(leaves(members))
    assert len(expected) > 100
    missing = [path for path in expected if path not in figures]
    assert missing == [], f"{len(missing)} members have no place on the page"
    for path, value in expected.items():
        assert json.loads(figures[path][0]) == value, path
    stats.save_screenshot(f"stats-all{'-session' if 'session' in query else ''}")


def test_unknown_values_are_named_and_never_zero(stats: Tab, rich_home: Path) -> None:
    members = json.loads(run(rich_home, "stats", "--json"))
    page = stats.open("#/stats")
    expect(page.locator("dl").first).to_be_visible()
    figures = open_all(page)
    unknown = [path for path, value in leaves(members) if value is None]
    assert unknown
    for path in unknown:
        assert not any(character.isdigit() for character in figures[path][1]), (path, figures[path])


def test_numbers_lead_to_the_sessions_behind_them(stats: Tab) -> None:
    page = stats.open("#/stats?project=/srv/ann/app")
    page.get_by_role("link", name="search", exact=True).or_(
        page.get_by_role("link", name="read_file", exact=True)
    ).first.click()
    expect(page.locator("a.row").first).to_be_visible()
    assert "project=%2Fsrv%2Fann%2Fapp" in page.url
    assert "tool=" in page.url
    expect(page.get_by_role("status")).to_contain_text("10 sessions")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Statistics")
    page.get_by_role("link", name="error", exact=True).click()
    expect(page.locator("a.row").first).to_be_visible()
    assert "outcome=error" in page.url


def test_filters_are_in_the_address(stats: Tab) -> None:
    page = stats.open("#/stats")
    page.get_by_role("combobox", name="Runtime", exact=True).select_option("harken")
    expect(page.locator("[data-figure=runtime]")).to_have_text("harken")
    assert page.url.endswith("#/stats?runtime=harken")
    page.get_by_role("combobox", name="Time", exact=True).select_option("custom")
    page.get_by_label("To", exact=True).fill("2020-01-01")
    expect(page.get_by_role("heading", name="No messages in this range")).to_be_visible()
    page.go_back()
    expect(page.locator("[data-figure='usage.responses']").first).to_be_visible()
    page.reload()
    expect(page.get_by_role("combobox", name="Runtime", exact=True)).to_have_value("harken")


def test_a_session_leads_to_its_statistics_and_back(stats: Tab) -> None:
    page = stats.open("#/session/talk-00003")
    page.get_by_role("link", name="Statistics").last.click()
    expect(page.locator("[data-figure='session.session']")).to_have_text("talk-00003")
    expect(page.get_by_role("img").first).to_be_visible()
    page.get_by_role("button", name="Show all sessions").click()
    expect(page.locator("[data-figure='activity.messages[0][0]']")).to_have_count(1)


def test_every_chart_has_a_name_and_a_table(stats: Tab) -> None:
    page = stats.open("#/stats")
    charts = page.get_by_role("img")
    expect(charts.first).to_be_visible()
    for chart in charts.all():
        assert chart.get_attribute("aria-label")
        assert chart.evaluate(
            "(node) => node.closest('section').textContent.includes('as a table')"
        )
    expect(page.get_by_role("table", name="Messages by weekday and hour")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1280, 2560])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_scrolls_in_one_direction_only(stats: Tab, width: int, theme: Any) -> None:
    stats.page.set_viewport_size({"width": width, "height": 1000})
    stats.page.emulate_media(color_scheme=theme)
    page = stats.open("#/stats")
    expect(page.locator("dl").first).to_be_visible()
    expect(page.locator(".u-wrap canvas").first).to_be_visible()
    assert page.evaluate("document.querySelector('main').scrollWidth") <= width
    stats.save_screenshot(f"stats-{theme}-{width}")


def test_an_empty_home_says_where_statistics_come_from(browser: Browser, tmp_path: Path) -> None:
    with show_home(tmp_path) as server, browser.new_context() as context:
        tab = Tab(context, server.address)
        page = tab.open("#/stats")
        expect(page.get_by_role("heading", name="No statistics yet")).to_be_visible()
        tab.expect_problem("status of 404")
        tab.go("#/stats?project=nowhere")
        expect(page.get_by_role("alert")).to_contain_text("Not found")
        assert tab.problems == []


def test_figures_grow_while_sessions_are_indexed(browser: Browser, tmp_path: Path) -> None:
    write_large_home(tmp_path, 300)
    with show_home(tmp_path) as server, browser.new_context() as context:
        tab = Tab(context, server.address)
        page = tab.open("#/stats")
        expect(page.get_by_text("Show 300 in the list")).to_be_visible()
        expect(page.get_by_text("not indexed yet")).to_have_count(0)
        assert tab.problems == []


@needed
def test_real_sessions_have_costs_and_compactions(stats: Tab) -> None:
    page = stats.open("#/stats")
    expect(page.locator("[data-figure='usage.cost_usd']")).to_contain_text("$")
    expect(page.get_by_role("img", name="Cost on")).to_be_visible()
    stats.save_screenshot("stats")


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    markup = "<img src=x onerror=alert(1)>\u202e"
    (tmp_path / "sessions").mkdir()
    with Session(tmp_path / "sessions" / "hostile.jsonl", options=session_options()) as session:
        spec = AgentSpec(folder=f"/srv/{markup}")
        agent = create_agent(session, relation="primary", name=markup, spec=spec)
        log_user_message(session, agent, markup)
        log_tool_calls(session, agent, "c1", tool="rm")
        session.end(markup)
    run(tmp_path, "stats", "--json")
    with show_home(tmp_path) as server, browser.new_context() as context:
        tab = Tab(context, server.address)
        page = tab.open("#/stats")
        expect(page.get_by_role("table", name="Outcomes")).to_contain_text("<img src=x")
        assert page.locator("main img").count() == 0
        assert "\u202e" not in page.locator("main").inner_text()
        page.get_by_role("table", name="Outcomes").get_by_role("link").click()
        expect(page.locator("a.row")).to_have_count(1)
        assert tab.problems == []
