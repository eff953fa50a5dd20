"""Chromium with the page of the viewer. A tab records every event that no page may cause."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""Chromium without the windows of a desktop takes a third less CPU, so it comes first."""
CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)
# Modules that import this one are skipped, not their tests: so the summary has one line.
if CHROMIUM is None:
    reason = f"the page is tested in Chromium: apt-get install {PROGRAMS[0]}"
    pytest.skip(reason, allow_module_level=True)
pytest.importorskip("playwright.sync_api", reason="the page is tested with playwright: make venv")
from playwright.sync_api import (  # noqa: E402 - the tests are skipped where it is missing
    Browser,
    BrowserContext,
    Locator,
    Page,
    expect,
    sync_playwright,
)

from tests.cli.ui_kit import TOKEN, show_home  # noqa: E402

__all__ = ["Browser", "BrowserContext", "Locator", "Page", "Tab", "expect", "open_own_tab"]

TIMEOUT_MS = 120_000
"""Long enough for a machine that does much else: only a test that fails waits for it."""
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # Nothing leaves this machine.
]
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
    console.error(`content security policy: ${event.violatedDirective} ${event.blockedURI}`));
"""
SCREENSHOTS = os.environ.get("HARKEN_SCREENSHOTS")
"""A folder for pictures of the views, for people who want to look at them."""


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Run Chromium without a window, with a profile of its own."""
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class Tab:
    """A page of the viewer at an address, in a browser that no other test used."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.context, self.address = context, address
        self.problems: list[str] = []
        """Errors in the console, violations of the policy, dialogs, requests to other origins."""
        self._expected: list[str] = []
        context.set_default_timeout(TIMEOUT_MS)
        context.add_init_script(REPORT_VIOLATIONS)
        context.on("console", lambda message: self._check_message(message.type, message.text))
        context.on("weberror", lambda error: self._add_problem(f"page error: {error.error}"))
        context.on("dialog", lambda dialog: self._add_problem(f"dialog: {dialog.message}"))
        context.on("request", lambda request: self._check_request(request.url))
        self.page = context.new_page()

    def open(self, route: str = "#/") -> Page:
        """Open the link that `harken ui` prints, then a view."""
        self.page.goto(f"{self.address}/#token={TOKEN}")
        self.go(route)
        return self.page

    def go(self, route: str) -> None:
        """Enter another address of the page."""
        if route != "#/":
            self.page.goto(f"{self.address}/{route}")

    def expect_problem(self, pattern: str) -> None:
        """Accept problems of this kind, which the test causes itself."""
        self._expected.append(pattern)

    def save_screenshot(self, name: str) -> None:
        """Write a picture of the page, if a folder for pictures is set."""
        if SCREENSHOTS:
            self.page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")

    def _check_message(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self._add_problem(f"console {kind}: {text}")

    def _check_request(self, url: str) -> None:
        if not re.match(rf"(?:blob:)?{re.escape(self.address)}/|data:", url):
            self._add_problem(f"request to another origin: {url}")

    def _add_problem(self, problem: str) -> None:
        if not any(re.search(pattern, problem) for pattern in self._expected):
            self.problems.append(problem)


@contextmanager
def open_own_tab(browser: Browser, home: Path) -> Iterator[Tab]:
    """Serve a home, and yield a page of it. Asserts at the end that the page did nothing it may not."""
    with (
        show_home(home) as server,
        browser.new_context(viewport={"width": 1280, "height": 800}) as context,
    ):
        tab = Tab(context, server.address)
        yield tab
        assert tab.problems == []
        context.close()


READ_ITEMS = """async (scroller) => {
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    const texts = (node) =>
        [...node.querySelectorAll(".markdown, pre.plain, .preview")].map((part) => part.textContent.trim());
    const items = [...scroller.querySelectorAll("article")].map((node) =>
        [Number(node.ariaPosInSet), texts(node).join(" ")]);
    scroller.scrollTop += scroller.clientHeight / 2;
    return items;
}"""


def read_all_items(panel: Locator, total: int) -> list[str]:
    """Scroll through a conversation. Return the texts of its items by position, from 1.

    Asserts that no item is shown twice, and that each stays at its position.
    """
    scroller = panel.locator(".scroller")
    scroller.evaluate("(node) => void (node.scrollTop = 0)")
    texts: dict[int, str] = {}
    for _ in range(20 * total):
        items: list[Any] = scroller.evaluate(READ_ITEMS)
        positions = [position for position, _ in items]
        assert len(set(positions)) == len(positions), positions
        for position, text in items:
            assert texts.setdefault(position, text) == text
        if len(texts) >= total:
            break
    return [texts[position] for position in sorted(texts)]
