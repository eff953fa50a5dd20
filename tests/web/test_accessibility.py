"""axe finds no serious fault in any view, in both themes and at three widths; keys reach everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("axe_playwright_python", reason="axe checks the page: make venv")
from axe_playwright_python.sync_playwright import (  # type: ignore[import-untyped]
    Axe,
)

from tests.cli.ui_kit import show_home
from tests.web.browser_kit import Browser, Page, Tab, expect
from tests.web.history_scenes import harken
from tests.web.scenes import ANSWER
from tests.web.shared_kit import FileTab, write_page
from tests.web.why_scenes import write_shop

VIEWS = {
    "sessions": ("#/", "a.row"),
    "search": ("#/?text=harbor", ".hits a"),
    "session": ("#/session/harbor", "article"),
    "panels": ("#/session/harbor?agent=agent_001&agent=agent_003", "article"),
    "dialog": ("#/session/harbor?agent=agent_001,agent_003", "article.label-draft"),
    "details": ("#/session/harbor?agent=agent_003&m=msg_040&d=msg_040", "aside .hop"),
    "steps": ("#/session/harbor/step/4", ".context .message"),
    "timeline": ("#/session/harbor/timeline", ".timeline .event .text"),
    "chat": ("#/chat", "main h1, main h2"),
    "why": ("#/why", "main h1, main h2"),
    "history": ("#/history", "h1"),
    "compare": ("#/compare", "h2"),
    "stats": ("#/stats", "[data-figure]"),
    "import": ("#/import", "h1"),
    "missing": ("#/session/none", "main h1"),
    "unknown": ("#/session/harbor?agent=agent_999", "main [role=alert]"),
}
"""Name -> its address, and an element that it has when it is loaded."""
SIZES = [(1280, 800), (2560, 1440), (390, 844)]
SERIOUS = ("serious", "critical")
FOCUSED = """() => {
    const node = document.activeElement;
    return node.getAttribute("aria-label") || node.textContent.trim() || node.tagName;
}"""


def find_faults(page: Page) -> list[str]:
    """Return the serious faults that axe finds in what is neither loading nor in a transition."""
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    page.wait_for_function(
        "!document.getAnimations().some((animation) => animation instanceof CSSTransition)"
    )
    results: dict[str, Any] = Axe().run(page).response
    return [
        f"{fault['id']}: {node['html'][:160]} {node['failureSummary']}"
        for fault in results["violations"]
        if fault["impact"] in SERIOUS
        for node in fault["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size[0]))
def test_axe_finds_nothing_serious(
    browser: Browser, address: str, size: tuple[int, int], scheme: Any
) -> None:
    viewport: Any = {"width": size[0], "height": size[1]}
    with browser.new_context(viewport=viewport, color_scheme=scheme, bypass_csp=True) as context:
        tab = Tab(context, address)
        tab.expect_problem("404")
        page = tab.open()
        faults: dict[str, list[str]] = {}
        for name, (route, element) in VIEWS.items():
            page.goto(f"{address}/{route}")
            expect(page.locator(element).first).to_be_attached()
            faults[name] = find_faults(page)
        assert {name: found for name, found in faults.items() if found} == {}


def test_axe_finds_nothing_serious_in_what_opens(browser: Browser, address: str) -> None:
    with browser.new_context(bypass_csp=True) as context:
        page = Tab(context, address).open("#/session/harbor")
        expect(page.locator("article").first).to_be_visible()
        page.keyboard.press("f")
        expect(page.get_by_role("searchbox", name="Find in this conversation")).to_be_focused()
        for call in page.locator(".call > button").all():
            if call.get_attribute("aria-expanded") == "false":
                call.click()
        page.get_by_text("Continue in…").click()
        assert find_faults(page) == []
        page.locator("h1").click()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        assert find_faults(page) == []


COMMIT_VIEWS = {
    "history": ("#/history?session=quiet", "[data-commit]"),
    "compare": ("#/compare?session=demo&session=quiet", "[role=separator]"),
    "session statistics": ("#/stats?session=demo", "[data-figure]"),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious_in_commits_runs_and_figures(
    browser: Browser, history_home: Path, width: int, scheme: Any
) -> None:
    viewport: Any = {"width": width, "height": 844}
    harken(history_home, "search", "cafe")  # It updates the index.
    with (
        show_home(history_home) as server,
        browser.new_context(viewport=viewport, color_scheme=scheme, bypass_csp=True) as context,
    ):
        page = Tab(context, server.address).open()
        faults: dict[str, list[str]] = {}
        for name, (route, element) in COMMIT_VIEWS.items():
            page.goto(f"{server.address}/{route}")
            expect(page.locator(element).first).to_be_visible()
            faults[name] = find_faults(page)
        page.goto(f"{server.address}/#/history")
        page.locator("[data-commit]").first.click()
        page.get_by_role("button", name="label").first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        faults["question"] = find_faults(page)
        assert {name: found for name, found in faults.items() if found} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_file_with_its_agents(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, scheme: Any
) -> None:
    folder = tmp_path_factory.mktemp("axe")
    shop = write_shop(folder / "home", folder)
    with (
        show_home(folder / "home", start=shop.folder) as server,
        browser.new_context(color_scheme=scheme, bypass_csp=True) as context,
    ):
        tab = Tab(context, server.address)
        page = tab.open(f"#/why?repository={shop.folder}&path=src/orders.py&line=5")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            expect(page.locator(".origin .writer").first).to_be_attached()
            assert find_faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_shared_file(
    browser: Browser, home: Path, tmp_path: Path, scheme: Any
) -> None:
    file = write_page(home, "harbor", tmp_path / "harbor.html")
    with browser.new_context(color_scheme=scheme, bypass_csp=True) as context:
        page = FileTab(context, file).open()
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            expect(page.locator("article").first).to_be_visible()
            assert find_faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_are_accessible_and_give_the_focus_back(
    browser: Browser, address: str, scheme: Any
) -> None:
    with browser.new_context(color_scheme=scheme, bypass_csp=True) as context:
        page = Tab(context, address).open("#/session/harbor/step/4")
        for name, title in (("With changes…", "Fork at"), ("Keys", "Keys")):
            button = page.get_by_role("button", name=name)
            button.click()
            expect(page.get_by_role("dialog", name=title)).to_be_visible()
            assert find_faults(page) == []
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
            expect(button).to_be_focused()
        page.goto(f"{address}/#/session/harbor")
        button = page.get_by_role("button", name="Continue here")
        button.click()
        expect(page.get_by_role("dialog", name="Continue here")).to_be_visible()
        assert find_faults(page) == []
        page.keyboard.press("Escape")
        expect(button).to_be_focused()


KEYS = {
    "#/": "choose it to compare",
    "#/session/harbor": "find in the conversation",
    "#/session/harbor/step/4": "previous, next call",
    "#/session/harbor/timeline": "higher, lower rows",
    "#/why": "filter files",
    "#/history": "find a branch, a label or a commit",
    "#/compare": "go to where the runs part",
    "#/chat": "start with the message",
}


def test_the_list_of_keys_is_that_of_the_page(tab: Tab) -> None:
    page = tab.open()
    for route, text in KEYS.items():
        page.goto(f"{tab.address}/{route}")
        expect(page.locator("h1").first).to_be_attached()
        page.get_by_role("button", name="Keys").click()
        dialog = page.get_by_role("dialog", name="Keys")
        expect(dialog).to_contain_text(text)
        for other in KEYS.values():
            expect(dialog.get_by_text(other)).to_have_count(1 if other == text else 0)
        page.keyboard.press("Escape")


def test_the_tab_key_goes_from_the_header_to_the_agents_to_the_conversation(tab: Tab) -> None:
    page = tab.open("#/session/harbor")
    expect(page.get_by_text(ANSWER).first).to_be_visible()
    page.locator("body").focus()
    order: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        order.append(page.evaluate(FOCUSED))
    expected = ["Harken: all sessions", "Keys", "Messages", "main, ", "Messages of main"]
    places = [
        next(n for n, name in enumerate(order) if name.startswith(start)) for start in expected
    ]
    assert places == sorted(places)
    expect(page.locator(":focus-visible")).to_have_count(1)


def test_nothing_moves_where_motion_is_unwelcome(tab: Tab) -> None:
    tab.page.emulate_media(reduced_motion="reduce")
    page = tab.open("#/session/harbor")
    expect(page.locator("article").first).to_be_visible()
    durations = page.evaluate(
        """() => [...document.querySelectorAll("*")].flatMap((node) => {
            const { animationDuration, transitionDuration, transitionProperty } = getComputedStyle(node);
            return [parseFloat(animationDuration), transitionProperty === "none" ? 0 : parseFloat(transitionDuration)];
        })"""
    )
    assert max(durations) <= 0.001


def test_news_are_announced(tab: Tab) -> None:
    page = tab.open("#/session/harbor")
    expect(page.locator("article").first).to_be_visible()
    page.keyboard.press("f")
    page.get_by_role("searchbox", name="Find in this conversation").fill("harbor")
    status = page.locator(".find").get_by_role("status")
    expect(status).to_contain_text("1 of")
    expect(page.get_by_role("feed")).to_have_attribute("aria-label", "Messages of main")
