"""Invalid files and logs give a clear error, and no operation hangs."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from harken import Session
from harken.core.events import LlmRequest, Segment, TranscriptEntry, decode_event
from harken.core.ids import MessageId
from harken.errors import InvalidLog, LogCorrupted, LogWriteError
from harken.session.log.checksum import seal
from harken.session.log.reader import iter_events
from harken.session.segments import iter_leaf_segments


def test_append_to_a_deleted_log_is_refused(tmp_path: Path) -> None:
    session = Session(tmp_path / "s.jsonl")
    agent = session.allocate_agent_id()
    session.log_agent_created(agent)
    (tmp_path / "s.jsonl").unlink()
    session.log_transcript_entry(agent, {"role": "user", "content": "Hi"})
    with pytest.raises(LogWriteError, match="deleted"):
        session.sync()


def test_irregular_file_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "pipe.jsonl", Path(os.devnull)):
        with pytest.raises(InvalidLog, match="not a regular file"):
            Session(path)


def test_pid_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".s.jsonl.pid").symlink_to(victim)
    with Session(tmp_path / "s.jsonl"):
        assert (tmp_path / ".s.jsonl.pid").read_text() == str(os.getpid())
    assert victim.read_text() == "precious"


def test_concurrent_appends_of_threads_leave_a_complete_log(tmp_path: Path) -> None:
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


def test_too_deeply_nested_line_is_damage(tmp_path: Path) -> None:
    deep = b'{"event_type":"session_started","session_id":"s","x":' + b"[" * 200_000
    line, _ = seal(b"", deep + b"]" * 200_000 + b"}")
    (tmp_path / "s.jsonl").write_bytes(line)
    with pytest.raises(LogCorrupted, match="too deeply"):
        list(iter_events(tmp_path / "s.jsonl"))


def test_invalid_meta_is_refused_also_beside_an_unknown_member() -> None:
    call = b'{"id":"c","x":1,"meta":[1],"function":{"name":"t","arguments":"{}"}}'
    line = b'{"event_type":"transcript_entry","role":"assistant","tool_calls":[' + call + b"]}"
    with pytest.raises(ValueError, match="meta"):
        decode_event(line)
    entry = decode_event(line.replace(b"[1]", b'{"m":1}'))
    assert isinstance(entry, TranscriptEntry)
    assert [call.extra for call in entry.tool_calls or ()] == ['{"x":1}']


def test_repeated_segment_references_do_not_multiply() -> None:
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


def test_unverified_log_of_a_newer_schema_reports_both(
    tmp_path: Path,
) -> None:
    with Session(tmp_path / "s.jsonl") as session:
        session.log_agent_created(session.allocate_agent_id())
    text = (tmp_path / "s.jsonl").read_text().replace('"schema_version":2', '"schema_version":3')
    (tmp_path / "s.jsonl").write_text(text)
    with pytest.raises(
        LogCorrupted, match=r"checksum mismatch .*schema version 3.* upgrade Harken"
    ):
        Session.load(tmp_path / "s.jsonl")
