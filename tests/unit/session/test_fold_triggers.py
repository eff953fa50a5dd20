"""External events: undelivered until an agent receives them; then its parent awaits a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.errors import InvalidEvent
from harken.session.session import Session
from tests.session_kit import (
    create_agent,
    fold_log,
    log_answer,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    new_session,
    reload_session,
)


def happened(session: Session, agent: AgentId, text: str = "[event x] it rains") -> MessageId:
    cause = session.agents[agent].birth
    return session.append(
        ev.PieceOfText(agent_id=agent, content=text, cause=cause, trigger="x", seen={"drops": 3})
    )


def pair(folder: Path) -> tuple[Session, AgentId, AgentId]:
    session = new_session(folder)
    parent = create_agent(session)
    calling = log_tool_calls(session, parent, "c1")
    child = create_agent(session, cause=calling, relation="subagent", name="Watcher")
    log_tool_result(session, parent, "c1")
    return session, parent, child


def arm(session: Session, agent: AgentId, name: str) -> MessageId:
    cause = session.agents[agent].birth
    event = ev.TriggerArmed(agent_id=agent, name=name, trigger={"kind": "time"}, cause=cause)
    return session.append(event)


def disarm(session: Session, agent: AgentId, name: str) -> None:
    session.append(ev.TriggerDisarmed(agent_id=agent, name=name))


def test_comment_is_undelivered_until_an_entry_represents_it(tmp_path: Path) -> None:
    session, _, child = pair(tmp_path)
    piece = happened(session, child)
    assert session.agents[child].undelivered == {piece: "[event x] it rains"}
    assert session.agents[child].trigger_states["x"].seen == {"drops": 3}
    session = reload_session(session)
    assert session.agents[child].undelivered == {piece: "[event x] it rains"}
    log_user_message(session, child, "[event x] it rains", substance=piece)
    assert session.agents[child].undelivered == {}
    assert fold_log(session.path).describe() == session.state.describe()


def test_agent_with_a_comment_reports_until_its_parent_received_it(tmp_path: Path) -> None:
    session, parent, child = pair(tmp_path)
    log_user_message(session, child, "it rains", substance=happened(session, child))
    assert session.state.pending_reports == {child: None}
    answer_id = log_answer(session, child, "Take an umbrella.")
    assert session.state.pending_reports == {child: answer_id}
    log_user_message(session, parent, "something else")
    assert session.state.pending_reports == {child: answer_id}
    log_user_message(session, parent, "[Watcher]: Take an umbrella.", substance=answer_id)
    assert session.state.pending_reports == {}
    assert fold_log(session.path).describe() == session.state.describe()


def test_compiled_result_counts_as_a_report(tmp_path: Path) -> None:
    session, parent, child = pair(tmp_path)
    log_user_message(session, child, "it rains", substance=happened(session, child))
    answer_id = log_answer(session, child)
    log_tool_calls(session, parent, "c2")
    log_tool_result(session, parent, "c2", cause=[answer_id])
    assert session.state.pending_reports == {}


def test_text_in_place_of_an_answer_is_reported(tmp_path: Path) -> None:
    session, parent, child = pair(tmp_path)
    input_id = log_user_message(session, child, "it rains", substance=happened(session, child))
    piece = session.log_piece_of_text(child, "[stopped] no budget", input_id)
    log_user_message(session, parent, "[Watcher]: [stopped] no budget", substance=piece)
    assert session.state.pending_reports == {}


def test_primary_and_terminated_agents_report_to_no_agent(tmp_path: Path) -> None:
    session, parent, child = pair(tmp_path)
    log_user_message(session, parent, "it rains", substance=happened(session, parent))
    assert session.state.pending_reports == {}
    log_user_message(session, child, "it rains", substance=happened(session, child))
    session.append(ev.AgentMoved(agent_id=child, place="gone"))
    assert session.state.pending_reports == {}


def test_reused_trigger_name_is_another_trigger(tmp_path: Path) -> None:
    session, parent, _ = pair(tmp_path)
    state = session.agents[parent]
    first = arm(session, parent, "x")
    arm(session, parent, "y")
    happened(session, parent)
    disarm(session, parent, "y")
    assert (list(state.triggers), list(state.trigger_states)) == (["x"], ["x"])
    disarm(session, parent, "x")
    assert (state.triggers, state.trigger_states) == ({}, {})
    happened(session, parent)  # A last event that came late.
    second = arm(session, parent, "x")
    assert state.triggers["x"].message_id == second > first
    assert state.trigger_states == {}
    assert fold_log(session.path).describe() == session.state.describe()


def test_trigger_is_armed_once_and_disarmed_if_it_is_armed(tmp_path: Path) -> None:
    session, parent, child = pair(tmp_path)
    arm(session, parent, "x")
    with pytest.raises(InvalidEvent, match="trigger 'x' of agent_001 is armed already"):
        arm(session, parent, "x")
    with pytest.raises(InvalidEvent, match="trigger 'x' of agent_002 is not armed"):
        disarm(session, child, "x")
    nobody = AgentId("agent_009")
    event = ev.TriggerArmed(agent_id=nobody, name="x", trigger={}, cause="msg_001")
    with pytest.raises(InvalidEvent, match="agent agent_009 was not born"):
        session.append(event)
    event = ev.TriggerArmed(agent_id=child, name="x", trigger={}, cause="msg_099")
    with pytest.raises(InvalidEvent, match="cause msg_099: this session has no such message"):
        session.append(event)


def test_triggers_stay_with_an_agent_that_moves_and_are_armed_after_a_resume(
    tmp_path: Path,
) -> None:
    session, parent, child = pair(tmp_path)
    armed = arm(session, child, "x")
    move = ev.AgentMoved(agent_id=child, place="primary", replaces=parent, replaced_as="hook")
    session.append(move)
    session = reload_session(session)
    assert session.agents[child].triggers["x"].message_id == armed
    assert session.agents[parent].triggers == {}
