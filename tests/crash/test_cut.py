"""The log cut at every byte, and every bit of it changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
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
    """A small log with most kinds of events, and what was live at each of them."""

    def __init__(self, folder: Path) -> None:
        self.states: list[dict[str, Any]] = []
        with new_session(folder) as session:
            self.states.append(session.state.describe())
            session.add_listener(lambda _: self.states.append(session.state.describe()))
            create_agent(session, name="Jill", spec={"budget": {"usd": 1}})
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
        """Leave only the first lines."""
        self.lines = self.lines[:count]
        self.raw = b"".join(self.lines)

    def whole(self, length: int) -> int:
        """How many lines are whole in the first `length` bytes; a newline may be missing."""
        return self.raw[:length].count(b"\n") + (self.raw[length : length + 1] == b"\n")


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


def cuts(small: Small) -> Iterator[tuple[int, int]]:
    """Yield every length of the log, and how many lines are whole then."""
    for length in range(1, len(small.raw) + 1):
        small.path.write_bytes(small.raw[:length])
        yield length, small.whole(length)
        for other in small.path.parent.iterdir():
            other.unlink()


@pytest.mark.req("S0-35", "D-01")
def test_a_cut_at_any_byte_loses_no_whole_line_and_no_byte(small: Small) -> None:
    for length, whole in cuts(small):
        if whole == 0:
            for open_it in (Session, Session.load, read_message_ids):
                with pytest.raises(InvalidLog, match="no complete event"):
                    open_it(small.path)
            assert small.path.read_bytes() == small.raw[:length]
            continue
        end = sum(map(len, small.lines[:whole]))
        with Session(small.path, options=session_options(disk=RecordingDisk())) as session:
            assert session.state.describe() == small.states[whole - 1], length
            torn = small.raw[end:length]
            assert (session.torn.read_bytes() if session.torn else b"") == torn
            assert small.path.read_bytes() == small.raw[:end]
            session.append(ev.SessionEnded(reason="after the cut"))
            after = session.state.describe()
        with Session.load(small.path, options=session_options()) as session:
            assert session.state.describe() == after
            assert session.torn is None


@pytest.mark.req("S0-35")
def test_a_cut_log_can_be_read_without_changing_it(small: Small) -> None:
    for length, whole in cuts(small):
        reading = LogReadReport()
        if whole:
            assert read_message_ids(small.path, reading) == [f"msg_{n:03d}" for n in range(whole)]
            assert small.raw[: min(reading.end, length)] + reading.torn == small.raw[:length]
        assert small.path.read_bytes() == small.raw[:length]


@pytest.mark.req("D-01")
def test_a_log_that_was_cut_to_nothing_begins_anew(small: Small) -> None:
    small.path.write_bytes(b"")
    with Session(small.path, options=session_options(disk=RecordingDisk())) as session:
        assert create_agent(session) == ROOT
    assert read_message_ids(small.path) == ["msg_000", "msg_001"]


@pytest.mark.req("S0-35", "D-01")
def test_an_unfinished_turn_goes_on_after_a_cut_anywhere(small: Small) -> None:
    """Whatever is open after the cut can be closed: calls get results, requests an end."""
    for length, whole in cuts(small):
        if whole < 2 or length % 3:
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
def test_every_changed_bit_is_found(small: Small) -> None:
    """As damage, with the line where it is; in the very last newline as a torn line."""
    small.keep(7)
    starts = [sum(map(len, small.lines[:n])) for n in range(len(small.lines) + 1)]
    for bit in range(len(small.raw) * 8):
        changed = bytearray(small.raw)
        changed[bit // 8] ^= 1 << bit % 8
        small.path.write_bytes(changed)
        line = next(n for n, start in enumerate(starts) if bit // 8 < start)
        reading = LogReadReport()
        found = read_or_error(small.path, reading)
        if isinstance(found, LogCorrupted):
            assert found.line in (line, line + 1)
            assert found.byte == starts[found.line - 1]
        elif isinstance(found, InvalidLog):
            assert line == 1
        else:
            assert found == len(small.lines) - 1, bit
            assert reading.torn == small.lines[-1][:-1] + changed[-1:]


def read_or_error(path: Path, reading: LogReadReport) -> int | LogError:
    """Return how many events were read, or the error that ended it."""
    try:
        return len(read_message_ids(path, reading))
    except LogError as error:
        return error


@pytest.mark.req("S0-35")
def test_a_session_is_not_opened_on_a_changed_bit_and_changes_nothing(small: Small) -> None:
    for bit in range(0, len(small.raw) * 8 - 8, 11):
        changed = bytearray(small.raw)
        changed[bit // 8] ^= 1 << bit % 8
        small.path.write_bytes(changed)
        with pytest.raises((LogCorrupted, InvalidLog)):
            Session(small.path)
        assert small.path.read_bytes() == changed
    assert [p.name for p in small.path.parent.iterdir()] == ["s.jsonl"]
