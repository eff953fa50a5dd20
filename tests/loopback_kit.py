"""An HTTP server on loopback that gives a fixed response and records the requests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Loopback:
    """The response to each request, and the recorded requests."""

    body: bytes = b"{}"
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0
    url: str = ""
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    """Path, headers with lowercase names, and the JSON body."""


def models_body(*names: object) -> bytes:
    """Return a list of models in the format of OpenAI-compatible servers."""
    return json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode()


def sse_body(*events: dict[str, Any]) -> bytes:
    """Return the body of a streamed chat completion."""
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: clients disconnect on purpose in some tests."""


@contextmanager
def serve_loopback(answer: Loopback | None = None) -> Iterator[Loopback]:
    """Serve until the end of the block."""
    server_state = answer or Loopback()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            server_state.requests.append((self.path, headers, body))
            time.sleep(server_state.delay_s)
            self.send_response(server_state.status)
            for name, value in {
                "content-type": server_state.content_type,
                **server_state.headers,
            }.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(server_state.body)))
            self.end_headers()
            self.wfile.write(server_state.body)

        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.answer()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = _Server(("127.0.0.1", 0), Handler)
    server_state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server_state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
