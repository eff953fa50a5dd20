"""A session runs in the server of the page: messages, questions, interruptions, several tabs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.ui_kit import show_home
from tests.cli.ui_run_kit import Runs, write_script
from tests.web.browser_kit import Browser, Locator, Page, Tab, expect


class Stage:
    """A server with a run, and tabs that show it."""

    def __init__(self, browser: Browser, address: str, runs: Runs) -> None:
        self.address, self.runs = address, runs
        self._browser = browser
        self._tabs: list[Tab] = []

    def open_tab(self, route: str = "#/session/tea", *, width: int = 1280) -> Tab:
        """Open another browser at a page."""
        context = self._browser.new_context(viewport={"width": width, "height": 800})
        tab = Tab(context, self.address)
        tab.open(route)
        self._tabs.append(tab)
        return tab

    def close(self) -> None:
        """Check and close all tabs."""
        for tab in self._tabs:
            assert tab.problems == []
            tab.context.close()


@pytest.fixture
def stage(browser: Browser, tmp_path: Path) -> Iterator[Stage]:
    (tmp_path / "work").mkdir()
    with show_home(tmp_path / "home") as server:
        runs = Runs(server)
        stage = Stage(browser, server.address, runs)
        yield stage
        stage.close()


@pytest.fixture
def tea(stage: Stage, tmp_path: Path) -> str:
    stage.runs.start(model=write_script(tmp_path), folder=str(tmp_path / "work"), name="tea")
    return "tea"


def composer(page: Page) -> Locator:
    return page.get_by_role("region", name="Write to an agent")


def say(page: Page, text: str) -> None:
    field = composer(page).get_by_role("textbox")
    field.fill(text)
    field.press("Enter")
    expect(field).to_have_value("")


def panel(page: Page, name: str = "main") -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def test_a_message_is_sent_and_answered(stage: Stage, tea: str) -> None:
    tab = stage.open_tab()
    page = tab.page
    field = composer(page).get_by_role("textbox", name="Message to main")
    field.fill("hello")
    field.press("Shift+Enter")
    field.press("End")
    expect(field).to_have_value("hello\n")
    field.fill("hello")
    field.press("Enter")
    expect(panel(page).get_by_text("Hi there.")).to_be_visible()
    tab.save_screenshot("run")
