"""Odd files and odd logs: each is a clear error, and nothing hangs."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from harken import Session
from harken.core.events import LlmRequest, Segment, decode_event
from harken.core.ids import MessageId
from harken.errors import InvalidLog, LogCorrupted, LogWriteError
from harken.session.log.checksum import seal
from harken.session.log.reader import iter_events
from harken.session.segments import iter_leaf_segments


def test_a_log_that_was_deleted_under_its_writer_acknowledges_nothing_more(tmp_path: Path) -> None:
    session = Session(tmp_path / "s.jsonl")
    agent = session.allocate_agent_id()
    session.log_agent_created(agent)
    (tmp_path / "s.jsonl").unlink()
    session.log_transcript_entry(agent, {"role": "user", "content": "Hi"})
    with pytest.raises(LogWriteError, match="deleted"):
        session.sync()


def test_what_is_no_regular_file_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "pipe.jsonl", Path(os.devnull)):
        with pytest.raises(InvalidLog, match="no regular file"):
            Session(path)


def test_the_pid_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".s.jsonl.pid").symlink_to(victim)
    with Session(tmp_path / "s.jsonl"):
        assert (tmp_path / ".s.jsonl.pid").read_text() == str(os.getpid())
    assert victim.read_text() == "precious"


def test_threads_that_append_at_once_leave_a_whole_log(tmp_path: Path) -> None:
    with Session(tmp_path / "s.jsonl") as session:
        agent = session.allocate_agent_id()
        birth = session.log_agent_created(agent)

        def log() -> None:
            for _ in range(50):
                session.log_piece_of_text(agent, "text", birth)

        threads = [threading.Thread(target=log) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ids = [event.message_id for event in iter_events(tmp_path / "s.jsonl")]
    assert len(ids) == len(set(ids)) == 202


def test_a_line_that_is_nested_too_deeply_is_damage(tmp_path: Path) -> None:
    deep = b'{"event_type":"session_started","session_id":"s","x":' + b"[" * 200_000
    line, _ = seal(b"", deep + b"]" * 200_000 + b"}")
    (tmp_path / "s.jsonl").write_bytes(line)
    with pytest.raises(LogCorrupted, match="too deeply"):
        list(iter_events(tmp_path / "s.jsonl"))


def test_an_unknown_member_beside_a_meta_that_is_none_is_no_crash() -> None:
    call = b'{"id":"c","x":1,"meta":[1],"function":{"name":"t","arguments":"{}"}}'
    event = decode_event(
        b'{"event_type":"transcript_entry","role":"assistant","tool_calls":[' + call + b"]}"
    )
    assert event.message_id == ""


def test_requests_that_name_one_twice_do_not_multiply() -> None:
    requests: dict[MessageId, LlmRequest] = {}
    segments = [Segment(entries=[MessageId("msg_000")])]
    for number in range(1, 60):
        id_ = MessageId(f"msg_{number:03d}")
        size = 2 ** (number - 1)
        requests[id_] = LlmRequest(
            message_id=id_, context=segments, count=size, context_hash="", model="m"
        )
        segments = [Segment(request=id_, start=0, stop=size)] * 2
    with pytest.raises(ValueError, match="more entries"):
        list(iter_leaf_segments(requests[MessageId("msg_059")], requests))


def test_a_log_that_does_not_verify_and_says_that_it_is_newer_is_told_as_both(
    tmp_path: Path,
) -> None:
    with Session(tmp_path / "s.jsonl") as session:
        session.log_agent_created(session.allocate_agent_id())
    text = (tmp_path / "s.jsonl").read_text().replace('"schema_version":1', '"schema_version":2')
    (tmp_path / "s.jsonl").write_text(text)
    with pytest.raises(LogCorrupted, match=r"does not fit .*schema version 2.* upgrade Harken"):
        Session.load(tmp_path / "s.jsonl")
