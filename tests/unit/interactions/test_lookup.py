"""The lookup of a logged message by its id."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harken.interactions.logger import InteractionLogger
from harken.testing import ticking
from tests.unit.interactions.kit import KIND, ROLE, logger, message_record


@pytest.mark.req("S3-22")
def test_lookup_reads_only_the_line_of_the_message(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread("cafe")
        log.log_context_state(thread, [f"m {n}" for n in range(500)], KIND.MESSAGE_ADDED)
        id_ = log.log_message(message_record(ROLE.USER, "m 7"))
        assert log.get_message(id_) is not None
    path = tmp_path / "sessions" / "cafe.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    blank = [line if b'"m 7"' in line else b" " * len(line) for line in lines]
    path.write_bytes(b"".join(blank))
    (tmp_path / "store.db").unlink()
    with logger(tmp_path) as log:
        message = log.get_message(id_)
        assert message is not None
        assert message.content == "m 7"


def _write_messages(folder: Path, count: int) -> str:
    """Write a thread of messages. Return the id of the one in the middle."""
    with InteractionLogger(folder=folder, clock=ticking(), durability="none") as log:
        thread = log.start_thread("cafe")
        log.log_context_state(thread, [f"m {n}" for n in range(count)], KIND.MESSAGE_ADDED)
        id_ = log.log_message(message_record(ROLE.USER, f"m {count // 2}"))
        assert log.get_message(id_) is not None
    return id_


def _read_bytes() -> int:
    """Return how many bytes this process has read."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(lines[0].removeprefix("rchar:"))


def _lookup_bytes(folder: Path, id_: str) -> int:
    """Return how many bytes a new logger reads to find a message."""
    began = _read_bytes()
    overhead = _read_bytes() - began
    with InteractionLogger(folder=folder, durability="none") as log:
        message = log.get_message(id_)
    size = _read_bytes() - began - overhead
    assert message is not None
    return size


@pytest.mark.req("S3-22")
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what is read")
def test_lookup_in_a_new_process_reads_as_little_in_a_large_log(tmp_path: Path) -> None:
    """A search tree has a page more, not a part of the messages."""
    few_id = _write_messages(tmp_path / "few", 100)
    many_id = _write_messages(tmp_path / "many", 20_000)
    log_bytes = (tmp_path / "many" / "sessions" / "cafe.jsonl").stat().st_size
    few = _lookup_bytes(tmp_path / "few", few_id)
    assert _lookup_bytes(tmp_path / "many", many_id) <= few + 4 * 4096 < log_bytes / 10


def _lookup_s(folder: Path, messages: int) -> float:
    """Return the shortest of 30 lookups of a message among this number of messages."""
    with InteractionLogger(folder=folder, clock=ticking(), durability="none") as log:
        thread = log.start_thread()
        log.log_context_state(thread, [f"m {n}" for n in range(messages)], KIND.MESSAGE_ADDED)
        id_ = log.log_message(message_record(ROLE.USER, "m 7"))
        assert log.get_message(id_) is not None
        best_s = 1.0
        for _ in range(30):
            began_s = time.perf_counter()
            log.get_message(id_)
            best_s = min(best_s, time.perf_counter() - began_s)
    return best_s


@pytest.mark.req("S3-22")
@pytest.mark.parametrize(
    "many", [3_000, pytest.param(100_000, marks=pytest.mark.full)], ids=["3000", "100000"]
)
def test_lookup_time_is_independent_of_size(tmp_path: Path, many: int) -> None:
    assert _lookup_s(tmp_path / "many", many) < 5 * _lookup_s(tmp_path / "few", 100)
