"""Acknowledged requests survive the end of the receiver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.capture.otlp.spool import OtlpSpool, SpooledRequest
from harken.errors import ConfigError

ONE, TWO = ("t", "1"), ("t", "2")
BODY = SpooledRequest("trace", is_json=True, data=json.dumps({}).encode())


def test_spool_returns_remaining_requests_in_order(tmp_path: Path) -> None:
    bodies = [SpooledRequest("logs", is_json=False, data=bytes([n])) for n in range(12)]
    spool = OtlpSpool(tmp_path / "otlp")
    for body in bodies:
        spool.write(body)
    spool.close()
    reopened = OtlpSpool(tmp_path / "otlp")
    assert [*reopened.iter_unfinished()] == bodies
    reopened.close()


def test_request_is_removed_after_all_before_it(tmp_path: Path) -> None:
    spool = OtlpSpool(tmp_path)
    for id_ in (ONE, TWO):
        spool.write(BODY)
        spool.set_last_ids([id_])
    spool.remove_finished(lambda id_: id_ == ONE)
    assert len([*tmp_path.iterdir()]) == 2
    spool.remove_finished(lambda id_: id_ == TWO)
    assert [path.name for path in tmp_path.iterdir()] == ["2.trace.json"]
    spool.remove_finished(lambda id_: False)
    assert [*tmp_path.iterdir()] == []
    spool.close()


def test_spool_folder_is_exclusive_to_one_receiver(tmp_path: Path) -> None:
    spool = OtlpSpool(tmp_path)
    with pytest.raises(ConfigError, match="another receiver"):
        OtlpSpool(tmp_path)
    spool.close()
    OtlpSpool(tmp_path).close()


def test_spool_ignores_other_files(tmp_path: Path) -> None:
    for name in ("notes.txt", "1.trace.part", "x.trace.pb"):
        (tmp_path / name).write_text("mine")
    spool = OtlpSpool(tmp_path)
    assert [*spool.iter_unfinished()] == []
    spool.write(BODY)
    spool.remove_finished(lambda id_: False)
    spool.close()
    assert (tmp_path / "notes.txt").read_text() == "mine"
