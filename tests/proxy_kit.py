"""A provider, the proxy's server before it, and what a client sees of either."""

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
"""A credential that must be nowhere in what is kept."""
PATHS = {
    "anthropic": "/v1/messages?beta=true",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/fake:streamGenerateContent?alt=sse",
}


@contextmanager
def run_provider() -> Iterator[str]:
    """Run the provider; its address."""
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
    """What a client sees of an answer."""

    status: int
    reason: str
    headers: list[tuple[str, str]]
    """But for those of the connection, and the time."""
    body: bytes
    is_truncated: bool = False
    """Whether the connection ended before the answer did."""


@dataclass(frozen=True)
class Address:
    """Where a client asks."""

    url: str

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=20)

    def raw(self) -> socket.socket:
        """Return a connection on which anything may be said."""
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
        """Ask for something."""
        connection = self.connect()
        sent = {"X-Fake": json.dumps(wish), "Authorization": f"Bearer {KEY}", **(headers or {})}
        try:
            connection.request(method, urlsplit(self.url).path + path, body, sent)
            return read_response(connection.getresponse())
        except (http.client.RemoteDisconnected, ConnectionResetError):
            return ClientResponse(0, "", [], b"", is_truncated=True)
        finally:
            connection.close()


def read_response(answer: http.client.HTTPResponse) -> ClientResponse:
    own = {"connection", "transfer-encoding", "date", "keep-alive"}
    headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in own]
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
        """Return why a call cannot be recorded."""
        return None


def protocol_of(path: str) -> str:
    """Return which of `PATHS` it is."""
    return next((n for n, one in PATHS.items() if path.endswith(one.partition("?")[0])), "")


@dataclass
class ProxyStage:
    """The proxy's server in this process, before a provider."""

    direct: Address
    proxied: Address
    spool: ProxySpool
    server: ProxyServer
    notices: list[str]

    def provider_log(self) -> list[dict[str, Any]]:
        """Return what the provider was asked."""
        found: list[dict[str, Any]] = self.provider_state()["log"]
        return found

    def provider_state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.direct.request("/log", method="GET").body)
        return found

    def read_recording(self, *, is_over: bool = False) -> CollectingRecorder:
        """Return what is in the spool, once no request is under way, or the server is over."""
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
    """Run the proxy's server before a provider."""
    told: list[str] = []
    kept = ProxySpool(
        folder / "runs" / secrets.token_hex(4),
        told.append,
        lambda: None,
        limits or SpoolLimits(),
        **spool,
    )
    kept.start()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        upstreams = Upstreams({"fake": upstream("fake", url)}, token)
        notes = ProxyTap(kept, protocol_of, "run", system_clock)
        address = upstreams.address("fake", f"http://127.0.0.1:{listener.getsockname()[1]}")
        with serve_proxy(listener, upstreams, notes) as server:
            yield ProxyStage(Address(url), Address(address), kept, server, told)
    kept.close()


def wait_for(is_so: Callable[[], object], timeout_s: float = 30) -> None:
    """Wait until something is so. Raises AssertionError where it is not in time."""
    end = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
