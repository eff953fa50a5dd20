"""The lines that a session writes: members, order and size."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from blake3 import blake3

from harken.core import events as ev
from harken.core.ids import AgentId
from harken.session.session import Session, SessionOptions
from harken.testing import RecordingDisk
from tests.session_kit import (
    create_agent,
    log_answer,
    log_edit,
    log_request,
    log_turn,
    log_user_message,
    new_session,
    range_segment,
    read_lines,
    read_message_ids,
    reload_session,
    session_options,
)

ROOT = AgentId("agent_001")
BIRTH = "msg_001"


@pytest.mark.req("S0-01")
def test_every_event_has_id_type_agent_time_and_sum(session: Session) -> None:
    log_turn(session, ROOT, 1)
    session.append(ev.SessionEnded())
    moment = re.compile(r"2026-01-01T00:00:\d\d\.000000Z")
    for line in read_lines(session.path):
        of_session = line["event_type"] in {"session_started", "session_ended"}
        assert ("agent_id" in line) != of_session
        assert re.fullmatch(r"msg_\d{3}", line["message_id"])
        assert moment.fullmatch(line["time"])
        assert re.fullmatch("[0-9a-f]{16}", line["sum"])


@pytest.mark.req("S0-01")
def test_every_sum_covers_the_line_and_the_previous_sum(session: Session) -> None:
    log_turn(session, ROOT, 1)
    before = b""
    for line in session.path.read_bytes().splitlines():
        head, line_sum = line[:-18], line[-18:-2]
        assert line_sum.decode() == blake3(before + head).hexdigest()[:16]
        before = line_sum


def test_time_has_microseconds_and_comes_from_the_clock(tmp_path: Path) -> None:
    moments = iter([1_767_225_600_000_001, 1_767_225_600_999_999, 1_767_225_600_500_000])
    how = SessionOptions(durability="none", clock=lambda: next(moments))
    with Session(tmp_path / "s.jsonl", options=how) as session:
        create_agent(session)
        log_user_message(session, ROOT)
    assert [line["time"][-10:] for line in read_lines(session.path)] == [
        "00.000001Z",
        "00.999999Z",
        "00.500000Z",
    ]


def test_first_line_starts_the_session(session: Session) -> None:
    first = read_lines(session.path)[0]
    assert first["event_type"] == "session_started"
    assert first["message_id"] == "msg_000"
    assert first["session_id"] == "s"


def test_first_line_has_the_schema(session: Session) -> None:
    assert read_lines(session.path)[0]["schema_version"] == 2


@pytest.mark.req("S0-02")
def test_ids_are_unique_across_event_types_and_increase(session: Session) -> None:
    log_turn(session, ROOT, 1)
    session.log_piece_of_text(ROOT, "x", BIRTH)
    session.append(ev.AgentStateSaved(agent_id=ROOT, state=1))
    session = reload_session(session)
    log_turn(session, ROOT, 2)
    session.close()
    found_ids = read_message_ids(session.path)
    assert found_ids == [f"msg_{n:03d}" for n in range(len(found_ids))]
    assert len(found_ids) == 20


@pytest.mark.req("S0-02")
def test_message_1000_follows_message_999(session: Session) -> None:
    message_ids = [log_user_message(session, ROOT) for _ in range(1001)]
    assert message_ids[997:1000] == ["msg_999", "msg_1000", "msg_1001"]
    session = reload_session(session)
    assert log_user_message(session, ROOT) == "msg_1003"
    assert log_user_message(session, ROOT, substance="msg_1002") == "msg_1004"
    session.close()
    assert len(set(read_message_ids(session.path))) == 1005


@pytest.mark.req("S0-04")
def test_all_events_are_json_lines_of_one_file_in_order(
    session: Session,
) -> None:
    jack = create_agent(session, cause=BIRTH)
    for text in ("a\nb", "\u2028\u2029\x85", "\r", '"', "\0", "\ud800", "☃", "\U0001f600"):
        log_user_message(session, ROOT, text)
        log_answer(session, jack, text)
    raw = session.path.read_bytes()
    assert raw.count(b"\n") == len(read_lines(session.path)) == 19
    assert raw.endswith(b"\n")
    assert [line.get("agent_id") for line in read_lines(session.path)[3:]] == [ROOT, jack] * 8
    assert list(session.path.parent.glob("*.jsonl")) == [session.path]


@pytest.mark.req("S0-04")
@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq on this machine")
def test_jq_reads_the_log(session: Session) -> None:
    """The exception: jq 1.6 rejects a lone surrogate, which the log keeps unchanged."""
    log_user_message(session, ROOT, 'q"\\u0000\0\u2028\U0001f600')
    log_turn(session, ROOT, 1)
    output = subprocess.run(
        ["jq", "-r", ".message_id", str(session.path)], capture_output=True, text=True, check=True
    )
    assert output.stdout.split() == read_message_ids(session.path)


@pytest.mark.req("S0-04")
def test_earlier_bytes_never_change(session: Session) -> None:
    before = session.path.read_bytes()
    for step in range(20):
        if step % 5 == 4:
            session = reload_session(session)
        log_turn(session, ROOT, step)
        now = session.path.read_bytes()
        assert now.startswith(before)
        before = now
    session.close()
    assert session.path.read_bytes() == before


@pytest.mark.req("S0-33")
def test_every_event_is_one_line_and_every_group_one_write(tmp_path: Path) -> None:
    disk = RecordingDisk()
    with new_session(tmp_path, disk=disk) as session:
        create_agent(session)
        log_turn(session, ROOT, 1)
        session.append_all([ev.AgentStateSaved(agent_id=ROOT, state=n) for n in range(3)])
    assert b"".join(disk.writes) == session.path.read_bytes()
    sizes = [data.count(b"\n") for data in disk.writes]
    assert all(data.endswith(b"\n") for data in disk.writes)
    assert sizes == [1] * (len(sizes) - 1) + [3]
    assert [line.get("more") for line in read_lines(session.path)][-4:] == [None, True, True, None]


@pytest.mark.req("S0-33")
def test_session_locked_by_another_process_is_refused(session: Session) -> None:
    program = (
        "import sys\nfrom harken.session.session import Session\n"
        "try: Session(sys.argv[1])\n"
        "except Exception as error: print(type(error).__name__, error.pid)\n"
        "try: Session.load(sys.argv[1])\n"
        "except Exception as error: print(type(error).__name__, error.pid)\n"
    )
    data_before = session.path.read_bytes()
    output = subprocess.run(
        [sys.executable, "-c", program, str(session.path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert output.stdout == f"LogLocked {os.getpid()}\n" * 2
    assert session.path.read_bytes() == data_before
    log_user_message(session, ROOT)


@pytest.mark.req("S0-22")
def test_log_size_is_linear_in_the_number_of_turns(session: Session) -> None:
    """A request references the previous one, so its size does not depend on the session length."""
    sizes = []
    for number in range(100, 400):
        before = session.path.stat().st_size
        log_turn(session, ROOT, number)
        sizes.append(session.path.stat().st_size - before)
    assert max(sizes) <= min(sizes) * 1.05
    assert sum(sizes[150:]) <= 1.02 * sum(sizes[:150])


@pytest.mark.req("S0-22")
def test_sliding_context_has_constant_cost_per_turn(session: Session) -> None:
    """Each turn keeps the system prompt and the last ten messages."""
    for text in "abcdefghijk":
        log_user_message(session, ROOT, text)
    sizes = []
    for number in range(100, 300):
        before = session.path.stat().st_size
        log_user_message(session, ROOT, f"turn {number}")
        log_edit(session, ROOT, range_segment(0, 1), range_segment(2, 12))
        log_request(session, ROOT)
        sizes.append(session.path.stat().st_size - before)
    assert max(sizes[20:]) <= min(sizes[20:]) * 1.05


def test_line_length_is_bounded_by_its_content(session: Session) -> None:
    log_user_message(session, ROOT, "x")
    (line,) = session.path.read_bytes().splitlines()[-1:]
    assert len(line) < 200
    assert not {name for name, value in json.loads(line).items() if value in (None, [], {})}


def test_sessions_are_independent(tmp_path: Path) -> None:
    sessions = [Session(tmp_path / f"{n}.jsonl", options=session_options()) for n in range(3)]
    for session, number in itertools.product(sessions, range(3)):
        create_agent(session, cause=BIRTH if number else None)
    assert [list(s.agents) for s in sessions] == [["agent_001", "agent_002", "agent_003"]] * 3
    for session in sessions:
        session.close()
