"""External events: undelivered until an agent receives them; then its parent awaits a report."""

from __future__ import annotations

from pathlib import Path

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
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


def armed(session: Session, agent: AgentId, **triggers: object) -> None:
    session.append(ev.AgentConfigured(agent_id=agent, spec={"triggers": triggers}))


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
    armed(session, parent, x={"kind": "time"}, y={"kind": "time"})
    happened(session, parent)
    armed(session, parent, x={"kind": "time"})
    assert list(session.agents[parent].trigger_states) == ["x"]
    armed(session, parent)
    armed(session, parent, x={"kind": "time"})
    assert session.agents[parent].trigger_states == {}
    session.append(ev.AgentConfigured(agent_id=parent, spec={"triggers": 5}))  # a foreign log
    assert fold_log(session.path).describe() == session.state.describe()
