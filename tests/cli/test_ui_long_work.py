"""Long work of the viewer: it ends when the page leaves, and keeps no other route waiting."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.cli.commands.ui.home_code import HomeCode
from harken.cli.commands.ui.viewer import open_home_viewer
from harken.config.home import Home
from harken.errors import ConfigError
from harken.service.server import serve_in_thread
from harken.service.sockets import address_of, listen_at
from harken.service.viewer.access import PageAccessCheck
from harken.service.viewer.app import LIMITS, make_viewer_app
from harken.service.viewer.code_library import BlamePage, CodeFile, Tell, WorkAbandoned
from harken.service.viewer.long_work import THREADS
from tests.cli.ui_kit import BEARER, TOKEN, Page

TIMEOUT_S = 30
FILE: dict[str, Any] = {"repository": "/r", "path": "a.py"}


class SlowCode:
    """A code library whose blame goes on until the page leaves, or until it is ended."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.abandoned = threading.Semaphore(0)
        self.is_ended = threading.Event()

    def blame(
        self, file: CodeFile, lines: range, tell: Tell, send: Callable[[BlamePage], None]
    ) -> BlamePage:
        page = BlamePage(total=1, version="1", is_complete=False, rows=[], sessions={})
        if file.path == "bad.py":
            raise ConfigError("bad.py: no file")
        send(page)
        self.started.release()
        try:
            for done in range(10**9):
                tell(done, 10**9)
                if self.is_ended.wait(0.01):
                    break
        except WorkAbandoned:
            self.abandoned.release()
            raise
        if file.path == "broken.py":
            raise ConfigError("broken.py: the file was removed")
        return page


@pytest.fixture
def code() -> SlowCode:
    return SlowCode()


@pytest.fixture
def page(tmp_path: Path, code: SlowCode) -> Iterator[Page]:
    """A viewer with the slow library."""
    library: Any = code
    access = PageAccessCheck(TOKEN)
    with open_home_viewer(
        Home(str(tmp_path)),
        access,
        command=["harken"],
        folder=tmp_path,
        user_folder=tmp_path,
        environ={},
    ) as home:
        assert isinstance(home.sources.code, HomeCode)
        viewer = make_viewer_app(home.sources._replace(code=library), access)
    with (
        listen_at("127.0.0.1", 0) as listener,
        serve_in_thread(viewer.app, [listener], limits=LIMITS, end_streams=viewer.end_streams),
    ):
        page = Page(address_of(listener))
        yield page
        page.close()


def open_streams(page: Page, count: int) -> list[Any]:
    """Begin long work; return the open responses."""
    return [
        page.client.send(
            page.client.build_request("GET", "/api/why/blame", headers=BEARER, params=FILE),
            stream=True,
        )
        for _ in range(count)
    ]


def test_work_ends_when_the_page_leaves(page: Page, code: SlowCode) -> None:
    (response,) = open_streams(page, 1)
    rows = (json.loads(line) for line in response.iter_lines() if line)
    assert "part" in next(rows)
    assert next(rows)["progress"]["total"] == 10**9
    response.close()
    assert code.abandoned.acquire(timeout=TIMEOUT_S)


def test_other_routes_do_not_wait_for_long_work(page: Page, code: SlowCode) -> None:
    responses = open_streams(page, THREADS)
    for _ in responses:
        assert code.started.acquire(timeout=TIMEOUT_S)
    started_at = time.monotonic()
    assert page.get("/api/about").status_code == 200
    assert time.monotonic() - started_at < TIMEOUT_S
    code.is_ended.set()
    for response in responses:
        *_, last = [line for line in response.iter_lines() if line]
        assert "answer" in json.loads(last)


def test_an_early_error_is_a_status_and_a_late_one_the_last_line(
    page: Page, code: SlowCode
) -> None:
    early = page.get("/api/why/blame", **{**FILE, "path": "bad.py"})
    assert (early.status_code, early.json()["error"]["message"]) == (422, "bad.py: no file")
    code.is_ended.set()
    late = page.get("/api/why/blame", **{**FILE, "path": "broken.py"})
    assert late.status_code == 200
    error = json.loads(late.text.splitlines()[-1])["error"]
    assert error == {"code": "invalid", "message": "broken.py: the file was removed"}
