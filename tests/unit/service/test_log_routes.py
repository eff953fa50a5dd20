"""The log routes as a pushing client uses them."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from harken.errors import LogError, StoreError, StoreUnavailable
from harken.service.dependencies import ServiceLimits
from harken.session.log.file import LogFile
from harken.store.remote.store import RemoteStore
from harken.store.remote.wire import LogEndBody
from tests.service_kit import TOKEN, serve_store
from tests.session_kit import write_log_lines
from tests.unit.service.test_service import BEARER, refusal

BYTES = {"content-type": "application/octet-stream"}


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    return write_log_lines(tmp_path / "source")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sessions").mkdir()
    return tmp_path / "sessions"


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with serve_store(sessions=folder, limits=ServiceLimits(body_bytes=10_000)) as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers=BEARER) as client:
        yield client


@pytest.mark.req("S3-34")
def test_lines_are_accepted_once_and_the_end_is_returned(
    url: str, folder: Path, lines: list[bytes]
) -> None:
    with closing(RemoteStore(url, token=TOKEN)) as store:
        assert store.log_end("s-1") == LogEndBody()
        first = store.append_log("s-1", 0, lines[0])
        assert first == store.append_log("s-1", 0, lines[0]) == store.log_end("s-1")
        end = store.append_log("s-1", 0, b"".join(lines))
        assert end == LogEndBody(len(b"".join(lines)), lines[-1][-19:-3].decode())
        log = folder / "s-1.jsonl"
        assert log.read_bytes() == b"".join(lines)
        assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_different_lines_and_locked_log_are_refused(
    url: str, folder: Path, lines: list[bytes]
) -> None:
    with closing(RemoteStore(url, token=TOKEN)) as store:
        store.append_log("s", 0, lines[0])
        with pytest.raises(LogError, match="other lines"):
            store.append_log("s", 1, lines[0])
        locked_log = LogFile(folder / "s.jsonl")
        with pytest.raises(LogError, match="another program") as refused:
            store.append_log("s", len(lines[0]), lines[1])
        assert str(folder) not in str(refused.value)
        locked_log.close()
        (folder / "s.jsonl").write_bytes(b"{}\n")
        with pytest.raises(StoreError, match="without checksums"):
            store.log_end("s")


@pytest.mark.parametrize("name", [".hidden", "a%2Fb", "..", "a b", "x" * 201, "%00", "a%0A"])
def test_invalid_name_is_refused(client: httpx.Client, folder: Path, name: str) -> None:
    for answer in (
        client.get(f"/v1/logs/{name}"),
        client.post(f"/v1/logs/{name}?from=0", content=b"x\n", headers=BYTES),
    ):
        assert refusal(answer) in ("invalid", "not_found", "method_not_allowed")
    assert list(folder.iterdir()) == []


def test_malformed_request_is_refused(client: httpx.Client, lines: list[bytes]) -> None:
    path = "/v1/logs/s"
    assert refusal(client.post(path, content=lines[0], headers=BYTES)) == "invalid"
    assert refusal(client.post(f"{path}?from=-1", content=lines[0], headers=BYTES)) == "invalid"
    assert refusal(client.post(f"{path}?from=0&x=1", content=lines[0], headers=BYTES)) == "invalid"
    assert refusal(client.post(f"{path}?from=0", content=b"{}\n", headers=BYTES)) == "invalid"
    assert refusal(client.post(f"{path}?from=0", json={})) == "unsupported_media"
    large = b"x" * 10_001
    assert refusal(client.post(f"{path}?from=0", content=large, headers=BYTES)) == "too_large"
    without = {"authorization": ""}
    assert refusal(client.get(path, headers=without)) == "unauthorized"
    answer = client.post(f"{path}?from=0", content=lines[0], headers=BYTES | without)
    assert refusal(answer) == "unauthorized"


def test_read_only_service_or_one_without_logs_refuses_lines(
    folder: Path, lines: list[bytes]
) -> None:
    with (
        serve_store(sessions=folder, read_only=True) as url,
        closing(RemoteStore(url, token=TOKEN)) as store,
    ):
        assert store.log_end("s") == LogEndBody()
        with pytest.raises(StoreError, match="only reads"):
            store.append_log("s", 0, lines[0])
    with (
        serve_store() as url,
        closing(RemoteStore(url, token=TOKEN)) as store,
        pytest.raises(StoreError, match="older than this one"),
    ):
        store.log_end("s")
    with (
        closing(RemoteStore(url, token=TOKEN, patience_s=0)) as store,
        pytest.raises(StoreUnavailable),
    ):
        store.log_end("s")
