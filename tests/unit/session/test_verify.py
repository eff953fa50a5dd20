"""Verification: every change of a sealed log is located."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.canonical import to_json_line
from harken.errors import InvalidLog, LogCorrupted, LogNotFound, LogVersionUnsupported
from harken.session.log.checksum import DIGITS_AT, seal
from harken.session.log.reader import iter_events
from harken.session.verify import LogFinding, examine, verify
from tests.session_kit import (
    create_agent,
    log_answer,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    new_session,
)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "dialects"


def write_log(folder: Path) -> Path:
    """Write a small log of ten events with a call, its result and a non-ASCII text."""
    with new_session(folder) as session:
        root = create_agent(session, name="Root")
        log_user_message(session, root, "Let Jack look")
        calling = log_tool_calls(session, root, "c1")
        jack = create_agent(session, cause=calling, name="Jack")
        session.log_piece_of_text(root, "look", calling)
        text_id = log_answer(session, jack, "Grüezi — 你好")
        log_tool_result(session, root, "c1", "found", substance=text_id)
        log_answer(session, root, "It is there.")
        session.end()
    return session.path


def write_small_log(folder: Path) -> Path:
    with new_session(folder) as session:
        log_answer(session, create_agent(session), "你好")
    return session.path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_log(tmp_path)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(lines))
    return path


def flipped(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def find_damage(path: Path) -> list[tuple[int, str]]:
    return [(finding.line, finding.kind) for finding in verify(path)]


def test_sound_log_has_no_findings(path: Path) -> None:
    assert verify(path) == []
    assert verify(str(path)) == []
    assert all(line.is_whole for line in examine(path).lines)


@pytest.mark.req("S0-35")
def test_changed_letter_is_reported_in_its_line_only(path: Path) -> None:
    lines = lines_of(path)
    lines[2] = lines[2].replace(b"Let Jack", b"Let Jill")
    assert find_damage(write(path, *lines)) == [(3, "damaged")]
    assert [line.is_whole for line in examine(path).lines].index(False) == 2


@pytest.mark.req("S0-35")
def test_wrong_sum_digits_are_reported_in_their_line_only(path: Path) -> None:
    """The next line covers the original digits and so proves the content, too."""
    lines = lines_of(path)
    digits = lines[2][DIGITS_AT]
    lines[2] = lines[2].replace(digits, digits[::-1])
    write(path, *lines)
    assert verify(path) == [
        LogFinding(
            line=3,
            byte=len(lines[0] + lines[1]),
            kind="damaged",
            message="the checksum changed; the content is intact",
        )
    ]
    assert examine(path).lines[2].is_whole


@pytest.mark.req("S0-35")
def test_wrong_sum_digits_in_the_last_line_leave_it_unproven(path: Path) -> None:
    lines = lines_of(path)
    digits = lines[-1][DIGITS_AT]
    lines[-1] = lines[-1].replace(digits, digits[::-1])
    assert find_damage(write(path, *lines)) == [(len(lines), "damaged")]
    assert not examine(path).lines[-1].is_whole


@pytest.mark.req("S0-35")
def test_missing_line_is_reported_before_its_successor(path: Path) -> None:
    lines = lines_of(path)
    del lines[4]
    write(path, *lines)
    (finding,) = verify(path)
    assert (finding.line, finding.kind) == (5, "missing")
    assert finding.byte == len(b"".join(lines[:4]))


def test_missing_first_line_is_reported(path: Path) -> None:
    assert find_damage(write(path, *lines_of(path)[1:])) == [(1, "missing")]


def test_changed_id_is_damage_and_no_gap(path: Path) -> None:
    lines = lines_of(path)
    lines[4] = lines[4].replace(b"msg_004", b"msg_044")
    assert find_damage(write(path, *lines)) == [(5, "damaged")]


@pytest.mark.req("S0-35")
@pytest.mark.parametrize("position", [0, 4, 9])
def test_doubled_line_is_reported(path: Path, position: int) -> None:
    lines = lines_of(path)
    lines.insert(position, lines[position])
    assert find_damage(write(path, *lines)) == [(position + 2, "doubled")]


def test_doubled_lines_are_reported_at_any_position(path: Path) -> None:
    lines = lines_of(path)
    write(path, *lines[:5], *lines[2:4], *lines[5:])
    assert find_damage(path) == [(6, "doubled"), (7, "doubled")]


@pytest.mark.req("S0-35")
def test_moved_line_is_reported_and_all_lines_are_complete(path: Path) -> None:
    lines = lines_of(path)
    lines[4], lines[5] = lines[5], lines[4]
    assert find_damage(write(path, *lines)) == [(6, "moved")]
    examined = examine(path)
    assert all(line.is_whole for line in examined.lines)
    assert not examined.in_order


def test_inserted_lines_are_reported_without_breaking_the_chain(path: Path) -> None:
    lines = lines_of(path)
    write(path, *lines[:3], b"hello\n", b'{"more": 1}\n', *lines[3:])
    assert find_damage(path) == [(4, "damaged"), (5, "damaged")]


def test_lines_after_damage_of_any_length_are_proven(path: Path) -> None:
    lines = lines_of(path)
    junk = [b'{"n": %d}\n' % n for n in range(40)]
    write(path, *lines[:3], *junk, *lines[3:])
    assert find_damage(path) == [(4 + n, "damaged") for n in range(40)]


@pytest.mark.req("S0-35")
def test_lost_newline_costs_no_line(path: Path) -> None:
    lines = lines_of(path)
    for close in (b'"}', b'"} '):
        write(path, *lines[:3], lines[3][:-3] + close, *lines[4:])
        assert find_damage(path) == [(4, "damaged")]
        assert all(line.is_whole for line in examine(path).lines)
        assert len(examine(path).lines) == len(lines)


def test_inserted_newline_is_one_finding(path: Path) -> None:
    lines = lines_of(path)
    lines[2] = lines[2].replace(b"Jack", b"\nack")
    assert find_damage(write(path, *lines)) == [(3, "damaged")]


def test_line_without_digits_and_content_costs_the_next_one(path: Path) -> None:
    lines = lines_of(path)
    lines[3] = b"?" * len(lines[3][:-1]) + b"\n"
    assert find_damage(write(path, *lines)) == [(4, "damaged"), (5, "missing")]


@pytest.mark.req("S0-35")
@pytest.mark.parametrize("torn", [b"{", b'{"event_type":"transcript_entry","message', b"\x00" * 40])
def test_unterminated_last_line_is_torn(path: Path, torn: bytes) -> None:
    lines = lines_of(path)
    assert find_damage(write(path, *lines, torn)) == [(len(lines) + 1, "torn")]


def test_missing_last_newline_changes_nothing(path: Path) -> None:
    lines = lines_of(path)
    write(path, *lines[:-1], lines[-1][:-1])
    assert verify(path) == []


def test_verified_line_that_is_no_event_is_damaged(tmp_path: Path) -> None:
    start, line_sum = seal(b"", to_json_line({"event_type": "session_started", "session_id": "s"}))
    unknown_line, line_sum = seal(
        line_sum, to_json_line({"event_type": "piece_of_text", "message_id": "msg_001"})
    )
    path = write(tmp_path / "s.jsonl", start, unknown_line)
    (finding,) = verify(path)
    assert (finding.line, finding.kind) == (2, "damaged")
    assert "not an event" in finding.message


class TestWithoutSums:
    def test_older_log_is_unverified(self) -> None:
        for name, description in (("s0", "a log"), ("s1", "S1"), ("fragment", "fragment")):
            (finding,) = verify(FIXTURES / f"{name}.jsonl")
            assert (finding.line, finding.byte, finding.kind) == (1, 0, "unverified")
            assert finding.message.startswith(description)

    def test_lines_of_an_older_log_are_checked(self, tmp_path: Path) -> None:
        lines = lines_of(FIXTURES / "s1.jsonl")
        path = write(
            tmp_path / "s1.jsonl", b"oops\n", *lines[:5], lines[4], lines[7], lines[6], b'{"mess'
        )
        with pytest.raises(InvalidLog):  # the first line decides, as in the reader
            verify(path)
        write(path, b"\n", lines[0], b"oops\n", *lines[1:5], lines[4], lines[7], lines[6], b'{"mes')
        assert find_damage(path)[1:] == [
            (3, "damaged"),
            (8, "doubled"),
            (10, "moved"),
            (11, "torn"),
        ]

    def test_repeated_id_is_reported_and_both_lines_stay(self, tmp_path: Path) -> None:
        lines = lines_of(FIXTURES / "s1.jsonl")
        lines[3] = lines[3].replace(b"msg_004", b"msg_003")
        path = write(tmp_path / "s1.jsonl", *lines)
        assert find_damage(path)[1:] == [(4, "doubled")]
        assert all(line.is_whole for line in examine(path).lines)


class TestWhatIsNoLog:
    def test_empty_file_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(LogNotFound):
            verify(tmp_path / "none.jsonl")

    @pytest.mark.parametrize(
        "content", [b"", b"\n \n", b"\x7fELF\n", b"plain text\n", b'{"event_type":"x']
    )
    def test_file_of_another_kind_is_reported(self, tmp_path: Path, content: bytes) -> None:
        with pytest.raises(InvalidLog):
            verify(write(tmp_path / "x.jsonl", content))

    def test_folder_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidLog, match="folder"):
            verify(tmp_path)

    def test_newer_schema_is_reported(self, tmp_path: Path) -> None:
        start = {"event_type": "session_started", "message_id": "msg_000", "session_id": "s"}
        line, _ = seal(b"", to_json_line({**start, "schema_version": 99}))
        with pytest.raises(LogVersionUnsupported):
            verify(write(tmp_path / "s.jsonl", line, b"?\n"))


def test_verify_writes_nothing(path: Path) -> None:
    before = path.read_bytes()
    verify(write(path, before + b"{"))
    assert path.read_bytes() == before + b"{"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.req("S0-35")
def test_every_flipped_bit_is_reported_in_its_line(tmp_path: Path) -> None:
    """One flipped bit is one finding, in its own line."""
    path = write_small_log(tmp_path)
    data = path.read_bytes()
    changed_path = tmp_path / "changed.jsonl"
    starts = [0]
    for raw in lines_of(path):
        starts.append(starts[-1] + len(raw))
    for bit in range(len(data) * 8):
        changed_path.write_bytes(flipped(data, bit))
        line = next(number for number, end in enumerate(starts) if bit // 8 < end)
        findings = verify(changed_path)
        assert [(f.line, f.byte) for f in findings] == [(line, starts[line - 1])], bit


@pytest.mark.req("S0-35")
def test_reader_stops_at_every_flipped_bit(tmp_path: Path) -> None:
    """The exception is the last newline: without it the last line is torn, which is reported."""
    path = write_small_log(tmp_path)
    data = path.read_bytes()
    changed_path = tmp_path / "changed.jsonl"
    for bit in range((len(data) - 1) * 8):
        changed_path.write_bytes(flipped(data, bit))
        with pytest.raises((LogCorrupted, InvalidLog)):
            list(iter_events(changed_path))


@given(data=st.data())
def test_random_changes_never_give_a_line_that_was_not_written(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    path = write_log(folder)
    events_by_id = {line.events[0].message_id: line.events[0] for line in examine(path).lines}
    content = path.read_bytes()
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        stop = data.draw(st.integers(start, min(len(content), start + 300)))
        content = content[:start] + data.draw(st.binary(max_size=30)) + content[stop:]
    path.write_bytes(content)
    try:
        lines = examine(path).lines
    except InvalidLog:
        return
    assert all(
        events_by_id[e.message_id] == e for line in lines if line.is_whole for e in line.events
    )
