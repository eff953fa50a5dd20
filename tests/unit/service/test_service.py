"""A real service on loopback, from the side of a client."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from harken.core.commits import ArtifactRef, hash_raw
from harken.errors import ObjectCorrupted
from harken.service.dependencies import ServiceLimits
from harken.store.base import WriteBatch
from harken.store.memory import MemoryStore
from harken.store.remote.errors import STATUS
from tests.service_kit import TOKEN, serve_store

BEARER = {"authorization": f"Bearer {TOKEN}"}


@contextmanager
def asking(**how: Any) -> Iterator[httpx.Client]:
    """A service and a client of it."""
    with serve_store(**how) as url, httpx.Client(base_url=url, headers=BEARER) as client:
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with asking() as client:
        yield client


def refusal(answer: httpx.Response) -> str:
    """Check the form of an error response. Return its code."""
    error = answer.json()["error"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.status_code == STATUS[error["code"]], error
    assert error["message"].strip()
    assert "\n" not in error["message"]
    assert "Traceback" not in answer.text
    assert TOKEN not in answer.text
    code: str = error["code"]
    return code


@pytest.mark.req("D-07")
def test_health_reveals_only_the_product(client: httpx.Client) -> None:
    answer = httpx.get(client.base_url.join("/v1/health"))
    assert answer.status_code == 200
    assert answer.json().keys() == {"name", "version"}
    assert "server" not in answer.headers


@pytest.mark.req("D-07")
def test_every_operation_requires_the_token(client: httpx.Client) -> None:
    described = client.get("/v1/openapi.json").json()
    request_count, nobody = 0, httpx.Client()
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            url = client.base_url.join(re.sub(r"\{\w+\}", "x", path))
            answers = [
                nobody.request(method, url, headers=headers)
                for headers in ({}, {"authorization": "Bearer " + "x" * 43})
            ]
            if operation.get("security") == []:
                continue
            assert [refusal(answer) for answer in answers] == ["unauthorized"] * 2, path
            assert all(
                "bearer" in response.headers["www-authenticate"].lower() for response in answers
            )
            request_count += 1
    assert request_count > 25
    assert refusal(nobody.get(client.base_url.join("/nothing"))) == "unauthorized"
    nobody.close()


@pytest.mark.req("D-07")
def test_browser_and_foreign_host_are_refused_before_any_action(client: httpx.Client) -> None:
    assert (
        refusal(client.get("/v1/commits", headers={"origin": "https://a.example"})) == "forbidden"
    )
    assert refusal(client.get("/v1/commits", headers={"host": "a.example"})) == "forbidden"
    preflight = client.options("/v1/commits", headers={"origin": "https://a.example"})
    assert refusal(preflight) == "forbidden"
    assert not [name for name in preflight.headers if name.startswith("access-control")]


def test_unknown_path_or_method_is_an_error(client: httpx.Client) -> None:
    assert refusal(client.get("/v2/commits")) == "not_found"
    assert refusal(client.get("/docs")) == "not_found"
    answer = client.delete("/v1/commits/ctx-12")
    assert (refusal(answer), answer.headers["allow"]) == ("method_not_allowed", "GET, PATCH")


def test_unknown_parameter_is_an_error(client: httpx.Client) -> None:
    answer = client.get("/v1/commits", params={"most": 3})
    assert (refusal(answer), "limit" in answer.text) == ("invalid", True)
    assert refusal(client.get("/v1/commits?limit=1&limit=2")) == "invalid"
    assert refusal(client.get("/v1/commits", params={"limit": "many"})) == "invalid"
    assert refusal(client.get("/v1/commits", params={"limit": 10**9})) == "invalid"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"names": 1}',
        b'{"names": [1]}',
        b'{"name": []}',
        b'{"names": []}' * 2,
        b'{"names": ' + b"[" * 100_000,
        b'{"names": [' + b'"x",' * 10_000 + b'"x"]}',
    ],
)
def test_invalid_json_body_is_refused(client: httpx.Client, body: bytes) -> None:
    assert refusal(client.post("/v1/store/objects", content=body)) == "invalid"


@pytest.mark.parametrize(
    "body",
    [b"", b"\x91" * 100_000, b"\xc1", b"\x80\x80", b"\x81\xa7objects\xc0", b"\x93\x01\x02\x03"],
)
def test_invalid_messagepack_is_refused(client: httpx.Client, body: bytes) -> None:
    headers = {"content-type": "application/msgpack"}
    answer = client.post("/v1/store/write", content=body, headers=headers)
    assert refusal(answer) == "invalid"


def test_too_deeply_nested_delta_is_refused(client: httpx.Client) -> None:
    source = '{"a":' * 50_000 + "1" + "}" * 50_000
    entry = f'{{"message":"x","occurrence":{{}},"source":{source}}}'
    body = f'{{"deltas":{{"art-x":[{entry}]}}}}'
    assert refusal(client.post("/v1/store/write", content=body)) == "invalid"


@pytest.mark.parametrize(
    "headers",
    [
        {"content-encoding": "gzip"},
        {"content-encoding": "deflate, gzip"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
    ],
)
def test_compressed_or_untyped_body_is_refused(
    client: httpx.Client, headers: dict[str, str]
) -> None:
    """A small body cannot expand, and an HTML form cannot send a request."""
    answer = client.post("/v1/store/objects", content=b"{}", headers=headers)
    assert refusal(answer) == "unsupported_media"


def test_too_large_body_is_refused_and_the_next_request_served() -> None:
    with asking(limits=ServiceLimits(body_bytes=1000)) as client:

        def endless() -> Iterator[bytes]:
            for _ in range(1000):
                yield b" " * 1000

        for body in (b" " * 1001, endless()):
            answer = client.post("/v1/store/objects", content=body)
            assert refusal(answer) == "too_large"
            assert client.post("/v1/store/objects", content=b'{"names": []}').status_code == 200


def raw_request(client: httpx.Client, data: bytes) -> socket.socket:
    address = urlsplit(str(client.base_url))
    assert address.hostname is not None
    connection = socket.create_connection((address.hostname, address.port or 80), timeout=5)
    connection.sendall(data)
    return connection


def head(length: int) -> bytes:
    return (
        f"POST /v1/store/objects HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
        f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    ).encode()


def test_slow_client_times_out() -> None:
    """A body that does not arrive, a partial header, and a silent connection."""
    with asking(limits=ServiceLimits(body_s=0.2, silence_s=0.2)) as client:
        with raw_request(client, head(100) + b"{") as slow:
            assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
        for beginning in (b"", head(100)[:40]):
            with raw_request(client, beginning) as silent:
                assert silent.recv(1) == b"", "the connection is still open"
        with raw_request(client, b"") as drop_by_drop, pytest.raises(OSError):
            for byte in head(100) * 10:
                drop_by_drop.sendall(bytes([byte]))
                time.sleep(0.01)


def test_reader_that_stalls_is_cut_off() -> None:
    store, data = MemoryStore(), bytes(20_000_000)
    name = hash_raw(data)
    store.write(WriteBatch(raw={name: data}))
    request_head = head(0).replace(b"POST /v1/store/objects", f"GET /v1/store/raw/{name}".encode())
    with asking(store=store, limits=ServiceLimits(silence_s=0.2)) as client:
        with raw_request(client, request_head) as reader:
            time.sleep(3)
            received_bytes = 0
            with suppress(ConnectionResetError):
                while part := reader.recv(1 << 20):
                    received_bytes += len(part)
        assert 0 < received_bytes < len(data)
        assert client.get(f"/v1/store/raw/{name}").content == data


def test_overload_is_answered_with_retry_after() -> None:
    with asking(limits=ServiceLimits(requests=1, body_s=5)) as client:
        with raw_request(client, head(10)) as waits:
            time.sleep(0.1)
            answer = client.get("/v1/commits")
            assert (refusal(answer), answer.headers["retry-after"]) == ("busy", "1")
            waits.sendall(b'{"names":[')
        time.sleep(0.05)
        assert client.get("/v1/commits").status_code == 200


class Broken(MemoryStore):
    def newest_commits(self, limit: int = 20, *, before: Any = None) -> Any:
        raise ZeroDivisionError("with a secret")


def test_internal_error_is_one_line_without_the_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with asking(store=Broken()) as client:
        answer = client.get("/v1/commits")
        assert refusal(answer) == "internal"
        assert client.get("/v1/labels").json() == {"labels": {}}
    [log_text] = [
        log_record.getMessage()
        for log_record in caplog.records
        if log_record.name == "harken.service"
    ]
    assert "ZeroDivisionError in test_service.py, line " in log_text
    assert "secret" not in log_text + answer.text


class Harmed(MemoryStore):
    def read_chunks(self, name: ArtifactRef) -> Iterator[bytes]:
        yield bytes(100_000)
        raise ObjectCorrupted("s.db", name, reason="its pieces are others")


def test_unfinished_answer_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    with asking(store=Harmed()) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/v1/store/raw/" + "art-" + "0" * 64)
        assert client.get("/v1/labels").status_code == 200
    log_texts = [
        log_record.getMessage()
        for log_record in caplog.records
        if log_record.name == "harken.service"
    ]
    assert log_texts == ["an answer was cut off: ObjectCorrupted"]


def test_long_answer_without_a_reader_ends(tmp_path: Path) -> None:
    """Its thread is free again: eight such readers would occupy all threads."""
    store, data = MemoryStore(), bytes(300_000)
    raw = {hash_raw(data + bytes([n])): data + bytes([n]) for n in range(50)}
    file_name = hash_raw(b"".join(raw.values()))
    store.write(WriteBatch(raw=raw, files={file_name: [*raw]}))
    with asking(store=store, limits=ServiceLimits(streams=2)) as client:
        for _ in range(6):
            with client.stream("GET", f"/v1/store/raw/{file_name}") as response:
                next(response.iter_raw())
        assert client.get(f"/v1/store/raw/{file_name}").content == b"".join(raw.values())


def test_many_concurrent_requests_are_answered(client: httpx.Client) -> None:
    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(lambda _: client.get("/v1/labels").status_code, range(200)))
    assert answers == [200] * 200
