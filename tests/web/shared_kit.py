"""The page in one file: written for tests, and opened from disk in Chromium without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harken.cli.commands.view.html import build_page
from harken.config.home import Home
from tests.web.browser_kit import BrowserContext, Page, Tab

NOON_US = 1_770_000_000_000_000


def noon() -> int:
    """The time at which pages of tests are made."""
    return NOON_US


def render(home: Path, name: str, *, no_redact: bool = False) -> bytes:
    """Return the page of a session."""
    return build_page(Home(str(home)), name, no_redact=no_redact, clock=noon).data


def write_page(home: Path, name: str, file: Path, *, no_redact: bool = False) -> Path:
    """Write the page of a session."""
    file.write_bytes(render(home, name, no_redact=no_redact))
    return file


class FileTab(Tab):
    """A page that is opened from disk, by a browser without a network."""

    def __init__(self, context: BrowserContext, file: Path) -> None:
        super().__init__(context, file.as_uri())
        context.set_offline(True)

    def open(self, route: str = "") -> Page:
        """Open the file at a view."""
        self.page.goto(f"{self.address}{route}")
        return self.page

    def ask(self, requests: list[Any]) -> list[Any]:
        """Return the answers of the page to requests: path, parameters. A failure is its status."""
        answers: list[Any] = self.page.evaluate(
            """(requests) => Promise.all(requests.map(([path, params]) =>
                harken.get(path, params).catch((error) => ({failed: error.status}))))""",
            requests,
        )
        return answers

    def _check_request(self, url: str) -> None:
        if url.partition("#")[0] != self.address and not url.startswith(("blob:null/", "data:")):
            self._add_problem(f"request: {url}")


def path_of(name: str, view: str = "") -> str:
    """Return the path of a route, below `api/`."""
    path = f"sessions/{quote(name, safe='')}"
    return f"{path}/{view}" if view else path


def without(value: Any, *names: str) -> Any:
    """Return an answer without the members that differ between a server and a file."""
    data = json.loads(json.dumps(value))
    if isinstance(data, dict):
        for name in ("generation", "commands", "fork", "run", *names):
            data.pop(name, None)
    return data
