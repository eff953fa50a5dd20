"""The first visit: an empty home offers to import what other programs left on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.imports_kit import wait_for_import, write_claude_session, write_damaged_session
from tests.cli.ui_kit import Page as Server
from tests.cli.ui_kit import show_home
from tests.web.browser_kit import Browser, Tab, expect

COUNT = 6


class Visit(NamedTuple):
    """A page of an empty home, its server, and the folder of the user."""

    tab: Tab
    server: Server
    user: Path


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator[Visit]:
    user = tmp_path / "user"
    for number in range(COUNT - 1):
        write_claude_session(user, number)
    write_damaged_session(user, COUNT)
    with (
        show_home(tmp_path / "home", user_folder=user) as server,
        browser.new_context(viewport={"width": 1280, "height": 800}) as context,
    ):
        tab = Tab(context, server.address)
        yield Visit(tab, server, user)
        assert tab.problems == []


def test_an_empty_home_offers_what_it_finds_and_imports_on_a_click(visit: Visit) -> None:
    page = visit.tab.open()
    source = page.locator("fieldset label")
    expect(source).to_contain_text("Claude Code")
    expect(source).to_contain_text(f"{COUNT} sessions")
    expect(source).to_contain_text("not imported yet")
    expect(source).to_contain_text(str(visit.user))
    visit.tab.save_screenshot("first-visit")
    assert visit.server.json("/api/import")["phase"] == "none"
    page.get_by_role("button", name="Import all").click()
    expect(page.locator("a.row")).to_have_count(COUNT)
    expect(page.get_by_text(f"Import complete: {COUNT} sessions")).to_be_visible()
    expect(page.locator("a.row").first).to_contain_text("4 messages")
    visit.tab.save_screenshot("imported")
    page.get_by_role("link", name="Details").click()
    problem = page.get_by_role("listitem")
    expect(problem).to_contain_text("partly imported")
    expect(problem).to_contain_text(".jsonl")
    expect(problem).to_contain_text("1 line could not be parsed")
    visit.tab.save_screenshot("import-result")
    page.get_by_role("link", name="Show the sessions").click()
    page.get_by_role("button", name="Dismiss").click()
    expect(page.get_by_text("Import complete")).to_have_count(0)


def test_nothing_is_imported_of_a_runtime_that_is_not_chosen(visit: Visit) -> None:
    page = visit.tab.open()
    page.get_by_role("checkbox").uncheck()
    expect(page.get_by_role("button", name="Import 0 of 1")).to_be_disabled()
    page.get_by_role("checkbox").check()
    expect(page.get_by_role("button", name="Import all")).to_be_enabled()
    assert visit.server.json("/api/import")["phase"] == "none"


def test_progress_survives_a_reload_and_can_be_cancelled(visit: Visit) -> None:
    for number in range(100, 400):
        write_claude_session(visit.user, number, turns=6)
    page = visit.tab.open("#/import")
    page.get_by_role("button", name="Import all").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.locator(".import-state")).to_contain_text("of 306 files")
    visit.tab.save_screenshot("import-progress")
    page.reload()
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Import canceled")).to_be_visible()
    expect(page.locator(".import-state")).to_contain_text("is kept")
    page.get_by_role("button", name="Import all").click()
    expect(page.get_by_role("heading", name="Import complete")).to_be_visible()
    expect(page.locator("fieldset")).to_contain_text("all imported")


def test_a_second_page_shows_the_import_of_the_first(visit: Visit) -> None:
    page = visit.tab.open("#/import")
    page.get_by_role("button", name="Import all").click()
    other = visit.tab.context.new_page()
    other.goto(f"{visit.tab.address}/#/import")
    expect(other.get_by_role("heading", name="Import complete")).to_be_visible()
    expect(page.get_by_role("heading", name="Import complete")).to_be_visible()


def test_new_sessions_are_offered_later(visit: Visit) -> None:
    visit.server.post("/api/import", {"runtimes": ["claude"]})
    wait_for_import(visit.server)
    write_claude_session(visit.user, 50)
    page = visit.tab.open()
    expect(page.locator("a.row")).to_have_count(COUNT)
    page.get_by_role("button", name="Dismiss").click()
    expect(page.get_by_text("1 file of other programs is not imported yet")).to_be_visible()
    page.get_by_role("link", name="Import…").click()
    page.get_by_role("button", name="Import all").click()
    expect(page.locator(".import-state")).to_contain_text("1 sessions with new content")
    page.get_by_role("link", name="Show the sessions").click()
    expect(page.locator("a.row")).to_have_count(COUNT + 1)


@pytest.mark.parametrize("width", [390, 2560])
def test_the_first_visit_in_dark_and_other_sizes(visit: Visit, width: int) -> None:
    visit.tab.page.set_viewport_size({"width": width, "height": 900})
    visit.tab.page.emulate_media(color_scheme="dark")
    page = visit.tab.open()
    expect(page.locator("fieldset label")).to_be_visible()
    assert page.evaluate("document.querySelector('main').scrollWidth") <= width
    visit.tab.save_screenshot(f"first-visit-dark-{width}")


def test_a_machine_without_other_programs_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    with show_home(tmp_path / "home") as server, browser.new_context() as context:
        tab = Tab(context, server.address)
        page = tab.open()
        expect(page.get_by_text("harken import PATH")).to_be_visible()
        expect(page.get_by_text("harken demo")).to_be_visible()
        assert tab.problems == []
