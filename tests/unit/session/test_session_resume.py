"""Resumed sessions, and agents that are evicted and restored."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId
from harken.errors import (
    InvalidLog,
    LogLocked,
    LogNotFound,
    LogReadOnly,
    LogWriteError,
    SessionClosed,
)
from harken.session.session import Session
from tests.session_kit import (
    context_texts,
    create_agent,
    entry_segment,
    log_edit,
    log_tool_calls,
    log_tool_result,
    log_turn,
    log_user_message,
    new_session,
    range_segment,
    read_lines,
    read_message_ids,
    reload_session,
    session_options,
    without_log_fields,
)

ROOT = AgentId("agent_001")
BIRTH = "msg_001"


def test_ended_session_can_be_resumed(session: Session) -> None:
    session.end("enough")
    assert read_lines(session.path)[-1]["reason"] == "enough"
    with pytest.raises(SessionClosed):
        log_user_message(session, ROOT)
    resumed = Session.load(session.path, options=session_options())
    was_ended = [resumed.state.ended]
    log_user_message(resumed, ROOT)
    was_ended.append(resumed.state.ended)
    assert was_ended == [True, False]
    resumed.close()


@pytest.mark.req("S0-23")
def test_load_restores_both_counters_and_all_agents(session: Session) -> None:
    jack = create_agent(session, cause=BIRTH, name="Jack")
    hook = create_agent(session, cause=BIRTH, relation="hook")
    log_turn(session, jack, 1)
    session.append(ev.AgentMoved(agent_id=jack, place="gone"))
    session.append(ev.InterlocutorsSet(agent_id=ROOT, speakers=[hook]))
    live, next_id = session.state.describe(), session.next_id()
    session = reload_session(session)
    assert session.state.describe() == live
    assert session.next_id() == next_id
    assert log_user_message(session, jack) == next_id
    assert session.allocate_agent_id() == "agent_004"
    session.close()


@pytest.mark.req("S0-23")
def test_load_reads_the_log_once(session: Session) -> None:
    log_turn(session, ROOT, 1)
    session.close()
    program = (
        "import sys\nfrom harken.session.session import Session\nopened = []\n"
        "sys.addaudithook(lambda name, what: opened.append(what) if name == 'open' else None)\n"
        "Session.load(sys.argv[1]).close()\n"
        "print(sum(str(path) == sys.argv[1] and mode == 'r' for path, mode, _ in opened))\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", program, str(session.path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert output.stdout == "1\n"


def test_load_requires_a_log_and_session_creates_one(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with pytest.raises(LogNotFound):
        Session.load(path)
    path.touch()
    with pytest.raises(InvalidLog, match="is empty"):
        Session.load(path)
    Session(path, options=session_options()).close()
    assert read_message_ids(path) == ["msg_000"]
    for folder in (Session, Session.load):
        with pytest.raises(InvalidLog, match="is a folder"):
            folder(tmp_path)
    with pytest.raises(LogWriteError, match="folder does not exist"):
        Session(tmp_path / "no" / "s.jsonl")


def test_unsealed_log_is_not_appended_to(session: Session) -> None:
    session.close()
    raw = b"".join(line[:-26] + b"}\n" for line in session.path.read_bytes().splitlines())
    session.path.write_bytes(raw)
    for open_it in (Session, Session.load):
        with pytest.raises(LogReadOnly, match="without checksums"):
            open_it(session.path)
    assert session.path.read_bytes() == raw
    Session(session.path.with_name("t.jsonl"), options=session_options()).close()


def test_session_that_failed_to_open_releases_its_lock(session: Session) -> None:
    session.close()
    data_before = session.path.read_bytes()
    session.path.write_bytes(b"x" + data_before)
    with pytest.raises(InvalidLog):
        Session(session.path)
    session.path.write_bytes(data_before)
    Session(session.path, options=session_options()).close()


def test_log_has_one_session_at_a_time(session: Session) -> None:
    for open_it in (Session, Session.load):
        with pytest.raises(LogLocked):
            open_it(session.path)
    log_user_message(session, ROOT)
    reload_session(session).close()


@pytest.mark.req("S0-35")
def test_torn_last_line_is_moved_aside_and_reported(session: Session) -> None:
    log_user_message(session, ROOT, "one")
    log_user_message(session, ROOT, "two")
    session.close()
    full_log = session.path.read_bytes()
    session.path.write_bytes(full_log[:-3])
    resumed = Session.load(session.path, options=session_options())
    assert resumed.torn is not None
    assert resumed.torn.parent == session.path.parent
    now = resumed.path.read_bytes()
    assert now + resumed.torn.read_bytes() == full_log[:-3]
    assert context_texts(resumed, ROOT) == ["one"]
    log_user_message(resumed, ROOT, "three")
    resumed = reload_session(resumed)
    assert context_texts(resumed, ROOT) == ["one", "three"]
    assert resumed.torn is None
    resumed.close()


def test_last_line_without_newline_is_completed(session: Session) -> None:
    log_user_message(session, ROOT, "one")
    session.close()
    full_log = session.path.read_bytes()
    session.path.write_bytes(full_log[:-1])
    resumed = Session.load(session.path, options=session_options())
    assert resumed.torn is None
    assert session.path.read_bytes() == full_log
    log_user_message(resumed, ROOT, "two")
    resumed.close()
    assert len(read_message_ids(session.path)) == 4


@pytest.mark.req("S1-09")
def test_log_of_thousands_of_messages_loads_completely(session: Session) -> None:
    for number in range(1, 601):
        log_turn(session, ROOT, number)
    state = session.state.describe()
    session = reload_session(session)
    assert session.state.describe() == state
    assert len(session.agent(ROOT).transcript or []) == 2400
    assert session.next_id() == "msg_4802"
    assert list(session.path.parent.glob("s.jsonl*")) == [session.path]
    session.close()


def test_relative_path_works_after_a_folder_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    with Session("s.jsonl", options=session_options()) as session:
        log_user_message(session, create_agent(session), "one")
        session.evict(ROOT)
        monkeypatch.chdir(tmp_path / "x")
        assert context_texts(session, ROOT) == ["one"]


def everything(session: Session, agent: str) -> dict[str, Any]:
    """Return all state of an agent, with the full transcript and context."""
    state = session.agent(agent)
    described: dict[str, Any] = session.state.describe()["agents"][agent]
    return described | {
        "all": list(state.transcript or ()),
        "now": without_log_fields(session.context(agent)),
    }


@pytest.mark.req("S0-30")
def test_evicted_agent_is_restored_exactly(session: Session) -> None:
    log_turn(session, ROOT, 1)
    before = everything(session, ROOT)
    session.evict(ROOT)
    assert session.agents[ROOT].transcript is None
    session.evict(ROOT)
    assert everything(session, ROOT) == before


@pytest.mark.req("S0-30")
def test_terminated_agent_is_revived_exactly_after_a_resume(session: Session) -> None:
    jack = create_agent(session, cause=BIRTH)
    log_turn(session, jack, 1)
    log_edit(session, jack, range_segment(0, 1), range_segment(2, 4))
    session.append(ev.AgentMoved(agent_id=jack, place="gone"))
    before = everything(session, jack)
    session = reload_session(session)
    session.evict(jack)
    assert everything(session, jack) == before
    session.close()


@pytest.mark.req("S0-30")
def test_events_during_an_eviction_are_in_the_restored_agent(
    session: Session,
) -> None:
    log_turn(session, ROOT, 1)
    session.evict(ROOT)
    log_user_message(session, ROOT, "meanwhile")
    log_tool_calls(session, ROOT, "c")
    assert list(session.agents[ROOT].open_calls) == ["c"]
    log_tool_result(session, ROOT, "c")
    live = everything(session, ROOT)
    session = reload_session(session)
    assert everything(session, ROOT) == live
    assert context_texts(session, ROOT)[-3:] == ["meanwhile", None, "done"]
    session.close()


@pytest.mark.req("S0-30", "S0-21")
def test_edit_may_reference_evicted_transcripts(session: Session) -> None:
    jack = create_agent(session, cause=BIRTH)
    input_id = log_user_message(session, jack, "from Jack")
    own_ids = [log_user_message(session, ROOT, text) for text in "abc"]
    for agent in (ROOT, jack):
        session.evict(agent)
    log_edit(session, ROOT, range_segment(1, 3))
    assert session.agents[jack].transcript is None
    session.evict(ROOT)
    log_edit(session, ROOT, entry_segment(input_id, own_ids[0]), range_segment(0, 1))
    assert context_texts(session, ROOT) == ["from Jack", "a", "b"]
    live = session.state.describe()
    session = reload_session(session)
    assert session.state.describe() == live
    session.close()


def test_commit_is_loaded_into_an_evicted_agent(tmp_path: Path) -> None:
    with new_session(tmp_path, resolver=lambda _: []) as session:
        log_user_message(session, create_agent(session), "one")
        session.evict(ROOT)
        session.append(ev.ContextLoaded(agent_id=ROOT, ctx="ctx-1", count=0, context_hash=""))
        assert context_texts(session, ROOT) == ["one"]
