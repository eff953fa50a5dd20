"""What a client sees with the proxy, beside what it sees without it."""

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
def here(url: str, tmp_path: Path) -> Iterator[ProxyStage]:
    with open_proxy_stage(tmp_path, url) as here:
        yield here


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
def test_an_answer_is_the_same_as_without_the_proxy(
    here: ProxyStage, path: str, wish: dict[str, Any]
) -> None:
    body = json.dumps({"model": "fake", "messages": ["ü" * 1000]}).encode()
    direct, proxied = (
        here.direct.request(path, body, **wish),
        here.proxied.request(path, body, **wish),
    )
    assert proxied == direct
    assert proxied.is_truncated == ("cut" in wish)
    one, other = here.provider_log()[-2:]
    assert one["path"] == other["path"] == path
    assert other["sha256"] == one["sha256"]
    assert [pair for pair in other["headers"] if pair[0].lower() not in OWN] == [
        pair for pair in one["headers"] if pair[0].lower() not in OWN
    ]
    assert dict(other["headers"])["Host"] == urlsplit(here.direct.url).netloc


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["", "/", "/a//b/../c%2Fd%20?x=%41&y", "/v1/models?", "/?a=b"])
def test_whatever_is_asked_is_asked_of_the_provider(
    here: ProxyStage, method: str, path: str
) -> None:
    direct = here.direct.request(path or "/", None, method=method, whole=True)
    proxied = here.proxied.request(path, None, method=method, whole=True)
    assert proxied == direct
    log = here.provider_log()[-2:]
    assert {one["method"] for one in log} == {method}
    assert log[1]["path"].removeprefix("/") == path.removeprefix("/").removesuffix("?")
    assert here.read_recording().calls == []


def test_headers_are_passed_as_they_are_but_for_those_of_the_connection(here: ProxyStage) -> None:
    sent = {
        "x-API-key": KEY,
        "Accept-Encoding": "br, zstd",
        "Connection": "keep-alive, X-Near",
        "X-Near": "1",
        "X-Far": "2",
        "TE": "trailers",
        "Content-Type": "application/json; charset=utf-8",
    }
    here.proxied.request(ANTHROPIC, headers=sent)
    names = [name for name, _ in here.provider_log()[-1]["headers"]]
    assert names == ["Host", "X-Fake", "Authorization", "x-API-key", "Accept-Encoding", "X-Far",
                     "Content-Type", "Content-Length"] or set(names) >= {"x-API-key"}  # fmt: skip
    assert "X-Near" not in names
    assert "TE" not in names


def test_a_body_that_is_compressed_or_in_chunks_is_passed_as_it_is(here: ProxyStage) -> None:
    packed = gzip.compress(b'{"model": "fake"}' * 1000)
    headers = {"Content-Encoding": "gzip"}
    here.proxied.request(ANTHROPIC, packed, headers=headers)
    assert here.provider_log()[-1]["size"] == len(packed)
    here.proxied.request(ANTHROPIC, iter([b'{"a": ', b"1}"]))
    last = here.provider_log()[-1]
    assert last["size"] == 8
    assert "chunked" in dict(last["headers"])["Transfer-Encoding"]
    assert [call.body for call in here.read_recording().calls] == [
        b'{"model": "fake"}' * 1000, b'{"a": 1}'
    ]  # fmt: skip


def test_the_first_piece_does_not_wait_for_the_second(here: ProxyStage) -> None:
    connection = here.proxied.connect()
    path = urlsplit(here.proxied.url).path + ANTHROPIC
    wish = {"X-Fake": json.dumps({"pieces": 2, "each_ms": 6000})}
    connection.request("POST", path, b"{}", wish)
    begun = time.monotonic()
    answer = connection.getresponse()
    assert answer.read1(10)
    assert time.monotonic() - begun < 5
    answer.read()
    connection.close()


def test_a_client_that_hangs_up_is_hung_up_on_at_once(here: ProxyStage) -> None:
    gone = here.provider_state()["gone"]
    connection = here.proxied.connect()
    path = urlsplit(here.proxied.url).path + ANTHROPIC
    connection.request("POST", path, b"{}", {"X-Fake": '{"pieces": 1000, "each_ms": 20}'})
    connection.getresponse().read1(10)
    assert connection.sock is not None
    connection.sock.close()
    connection.close()
    wait_for(lambda: here.provider_state()["gone"] > gone, 2)
    (reply,) = here.read_recording().replies
    assert reply.broken == "the client hung up"
    assert reply.status == 200
    assert reply.body.startswith(b"event: message_start")


def test_a_client_that_reads_slowly_holds_the_provider_up_and_not_the_memory(
    here: ProxyStage,
) -> None:
    connection = here.proxied.connect()
    path = urlsplit(here.proxied.url).path + ANTHROPIC
    wish = {"pieces": 400, "size": 100_000}
    connection.request("POST", path, b"{}", {"X-Fake": json.dumps(wish)})
    answer = connection.getresponse()
    time.sleep(0.3)
    assert here.server.open == 1
    assert here.spool._put_bytes < 30_000_000
    assert len(answer.read()) > 40_000_000
    connection.close()


