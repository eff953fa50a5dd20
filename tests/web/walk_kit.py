"""Follow a how-to: its commands in a shell, `harken ui` as a process, and its controls in Chromium.

The names in bold of the page are the controls of the viewer. A walk notes those that it uses, and fails
if it left one out. With HARKEN_PICTURES, a folder, it writes the pictures of the page again: `make
pictures`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harken.capture.files.sources import SOURCE_LOCATIONS
from tests.docs.examples import ROOT, Reader
from tests.web.browser_kit import Browser, BrowserContext, Locator, Page, Tab, expect
from tests.web.pictures import write_picture
from tests.web.shared_kit import FileTab

PICTURES = os.environ.get("HARKEN_PICTURES")
SIZE: Any = {"viewport": {"width": 1360, "height": 800}, "device_scale_factor": 1.25}
SHOWN_FOLDER = "/home/ann"
"""The folder of the user in pictures, in place of that of the test."""
RENAME_FOLDER = """([folder, shown]) => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode;
        if (node.data.includes(folder)) node.data = node.data.replaceAll(folder, shown);
    }
    for (const field of document.querySelectorAll("input"))
        if (field.value.includes(folder)) field.value = field.value.replaceAll(folder, shown);
}"""

HIDE_TOOLBAR = """() => {
    const focus = document.activeElement;
    if (focus?.closest("article")) focus.blur();
}"""
"""Leave the message that has the focus: it shows its buttons."""


class Walk:
    """A reader of a how-to, with a machine of its own."""

    def __init__(self, user: Path, name: str, browser: Browser) -> None:
        self.user, self.reader = user, Reader(user)
        self.reader.environment.pop("DISPLAY", None)
        for location in SOURCE_LOCATIONS:
            self.reader.environment.pop(location.variable, None)
        self._page = ROOT / "docs" / "how-to" / f"{name}.md"
        self.text = self._page.read_text("utf-8")
        self._browser = browser
        self._used: set[str] = set()

    def run_commands(self) -> None:
        """Write the files of the page, and run its commands."""
        assert self.reader.follow(self._page)

    def run(self, line: str) -> str:
        """Run a command that the examples do not run; return its output."""
        ran = self.reader.run(["bash", "-c", line])
        assert ran.returncode == 0, ran.stdout
        return ran.stdout

    @contextmanager
    def view(self, line: str) -> Iterator[Page]:
        """Run `harken ui ...`, a command of the page, and open the link that it prints."""
        assert line in self.text
        with subprocess.Popen(
            ["bash", "-c", f"exec {line} --no-open --port 0"],
            cwd=self.reader.folder,
            env=self.reader.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server:
            assert server.stdout is not None
            try:
                with self.browse(server.stdout.readline().strip()) as page:
                    yield page
            finally:
                server.send_signal(signal.SIGINT)
        assert server.returncode == 0

    @contextmanager
    def browse(self, link: str) -> Iterator[Page]:
        """Open a link in a browser of the reader."""
        with self._open_context() as context:
            tab = Tab(context, link.partition("/#")[0])
            tab.page.goto(link)
            yield tab.page
            assert tab.problems == [], tab.problems

    @contextmanager
    def open_file(self, file: Path) -> Iterator[Page]:
        """Open a file from disk in a browser without a network."""
        with self._open_context() as context:
            tab = FileTab(context, file)
            yield tab.open()
            assert tab.problems == [], tab.problems

    @contextmanager
    def _open_context(self) -> Iterator[BrowserContext]:
        with self._browser.new_context(**SIZE) as context:
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            yield context

    def click(self, control: Locator, name: str, **options: Any) -> None:
        """Click a control that the page calls by this name."""
        assert f"**{name}**" in self.text, name
        expect(control).to_contain_text(name)
        control.click(**options)
        self._used.add(name)

    def see(self, text: Locator, name: str) -> None:
        """See what the page calls by this name."""
        expect(text).to_be_visible()
        self._used.add(name)

    def take_picture(self, page: Page, name: str) -> None:
        """Write a picture of the documentation, if pictures are wanted."""
        pages = self._page.parent.glob("*.md")
        assert any(f"images/{name}.png" in page.read_text("utf-8") for page in pages), name
        if PICTURES:
            page.mouse.move(0, 0)
            page.evaluate(HIDE_TOOLBAR)
            page.evaluate(RENAME_FOLDER, [str(self.user), SHOWN_FOLDER])
            assert self.user.name not in page.locator("body").inner_text()
            write_picture(page, Path(PICTURES) / f"{name}.png")

    def check_controls(self) -> None:
        """Assert that the walk used each control that the page names."""
        assert {*re.findall(r"\*\*([^*]+)\*\*", self.text)} == self._used
