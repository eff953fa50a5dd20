"""A page that follows a session shows each message once, in order, also if its server restarts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.ui_kit import show_home
from tests.web.browser_kit import Browser, Tab, expect, read_all_items
from tests.web.burst_writer import expected_texts

ANN, BOB = "agent_001", "agent_002"
BURST = 50
"""In events, four a turn: a burst may end between a call and its result."""
LOST_CONNECTION = "ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE|ERR_EMPTY_RESPONSE"


class Writer:
    """A process that writes a session in bursts."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.events = 0

    def write_burst(self) -> None:
        """Write a burst, and wait until it is in the log."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{BURST}\n")
        self._process.stdin.flush()
        self.events += BURST
        assert self._process.stdout.readline() == f"{self.events}\n"

    @property
    def items(self) -> int:
        """The number of items of the events so far, of which the last turn may be half."""
        turns, events = divmod(self.events, 4)
        return 3 * turns + min(events, 2)

    @property
    def dialog_items(self) -> int:
        """The number of items of a dialog: those without the calls."""
        return self.events // 4 * 2 + min(self.events % 4, 1)


@contextmanager
def run_writer(log: Path) -> Iterator[Writer]:
    """Run a writer until the end of the block, which ends its session."""
    log.parent.mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.web.burst_writer", str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            yield Writer(process)
            process.communicate()
            assert process.returncode == 0
        finally:
            process.kill()


@pytest.mark.parametrize("events", [200, pytest.param(1000, marks=pytest.mark.full)])
def test_each_message_is_shown_once_while_the_server_restarts(
    browser: Browser, tmp_path: Path, events: int
) -> None:
    log = tmp_path / "home" / "sessions" / "busy.jsonl"
    bursts = events // BURST
    with run_writer(log) as writer, browser.new_context() as context:
        writer.write_burst()
        with show_home(tmp_path / "home") as server:
            tab = Tab(context, server.address)
            tab.expect_problem(LOST_CONNECTION)
            page = tab.open("#/session/busy")
            panel = page.get_by_role("region", name="Ann", exact=True)
            for _ in range(bursts // 2):
                expect(
                    panel.locator(f"article[aria-setsize='{writer.items}']").last
                ).to_be_visible()
                writer.write_burst()
            tab.save_screenshot("live")
        writer.write_burst()
        expect(panel.get_by_text("reconnecting…")).to_be_visible()
        with show_home(tmp_path / "home", urlsplit(server.address).port or 0):
            while writer.events < events:
                writer.write_burst()
            expected = expected_texts(events)
            expect(panel.locator(f"article[aria-posinset='{len(expected)}']")).to_be_visible()
            assert read_all_items(panel, len(expected)) == expected
            assert tab.problems == []
            context.close()


def test_new_messages_do_not_move_what_is_read(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "home" / "sessions" / "busy.jsonl"
    with (
        run_writer(log) as writer,
        show_home(tmp_path / "home") as server,
        browser.new_context() as context,
    ):
        writer.write_burst()
        tab = Tab(context, server.address)
        panel = tab.open("#/session/busy").get_by_role("region", name="Ann", exact=True)
        expect(panel.locator(f"article[aria-posinset='{writer.items}']")).to_be_visible()
        panel.locator(".scroller").evaluate("(node) => void (node.scrollTop = 0)")
        first = panel.locator("article[aria-posinset='1']")
        expect(first).to_be_in_viewport()
        before = writer.items
        writer.write_burst()
        pill = panel.locator(".pill")
        expect(pill).to_contain_text(f"{writer.items - before} new messages")
        expect(first).to_be_in_viewport()
        pill.click()
        expect(panel.locator(f"article[aria-posinset='{writer.items}']")).to_be_in_viewport()
        assert tab.problems == []
        context.close()


def test_a_session_that_ends_is_live_no_more(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "home" / "sessions" / "busy.jsonl"
    with show_home(tmp_path / "home") as server, browser.new_context() as context:
        tab = Tab(context, server.address)
        with run_writer(log) as writer:
            writer.write_burst()
            page = tab.open("#/session/busy")
            expect(page.locator(".tag.live")).to_have_count(2)
        expect(page.locator(".tag.live")).to_have_count(0)
        assert tab.problems == []
        context.close()


HIDE = """(isHidden) => {
    Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""Tell the page that its tab is in the background: a browser without a window has none."""


def test_all_panels_share_a_stream_which_a_tab_in_the_background_closes(
    browser: Browser, tmp_path: Path
) -> None:
    log = tmp_path / "home" / "sessions" / "busy.jsonl"
    with (
        run_writer(log) as writer,
        show_home(tmp_path / "home") as server,
        browser.new_context(viewport={"width": 1600, "height": 800}) as context,
    ):
        writer.write_burst()
        tab = Tab(context, server.address)
        page = tab.page
        streams: list[str] = []
        ended: list[str] = []
        page.on("request", lambda request: streams.append(request.url))
        page.on("requestfailed", lambda request: ended.append(request.url))
        page.on("requestfinished", lambda request: ended.append(request.url))
        tab.open(f"#/session/busy?agent={ANN}&agent={ANN},{BOB}&agent={BOB},{ANN}")
        for _ in range(2):
            for name in ("Ann", "Ann, Bob", "Bob, Ann"):
                panel = page.get_by_role("region", name=name, exact=True)
                count = writer.items if name == "Ann" else writer.dialog_items
                expect(panel.locator(f"article[aria-setsize='{count}']").first).to_be_attached()
            writer.write_burst()
        # The panels are loaded one after another, and each then joins the stream.
        expect(page.locator(".panel .tag.live")).to_have_count(3)
        assert len([url for url in set(streams) - set(ended) if "/follow?" in url]) == 1
        page.evaluate(HIDE, True)
        expect(page.locator(".panel .tag.live")).to_have_count(0)
        assert not [url for url in set(streams) - set(ended) if "/follow?" in url]
        writer.write_burst()
        page.evaluate(HIDE, False)
        panel = page.get_by_role("region", name="Ann", exact=True)
        expect(panel.locator(f"article[aria-setsize='{writer.items}']").last).to_be_visible()
        assert len(read_all_items(panel, writer.items)) == writer.items
        assert tab.problems == []
        context.close()
