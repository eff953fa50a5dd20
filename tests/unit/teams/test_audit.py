"""The audit log as a file, and the records of requests."""

from __future__ import annotations

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from harken.errors import ConfigError, StoreWriteError
from harken.teams.audit import AuditLog, AuditRecord, read_audit, read_audit_page
from harken.testing.fakes import ticking
from harken.testing.store import batch_of, commit_in
from tests.team_kit import team_service


def record(number: int) -> AuditRecord:
    return AuditRecord(time="2026-01-01T00:00:00Z", user=f"user{number}", action="x\ny")


def test_records_are_lines_that_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    assert list(read_audit(path)) == []
    for number in range(2):
        with closing(AuditLog(path)) as log:
            log.append(record(number))
    assert list(read_audit(path)) == [record(0), record(1)]
    assert path.read_bytes().count(b"\n") == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_several_writers_share_a_log(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    logs = [AuditLog(path) for _ in range(4)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: logs[n % 4].append(record(n)), range(200)))
    assert sorted(r.user for r in read_audit(path)) == sorted(f"user{n}" for n in range(200))
    for log in logs:
        log.close()
        log.close()


def test_pages_continue_where_the_last_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with closing(AuditLog(path)) as log:
        for number in range(5):
            log.append(record(number), is_synced=False)
    records, after = [], 0
    while (page := read_audit_page(path, after, 2)).records:
        records += page.records
        after = page.next
    assert records == [record(number) for number in range(5)]
    assert after == path.stat().st_size


def test_a_line_that_a_crash_cut_is_shown_as_such(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o600)
    path.write_bytes(b'{"time":"2026"')
    assert list(read_audit(path)) == []
    with closing(AuditLog(path)) as log:
        log.append(record(1))
    damaged, intact = read_audit(path)
    assert "damaged" in damaged.action
    assert intact == record(1)


def test_a_log_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch()
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        AuditLog(path)


def test_a_full_disk_is_an_error() -> None:
    with closing(_FullLog()) as log, pytest.raises(StoreWriteError):
        log.append(record(1))


class _FullLog(AuditLog):
    """A log on a device that is always full."""

    def __init__(self) -> None:
        self.path, self._lock = Path("/dev/full"), threading.Lock()
        self._file = os.open("/dev/full", os.O_WRONLY)


def test_a_change_is_not_confirmed_without_its_record(tmp_path: Path) -> None:
    with team_service(tmp_path) as service:
        service.add("ann", "write *")
        object.__setattr__(service.team.audit, "append", _FullLog().append)
        with service.client("ann") as client:
            body = {"messages": [{"role": "user", "content": "hi"}],
                    "created_at": "2026-01-01T00:00:00Z"}  # fmt: skip
            response = client.post("/v1/checkpoint", json=body)
            assert response.status_code == 507
            assert response.json()["error"]["code"] == "store_full"


def test_each_request_is_recorded_once(tmp_path: Path) -> None:
    with team_service(tmp_path, clock=ticking()) as service:
        service.add("ann", "write project:cafe")
        batch = batch_of("hi", principal="ann")
        with service.remote("ann") as store:
            store.write(batch)
        with service.client("ann") as client:
            client.get("/v1/commits/secret-in-a-path")
            client.get("/v1/nothing/secret-in-a-path?x=secret-in-a-path")
            client.post("/v1/store/collect", json={"now": "2026-01-01T00:00:00Z"})
        with service.client("") as client:
            client.get("/v1/commits", headers={"authorization": "Bearer secret-in-a-token"})
            client.get("/v1/health")
        with service.client("owner") as client:
            client.get("/v1/labels")
        records = service.audit()
    token = service.ids["ann"]
    assert [(r.user, r.token, r.action, r.status, r.code, r.right) for r in records] == [
        ("ann", token, "POST /v1/store/write", 200, "", "write"),
        ("ann", token, "GET /v1/commits/{ctx}", 404, "unknown_name", "read"),
        ("ann", token, "GET (no route)", 404, "not_found", ""),
        ("ann", token, "POST /v1/store/collect", 403, "forbidden", "admin"),
        ("", "", "GET (no route)", 401, "unauthorized", ""),
        ("", "owner", "GET /v1/labels", 200, "", "read"),
    ]
    assert records[0].names == (commit_in(batch),)
    assert {r.remote for r in records} == {"127.0.0.1"}
    assert "secret-in" not in (tmp_path / "audit.jsonl").read_text()


def test_requests_without_a_token_do_not_fill_the_disk(tmp_path: Path) -> None:
    with team_service(tmp_path, clock=lambda: 0) as service:
        with service.client("") as client:
            for _ in range(130):
                client.get("/v1/commits")
        assert len(service.audit()) == 100
