"""What happened outside: unheard until the agent hears it, and then its parent is owed a word."""

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


def test_it_is_unheard_until_an_entry_represents_it(tmp_path: Path) -> None:
    session, _, child = pair(tmp_path)
    piece = happened(session, child)
    assert session.agents[child].undelivered == {piece: "[event x] it rains"}
    assert session.agents[child].trigger_states["x"].seen == {"drops": 3}
    session = reload_session(session)
    assert session.agents[child].undelivered == {piece: "[event x] it rains"}
    log_user_message(session, child, "[event x] it rains", substance=piece)
    assert session.agents[child].undelivered == {}
    assert fold_log(session.path).describe() == session.state.describe()


def test_who_heard_it_reports_until_its_parent_has_heard_what_it_said(tmp_path: Path) -> None:
    session, parent, child = pair(tmp_path)
    log_user_message(session, child, "it rains", substance=happened(session, child))
    assert session.state.pending_reports == {child: None}
    said = log_answer(session, child, "Take an umbrella.")
    assert session.state.pending_reports == {child: said}
    log_user_message(session, parent, "something else")
    assert session.state.pending_reports == {child: said}
    log_user_message(session, parent, "[Watcher]: Take an umbrella.", substance=said)
    assert session.state.pending_reports == {}
    assert fold_log(session.path).describe() == session.state.describe()


def test_a_compiled_result_tells_the_parent_too(tmp_path: Path) -> None:
    session, parent, child = pair(tmp_path)
    log_user_message(session, child, "it rains", substance=happened(session, child))
    said = log_answer(session, child)
    log_tool_calls(session, parent, "c2")
    log_tool_result(session, parent, "c2", cause=[said])
    assert session.state.pending_reports == {}


def test_what_stands_in_place_of_an_answer_is_reported_too(tmp_path: Path) -> None:
    session, parent, child = pair(tmp_path)
    heard = log_user_message(session, child, "it rains", substance=happened(session, child))
    piece = session.log_piece_of_text(child, "[stopped] no budget", heard)
    log_user_message(session, parent, "[Watcher]: [stopped] no budget", substance=piece)
    assert session.state.pending_reports == {}


def test_the_primary_agent_and_one_that_is_gone_report_to_nobody(tmp_path: Path) -> None:
    session, parent, child = pair(tmp_path)
    log_user_message(session, parent, "it rains", substance=happened(session, parent))
    assert session.state.pending_reports == {}
    log_user_message(session, child, "it rains", substance=happened(session, child))
    session.append(ev.AgentMoved(agent_id=child, place="gone"))
    assert session.state.pending_reports == {}


def test_a_name_that_is_given_again_is_another_trigger(tmp_path: Path) -> None:
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
