"""Repair: complete lines are copied to a new log, damaged ones are saved, none is guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core import events as ev
from harken.core.canonical import to_json_line
from harken.errors import ConfigError, InvalidLog, LogNotFound, LogWriteError
from harken.session.log.checksum import DIGITS_AT, seal
from harken.session.log.reader import iter_events
from harken.session.repair import RepairResult, repair, verify
from harken.session.session import Session
from harken.testing import FailingDisk, RecordingDisk
from tests.session_kit import (
    context_texts,
    create_agent,
    fold_log,
    log_answer,
    log_request,
    log_tool_calls,
    log_tool_result,
    log_turn,
    log_user_message,
    new_session,
    read_lines,
    reload_session,
    session_options,
)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "dialects"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with new_session(tmp_path) as session:
        root = create_agent(session, name="Root")
        for number in range(2):
            log_turn(session, root, number)
    return session.path


def repaired(path: Path, **how: Any) -> RepairResult:
    return repair(path, path.with_name("new.jsonl"), options=session_options(**how))


def raw_lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def write(path: Path, *parts: bytes) -> Path:
    path.write_bytes(b"".join(parts))
    return path


def without(path: Path, number: int) -> Path:
    """Damage the content of the line at this index."""
    content = raw_lines(path)
    content[number] = content[number].replace(b"2026", b"2062")
    return write(path, *content)


def tail(path: Path) -> dict[str, Any]:
    """Return the last event of a log without its sum."""
    return {name: value for name, value in read_lines(path)[-1].items() if name != "sum"}


def wrote(folder: Path, *objects: dict[str, Any]) -> Path:
    """Write a sealed log with any content."""
    before, data = b"", b""
    for value in objects:
        line, before = seal(before, to_json_line(value))
        data += line
    return write(folder / "s.jsonl", data)


class TestASoundLog:
    @pytest.mark.req("S0-35")
    def test_sound_log_is_copied_unchanged(self, path: Path) -> None:
        result = repaired(path)
        assert raw_lines(result.path)[:-1] == raw_lines(path)
        assert (result.kept_events, result.lost, result.lost_file, result.dialect) == (
            18,
            [],
            None,
            None,
        )

    def test_repaired_log_ends_with_its_origin(self, path: Path) -> None:
        assert tail(repaired(path).path) == {
            "event_type": "session_repaired",
            "message_id": "msg_018",
            "time": "2026-01-01T00:00:00.000000Z",
            "source": "s.jsonl",
        }

    def test_repaired_session_equals_the_original_after_a_resume(self, path: Path) -> None:
        old, new = fold_log(path).describe(), fold_log(repaired(path).path).describe()
        assert {**old, "next_message": 19} == new

    def test_members_and_types_of_a_newer_version_stay_byte_for_byte(self, tmp_path: Path) -> None:
        start = {"event_type": "session_started", "message_id": "msg_000", "session_id": "s"}
        unknown_event = {
            "event_type": "dream",
            "message_id": "msg_001",
            "depth": 1.0,
            "of": {"b": 1, "a": 2},
        }
        extended = {**start, "colour": "red", "tools": [{"x": None}]}
        path = wrote(tmp_path, extended, unknown_event)
        assert raw_lines(repaired(path).path)[:2] == raw_lines(path)

    def test_repaired_log_can_be_repaired(self, path: Path) -> None:
        once = repaired(path).path
        twice = repair(once, path.with_name("newer.jsonl"), options=session_options())
        assert raw_lines(twice.path)[:-1] == raw_lines(once)
        assert tail(twice.path)["message_id"] == "msg_019"


class TestADamagedLog:
    @pytest.mark.req("S0-35")
    def test_damaged_lines_are_left_out_and_saved(self, path: Path) -> None:
        full_lines = raw_lines(path)
        spoilt = raw_lines(without(path, 8))
        result = repaired(path)
        assert result.lost_file is not None
        assert result.lost_file.name == "new.jsonl.lost"
        assert result.lost_file.read_bytes() == spoilt[8]
        kept_ids = [line["message_id"] for line in read_lines(result.path)]
        assert kept_ids[:17] == [f"msg_{n:03d}" for n in range(18) if n != 8]
        assert result.kept_events == 17
        assert read_lines(result.path)[8] == {
            **json.loads(full_lines[9]),
            "sum": read_lines(result.path)[8]["sum"],
        }

    @pytest.mark.req("S0-35")
    def test_repaired_log_names_the_lost_events(self, path: Path) -> None:
        offset = len(b"".join(raw_lines(path)[:8]))
        result = repaired(without(path, 8))
        reason = "checksum mismatch"
        assert tail(result.path)["lost"] == [{"line": 9, "byte": offset, "reason": reason}]
        assert [(f.line, f.byte, f.message) for f in result.lost] == [(9, offset, reason)]

    @pytest.mark.req("S0-35")
    @pytest.mark.parametrize("number", range(18))
    def test_repair_of_any_damaged_line_gives_a_sound_log(self, path: Path, number: int) -> None:
        result = repaired(without(path, number))
        assert verify(result.path) == []
        with Session.load(result.path, options=session_options()) as session:
            root = session.state.root
            assert root is not None
            if number != 1:  # creates the only agent
                log_user_message(session, root, "go on")
                log_request(session, root)

    @pytest.mark.req("S0-35")
    def test_source_is_never_changed(self, path: Path) -> None:
        before = without(path, 5).read_bytes()
        repaired(path)
        assert path.read_bytes() == before
        assert sorted(file.name for file in path.parent.iterdir()) == [
            "new.jsonl",
            "new.jsonl.lost",
            "s.jsonl",
        ]

    def test_id_of_a_lost_event_is_not_reused(self, path: Path) -> None:
        result = repaired(without(path, 17))
        assert [line["message_id"] for line in read_lines(result.path)][-1] == "msg_018"

    def test_line_with_wrong_sum_digits_is_kept(self, path: Path) -> None:
        content = raw_lines(path)
        digits = content[5][DIGITS_AT]
        content[5] = content[5].replace(digits, digits[::-1])
        result = repaired(write(path, *content))
        assert (result.kept_events, result.lost) == (18, [])

    def test_line_that_lost_its_newline_is_kept(self, path: Path) -> None:
        content = raw_lines(path)
        content[5] = content[5][:-1]
        assert repaired(write(path, *content)).kept_events == 18

    def test_doubled_lines_are_kept_once(self, path: Path) -> None:
        content = raw_lines(path)
        result = repaired(write(path, *content[:6], *content[4:]))
        assert (result.kept_events, result.lost, result.lost_file) == (18, [], None)

    def test_moved_lines_are_restored_to_their_position(self, path: Path) -> None:
        content = raw_lines(path)
        result = repaired(write(path, *content[:4], content[5], content[4], *content[6:]))
        assert raw_lines(result.path)[:-1] == content

    def test_unproven_line_after_a_gap_is_not_taken(self, path: Path) -> None:
        content = raw_lines(path)
        result = repaired(write(path, *content[:4], *content[5:]))
        assert (result.kept_events, [f.kind for f in result.lost]) == (16, ["missing"])
        assert result.lost_file is not None
        assert result.lost_file.read_bytes() == content[5]

    @pytest.mark.req("S0-35")
    def test_torn_last_line_is_saved(self, path: Path) -> None:
        content = path.read_bytes()
        result = repaired(write(path, content, b'{"event_type":"transcript_ent'))
        assert (result.kept_events, [f.kind for f in result.lost]) == (18, ["torn"])
        assert result.lost_file is not None
        assert result.lost_file.read_bytes() == b'{"event_type":"transcript_ent\n'

    def test_log_without_first_line_is_named_after_its_file(self, path: Path) -> None:
        result = repaired(without(path, 0))
        assert read_lines(result.path)[0] == {
            "event_type": "session_started",
            "message_id": "msg_000",
            "time": read_lines(path)[1]["time"],
            "session_id": "s",
            "schema_version": ev.SCHEMA_VERSION,
            "sum": read_lines(result.path)[0]["sum"],
        }

    def test_log_without_a_complete_line_gives_a_session_start(self, tmp_path: Path) -> None:
        with new_session(tmp_path) as session:
            pass
        result = repaired(without(session.path, 0))
        assert [line["event_type"] for line in read_lines(result.path)] == [
            "session_started",
            "session_repaired",
        ]

    def test_edit_of_a_lost_entry_is_lost(self, tmp_path: Path) -> None:
        with new_session(tmp_path) as session:
            root = create_agent(session)
            first = log_user_message(session, root, "old")
            log_answer(session, root, "kept")
            segments = [ev.Segment(entries=[first]), ev.Segment(start=1, stop=2)]
            session.append(ev.TranscriptEdited(agent_id=root, segments=segments))
        result = repaired(without(session.path, 2))
        assert [(f.line, f.kind) for f in result.lost] == [(3, "damaged"), (5, "missing")]
        assert "msg_002" in result.lost[1].message
        with Session.load(result.path) as new:
            assert context_texts(new, root) == ["kept"]


class TestOlderDialects:
    @pytest.mark.req("S1-01", "S0-35")
    def test_s1_log_becomes_a_current_one(self, tmp_path: Path) -> None:
        result = repair(FIXTURES / "s1.jsonl", tmp_path / "new.jsonl", options=session_options())
        assert (result.kept_events, result.dialect) == (38, "S1")
        assert verify(result.path) == []
        old = list(iter_events(FIXTURES / "s1.jsonl"))
        assert list(iter_events(result.path))[1:39] == old
        first = read_lines(result.path)[0]
        assert (first["message_id"], first["session_id"]) == ("msg_000", "s1")
        assert "time" not in first

    @pytest.mark.req("S0-03")
    def test_repaired_agents_continue_and_new_ones_get_new_ids(self, tmp_path: Path) -> None:
        result = repair(FIXTURES / "s1.jsonl", tmp_path / "new.jsonl", options=session_options())
        with Session.load(result.path, options=session_options()) as session:
            calling = log_tool_calls(session, "agent_root", "c99")
            new = create_agent(session, cause=calling)
            assert new == "agent_001"
            with reload_session(session) as later:
                assert next(iter(later.agents)) == "agent_root"
                assert later.allocate_agent_id() == "agent_002"

    @pytest.mark.req("S1-03", "S0-35")
    def test_foreign_message_ids_are_replaced_everywhere(self, tmp_path: Path) -> None:
        result = repair(
            FIXTURES / "fragment.jsonl", tmp_path / "new.jsonl", options=session_options()
        )
        new = {line["message_id"]: line for line in read_lines(result.path)}
        assert list(new) == [f"msg_{n:03d}" for n in range(29)]
        assert new["msg_003"]["substance"] == "msg_002"
        assert new["msg_008"]["cause"] == "msg_004.toolu_2"
        assert new["msg_006"]["cause"] == ["msg_004.toolu_1"]
        assert new["msg_019"]["cause"] == ["msg_015", "msg_017"]
        assert new["msg_027"]["event_type"] == "transcript_edit"
        assert new["msg_027"]["mood"] == "unknown"

    @pytest.mark.req("S1-03")
    def test_log_with_new_ids_is_equivalent(self, tmp_path: Path) -> None:
        source = FIXTURES / "fragment.jsonl"
        result = repair(source, tmp_path / "new.jsonl", options=session_options())
        with Session.load(result.path) as session:
            for agent in fold_log(source).agents.values():
                new = session.agent(agent.id)
                assert (new.name, new.place, new.parent) == (agent.name, agent.place, agent.parent)
                assert [e.content for e in new.transcript or ()] == [
                    e.content for e in agent.transcript or ()
                ]

    def test_segments_and_other_references_get_new_ids(self, tmp_path: Path) -> None:
        entry_members = {"agent_id": "a", "event_type": "transcript_entry", "role": "user"}
        request_members = {
            "context": [{"entries": ["1"]}],
            "count": 1,
            "context_hash": "",
            "model": "m",
        }
        later = [{"request": "3", "start": 0, "stop": 1}, {"loaded": "9", "start": 0, "stop": 0}]
        source = tmp_path / "old.jsonl"
        objects: list[dict[str, Any]] = [
            {**entry_members, "message_id": "1", "content": "x"},
            {"message_id": "2", "event_type": "tools_defined", "tools": [{}], "tools_hash": "h"},
            {"message_id": "3", "event_type": "llm_request", "agent_id": "a", "tools": "2"}
            | request_members,
            {"message_id": "4", "event_type": "llm_request", "agent_id": "a"}
            | {**request_members, "context": later},
            {"message_id": "5", "event_type": "llm_response", "request": "4", "entry": "1"},
            {"message_id": "6", "event_type": "action_rewritten", "call": "1.c", "tool": "t"}
            | {"arguments": "{}", "cause": ["1", "77"]},
            {"message_id": "7", "event_type": "context_committed", "ctx": "c", "upto": "1"},
            {"message_id": "8", "event_type": "odd", "entry": "1", "cause": [1], "segments": [1]},
            {"message_id": "9", "event_type": "transcript_edited", "agent_id": "a", "summary": "1"}
            | {"segments": [{"entries": ["1"]}, {"start": 0, "stop": 1}]},
        ]
        source.write_text("".join(json.dumps(value) + "\n" for value in objects))
        new = {line["message_id"]: line for line in read_lines(repaired(source).path)}
        assert new["msg_003"]["tools"] == "msg_002"
        assert new["msg_003"]["context"] == [{"entries": ["msg_001"]}]
        assert new["msg_004"]["context"][0] == {"request": "msg_003", "start": 0, "stop": 1}
        assert new["msg_004"]["context"][1]["loaded"] == "9"
        assert (new["msg_005"]["request"], new["msg_005"]["entry"]) == ("msg_004", "msg_001")
        assert (new["msg_006"]["call"], new["msg_006"]["cause"]) == ("msg_001.c", ["msg_001", "77"])
        assert new["msg_007"]["upto"] == "msg_001"
        assert new["msg_008"]["entry"] == "1"
        assert new["msg_009"]["segments"][0] == {"entries": ["msg_001"]}

    def test_decreasing_ids_are_renumbered(self, tmp_path: Path) -> None:
        source = raw_lines(FIXTURES / "s1.jsonl")
        source[4] = source[4].replace(b"msg_005", b"msg_003")
        result = repaired(write(tmp_path / "s1.jsonl", *source))
        assert verify(result.path) == []
        assert result.kept_events == 38

    def test_first_event_with_the_reserved_id_gets_the_next(self, tmp_path: Path) -> None:
        agent_event = {"message_id": "msg_000", "event_type": "agent_created", "agent_id": "a"}
        path = write(tmp_path / "old.jsonl", to_json_line(agent_event) + b"\n")
        assert [line["message_id"] for line in read_lines(repaired(path).path)] == [
            "msg_000",
            "msg_001",
            "msg_002",
        ]

    def test_invalid_lines_of_an_older_log_are_saved(self, tmp_path: Path) -> None:
        source = raw_lines(FIXTURES / "fragment.jsonl")
        result = repaired(write(tmp_path / "f.jsonl", *source[:4], b"oops\n", *source[4:]))
        assert result.lost_file is not None
        assert (result.kept_events, result.lost_file.read_bytes()) == (27, b"oops\n")


class TestWriting:
    def test_repaired_log_is_readable_by_its_owner_only(self, path: Path) -> None:
        result = repaired(without(path, 5))
        assert result.lost_file is not None
        assert [f.stat().st_mode & 0o777 for f in (result.path, result.lost_file)] == [0o600, 0o600]

    def test_repaired_log_and_lost_lines_are_synced_on_return(self, path: Path) -> None:
        disk = RecordingDisk()
        repaired(without(path, 5), disk=disk)
        assert disk.synced == [1, 2]
        assert disk.folders == [path.parent, path.parent]
        assert disk.writes[0] == raw_lines(path)[5]

    def test_long_log_is_written_in_chunks(self, tmp_path: Path) -> None:
        with new_session(tmp_path) as session:
            root = create_agent(session)
            for _ in range(30):
                log_user_message(session, root, "x" * 100_000)
        disk = RecordingDisk()
        result = repaired(session.path, disk=disk)
        assert len(disk.writes) == 3
        assert raw_lines(result.path)[:-1] == raw_lines(session.path)

    @pytest.mark.parametrize("fail_at", range(3))
    def test_failing_disk_is_reported_and_written_lines_stay(
        self, path: Path, fail_at: int
    ) -> None:
        before = path.read_bytes()
        with pytest.raises(LogWriteError):
            repaired(path, disk=FailingDisk(fail_at=fail_at, fault="ENOSPC"))
        assert path.with_name("new.jsonl").exists()
        assert path.read_bytes() == before

    def test_existing_output_is_never_overwritten(self, path: Path) -> None:
        before = path.read_bytes()
        (path.parent / "link.jsonl").symlink_to(path.parent / "nowhere")
        for name in ("s.jsonl", "link.jsonl"):
            with pytest.raises(ConfigError, match="exists; choose another name"):
                repair(path, path.with_name(name))
        assert path.read_bytes() == before

    def test_existing_lost_lines_file_is_never_overwritten(self, path: Path) -> None:
        write(path.with_name("new.jsonl.lost"), b"precious")
        with pytest.raises(ConfigError, match=r"\.lost"):
            repaired(without(path, 5))
        assert not path.with_name("new.jsonl").exists()
        assert path.with_name("new.jsonl.lost").read_bytes() == b"precious"

    def test_missing_output_folder_is_an_error(self, path: Path) -> None:
        with pytest.raises(LogWriteError, match="folder"):
            repair(path, path.parent / "none" / "new.jsonl")

    def test_file_that_is_no_log_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(LogNotFound):
            repaired(tmp_path / "s.jsonl")
        with pytest.raises(InvalidLog):
            repaired(write(tmp_path / "s.jsonl", b"hello\n"))
        assert not (tmp_path / "new.jsonl").exists()

    def test_locked_log_is_repaired_up_to_its_end(self, tmp_path: Path) -> None:
        with new_session(tmp_path) as session:
            create_agent(session)
            assert repaired(session.path).kept_events == 2
            session.end()


@given(data=st.data())
def test_repair_of_random_damage_gives_a_sound_log(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    with new_session(folder) as session:
        root = create_agent(session)
        log_turn(session, root, 0)
        create_agent(session, cause=log_tool_calls(session, root, "c1", "c2"))
        log_tool_result(session, root, "c1")
    content = session.path.read_bytes()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        stop = data.draw(st.integers(start, min(len(content), start + 600)))
        content = content[:start] + data.draw(st.binary(max_size=20)) + content[stop:]
    try:
        repair_result = repaired(write(session.path, content))
    except InvalidLog:
        return
    assert verify(repair_result.path) == []
    assert bool(repair_result.lost) == (repair_result.lost_file is not None)
    Session.load(repair_result.path).close()


@pytest.mark.req("S0-35")
@given(data=st.data())
def test_flipped_bit_costs_at_most_its_own_event(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    with new_session(folder) as session:
        root = create_agent(session, name="Root")
        log_turn(session, root, 0)
    full_lines = raw_lines(session.path)
    content = bytearray(b"".join(full_lines))
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    hit = sum(1 for n in range(len(full_lines)) if len(b"".join(full_lines[: n + 1])) <= bit // 8)
    result = repaired(write(session.path, bytes(content)))
    others = [
        json.loads(line)["message_id"] for n, line in enumerate(full_lines) if n not in (hit, 0)
    ]
    kept_ids = [line["message_id"] for line in read_lines(result.path)]
    assert set(others) <= set(kept_ids)
    assert verify(result.path) == []
    Session.load(result.path).close()
