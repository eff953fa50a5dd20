"""The filters of the list of sessions, what it says of unknown facts, and a home with many sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.session.session import Session
from tests.cli.large_home import AGENTS, TOOLS, write_large_home
from tests.cli.ui_kit import Page as Server
from tests.cli.ui_kit import show_home
from tests.session_kit import create_agent, log_user_message
from tests.web.browser_kit import Browser, Page, Tab, expect

COUNT = 1_000
FIRST_PAGE_MS, MAX_FIRST_PAGE_MS = 3_000, 1_000
"""The limit on a machine that runs other tests as well; a page of its own takes below a second."""
READY_MS = """(count) => new Promise((resolve) => {
    const check = () => document.querySelectorAll("a.row").length
        ? resolve(performance.now()) : requestAnimationFrame(check);
    check();
})"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("many")
    write_large_home(home, COUNT)
    with show_home(home) as server:
        yield server


@pytest.fixture
def many(server: Server, browser: Browser) -> Iterator[Tab]:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        tab = Tab(context, server.address)
        yield tab
        assert tab.problems == []


def open_indexed(tab: Tab, route: str = "#/") -> Page:
    """Open the list, and wait until all sessions are indexed."""
    page = tab.open(route)
    expect(page.locator("a.row").first).to_be_visible()
    expect(page.get_by_text("Indexing")).to_have_count(0)
    return page


def total(count: str) -> str:
    return f"{count} sessions"


def test_facts_are_filled_in_while_the_list_is_looked_at(browser: Browser, tmp_path: Path) -> None:
    write_large_home(tmp_path, 300)
    with show_home(tmp_path) as server, browser.new_context() as context:
        tab = Tab(context, server.address)
        page = tab.open(f"#/?tool={TOOLS[0]}")
        notes = page.get_by_role("status")
        expect(notes).to_contain_text("may match and are left out: not indexed yet")
        expect(notes).to_contain_text(total("150"))
        expect(notes).not_to_contain_text("left out")
        expect(page.locator("a.row").first).to_contain_text("4 messages")
        assert tab.problems == []


def test_the_first_page_of_many_sessions_is_there_at_once(many: Tab) -> None:
    page = many.open()
    assert page.evaluate(READY_MS) < FIRST_PAGE_MS
    expect(page.get_by_role("status")).to_contain_text(total("1,000"))
    page.locator("[role=list]").evaluate("(node) => void (node.scrollTop = node.scrollHeight)")
    expect(page.locator("a.row").last).not_to_contain_text("talk-00999")


@pytest.mark.parametrize(
    ("label", "value", "parameter", "count"),
    [
        ("Agent", AGENTS[0], f"agent={AGENTS[0]}", "334"),
        ("Tool", TOOLS[1], f"tool={TOOLS[1]}", "500"),
        ("Outcome", "error", "outcome=error", "334"),
    ],
)
def test_a_filter_is_chosen_and_in_the_address(
    many: Tab, label: str, value: str, parameter: str, count: str
) -> None:
    page = open_indexed(many)
    page.get_by_role("button", name="Filters").click()
    field = page.get_by_role("combobox", name=label, exact=True)
    if label == "Outcome":
        field.select_option(value)
    else:
        field.fill(value)
        field.press("Enter")
    expect(page.get_by_role("status")).to_contain_text(total(count))
    assert parameter in page.url
    page.reload()
    expect(page.get_by_role("status")).to_contain_text(total(count))
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_role("status")).to_contain_text(total("1,000"))


def test_a_day_and_a_cost_are_filters(many: Tab) -> None:
    page = open_indexed(many, "#/?since=2026-01-01&until=2026-01-01")
    expect(page.get_by_label("From", exact=True)).to_have_value("2026-01-01")
    expect(page.get_by_role("status")).to_contain_text(total("1,000"))
    page.get_by_label("To", exact=True).fill("2025-12-31")
    expect(page.get_by_role("heading", name="No session matches")).to_be_visible()
    page.get_by_role("button", name="Show all sessions").click()
    page.get_by_role("button", name="Filters").click()
    page.get_by_label("Cost at least, in USD").fill("1")
    page.get_by_label("Cost at least, in USD").press("Enter")
    notes = page.get_by_role("status")
    expect(notes).to_contain_text("1,000 sessions are left out: the cost is unknown")


def test_two_projects_with_the_same_name_are_told_apart(many: Tab) -> None:
    page = open_indexed(many, "#/?text=talk-0000")
    projects = page.get_by_role("combobox", name="Project", exact=True)
    expect(projects).to_contain_text("ann/app")
    expect(projects).to_contain_text("ben/app")
    expect(page.locator("a.row", has_text="talk-00000")).to_contain_text("ann/app")
    expect(page.locator("a.row", has_text="talk-00001")).to_contain_text("ben/app")
    many.save_screenshot("sessions-filtered")


def test_columns_have_headings_and_unended_sessions_an_explanation(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "sessions").mkdir()
    with Session(tmp_path / "sessions" / "cut.jsonl") as session:
        log_user_message(session, create_agent(session, relation="primary", name="Ann"))
    with show_home(tmp_path) as server, browser.new_context() as context:
        tab = Tab(context, server.address)
        page = tab.open()
        headings = ["Session", "Agents", "Messages", "Cost", "Duration", "Last event"]
        expect(page.locator(".headings > span")).to_have_text(headings)
        tag = page.locator("a.row .tag")
        expect(tag).to_have_text("cut off?")
        expect(tag).to_have_accessible_description(
            "cut off? The log has no end of the session: its process was stopped or has crashed, or it closed the session without ending it. All that was written is shown."
        )
        assert tab.problems == []


def test_a_live_session_is_found_by_its_filter(browser: Browser, tmp_path: Path) -> None:
    write_large_home(tmp_path, 3)
    with (
        Session(tmp_path / "sessions" / "live.jsonl") as session,
        show_home(tmp_path) as server,
        browser.new_context() as context,
    ):
        log_user_message(session, create_agent(session, relation="primary", name="Ann"))
        tab = Tab(context, server.address)
        page = tab.open()
        expect(page.locator("a.row")).to_have_count(4)
        page.get_by_role("button", name="Filters").click()
        page.get_by_role("checkbox", name="live").check()
        expect(page.locator("a.row")).to_have_count(1)
        expect(page.locator("a.row .tag")).to_have_text("live")
        assert tab.problems == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_filters_fit_on_a_phone(many: Tab, theme: str) -> None:
    many.page.set_viewport_size({"width": 390, "height": 844})
    many.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page = open_indexed(many, f"#/?tool={TOOLS[0]}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    many.save_screenshot(f"sessions-filters-390-{theme}")


@pytest.mark.full
def test_the_first_page_of_10_000_sessions_takes_less_than_a_second(
    browser: Browser, tmp_path: Path
) -> None:
    write_large_home(tmp_path, 10_000)
    for _ in range(2):  # Without an index, then with one.
        with show_home(tmp_path) as server, browser.new_context() as context:
            server.json("/api/about")  # The command reads the folder while the browser starts.
            tab = Tab(context, server.address)
            page = tab.open()
            assert page.evaluate(READY_MS) < MAX_FIRST_PAGE_MS
            expect(page.get_by_role("status")).to_contain_text(total("10,000"))
            expect(page.get_by_text("Indexing")).to_have_count(0, timeout=300_000)
            assert tab.problems == []
