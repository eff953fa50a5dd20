"""A growing log is read group by group: each complete group once, whatever happens to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.canonical import to_json_line
from harken.errors import InvalidLog, LogCorrupted, LogNotFound, LogVersionUnsupported
from harken.session.log.checksum import seal
from harken.session.log.compress import compress_log
from harken.session.log.tail import LogTail
from harken.session.session import Session
from tests.session_kit import create_agent, log_user_message, new_session, session_options


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log with groups of 1, 1, 2 and 3 lines."""
    with new_session(tmp_path) as session:
        create_agent(session)
        for texts in (["one", "two"], ["three", "four", "five"]):
            with session.group():
                for text in texts:
                    log_user_message(session, "agent_001", text)
    return session.path


def read_ids(tail: LogTail) -> list[list[str]]:
    return [[event.message_id for event in group] for group in tail.iter_event_groups()]


GROUPS = [["msg_000"], ["msg_001"], ["msg_002", "msg_003"], ["msg_004", "msg_005", "msg_006"]]


def test_groups_are_read_once(path: Path) -> None:
    tail = LogTail(path)
    assert read_ids(tail) == GROUPS
    assert read_ids(tail) == []
    assert (tail.line_count, tail.read_bytes) == (7, path.stat().st_size)


def test_a_group_is_read_when_its_last_byte_is_there(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(b"")
    sizes = [len(line) for line in data.splitlines(keepends=True)]
    group_ends = [sum(sizes[:count]) for count in (0, 1, 2, 4, 7)]
    tail, groups = LogTail(path), list[list[str]]()
    for end in range(len(data) + 1):
        path.write_bytes(data[:end])
        groups += read_ids(tail)
        assert tail.read_bytes == max(size for size in group_ends if size <= end)
    assert groups == GROUPS


def test_a_log_that_is_compressed_and_resumed_meanwhile_is_read_on(path: Path) -> None:
    tail = LogTail(path)
    assert tail.has_changed()
    assert read_ids(tail) == GROUPS
    compress_log(path)
    assert not tail.has_changed()
    assert read_ids(tail) == []
    with Session.load(path, options=session_options()) as session:
        log_user_message(session, "agent_001", "six")
    assert tail.has_changed()
    assert read_ids(tail) == [["msg_007"]]


def test_a_compressed_log_is_read(path: Path) -> None:
    compress_log(path)
    assert read_ids(LogTail(path)) == GROUPS


def test_a_torn_group_that_a_resume_removes_is_not_read(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-40])
    tail = LogTail(path)
    assert read_ids(tail) == GROUPS[:3]
    with Session.load(path, options=session_options()) as session:
        log_user_message(session, "agent_001", "again")
    assert read_ids(tail) == [["msg_004"]]


def test_damage_is_reported_after_the_groups_before_it(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"four", b"FOUR"))
    tail, groups = LogTail(path), list[list[bytes]]()
    with pytest.raises(LogCorrupted, match=r"line 6, byte \d+: checksum mismatch"):
        groups += tail.iter_groups()
    assert [len(group) for group in groups] == [1, 1, 2]


def test_a_line_that_is_no_event_is_reported(path: Path) -> None:
    last_sum = path.read_bytes()[-19:-3]
    with path.open("ab") as file:
        file.write(seal(last_sum, b'{"message_id":7}')[0])
    tail = LogTail(path)
    with pytest.raises(LogCorrupted, match=r"line 8, byte \d+: not an event"):
        read_ids(tail)


def test_a_replaced_log_is_refused(path: Path) -> None:
    tail = LogTail(path)
    read_ids(tail)
    path.write_bytes(path.read_bytes().replace(b'"sum":"', b'"SUM":"')[:-1] + b" \n")
    with pytest.raises(InvalidLog, match="was replaced while it was followed"):
        read_ids(tail)


def test_a_log_without_checksums_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text('{"event_type":"agent_created","message_id":"msg_001","agent_id":"a"}\n')
    with pytest.raises(InvalidLog, match="older dialects cannot be followed"):
        read_ids(LogTail(path))


def test_a_newer_log_is_refused(tmp_path: Path) -> None:
    path, version = tmp_path / "new.jsonl", ev.SCHEMA_VERSION + 1
    start = {"event_type": "session_started", "message_id": "msg_000", "session_id": "s"}
    path.write_bytes(seal(b"", to_json_line({**start, "schema_version": version}))[0])
    with pytest.raises(LogVersionUnsupported):
        read_ids(LogTail(path))


def test_a_log_that_is_gone_is_reported(path: Path) -> None:
    tail = LogTail(path)
    tail.has_changed()
    path.unlink()
    with pytest.raises(LogNotFound):
        tail.has_changed()
