"""The log reader: complete, torn and damaged lines, and unknown members."""

import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.canonical import to_json_line
from harken.errors import InvalidLog, LogCorrupted, LogNotFound, LogVersionUnsupported
from harken.session.fold import fold
from harken.session.log.checksum import seal
from harken.session.log.reader import LogReadReport, iter_events, iter_records, paused_gc
from harken.session.session import Session
from harken.session.state import SessionState
from tests.session_kit import (
    create_agent,
    fold_log,
    log_answer,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    new_session,
    read_message_ids,
    session_options,
)

START = {"event_type": "session_started", "message_id": "msg_000", "session_id": "s"}
BIRTH = {"event_type": "agent_created", "message_id": "msg_001", "agent_id": "agent_001"}


def sealed(*objects: object) -> bytes:
    """Write objects as a log with sums."""
    return b"".join(sealed_lines(objects))


def sealed_lines(objects: tuple[object, ...]) -> Iterator[bytes]:
    before = b""
    for value in objects:
        line, before = seal(before, to_json_line(value))
        yield line


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A small log: a session start, an agent and three entries."""
    with new_session(tmp_path) as session:
        agent = create_agent(session)
        for text in ("one", "two", "three"):
            log_user_message(session, agent, text)
    return session.path


def test_complete_log_is_read_completely(log: Path) -> None:
    reading = LogReadReport()
    assert read_message_ids(log, reading) == ["msg_000", "msg_001", "msg_002", "msg_003", "msg_004"]
    assert reading.sealed
    assert reading.dialect is None
    assert reading.end == log.stat().st_size
    assert (reading.torn, reading.missing_newline) == (b"", False)


def test_each_event_has_its_own_line(log: Path) -> None:
    assert b"".join(line for _, line in iter_records(log, LogReadReport())) == log.read_bytes()


@pytest.mark.req("S0-35")
def test_torn_last_line_is_returned_separately(log: Path) -> None:
    full_log = log.read_bytes()
    log.write_bytes(full_log[:-9])
    reading = LogReadReport()
    assert read_message_ids(log, reading)[-1] == "msg_003"
    assert full_log[: reading.end] + reading.torn == full_log[:-9]
    assert reading.torn


def test_last_line_without_newline_is_complete(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-1])
    reading = LogReadReport()
    assert read_message_ids(log, reading)[-1] == "msg_004"
    assert reading.missing_newline
    assert not reading.torn


@pytest.mark.parametrize(
    "tail", [b"\n", b"\0" * 4096, b"\0" * 4095 + b"\n", b'{"event_ty' + b"\0" * 90]
)
def test_trailing_zeros_are_a_torn_tail(log: Path, tail: bytes) -> None:
    full_log = log.read_bytes()
    log.write_bytes(full_log + tail)
    reading = LogReadReport()
    assert len(read_message_ids(log, reading)) == 5
    assert reading.torn == tail
    assert reading.end == len(full_log)


def damage(log: Path, lines: list[bytes]) -> LogCorrupted:
    log.write_bytes(b"".join(lines))
    with pytest.raises(LogCorrupted) as caught:
        read_message_ids(log)
    return caught.value


@pytest.mark.req("S0-35")
def test_damage_error_names_file_line_and_offset(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    error = damage(log, [*lines[:2], lines[2].replace(b"one", b"won"), *lines[3:]])
    assert error.line == 3
    assert error.byte == len(lines[0] + lines[1])
    assert str(error).startswith(
        f"{log}: corrupted at line 3, byte {error.byte}: checksum mismatch"
    )
    assert "\n" not in str(error)


def test_missing_doubled_and_moved_lines_are_detected(log: Path) -> None:
    a, b, c, d, e = log.read_bytes().splitlines(keepends=True)
    assert damage(log, [a, b, d, e]).line == 3
    assert damage(log, [a, b, c, c, d, e]).line == 4
    assert damage(log, [a, b, d, c, e]).line == 3
    assert damage(log, [a, b, b"\n", c, d, e]).line == 3
    assert damage(log, [b, c, d, e]).line == 1


def test_line_of_another_log_is_detected(log: Path, tmp_path: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    other_lines = sealed(START, BIRTH).splitlines(keepends=True)
    assert damage(log, [*lines, other_lines[1]]).line == 6


def test_line_without_sum_among_sealed_lines_is_damage(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    assert damage(log, [*lines, to_json_line(BIRTH) + b"\n"]).reason == "no checksum"


def test_first_line_without_sum_does_not_disable_verification(log: Path) -> None:
    """Otherwise a flipped bit in the first line would make the complete log unverified."""
    lines = log.read_bytes().splitlines(keepends=True)
    error = damage(log, [lines[0].replace(b'"sum"', b'"sun"'), *lines[1:]])
    assert (error.line, error.byte) == (1, 0)


def test_sealed_line_in_an_unsealed_log_is_damage(log: Path) -> None:
    """The first line lost so much of its sum that the log seems to be unsealed."""
    lines = log.read_bytes().splitlines(keepends=True)
    error = damage(log, [lines[0][:-27] + b"}\n", *lines[1:]])
    assert (error.line, error.byte) == (1, 0)
    assert error.reason == "no checksum, but line 2 has one"


def test_complete_line_that_is_no_event_is_damage(path: Path) -> None:
    path.write_bytes(sealed(START, {"event_type": "agent_created", "message_id": 7}))
    with pytest.raises(LogCorrupted, match="not an event"):
        read_message_ids(path)
    path.write_bytes(sealed(START, {"message_id": "msg_001"}))
    with pytest.raises(LogCorrupted, match="event_type"):
        read_message_ids(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\x89PNG\r\n\x1a\n\0\0", "not a session log"),
        (b"# A title\n", "not a session log"),
        (b"\n\n", "no complete event"),
        (b'{"event_type":"session_sta', "no complete event"),
    ],
)
def test_file_that_is_no_log_is_refused(path: Path, content: bytes, says: str) -> None:
    path.write_bytes(content)
    for open_it in (read_message_ids, Session) if content else (read_message_ids, Session.load):
        with pytest.raises(InvalidLog, match=says):
            open_it(path)
    assert path.read_bytes() == content


def test_folder_and_missing_file_are_refused(path: Path) -> None:
    with pytest.raises(InvalidLog, match="folder"):
        read_message_ids(path.parent)
    with pytest.raises(LogNotFound):
        read_message_ids(path)


def test_file_that_may_have_no_end_is_refused(path: Path) -> None:
    os.mkfifo(path)
    for endless in (path, Path("/dev/zero")):
        with pytest.raises(InvalidLog, match="not a regular file"):
            read_message_ids(endless)


def test_unreadable_path_is_refused(path: Path) -> None:
    path.touch()
    with pytest.raises(InvalidLog, match="cannot be read"):
        read_message_ids(path / "below")


def test_newer_schema_is_refused_before_decoding(path: Path) -> None:
    newer = {**START, "schema_version": 3, "more": 1}
    path.write_bytes(sealed(newer, {"event_type": "agent_created", "message_id": 7}))
    data_before = path.read_bytes()
    for open_it in (read_message_ids, Session, Session.load):
        with pytest.raises(LogVersionUnsupported, match="schema version 3") as refused:
            open_it(path)
        assert (refused.value.found, refused.value.known) == (3, 2)
    assert path.read_bytes() == data_before


UNKNOWN_MEMBER = {**BIRTH, "relation": "primary", "mood": {"sunny": [1, None, "\udc80"]}}
UNKNOWN_TYPE = {"event_type": "weather", "message_id": "msg_002", "rain": 0.5, "cause": "x"}
ENTRY = {
    "event_type": "transcript_entry",
    "message_id": "msg_003",
    "agent_id": "agent_001",
    "role": "user",
    "content": "hi",
}


@pytest.mark.req("S0-05")
def test_members_and_types_of_a_newer_writer_are_kept(path: Path) -> None:
    path.write_bytes(sealed(START, UNKNOWN_MEMBER, UNKNOWN_TYPE, ENTRY))
    events = list(iter_events(path))
    encoded = [json.loads(ev.encode_event(event)) for event in events]
    assert encoded == [START, UNKNOWN_MEMBER, UNKNOWN_TYPE, ENTRY]
    without = SessionState()
    for event in events:
        if not isinstance(event, ev.UnknownEvent):
            event.unknown = None
            fold(without, event)
    assert fold_log(path).describe() == without.describe()


@pytest.mark.req("S0-05")
def test_session_continues_after_unknown_events(path: Path) -> None:
    path.write_bytes(sealed(START, UNKNOWN_MEMBER, UNKNOWN_TYPE))
    data_before = path.read_bytes()
    with Session.load(path, options=session_options()) as session:
        assert log_user_message(session, "agent_001") == "msg_003"
    assert path.read_bytes().startswith(data_before)
    assert len(read_message_ids(path)) == 4


def unsealed(session: Session) -> bytes:
    """The lines of a log without their sums."""
    return b"".join(line[:-26] + b"}\n" for line in session.path.read_bytes().splitlines())


def test_unsealed_lines_are_read_and_reported_as_unverified(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = create_agent(session)
        log_tool_calls(session, agent, "c1")
        log_tool_result(session, agent, "c1")
        log_answer(session, agent)
    state = fold_log(session.path).describe()
    session.path.write_bytes(unsealed(session))
    reading = LogReadReport()
    assert len(read_message_ids(session.path, reading)) == 5
    assert not reading.sealed
    assert fold_log(session.path).describe() == state


@pytest.mark.parametrize("cut_at", range(1, 60))
def test_torn_last_line_of_an_unsealed_log_is_separate(path: Path, cut_at: int) -> None:
    """The cut may be right after an inner brace."""
    nested = to_json_line({**BIRTH, "spec": {"budget": {"usd": {"max": 1}}}})
    path.write_bytes(to_json_line(START) + b"\n" + nested[:-cut_at])
    reading = LogReadReport()
    assert read_message_ids(path, reading) == ["msg_000"]
    assert reading.torn == nested[:-cut_at]


def test_damage_in_an_unsealed_log_is_an_error(path: Path) -> None:
    path.write_bytes(to_json_line(START) + b'\n{"event_type"\n' + to_json_line(BIRTH) + b"\n")
    with pytest.raises(LogCorrupted) as caught:
        read_message_ids(path)
    assert (caught.value.line, caught.value.byte) == (2, len(to_json_line(START)) + 1)


def test_log_with_a_line_of_many_megabytes_is_read(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        agent = create_agent(session)
        log_user_message(session, agent, "long " * 2_000_000)
        log_user_message(session, agent, "short")
    assert read_message_ids(session.path)[-1] == "msg_003"


def test_garbage_collector_is_paused_while_reading_and_restored() -> None:
    collected = []
    for enabled in (True, False):
        if not enabled:
            gc.disable()
        try:
            with paused_gc():
                collected.append(gc.isenabled())
            collected.append(gc.isenabled())
        finally:
            gc.enable()
    assert collected == [False, True, False, False]
