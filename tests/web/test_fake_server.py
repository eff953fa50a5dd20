"""Another program that listens at the port of a viewer that has stopped learns nothing usable."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.cli.ui_kit import TOKEN, show_home
from tests.web.browser_kit import Browser, Tab, expect

NEEDS_LINK = "This page needs the link that harken ui printed"


class _Server(ThreadingHTTPServer):
    """A server that answers everything, and keeps what it receives."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.received: list[str] = []
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)
        self.server.received.append(f"{self.path}\n{self.headers}")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"proof": "' + b"0" * 64 + b'"}')

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def take_port(port: int) -> Iterator[_Server]:
    """Listen at a port that a viewer has left."""
    with _Server(port) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_an_open_page_sends_a_fake_server_neither_token_nor_names(
    home: Path, browser: Browser
) -> None:
    with browser.new_context() as context:
        with show_home(home) as viewer:
            tab = Tab(context, viewer.address)
            tab.expect_problem("ERR_|Failed to fetch")
            page = tab.open("#/session/harbor")
            expect(page.locator("article").first).to_be_visible()
            port = urlsplit(viewer.address).port
            assert port is not None
        with take_port(port) as fake:
            page.evaluate("() => void (location.hash = '#/session/prices')")
            expect(page.get_by_role("heading", level=1)).to_have_text(NEEDS_LINK)
            received = list(fake.received)
        requests = [row for row in received if not row.startswith("/favicon.svg")]
        assert [row for row in requests if not row.startswith("/api/proof?nonce=")] == []
        assert len(requests) > 0
        assert [row for row in received if TOKEN in row or "authorization" in row.lower()] == []
        # The viewer of the same port again: the page works on as soon as it has proven itself.
        with show_home(home, port):
            page.goto(f"{tab.address}/#/session/harbor")
            page.reload()
            expect(page.locator("article").first).to_be_visible()
        assert tab.problems == []


def test_a_foreign_link_does_not_replace_a_token_that_works(tab: Tab) -> None:
    expect(tab.open().locator("a.row").first).to_be_visible()
    other = tab.context.new_page()
    other.goto(f"{tab.address}/#token=of-a-foreign-page&session=harbor")
    expect(other.locator("article").first).to_be_visible()
    stored = other.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert (TOKEN in stored, "foreign" in stored) == (True, False)
    tab.page.reload()
    expect(tab.page.locator("a.row").first).to_be_visible()
