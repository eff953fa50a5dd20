"""A web server on loopback with pages by path and a record of its requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from harken.world.web.address import NetworkPolicy
from harken.world.web.download import Bounds, Downloads


@dataclass
class PageResponse:
    """The response for a path."""

    body: bytes = b""
    kind: str | None = "text/html; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    endless: bool = False


@dataclass
class Site:
    """Pages by path. Other paths return 404."""

    pages: dict[str, PageResponse] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    port: int = 0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def put(self, path: str, body: str | bytes, **options: object) -> str:
        data = body.encode() if isinstance(body, str) else body
        self.pages[path] = PageResponse(data, **options)  # type: ignore[arg-type]
        return self.url(path)


def loopback_downloads(**bounds: float) -> Downloads:
    """Return a downloader that may fetch from this machine."""
    return Downloads(NetworkPolicy(["127.0.0.0/8", "localhost"]), Bounds(**bounds))  # type: ignore[arg-type]


@contextmanager
def serve_site() -> Iterator[Site]:
    """Serve a site until the end of the block."""
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            page = site.pages.get(self.path, PageResponse(b"not here", status=404))
            time.sleep(page.delay_s)
            self.send_response(page.status)
            if page.kind is not None:
                self.send_header("content-type", page.kind)
            for name, value in page.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(page.body)
                while page.endless:
                    self.wfile.write(page.body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.port = server.server_port
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
