"""A provider, the proxy server in front of it, and a client for both."""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harken.capture.proxy.server import ProxyServer, serve_proxy
from harken.capture.proxy.spool import ProxySpool, SpoolLimits
from harken.capture.proxy.spool_recorder import SpoolRecorder
from harken.capture.proxy.tap import ProxyTap
from harken.capture.proxy.upstreams import Upstreams, upstream
from harken.core.clock import system_clock
from harken.recording.exchange import CapturedRequest, CapturedResponse, ClientHints

PROVIDER = Path(__file__).with_name("proxy_provider.py")
TOKEN = "a-token-of-the-proxy-for-tests-only"
KEY = "sk-ant-api03-" + "Plant3d" * 13
"""A credential that no stored file may contain."""
PATHS = {
    "anthropic": "/v1/messages?beta=true",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/fake:streamGenerateContent?alt=sse",
}


@contextmanager
def run_provider() -> Iterator[str]:
    """Run the provider and yield its address."""
    command = [sys.executable, str(PROVIDER)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(10)


@dataclass(frozen=True)
class ClientResponse:
    """A response as a client receives it."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    """All headers except those of the connection and the date."""
    body: bytes
    is_truncated: bool = False
    """Whether the connection ended before the body did."""


@dataclass(frozen=True)
class Address:
    """The address of a server, with requests to it."""

    url: str

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=20)

    def raw(self) -> socket.socket:
        """Return a raw TCP connection."""
        return socket.create_connection(("127.0.0.1", urlsplit(self.url).port or 0), 20)

    def request(
        self,
        path: str,
        body: Any = b"{}",
        *,
        method: str = "POST",
        headers: dict[str, str] | None = None,
        **wish: Any,
    ) -> ClientResponse:
        """Send a request and return the response."""
        connection = self.connect()
        sent_headers = {
            "X-Fake": json.dumps(wish),
            "Authorization": f"Bearer {KEY}",
            **(headers or {}),
        }
        try:
            connection.request(method, urlsplit(self.url).path + path, body, sent_headers)
            return read_response(connection.getresponse())
        except (http.client.RemoteDisconnected, ConnectionResetError):
            return ClientResponse(0, "", [], b"", is_truncated=True)
        finally:
            connection.close()


def read_response(answer: http.client.HTTPResponse) -> ClientResponse:
    connection_headers = {"connection", "transfer-encoding", "date", "keep-alive"}
    headers = [
        (name, value)
        for name, value in answer.getheaders()
        if name.lower() not in connection_headers
    ]
    try:
        return ClientResponse(answer.status, answer.reason, headers, answer.read())
    except http.client.IncompleteRead as error:
        return ClientResponse(
            answer.status, answer.reason, headers, error.partial, is_truncated=True
        )
    except ConnectionResetError:
        return ClientResponse(answer.status, answer.reason, headers, b"", is_truncated=True)


@dataclass
class CollectingRecorder:
    """A recorder that collects."""

    calls: list[CapturedRequest] = field(default_factory=list)
    replies: list[CapturedResponse] = field(default_factory=list)
    failure: Exception | None = None
    held_ids: set[str] = field(default_factory=set)

    def begin(self, call: CapturedRequest) -> None:
        self.failure = self.refusal(call)
        if self.failure is None:
            self.calls.append(call)

    def end(self, reply: CapturedResponse) -> None:
        self.failure = None
        self.replies.append(reply)

    def is_holding(self, call_id: str) -> bool:
        return call_id in self.held_ids

    def close(self) -> None:
        self.held_ids.clear()

    def refusal(self, call: CapturedRequest) -> Exception | None:
        """Return the error of recording a call, or None."""
        return None


def protocol_of(path: str) -> str:
    """Return the protocol of a path in `PATHS`."""
    return next(
        (n for n, known_path in PATHS.items() if path.endswith(known_path.partition("?")[0])), ""
    )


@dataclass
class ProxyStage:
    """The proxy server in this process, in front of a provider."""

    direct: Address
    proxied: Address
    spool: ProxySpool
    server: ProxyServer
    notices: list[str]

    def provider_log(self) -> list[dict[str, Any]]:
        """Return the requests that the provider received."""
        content: list[dict[str, Any]] = self.provider_state()["log"]
        return content

    def provider_state(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.direct.request("/log", method="GET").body)
        return content

    def read_recording(self, *, is_over: bool = False) -> CollectingRecorder:
        """Return the recorded calls of the spool after all requests have ended."""
        wait_for(lambda: is_over or self.server.open == 0)
        self.spool.close()
        into = CollectingRecorder()
        self.recording = SpoolRecorder(
            into,
            lambda headers, *_: ClientHints(client=headers.get("user-agent", "")),
            self.notices.append,
        )
        self.recording.catch_up(self.spool.folder.parent)
        return into


@contextmanager
def open_proxy_stage(
    folder: Path, url: str, *, token: str = TOKEN, limits: SpoolLimits | None = None, **spool: Any
) -> Iterator[ProxyStage]:
    """Run the proxy server in front of a provider."""
    notices: list[str] = []
    spool_ = ProxySpool(
        folder / "runs" / secrets.token_hex(4),
        notices.append,
        lambda: None,
        limits or SpoolLimits(),
        **spool,
    )
    spool_.start()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        upstreams = Upstreams({"fake": upstream("fake", url)}, token)
        notes = ProxyTap(spool_, protocol_of, "run", system_clock)
        address = upstreams.address("fake", f"http://127.0.0.1:{listener.getsockname()[1]}")
        with serve_proxy(listener, upstreams, notes) as server:
            yield ProxyStage(Address(url), Address(address), spool_, server, notices)
    spool_.close()


def wait_for(is_so: Callable[[], object], timeout_s: float = 30) -> None:
    """Wait until a condition is true. Raises AssertionError at the timeout."""
    end = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
