"""The OTLP server accepts exporter requests and refuses all others."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import pytest

from harken.capture.otlp.receiver import Receiver
from harken.capture.otlp.server import MAX_CONCURRENT_REQUESTS, OtlpServer
from harken.capture.otlp.spool import OtlpSpool, SpooledRequest
from harken.errors import LogWriteError
from tests.otlp_kit import CallCollector

JSON = {"content-type": "application/json"}
TOKEN = "t" * 40


@contextmanager
def serving(**options: Any) -> Iterator[tuple[OtlpServer, CallCollector]]:
    ear = CallCollector()
    with OtlpServer(Receiver(ear), **options) as server:
        thread = Thread(target=server.serve)
        thread.start()
        try:
            yield server, ear
        finally:
            server.shutdown()
            thread.join()


def _post(
    server: OtlpServer, path: str, body: bytes | Iterator[bytes] = b"{}", **headers: str
) -> tuple[int, bytes]:
    connection = HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    http_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request("POST", path, body, {**JSON, **http_headers})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _chat() -> bytes:
    message = '[{"role":"user","parts":[{"type":"text","content":"hi"}]}]'
    pairs = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": message,
        "gen_ai.output.messages": message.replace("user", "assistant"),
    }
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "startTimeUnixNano": "1769860800000000000",
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in pairs.items()],
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def test_server_accepts_spans_logs_and_metrics() -> None:
    with serving() as (server, ear):
        for path in ("/v1/traces", "/v1/logs", "/v1/metrics"):
            assert _post(server, path) == (200, b"{}")
        assert _post(server, "/v1/traces", _chat()) == (200, b"{}")
    assert [call.id for call in ear.calls] == [f"{'ab' * 16}-{'cd' * 8}"]


def test_server_accepts_compressed_and_chunked_bodies() -> None:
    compressed = gzip.compress(_chat())
    with serving() as (server, ear):
        assert _post(server, "/v1/traces", compressed, content_encoding="gzip")[0] == 200
        pieces = iter([compressed[:10], compressed[10:]])
        assert _post(server, "/v1/traces", pieces, content_encoding="gzip")[0] == 200
    assert len(ear.calls) == 1


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/v1/other", b"{}", {}, 404),
        ("/v1/traces", b"{", {}, 400),
        ("/v1/traces", b"{}", {"content_type": "text/plain"}, 415),
        ("/v1/traces", b"no gzip", {"content_encoding": "gzip"}, 400),
        ("/v1/traces", b"{}", {"content_encoding": "rot13"}, 400),
        ("/v1/traces", b"{}", {"content_length": "x"}, 411),
        ("/v1/traces", b"{}", {"content_length": "99999999999"}, 413),
        ("/v1/traces", b"{}", {"origin": "https://example.org"}, 403),
    ],
)
def test_server_refuses_invalid_requests_and_continues(
    path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    with serving() as (server, _):
        status_code, why = _post(server, path, body, **headers)
        assert status_code == status
        assert "message" in json.loads(why)
        assert _post(server, "/v1/traces")[0] == 200


def test_server_refuses_decompression_bombs() -> None:
    with serving(most_bytes=100_000) as (server, _):
        compressed = gzip.compress(b" " * 10_000_000)
        assert _post(server, "/v1/traces", compressed, content_encoding="gzip")[0] == 400
        assert _post(server, "/v1/traces", iter([b" " * 60_000] * 2))[0] == 413


@pytest.mark.req("D-07")
def test_server_requires_the_token() -> None:
    with serving(token=TOKEN) as (server, ear):
        assert _post(server, "/v1/traces", _chat())[0] == 401
        assert _post(server, "/v1/traces", _chat(), authorization="Bearer no")[0] == 401
        assert _post(server, "/v1/traces", _chat(), authorization=f"Bearer {TOKEN}")[0] == 200
    assert len(ear.calls) == 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST /v1/traces HTTP/1.1\r\ncontent-length: 50\r\ncontent-type: application/json\r\n\r\n{",
        b"POST /v1/traces HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"POST /v1/traces HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n",
        b"POST /v1/traces HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + b"a" * 5000,
        b"\x00\xff\r\n\r\n",
        b"GET /v1/traces HTTP/1.1\r\n\r\n",
    ],
)
def test_server_survives_bytes_that_are_not_http(request_bytes: bytes) -> None:
    with serving() as (server, _):
        with socket.create_connection(("127.0.0.1", server.server_address[1]), 10) as asking:
            asking.sendall(request_bytes)
            asking.shutdown(socket.SHUT_WR)
            assert b"200" not in asking.recv(100)
        assert _post(server, "/v1/traces")[0] == 200


def test_server_stops_after_its_idle_timeout() -> None:
    with OtlpServer(Receiver(CallCollector())) as server:
        thread = Thread(target=server.serve, kwargs={"idle_s": 0.1})
        thread.start()
        thread.join(10)
        assert not thread.is_alive()


def test_acknowledged_request_outlives_its_receiver(tmp_path: Path) -> None:
    """The first receiver is not closed, as after a kill while the call waited."""
    waiting = json.loads(_chat())
    span = waiting["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span["parentSpanId"] = "ef" * 8
    ear, spool = CallCollector(), OtlpSpool(tmp_path)
    with OtlpServer(Receiver(ear), spool=spool) as first:
        first.store_request(
            SpooledRequest("trace", is_json=True, data=json.dumps(waiting).encode())
        )
        assert ear.calls == []
    spool.close()
    reopened = OtlpSpool(tmp_path)
    with serving(spool=reopened) as (_, second):
        pass
    reopened.close()
    assert [call.id for call in second.calls] == [f"{'ab' * 16}-{'cd' * 8}"]
    assert [*tmp_path.iterdir()] == []


@pytest.mark.req("D-01")
@pytest.mark.parametrize("reason", ["full disk", "held in memory"])
def test_request_that_is_in_no_log_stays_for_the_next_receiver(tmp_path: Path, reason: str) -> None:
    """The first receiver ends as in a power cut."""
    id_ = f"{'ab' * 16}-{'cd' * 8}"
    ear, spool = CallCollector(), OtlpSpool(tmp_path)
    if reason == "full disk":
        ear.failure = LogWriteError(tmp_path, reason="no space left on device")
    else:
        ear.held_ids.add(id_)
    with OtlpServer(Receiver(ear), spool=spool) as first:
        first.store_request(SpooledRequest("trace", is_json=True, data=_chat()))
        assert [call.id for call in ear.calls] == [id_]
    spool.close()
    reopened = OtlpSpool(tmp_path)
    with serving(spool=reopened) as (_, second):
        pass
    reopened.close()
    assert [call.id for call in second.calls] == [id_]
    assert [*tmp_path.iterdir()] == []


def test_request_that_cannot_be_stored_is_not_acknowledged(tmp_path: Path) -> None:
    spool = OtlpSpool(tmp_path / "spool")
    with serving(spool=spool) as (server, ear):
        (tmp_path / "spool").rmdir()
        assert _post(server, "/v1/traces", _chat())[0] == 503
        assert ear.calls == []
    spool.close()


def _exchange(server: OtlpServer, request: bytes) -> tuple[str, dict[str, str], bytes]:
    """Send bytes, and return the status line, the headers and the body of the response."""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), 10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as file:
            head, _, body = file.read().partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return status, headers, body


def _head(*lines: str) -> bytes:
    return "\r\n".join(
        ["POST /v1/traces HTTP/1.1", "content-type: application/json", *lines, "", ""]
    ).encode()


@pytest.mark.parametrize("path", ["/v1/traces/", "/v1/traces?a=/v1/logs", "/v1/traces/?"])
def test_path_may_end_with_a_slash_and_have_a_query(path: str) -> None:
    with serving() as (server, collector):
        assert _post(server, path, _chat())[0] == 200
    assert len(collector.calls) == 1


def test_media_type_may_have_parameters_and_capitals() -> None:
    with serving() as (server, _):
        assert _post(server, "/v1/traces", content_type="Application/JSON; charset=utf-8")[0] == 200


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(("excess", "status"), [(0, 200), (1, 413)])
def test_size_of_a_request_is_limited(is_chunked: bool, excess: int, status: int) -> None:
    body = b"{}" + b" " * (998 + excess)
    with serving(most_bytes=1000) as (server, _):
        pieces = iter([body[:600], body[600:]]) if is_chunked else body
        assert _post(server, "/v1/traces", pieces)[0] == status


@pytest.mark.parametrize(
    ("length", "status"),
    [("2", 200), ("00000000000000000002", 200), ("0" * 20 + "2", 411), ("", 411), ("²", 411)],
)
def test_content_length_is_a_number_of_at_most_20_digits(length: str, status: int) -> None:
    with serving() as (server, _):
        request = _head(f"content-length: {length}").decode().encode("latin-1") + b"{}"
        assert _exchange(server, request)[0].split()[1] == str(status)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"2\r\n{}\r\n0\r\n\r\n", 200),
        (b"00000002\r\n{}\r\n0\r\n\r\n", 200),
        (b"2 ; name=value\r\n{}\r\n0\r\ntrailer: 1\r\n\r\n", 200),
        (b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", 200),
        (b"000000002\r\n{}\r\n0\r\n\r\n", 400),
        (b"2\r\n{}x\r\n0\r\n\r\n", 400),
        (b"2\r\n{}\r\n", 400),
        (b"2\r\n{}\r\n0\r\n", 400),
        (b"3\r\n{}", 400),
        (b"\r\n{}\r\n0\r\n\r\n", 400),
    ],
)
def test_chunks_are_complete_or_refused(body: bytes, status: int) -> None:
    with serving() as (server, _):
        response = _exchange(server, _head("transfer-encoding: Chunked") + body)
        assert response[0].split()[1] == str(status)


def test_body_that_is_cut_off_is_not_processed() -> None:
    with serving() as (server, collector):
        status, headers, body = _exchange(server, _head("content-length: 50") + b"{}")
        assert status.split()[1] == "400"
        assert json.loads(body) == {"message": "the body was cut off"}
        assert headers["connection"] == "close"
    assert collector.calls == []


def test_connection_stays_open_after_a_response() -> None:
    with serving() as (server, _):
        request = _head("content-length: 2") + b"{}"
        _, headers, body = _exchange(server, request + request)
        assert "connection" not in headers
        assert body.count(b"HTTP/1.1 200") == 1, "the second request was not answered"


@pytest.mark.req("D-07")
@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (f"bearer {TOKEN}", 200),
        (f"Bearer  {TOKEN} ", 200),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        (f"Bearer {TOKEN[1:]}", 401),
        ("Bearer", 401),
    ],
)
def test_token_is_compared_as_a_bearer_token(authorization: str, status: int) -> None:
    with serving(token=TOKEN) as (server, _):
        assert _post(server, "/v1/traces", authorization=authorization)[0] == status


def test_request_beyond_the_limit_of_concurrent_ones_is_retried_later() -> None:
    with serving() as (server, _):
        for _ in range(MAX_CONCURRENT_REQUESTS):
            assert server.request_slots.acquire(blocking=False)
        status, headers, _ = _exchange(server, _head("content-length: 2") + b"{}")
        assert status.split()[1] == "503"
        assert (headers["retry-after"], headers["connection"]) == ("1", "close")
        for _ in range(MAX_CONCURRENT_REQUESTS):
            server.request_slots.release()
        for _ in range(MAX_CONCURRENT_REQUESTS + 1):  # A refused request frees its slot, too.
            assert _post(server, "/v1/traces", b"{")[0] == 400
        assert _post(server, "/v1/traces")[0] == 200


def test_client_that_still_sends_reads_the_refusal() -> None:
    with serving(most_bytes=1000) as (server, _):
        request = _head(f"content-length: {1 << 24}") + bytes(1 << 22)
        assert _exchange(server, request)[0].split()[1] == "413"


def test_server_serves_while_requests_arrive() -> None:
    with OtlpServer(Receiver(CallCollector())) as server:
        thread = Thread(target=server.serve, kwargs={"idle_s": 0.6})
        thread.start()
        start_s = monotonic()
        while monotonic() - start_s < 1.5:
            assert _post(server, "/v1/metrics")[0] == 200
        thread.join(10)
        assert not thread.is_alive()
        assert monotonic() - start_s > 2
