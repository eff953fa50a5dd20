"""Groups of events: all of a group are in the log, and in every reader's view of it, or none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import Message
from harken.errors import InvalidEvent, LogCorrupted, LogWriteError
from harken.session.log.checksum import has_more
from harken.session.log.disk import RealDisk
from harken.session.log.reader import LogReadReport, iter_events
from harken.session.repair import repair
from harken.session.session import Session
from harken.session.verify import verify
from harken.views.viewer import SessionViewer
from tests.session_kit import (
    create_agent,
    fold_log,
    hash_context,
    log_user_message,
    new_session,
    read_lines,
    read_message_ids,
    reload_session,
    session_options,
)

ROOT = AgentId("agent_001")
SOURCE = Path(__file__).parents[3] / "src" / "harken"


def log_group(session: Session, *texts: str) -> None:
    with session.group():
        for text in texts:
            log_user_message(session, ROOT, text)


def write_grouped_log(folder: Path) -> bytes:
    """Write groups of several sizes, and single events between them. Return the log."""
    with new_session(folder) as session:
        create_agent(session)
        log_group(session, "one", "two")
        log_user_message(session, ROOT, "three")
        log_group(session, "four", "five", 's"ix,"more":true')
        log_group(session, "seven")
    return session.path.read_bytes()


def test_an_event_of_a_group_is_numbered_and_folded_at_once(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        before = session.path.read_bytes()
        with session.group():
            assert log_user_message(session, ROOT, "a") == "msg_002"
            assert [message.content for message in session.context(ROOT)] == ["a"]
            assert log_user_message(session, ROOT, "b") == "msg_003"
            assert session.path.read_bytes() == before
        assert read_message_ids(session.path)[2:] == ["msg_002", "msg_003"]
        assert fold_log(session.path).describe() == session.state.describe()


def test_a_group_of_one_event_is_an_ordinary_line(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        log_group(session, "alone")
        log_group(session)
    assert all("more" not in line for line in read_lines(session.path))
    assert len(read_lines(session.path)) == 3


def test_an_inner_group_belongs_to_the_outer_one(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        with session.group():
            log_group(session, "a", "b")
            log_group(session, "c")
    assert [line.get("more") for line in read_lines(session.path)][2:] == [True, True, None]


def test_a_refused_event_discards_its_group(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        log_user_message(session, ROOT, "kept")
        before, state = session.path.read_bytes(), session.state.describe()
        with pytest.raises(InvalidEvent), session.group():
            log_user_message(session, ROOT, "a")
            create_agent(session, cause="msg_001")
            session.append(ev.LlmResponse(agent_id=ROOT, request=MessageId("msg_000")))
        assert session.path.read_bytes() == before
        assert session.state.describe() == state
        log_user_message(session, ROOT, "after")
        assert fold_log(session.path).describe() == session.state.describe()


def test_a_refused_inner_group_leaves_the_events_before_it(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        with session.group():
            log_user_message(session, ROOT, "a")
            with pytest.raises(InvalidEvent), session.group():
                log_user_message(session, ROOT, "b")
                session.append(ev.LlmResponse(agent_id=ROOT, request=MessageId("msg_000")))
            log_user_message(session, ROOT, "c")
        assert [message.content for message in session.context(ROOT)] == ["a", "c"]
        assert fold_log(session.path).describe() == session.state.describe()


def test_state_objects_are_kept_when_a_group_is_discarded(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        state, agent = session.state, session.agent(ROOT)
        with pytest.raises(KeyError), session.group():
            log_user_message(session, ROOT, "a")
            raise KeyError
        assert session.state is state
        assert session.agent(ROOT) is agent
        assert not agent.transcript


def test_sync_is_refused_in_a_group(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        with pytest.raises(RuntimeError, match="in a group"), session.group():
            log_user_message(session, ROOT, "a")
            session.sync()
        assert len(read_lines(session.path)) == 2


class FullDisk(RealDisk):
    """A disk that takes `room` bytes more, and then only a part of a write."""

    room = 1 << 30

    def write(self, fd: int, data: bytes) -> int:
        taken, self.room = data[: self.room], max(self.room - len(data), 0)
        return super().write(fd, taken)


@pytest.mark.parametrize("room", range(0, 400, 7))
def test_a_group_on_a_full_disk_leaves_the_state_before_it(tmp_path: Path, room: int) -> None:
    disk = FullDisk()
    session = new_session(tmp_path, disk=disk)
    create_agent(session)
    before = session.state.describe()
    disk.room = room
    with pytest.raises(LogWriteError):
        log_group(session, "a" * 99, "b" * 99, "c" * 99)
    assert session.state.describe() == before
    disk.room = 1 << 30
    with pytest.raises(LogWriteError):
        log_user_message(session, ROOT, "after")
    session.close()
    with Session(session.path, options=session_options()) as resumed:
        assert resumed.state.describe() == before


def test_a_log_with_groups_is_cut_at_each_byte(tmp_path: Path) -> None:
    data = write_grouped_log(tmp_path)
    ends: list[int] = [0]
    groups: list[list[bytes]] = [[]]
    for line in data.splitlines(keepends=True):
        groups[-1].append(line)
        if not has_more(line):
            ends.append(ends[-1] + sum(map(len, groups[-1])))
            groups.append([])
    first_line = data.index(b"\n")
    log = tmp_path / "cut" / "s.jsonl"
    log.parent.mkdir()
    for cut in range(first_line, len(data) + 1):
        log.write_bytes(data[:cut])
        end = max(end for end in ends if end <= cut + 1)  # A missing newline is added.
        report = LogReadReport()
        list(iter_events(log, report))
        assert (report.end, report.torn) == (min(end, cut), data[min(end, cut) : cut])
        whole = tmp_path / "whole.jsonl"
        whole.write_bytes(data[:end])
        expected = fold_log(whole).describe()
        assert fold_log(log).describe() == expected
        findings = verify(log)
        assert {finding.kind for finding in findings} <= {"torn"}
        assert bool(findings) == (end < cut)
        with Session(log, options=session_options()) as session:
            assert session.state.describe() == expected
            aside = session.torn.read_bytes() if session.torn else b""
        assert log.read_bytes() + aside == data[:cut] + (b"\n" if end > cut else b"")
        for file in log.parent.iterdir():
            file.unlink()


def test_a_changed_byte_in_a_group_is_damage(tmp_path: Path) -> None:
    data = write_grouped_log(tmp_path)
    log = tmp_path / "s.jsonl"
    log.write_bytes(data.replace(b"four", b"fowr"))
    with pytest.raises(LogCorrupted, match="line 6"):
        list(iter_events(log))
    log.write_bytes(data.replace(b',"more":true,"sum"', b',"sum"', 1))
    with pytest.raises(LogCorrupted, match="line 3"):
        list(iter_events(log))


def test_views_hide_an_unfinished_group(tmp_path: Path) -> None:
    data = write_grouped_log(tmp_path)
    lines = data.splitlines(keepends=True)
    log = tmp_path / "s.jsonl"
    log.write_bytes(b"".join(lines[:6]))
    viewer = SessionViewer(log)
    assert [event.message_id for event in viewer.events][-1] == "msg_004"
    assert viewer.reading.torn == lines[5]
    assert "more" not in viewer.raw(viewer.events.events[2])


def test_a_repaired_log_keeps_its_groups(tmp_path: Path) -> None:
    data = write_grouped_log(tmp_path)
    lines = data.splitlines(keepends=True)
    log = tmp_path / "s.jsonl"
    log.write_bytes(b"".join([*lines[:3], lines[3].replace(b"two", b"tvo"), *lines[4:7]]))
    result = repair(log, tmp_path / "out.jsonl", options=session_options())
    repaired = read_lines(result.path)
    assert [line.get("content") for line in repaired] == [None, None, "one", "three", None]
    assert [line.get("more") for line in repaired] == [None] * 5
    assert [finding.line for finding in result.lost] == [4, 6, 7]
    log.write_bytes(data.replace(b"one", b"won"))
    again = repair(log, tmp_path / "again.jsonl", options=session_options())
    assert [line.get("more") for line in read_lines(again.path)][2:7] == [
        *(None, None, True, True, None)
    ]


def test_an_evicted_agent_reads_the_events_of_the_open_group(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        log_user_message(session, ROOT, "a")
        session.evict(ROOT)
        with session.group():
            log_user_message(session, ROOT, "b")
            assert [message.content for message in session.context(ROOT)] == ["a", "b"]
        session.evict(ROOT)
        assert [message.content for message in session.context(ROOT)] == ["a", "b"]
        assert reload_session(session).state.describe() == session.state.describe()


def test_a_birth_and_its_first_entries_are_one_group(tmp_path: Path) -> None:
    from harken.core.messages import Message

    with new_session(tmp_path) as session:
        session.defer_messages(ROOT, [Message("system", "be brief"), Message("user", "hi")])
        session.log_agent_created(ROOT, None)
    assert [line.get("more") for line in read_lines(session.path)] == [None, True, True, None]


def _find_waits(tree: ast.AST) -> list[int]:
    """Return the lines of `await`s inside blocks `with ...group():`."""
    return [
        wait.lineno
        for block in ast.walk(tree)
        if isinstance(block, ast.With)
        and any(".group()" in ast.unparse(item.context_expr) for item in block.items)
        for wait in ast.walk(block)
        if isinstance(wait, (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.Yield, ast.YieldFrom))
    ]


def test_no_group_of_the_package_waits() -> None:
    assert _find_waits(ast.parse("async def f():\n with s.group():\n  await g()")) == [3]
    files = [*SOURCE.rglob("*.py")]
    assert len(files) > 100
    sources = {str(file): file.read_text() for file in files}
    waits = {
        file: _find_waits(ast.parse(source))
        for file, source in sources.items()
        if "group(" in source
    }
    assert len(waits) > 5
    assert {file: lines for file, lines in waits.items() if lines} == {}


@pytest.mark.parametrize("damage", ["removed", "changed"])
def test_a_group_that_cannot_be_discarded_ends_the_writing(tmp_path: Path, damage: str) -> None:
    """The state would else have events that are not in the log."""
    session = new_session(tmp_path)
    create_agent(session)
    with pytest.raises(KeyError), session.group():
        log_user_message(session, ROOT, "a")
        if damage == "removed":
            session.path.unlink()
        else:
            session.path.write_bytes(session.path.read_bytes().replace(b"agent", b"agenT"))
        raise KeyError
    with pytest.raises(LogWriteError, match="broken off, and the log cannot be read"):
        log_user_message(session, ROOT, "b")
    session.close()


def test_an_interrupt_while_a_group_is_discarded_ends_the_writing(tmp_path: Path) -> None:
    loads = iter([[Message("user", "before")]])

    def resolve(event: ev.ContextLoaded) -> list[Message]:
        messages = next(loads, None)
        if messages is None:
            raise KeyboardInterrupt
        return messages

    session = new_session(tmp_path, resolver=resolve)
    create_agent(session)
    hash_ = hash_context([Message("user", "before")])
    session.append(ev.ContextLoaded(agent_id=ROOT, ctx="ctx-1", count=1, context_hash=hash_))
    with pytest.raises(KeyboardInterrupt), session.group():
        log_user_message(session, ROOT, "a")
        raise KeyError
    with pytest.raises(LogWriteError, match="broken off"):
        log_user_message(session, ROOT, "b")
    session.close()


def test_an_agent_that_was_created_in_a_discarded_group_is_not_live(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        with pytest.raises(KeyError), session.group():
            child = create_agent(session, cause="msg_001")
            session.live[child] = object()
            session.live[ROOT] = object()
            raise KeyError
        assert [*session.live] == [ROOT]
