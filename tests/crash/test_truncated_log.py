"""The log, cut at every byte and with every bit flipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.event_types.spec import AgentSpec
from harken.core.ids import AgentId
from harken.errors import InvalidLog, LogCorrupted, LogError
from harken.session.log.reader import LogReadReport
from harken.session.session import Session
from harken.testing import RecordingDisk
from tests.session_kit import (
    create_agent,
    find_line,
    log_edit,
    log_request,
    log_response,
    log_tool_result,
    log_turn,
    log_user_message,
    new_session,
    range_segment,
    read_message_ids,
    session_options,
)

ROOT = AgentId("agent_001")


class Small:
    """A small log with most event types, and the live state after each of them."""

    def __init__(self, folder: Path) -> None:
        self.states: list[dict[str, Any]] = []
        with new_session(folder) as session:
            self.states.append(session.state.describe())
            session.add_listener(lambda _: self.states.append(session.state.describe()))
            create_agent(session, name="Jill", spec=AgentSpec(parameters={"usd": 1}))
            log_turn(session, ROOT, 1)
            hook = create_agent(session, cause="msg_001", relation="hook")
            session.append(ev.AgentStateSaved(agent_id=hook, state={"seen": 1}))
            session.append(ev.AgentMoved(agent_id=hook, place="gone"))
            log_user_message(session, ROOT, 'a brace } and a "quote"\n')
            log_edit(session, ROOT, range_segment(1, 5))
        self.path = session.path
        self.raw = self.path.read_bytes()
        self.lines = self.raw.splitlines(keepends=True)

    def keep(self, count: int) -> None:
        """Truncate the log to its first lines."""
        self.lines = self.lines[:count]
        self.raw = b"".join(self.lines)

    def count_complete(self, length: int) -> int:
        """Return the number of complete lines in the first `length` bytes, with or without
        newline.
        """
        return self.raw[:length].count(b"\n") + (self.raw[length : length + 1] == b"\n")


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


def cuts(small: Small) -> Iterator[tuple[int, int]]:
    """Yield every length of the log and its number of complete lines."""
    for length in range(1, len(small.raw) + 1):
        small.path.write_bytes(small.raw[:length])
        yield length, small.count_complete(length)
        for path in small.path.parent.iterdir():
            path.unlink()


@pytest.mark.req("S0-35", "D-01")
def test_cut_at_any_byte_loses_no_complete_line_and_no_byte(small: Small) -> None:
    for length, complete in cuts(small):
        if complete == 0:
            for open_it in (Session, Session.load, read_message_ids):
                with pytest.raises(InvalidLog, match="no complete event"):
                    open_it(small.path)
            assert small.path.read_bytes() == small.raw[:length]
            continue
        end = sum(map(len, small.lines[:complete]))
        with Session(small.path, options=session_options(disk=RecordingDisk())) as session:
            assert session.state.describe() == small.states[complete - 1], length
            torn = small.raw[end:length]
            assert (session.torn.read_bytes() if session.torn else b"") == torn
            assert small.path.read_bytes() == small.raw[:end]
            session.append(ev.SessionEnded(reason="after the cut"))
            after = session.state.describe()
        with Session.load(small.path, options=session_options()) as session:
            assert session.state.describe() == after
            assert session.torn is None


@pytest.mark.req("S0-35")
def test_cut_log_is_read_without_a_change(small: Small) -> None:
    for length, complete in cuts(small):
        reading = LogReadReport()
        if complete:
            assert read_message_ids(small.path, reading) == [
                f"msg_{n:03d}" for n in range(complete)
            ]
            assert small.raw[: min(reading.end, length)] + reading.torn == small.raw[:length]
        assert small.path.read_bytes() == small.raw[:length]


@pytest.mark.req("D-01")
def test_log_cut_to_zero_bytes_starts_again(small: Small) -> None:
    small.path.write_bytes(b"")
    with Session(small.path, options=session_options(disk=RecordingDisk())) as session:
        assert create_agent(session) == ROOT
    assert read_message_ids(small.path) == ["msg_000", "msg_001"]


@pytest.mark.req("S0-35", "D-01")
def test_unfinished_turn_continues_after_a_cut_anywhere(small: Small) -> None:
    """Every open item can be closed after the cut: calls get results, requests an outcome."""
    for length, complete in cuts(small):
        if complete < 2 or length % 3:
            continue
        with Session(small.path, options=session_options(disk=RecordingDisk())) as session:
            for call in list(session.agents[ROOT].open_calls):
                log_tool_result(session, ROOT, call, "interrupted: it may or may not have acted")
            for agent, request in list(session.state.requests.items()):
                log_response(session, agent, request.message_id, stop_reason="interrupted")
            last = log_request(session, ROOT)
            assert find_line(session, last)["count"] == len(session.context(ROOT)), length
        Session.load(small.path, options=session_options()).close()


@pytest.mark.req("S0-35")
def test_every_flipped_bit_is_reported(small: Small) -> None:
    """It is damage, with its line; in the very last newline it is a torn line."""
    small.keep(7)
    starts = [sum(map(len, small.lines[:n])) for n in range(len(small.lines) + 1)]
    for bit in range(len(small.raw) * 8):
        damaged = bytearray(small.raw)
        damaged[bit // 8] ^= 1 << bit % 8
        small.path.write_bytes(damaged)
        line = next(n for n, start in enumerate(starts) if bit // 8 < start)
        reading = LogReadReport()
        outcome = read_or_error(small.path, reading)
        if isinstance(outcome, LogCorrupted):
            assert outcome.line in (line, line + 1)
            assert outcome.byte == starts[outcome.line - 1]
        elif isinstance(outcome, InvalidLog):
            assert line == 1
        else:
            assert outcome == len(small.lines) - 1, bit
            assert reading.torn == small.lines[-1][:-1] + damaged[-1:]


def read_or_error(path: Path, reading: LogReadReport) -> int | LogError:
    """Return the number of events, or the error that ended the read."""
    try:
        return len(read_message_ids(path, reading))
    except LogError as error:
        return error


@pytest.mark.req("S0-35")
def test_session_with_a_flipped_bit_is_refused_and_unchanged(small: Small) -> None:
    for bit in range(0, len(small.raw) * 8 - 8, 11):
        damaged = bytearray(small.raw)
        damaged[bit // 8] ^= 1 << bit % 8
        small.path.write_bytes(damaged)
        with pytest.raises((LogCorrupted, InvalidLog)):
            Session(small.path)
        assert small.path.read_bytes() == damaged
    assert [p.name for p in small.path.parent.iterdir()] == ["s.jsonl"]
