"""Client-visible behavior with the proxy, compared to a direct connection."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from harken.capture.proxy.spool import SpoolLimits
from tests.proxy_kit import (
    KEY,
    PATHS,
    TOKEN,
    Address,
    ProxyStage,
    open_proxy_stage,
    run_provider,
    wait_for,
)

ANTHROPIC = PATHS["anthropic"]
OWN = {"host", "x-fake"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_provider() as url:
        yield url


@pytest.fixture
def proxy_run(url: str, tmp_path: Path) -> Iterator[ProxyStage]:
    with open_proxy_stage(tmp_path, url) as proxy_run:
        yield proxy_run


WISHES: dict[str, dict[str, Any]] = {
    "stream": {},
    "slow stream": {"pieces": 3, "each_ms": 20},
    "whole": {"whole": True},
    "gzip, whole": {"whole": True, "encoding": "gzip"},
    "gzip, stream": {"encoding": "gzip"},
    "deflate, stream": {"encoding": "deflate"},
    "until the end of the connection": {"close": True},
    "refused": {"status": 401},
    "too many": {"status": 429, "extra": [["retry-after", "7"], ["X-Odd", "a"], ["x-odd", "b"]]},
    "overloaded": {"status": 529},
    "failed": {"status": 500},
    "empty": {"bare": True, "status": 200},
    "nothing": {"bare": True, "status": 204},
    "moved": {"bare": True, "status": 307, "extra": [["Location", "http://127.0.0.1:1/"]]},
    "cookies": {"extra": [["Set-Cookie", "a=1"], ["Set-Cookie", "b=2"]]},
    "cut off": {"cut": 3, "each_ms": 5},
    "cut off in the midst of a length": {"whole": True, "cut": 0},
    "cut off before the answer": {"cut": 0},
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
def test_response_is_the_same_as_without_the_proxy(
    proxy_run: ProxyStage, path: str, wish: dict[str, Any]
) -> None:
    body = json.dumps({"model": "fake", "messages": ["ü" * 1000]}).encode()
    direct, proxied = (
        proxy_run.direct.request(path, body, **wish),
        proxy_run.proxied.request(path, body, **wish),
    )
    assert proxied == direct
    assert proxied.is_truncated == ("cut" in wish)
    at_direct, forwarded = proxy_run.provider_log()[-2:]
    assert at_direct["path"] == forwarded["path"] == path
    assert forwarded["sha256"] == at_direct["sha256"]
    assert [pair for pair in forwarded["headers"] if pair[0].lower() not in OWN] == [
        pair for pair in at_direct["headers"] if pair[0].lower() not in OWN
    ]
    assert dict(forwarded["headers"])["Host"] == urlsplit(proxy_run.direct.url).netloc


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["", "/", "/a//b/../c%2Fd%20?x=%41&y", "/v1/models?", "/?a=b"])
def test_every_request_is_forwarded_to_the_provider(
    proxy_run: ProxyStage, method: str, path: str
) -> None:
    direct = proxy_run.direct.request(path or "/", None, method=method, whole=True)
    proxied = proxy_run.proxied.request(path, None, method=method, whole=True)
    assert proxied == direct
    log = proxy_run.provider_log()[-2:]
    assert {request["method"] for request in log} == {method}
    assert log[1]["path"].removeprefix("/") == path.removeprefix("/").removesuffix("?")
    assert proxy_run.read_recording().calls == []


def test_headers_are_forwarded_except_hop_by_hop_ones(proxy_run: ProxyStage) -> None:
    sent_headers = {
        "x-API-key": KEY,
        "Accept-Encoding": "br, zstd",
        "Connection": "keep-alive, X-Near",
        "X-Near": "1",
        "X-Far": "2",
        "TE": "trailers",
        "Content-Type": "application/json; charset=utf-8",
    }
    proxy_run.proxied.request(ANTHROPIC, headers=sent_headers)
    names = [name for name, _ in proxy_run.provider_log()[-1]["headers"]]
    assert names == ["Host", "X-Fake", "Authorization", "x-API-key", "Accept-Encoding", "X-Far",
                     "Content-Type", "Content-Length"] or set(names) >= {"x-API-key"}  # fmt: skip
    assert "X-Near" not in names
    assert "TE" not in names


def test_compressed_or_chunked_body_is_forwarded_unchanged(proxy_run: ProxyStage) -> None:
    compressed = gzip.compress(b'{"model": "fake"}' * 1000)
    headers = {"Content-Encoding": "gzip"}
    proxy_run.proxied.request(ANTHROPIC, compressed, headers=headers)
    assert proxy_run.provider_log()[-1]["size"] == len(compressed)
    proxy_run.proxied.request(ANTHROPIC, iter([b'{"a": ', b"1}"]))
    last = proxy_run.provider_log()[-1]
    assert last["size"] == 8
    assert "chunked" in dict(last["headers"])["Transfer-Encoding"]
    assert [call.body for call in proxy_run.read_recording().calls] == [
        b'{"model": "fake"}' * 1000, b'{"a": 1}'
    ]  # fmt: skip


def test_first_chunk_is_forwarded_before_the_second_arrives(proxy_run: ProxyStage) -> None:
    connection = proxy_run.proxied.connect()
    path = urlsplit(proxy_run.proxied.url).path + ANTHROPIC
    wish = {"X-Fake": json.dumps({"pieces": 2, "each_ms": 1000})}
    connection.request("POST", path, b"{}", wish)
    started_at = time.monotonic()
    answer = connection.getresponse()
    assert answer.read1(10)
    first_s = time.monotonic() - started_at
    answer.read()
    assert first_s < (time.monotonic() - started_at) / 2
    connection.close()


def test_client_disconnect_closes_the_upstream_connection(proxy_run: ProxyStage) -> None:
    disconnected = proxy_run.provider_state()["gone"]
    connection = proxy_run.proxied.connect()
    path = urlsplit(proxy_run.proxied.url).path + ANTHROPIC
    connection.request("POST", path, b"{}", {"X-Fake": '{"pieces": 1000, "each_ms": 20}'})
    connection.getresponse().read1(10)
    assert connection.sock is not None
    connection.sock.close()
    connection.close()
    wait_for(lambda: proxy_run.provider_state()["gone"] > disconnected, 2)
    (reply,) = proxy_run.read_recording().replies
    assert reply.broken == "the client hung up"
    assert reply.status == 200
    assert reply.body.startswith(b"event: message_start")


def test_slow_client_applies_backpressure_to_the_provider(proxy_run: ProxyStage) -> None:
    connection = proxy_run.proxied.connect()
    path = urlsplit(proxy_run.proxied.url).path + ANTHROPIC
    wish = {"pieces": 400, "size": 100_000}
    connection.request("POST", path, b"{}", {"X-Fake": json.dumps(wish)})
    answer = connection.getresponse()
    time.sleep(0.3)
    assert proxy_run.server.open == 1
    assert proxy_run.spool._put_bytes < 30_000_000
    assert len(answer.read()) > 40_000_000
    connection.close()


def test_unreachable_provider_gives_an_error_that_clients_parse(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with open_proxy_stage(tmp_path, f"http://127.0.0.1:{port}") as proxy_run:
        answer = proxy_run.proxied.request(ANTHROPIC)
        (reply,) = proxy_run.read_recording().replies
    assert answer.status == 502
    error_body = json.loads(answer.body)
    assert error_body["type"] == "error"
    assert error_body["error"]["message"].startswith(
        f"harken proxy: http://127.0.0.1:{port} could not"
    )
    assert "Connection refused" in error_body["error"]["message"]
    assert (reply.status, reply.body) == (0, b"")
    assert reply.broken in error_body["error"]["message"]


@pytest.mark.req("D-07")
def test_request_without_the_token_is_not_forwarded(proxy_run: ProxyStage) -> None:
    before = len(proxy_run.provider_log())
    server = proxy_run.proxied.url.partition(f"/{TOKEN}")[0]
    for path in ("/fake/v1/messages", "/wrong/fake/v1/messages", "", "/", f"/{TOKEN[:-1]}/fake"):
        assert Address(server + path).request("").status == 403
    assert Address(f"{server}/{TOKEN}/other").request("/v1/messages").status == 404
    assert len(proxy_run.provider_log()) == before


@pytest.mark.req("D-07")
def test_browser_request_is_refused_when_no_token_is_set(url: str, tmp_path: Path) -> None:
    with open_proxy_stage(tmp_path, url, token="") as proxy_run:
        assert proxy_run.proxied.request(ANTHROPIC).status == 200
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example:8421"}):
            assert proxy_run.proxied.request(ANTHROPIC, headers=headers).status == 403


def test_websocket_is_refused_so_that_codex_uses_http(proxy_run: ProxyStage) -> None:
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "x"}
    assert (
        proxy_run.proxied.request("/v1/responses", None, method="GET", headers=headers).status
        == 426
    )


def test_invalid_http_is_refused_and_the_next_request_served(proxy_run: ProxyStage) -> None:
    with proxy_run.proxied.raw() as raw:
        raw.sendall(b"\x16\x03\x01\x02\x00 hello\r\n\r\n")
        assert raw.recv(12).startswith(b"HTTP/1.")
    assert proxy_run.proxied.request(ANTHROPIC).status == 200


def test_large_body_is_forwarded_but_not_recorded_beyond_the_limit(
    url: str, tmp_path: Path
) -> None:
    with open_proxy_stage(tmp_path, url, limits=SpoolLimits(body_bytes=1 << 20)) as proxy_run:
        body = b"x" * 50_000_000
        assert proxy_run.proxied.request(ANTHROPIC, body).status == 200
        assert proxy_run.provider_log()[-1]["size"] == len(body)
        assert proxy_run.spool._put_bytes < 2 << 20
        assert proxy_run.read_recording().calls == []
        reason = "a request of more than 1 MB is not recorded"
        assert proxy_run.recording.unrecorded == {reason: 1}


def test_call_is_recorded_unchanged_except_secrets(proxy_run: ProxyStage, tmp_path: Path) -> None:
    path = f"/v1beta/models/fake:streamGenerateContent?alt=sse&key={KEY}"
    headers = {"User-Agent": "claude-cli/2", "x-api-key": KEY, "Cookie": f"s={KEY}"}
    body = b'{"model": "fake"}'
    answer = proxy_run.proxied.request(path, body, headers=headers, encoding="gzip")
    contents = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    wait_for(lambda: any(file.stat().st_size for file in tmp_path.rglob("*.spool")))
    assert not any(KEY.encode() in data for data in contents)
    calls = proxy_run.read_recording()
    (call,), (reply,) = calls.calls, calls.replies
    assert call.id == reply.id
    assert call.protocol == "gemini"
    assert call.path == "/v1beta/models/fake:streamGenerateContent?alt=sse"
    assert call.body == body
    assert call.hints.client == "claude-cli/2"
    assert call.time < reply.time
    assert (reply.status, reply.content_type, reply.broken) == (200, "text/event-stream", "")
    assert reply.body == gzip.decompress(answer.body)
    assert reply.latency_s is not None
    assert reply.first_byte_s is not None
    assert 0 < reply.first_byte_s <= reply.latency_s


def test_persistent_connection_is_reused(proxy_run: ProxyStage) -> None:
    connection = proxy_run.proxied.connect()
    path = urlsplit(proxy_run.proxied.url).path + ANTHROPIC
    for _ in range(3):
        connection.request("POST", path, b"{}")
        answer = connection.getresponse()
        assert answer.status == http.client.OK
        answer.read()
    connection.close()
    assert len(proxy_run.read_recording().calls) == 3


def test_open_response_is_cut_when_the_proxy_stops(url: str, tmp_path: Path) -> None:
    with open_proxy_stage(tmp_path, url) as proxy_run:
        connection = proxy_run.proxied.connect()
        path = urlsplit(proxy_run.proxied.url).path + ANTHROPIC
        connection.request("POST", path, b"{}", {"X-Fake": '{"pieces": 1000, "each_ms": 20}'})
        answer = connection.getresponse()
        answer.read1(10)
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    connection.close()
    (reply,) = proxy_run.read_recording(is_over=True).replies
    assert reply.broken == "the proxy was ended"


def test_expect_continue_is_answered_with_100(proxy_run: ProxyStage) -> None:
    with proxy_run.proxied.raw() as raw:
        path = urlsplit(proxy_run.proxied.url).path + ANTHROPIC
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue"
        )
        raw.sendall(head.encode() + b"\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 100 ")
        raw.sendall(b"{}")
        assert raw.recv(100).startswith(b"HTTP/1.1 200 ")
    assert "Expect" not in dict(proxy_run.provider_log()[-1]["headers"])


def test_http_1_0_client_gets_no_chunks(proxy_run: ProxyStage) -> None:
    with proxy_run.proxied.raw() as raw:
        path = urlsplit(proxy_run.proxied.url).path + ANTHROPIC
        raw.sendall(f"POST {path} HTTP/1.0\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        data = b"".join(iter(lambda: raw.recv(65536), b""))
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == proxy_run.direct.request(ANTHROPIC).body
