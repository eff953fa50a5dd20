"""Servers on this machine refuse web pages, and close a connection that makes no progress.

With a token, `harken proxy` answered a page of a browser whose name resolved to 127.0.0.1 (DNS
rebinding), and `harken otlp` never looked at `Host`. A half-sent head of a request to `harken serve`
stayed open for up to twice the time that is documented. All servers share one check now, which also
knows an image of a page: a browser sends no `Origin` with it.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest

from harken.capture.otlp.receiver import Receiver
from harken.capture.otlp.server import OtlpServer
from harken.capture.proxy.server import serve_proxy as serving_proxy
from harken.capture.proxy.spool import ProxySpool
from harken.capture.proxy.tap import ProxyTap
from harken.capture.proxy.upstreams import Upstreams, upstream
from harken.core.clock import system_clock
from harken.core.loopback import browser_refusal
from harken.service.access import AccessCheck
from harken.service.app import make_app
from harken.service.dependencies import ServiceLimits
from harken.service.server import serve_in_thread
from harken.service.sockets import listen_at
from harken.store.memory import MemoryStore
from tests.otlp_kit import CallCollector

PAGES = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Host": "evil.example:8421"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "localhost@evil.example"},
    {"Host": "[::1]e8421"},
    {"Sec-Fetch-Site": "cross-site"},
]


def status_of(port: int, path: str, headers: Mapping[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(
            "POST", path, b"{}", headers={"content-type": "application/json"} | dict(headers)
        )
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.req("D-07")
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_otlp_refuses_pages_with_and_without_a_token(page: dict[str, str]) -> None:
    for token in (None, "t" * 40):
        right = {} if token is None else {"authorization": f"Bearer {token}"}
        with OtlpServer(Receiver(CallCollector()), token=token) as server:
            thread = Thread(target=server.serve)
            thread.start()
            try:
                port = urlsplit(server.url).port or 0
                assert status_of(port, "/v1/traces", right) == 200
                assert status_of(port, "/v1/traces", right | page) == 403
            finally:
                server.shutdown()
                thread.join()


@pytest.mark.req("D-07")
def test_a_proxy_with_a_token_refuses_pages(tmp_path: Path) -> None:
    """The address of a page holds the token here: the page is refused before it is looked at."""
    token = "a" * 40
    upstreams = Upstreams({"fake": upstream("fake", "http://127.0.0.1:9")}, token=token)
    spool = ProxySpool(tmp_path / "spool", lambda _: None, lambda: None)
    spool.start()
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            notes = ProxyTap(spool, lambda _: "", "run", system_clock)
            with serving_proxy(listener, upstreams, notes):
                assert status_of(port, f"/{token}/fake/v1/messages", {}) == 502
                for page in PAGES:
                    assert status_of(port, f"/{token}/fake/v1/messages", page) == 403
    finally:
        spool.close()


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.1.2.3:80", "[::1]:8420", "[::1]"]
)
def test_names_of_this_machine_are_answered(host: str) -> None:
    assert browser_refusal(None, host, None) == ""


def test_an_address_that_the_user_typed_into_a_browser_is_answered() -> None:
    assert browser_refusal(None, "localhost:8420", "none") == ""


def test_a_client_without_a_host_is_no_browser() -> None:
    assert browser_refusal(None, None, None) == ""
    assert browser_refusal(None, "", None) != ""


def test_a_half_sent_head_is_closed_in_the_time_that_is_documented() -> None:
    """Also where it comes drop by drop. Before, both were open for twice the time, 12 s here."""
    silence_s = 6.0
    with serving_empty(ServiceLimits(silence_s=silence_s)) as port:
        half, dripping = (socket.create_connection(("127.0.0.1", port), 30) for _ in range(2))
        with half, dripping:
            begin = time.monotonic()
            for connection in (half, dripping):
                connection.sendall(b"GET /v1/health HTTP/1.1\r\nhost: local")
                connection.settimeout(0.2)
            is_open = {half, dripping}
            while is_open and time.monotonic() - begin < 30:
                for connection in [*is_open]:
                    if is_closed(connection, drips=connection is dripping):
                        is_open.remove(connection)
            lasted_s = time.monotonic() - begin
    assert lasted_s < 2 * silence_s - 0.5


def is_closed(connection: socket.socket, *, drips: bool) -> bool:
    """Whether the server closed a connection; else send it a byte if it drips."""
    try:
        if connection.recv(1) == b"":
            return True
    except TimeoutError:
        pass
    except ConnectionError:
        return True
    with suppress(ConnectionError):
        if drips:
            connection.sendall(b"h")
    return False


@contextmanager
def serving_empty(limits: ServiceLimits) -> Iterator[int]:
    """Serve an empty store; yield the port."""
    app = make_app(MemoryStore(), AccessCheck("t" * 40), limits=limits)
    with listen_at("127.0.0.1", 0) as listener, serve_in_thread(app, [listener], limits=limits):
        yield listener.getsockname()[1]
