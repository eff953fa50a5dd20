"""An agent has the same color on every page: session, dialog, timeline, history, why, compare, stats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.git_kit import Repository
from tests.cli.ui_kit import show_home
from tests.web.browser_kit import Browser, Locator, Tab, expect
from tests.web.history_scenes import harken
from tests.web.why_scenes import write_shop

PAGES = {
    "dialog": "#/session/quiet?agent=agent_002,agent_003",
    "model calls": "#/session/quiet/step/7",
    "timeline": "#/session/quiet/timeline",
    "history of the session": "#/history?session=quiet",
    "history": "#/history",
    "compare": "#/compare?session=quiet&session=demo&agent=Jill",
    "statistics": "#/stats?session=quiet",
}
"""Pages that name the agent Jill of a session."""


@pytest.fixture(scope="module")
def address(history_home: Path) -> Iterator[str]:
    harken(history_home, "search", "cafe")  # It updates the index.
    with show_home(history_home) as page:
        yield page.address


def color_of(badge: Locator) -> str:
    """Return the color of a badge as the browser shows it."""
    expect(badge).to_be_visible()
    return str(badge.evaluate("(node) => getComputedStyle(node).borderTopColor"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_agent_has_one_color_on_all_pages(tab: Tab, theme: str) -> None:
    tab.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page = tab.open("#/session/quiet")
    tree = page.get_by_role("treeitem", name="Jill").locator(".badge")
    expected = color_of(tree)
    assert expected != color_of(page.get_by_role("treeitem", name="Inner").locator(".badge"))
    colors: dict[str, str] = {}
    for name, route in PAGES.items():
        page.goto(f"{tab.address}/{route}")
        colors[name] = color_of(page.locator(".badge", has_text="Ji").first)
    assert colors == dict.fromkeys(PAGES, expected)


def test_the_lines_of_a_file_have_the_colors_of_the_session(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("colors")
    shop: Repository = write_shop(folder / "home", folder)
    with (
        show_home(folder / "home", start=shop.folder) as server,
        browser.new_context(viewport={"width": 1280, "height": 800}) as context,
    ):
        tab = Tab(context, server.address)
        page = tab.open(f"#/why?repository={shop.folder}&path=src/orders.py&line=5")
        answer = page.get_by_role("complementary")
        color = color_of(answer.locator(".writer .badge").first)
        line = page.locator(".code .line.agent").first
        bar = line.locator(".gutter").evaluate("(node) => getComputedStyle(node).borderLeftColor")
        assert bar == color
        answer.get_by_role("link", name="The message in its conversation").click()
        assert color_of(page.get_by_role("treeitem").first.locator(".badge")) == color
        assert tab.problems == []
