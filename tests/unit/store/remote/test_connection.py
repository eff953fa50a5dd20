"""Requests over connections that break, stay silent, or answer with too much."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harken.errors import ConfigError, StoreError, StoreUnavailable
from harken.store.remote.connection import ServiceConnection, check_address
from harken.store.remote.wire import BYTES, JSON

BUSY = json.dumps({"error": {"code": "busy", "message": "later"}}).encode()


@dataclass(frozen=True)
class CannedResponse:
    """A response of the server, complete or not."""

    body: bytes = b"{}"
    kind: str = JSON
    status: int = 200
    missing_bytes: int = 0
    """The number of bytes that the body lacks when the connection ends."""
    silence_s: float = 0
    """The time that passes before the response."""


@dataclass
class CannedServer:
    """A server with a response for each request. The last one is repeated."""

    responses: list[CannedResponse]
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    """The request line, the headers and the body of each request."""

    def next_response(self) -> CannedResponse:
        return self.responses[min(len(self.requests), len(self.responses)) - 1]


@contextmanager
def connect(server: CannedServer, **options: object) -> Iterator[ServiceConnection]:
    ending = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.requests.append((f"{self.command} {self.path}", headers, body))
            response = server.next_response()
            ending.wait(response.silence_s)
            self.send_response(response.status)
            self.send_header("content-type", response.kind)
            self.send_header("content-length", str(len(response.body) + response.missing_bytes))
            self.end_headers()
            self.wfile.write(response.body)

        do_GET = do_POST  # noqa: N815 - the name of the library

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http_server.serve_forever, args=(0.01,))
    thread.start()
    url = f"http://127.0.0.1:{http_server.server_address[1]}"
    connection = ServiceConnection(url, **{"patience_s": 0.01, **options})  # type: ignore[arg-type]
    try:
        yield connection
    finally:
        ending.set()
        connection.close()
        http_server.shutdown()
        http_server.server_close()
        thread.join()


def test_request_has_its_type_and_the_token() -> None:
    server = CannedServer([CannedResponse(b"body", BYTES)])
    with connect(server, token="secret") as connection:
        assert connection.request("/a", b"xyz", sends=BYTES, accepts=BYTES, method="GET") == b"body"
        assert connection.request("/b", b"xyz", accepts=BYTES) == b"body"
    [(line, headers, body), (other_line, other_headers, _)] = server.requests
    assert (line, other_line, body) == ("GET /a", "POST /b", b"xyz")
    assert (headers["content-type"], headers["accept"]) == (BYTES, BYTES)
    assert (other_headers["content-type"], other_headers["accept"]) == (JSON, BYTES)
    assert headers["authorization"] == "Bearer secret"
    assert headers["accept-encoding"] == "identity"


def test_request_without_a_token_has_no_authorization() -> None:
    server = CannedServer([CannedResponse()])
    with connect(server) as connection:
        connection.request("/a")
    assert "authorization" not in server.requests[0][1]


def test_type_of_a_response_may_have_parameters() -> None:
    with connect(CannedServer([CannedResponse(kind=f"{JSON}; charset=utf-8")])) as connection:
        assert connection.request("/a") == b"{}"


@pytest.mark.parametrize(
    "response", [CannedResponse(BUSY, status=503), CannedResponse(missing_bytes=1)]
)
def test_request_is_repeated_until_it_succeeds(response: CannedResponse) -> None:
    server = CannedServer([response, response, CannedResponse(b"{1}")])
    with connect(server) as connection:
        assert connection.request("/a", b"xyz") == b"{1}"
    assert [body for _, _, body in server.requests] == [b"xyz"] * 3


def test_silent_service_is_not_asked_again() -> None:
    """A repeated request would only add to the load of a service that is slow."""
    server = CannedServer([CannedResponse(silence_s=30)])
    start_s = time.monotonic()
    with (
        connect(server) as connection,
        pytest.raises(StoreUnavailable, match="does not answer in time"),
    ):
        connection.request("/a", silence_s=0.2)
    assert len(server.requests) == 1
    assert time.monotonic() - start_s < 10


def test_wait_between_attempts_follows_from_the_patience() -> None:
    server = CannedServer([CannedResponse(BUSY, status=503)])
    start_s = time.monotonic()
    with connect(server, patience_s=0.6) as connection, pytest.raises(StoreUnavailable):
        connection.request("/a")
    assert 0.6 <= time.monotonic() - start_s < 5
    assert len(server.requests) == 4


@pytest.mark.parametrize("has_begun", [False, True])
def test_stream_is_repeated_only_until_its_body_begins(has_begun: bool) -> None:
    broken = CannedResponse(b"x" if has_begun else b"", BYTES, missing_bytes=5)
    server = CannedServer([broken, CannedResponse(b"body", BYTES)])
    with connect(server) as connection:
        if has_begun:
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                list(connection.stream("/a"))
        else:
            assert b"".join(connection.stream("/a")) == b"body"
    assert [line for line, _, _ in server.requests] == ["GET /a"] * (1 if has_begun else 2)


def test_stream_from_a_busy_service_is_repeated() -> None:
    busy = CannedResponse(BUSY, status=503)
    server = CannedServer([busy, CannedResponse(b"body", BYTES)])
    with connect(server) as connection:
        assert b"".join(connection.stream("/a")) == b"body"
    server = CannedServer([busy])
    with connect(server) as connection, pytest.raises(StoreUnavailable, match="later"):
        list(connection.stream("/a"))
    assert len(server.requests) == 4


def test_stream_of_another_type_is_refused() -> None:
    with (
        connect(CannedServer([CannedResponse(b"<html>", "text/html")])) as connection,
        pytest.raises(StoreError, match="in another form"),
    ):
        list(connection.stream("/a"))


def test_closed_connection_may_be_closed_again() -> None:
    with connect(CannedServer([CannedResponse()])) as connection:
        connection.close()
        connection.close()
        with pytest.raises(StoreError, match="is closed"):
            connection.request("/a")


@pytest.mark.parametrize(
    ("url", "has_token", "problem"),
    [
        ("ftp://host", False, "such as http"),
        ("http://", False, "such as http"),
        ("http://host:port", False, "not the address of a service"),
        ("http://me@127.0.0.1", False, "do not put a token in the URL"),
        ("http://host", True, "unencrypted"),
    ],
)
def test_address_is_refused(url: str, has_token: bool, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_address(url, has_token=has_token)


@pytest.mark.parametrize(
    ("url", "has_token"),
    [("http://host", False), ("https://host", True), ("http://127.0.0.1:8420", True)],
)
def test_address_is_accepted(url: str, has_token: bool) -> None:
    check_address(url, has_token=has_token)