def test_a_provider_that_is_not_there_is_told_in_words_that_clients_read(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with open_proxy_stage(tmp_path, f"http://127.0.0.1:{port}") as here:
        answer = here.proxied.request(ANTHROPIC)
        (reply,) = here.read_recording().replies
    assert answer.status == 502
    said = json.loads(answer.body)
    assert said["type"] == "error"
    assert said["error"]["message"].startswith(f"harken proxy: http://127.0.0.1:{port} could not")
    assert "Connection refused" in said["error"]["message"]
    assert (reply.status, reply.body) == (0, b"")
    assert reply.broken in said["error"]["message"]


def test_who_has_not_the_token_is_not_passed_on(here: ProxyStage) -> None:
    before = len(here.provider_log())
    server = here.proxied.url.partition(f"/{TOKEN}")[0]
    for path in ("/fake/v1/messages", "/wrong/fake/v1/messages", "", "/", f"/{TOKEN[:-1]}/fake"):
        assert Address(server + path).request("").status == 403
    assert Address(f"{server}/{TOKEN}/other").request("/v1/messages").status == 404
    assert len(here.provider_log()) == before


def test_without_a_token_no_page_of_a_browser_is_answered(url: str, tmp_path: Path) -> None:
    with open_proxy_stage(tmp_path, url, token="") as here:
        assert here.proxied.request(ANTHROPIC).status == 200
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example:8421"}):
            assert here.proxied.request(ANTHROPIC, headers=headers).status == 403


def test_a_websocket_is_refused_so_that_codex_asks_over_http(here: ProxyStage) -> None:
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "x"}
    assert here.proxied.request("/v1/responses", None, method="GET", headers=headers).status == 426


def test_what_is_no_http_is_refused_and_the_next_one_served(here: ProxyStage) -> None:
    with here.proxied.raw() as raw:
        raw.sendall(b"\x16\x03\x01\x02\x00 hello\r\n\r\n")
        assert raw.recv(12).startswith(b"HTTP/1.")
    assert here.proxied.request(ANTHROPIC).status == 200


def test_a_large_body_is_passed_and_what_is_too_large_is_not_recorded(
    url: str, tmp_path: Path
) -> None:
    with open_proxy_stage(tmp_path, url, limits=SpoolLimits(body_bytes=1 << 20)) as here:
        body = b"x" * 50_000_000
        assert here.proxied.request(ANTHROPIC, body).status == 200
        assert here.provider_log()[-1]["size"] == len(body)
        assert here.spool._put_bytes < 2 << 20
        assert here.read_recording().calls == []
        reason = "a request of more than 1 MB is not recorded"
        assert here.recording.unrecorded == {reason: 1}


def test_a_call_is_recorded_as_it_was_without_what_is_secret(
    here: ProxyStage, tmp_path: Path
) -> None:
    path = f"/v1beta/models/fake:streamGenerateContent?alt=sse&key={KEY}"
    headers = {"User-Agent": "claude-cli/2", "x-api-key": KEY, "Cookie": f"s={KEY}"}
    body = b'{"model": "fake"}'
    answer = here.proxied.request(path, body, headers=headers, encoding="gzip")
    kept = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    wait_for(lambda: any(file.stat().st_size for file in tmp_path.rglob("*.spool")))
    assert not any(KEY.encode() in data for data in kept)
    found = here.read_recording()
    (call,), (reply,) = found.calls, found.replies
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


def test_a_connection_that_stays_is_used_again(here: ProxyStage) -> None:
    connection = here.proxied.connect()
    path = urlsplit(here.proxied.url).path + ANTHROPIC
    for _ in range(3):
        connection.request("POST", path, b"{}")
        answer = connection.getresponse()
        assert answer.status == http.client.OK
        answer.read()
    connection.close()
    assert len(here.read_recording().calls) == 3


def test_who_is_being_answered_when_the_proxy_ends_is_cut_off(url: str, tmp_path: Path) -> None:
    with open_proxy_stage(tmp_path, url) as here:
        connection = here.proxied.connect()
        path = urlsplit(here.proxied.url).path + ANTHROPIC
        connection.request("POST", path, b"{}", {"X-Fake": '{"pieces": 1000, "each_ms": 20}'})
        answer = connection.getresponse()
        answer.read1(10)
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    connection.close()
    (reply,) = here.read_recording(is_over=True).replies
    assert reply.broken == "the proxy was ended"


def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on(here: ProxyStage) -> None:
    with here.proxied.raw() as raw:
        path = urlsplit(here.proxied.url).path + ANTHROPIC
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue"
        )
        raw.sendall(head.encode() + b"\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 100 ")
        raw.sendall(b"{}")
        assert raw.recv(100).startswith(b"HTTP/1.1 200 ")
    assert "Expect" not in dict(here.provider_log()[-1]["headers"])


def test_an_old_client_gets_no_chunks(here: ProxyStage) -> None:
    with here.proxied.raw() as raw:
        path = urlsplit(here.proxied.url).path + ANTHROPIC
        raw.sendall(f"POST {path} HTTP/1.0\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        data = b"".join(iter(lambda: raw.recv(65536), b""))
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == here.direct.request(ANTHROPIC).body
