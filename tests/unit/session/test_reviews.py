"""Verdicts, comments, notes and questions of hooks in the state, until they had their effect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
)

ROOT, HOOK, CHILD = map(AgentId, ("agent_001", "agent_002", "agent_003"))
INPUT, ANSWER = MessageId("msg_004"), MessageId("msg_005")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A root agent with an input `msg_004` and an answer, and a hook and a subagent of it."""
    with new_session(tmp_path) as session:
        create_agent(session)
        create_agent(session, cause="msg_001", relation="hook")
        create_agent(session, cause="msg_001", relation="subagent")
        assert log_user_message(session, ROOT) == INPUT
        assert log_answer(session, ROOT) == ANSWER
        yield session
    assert fold_log(session.path).describe() == session.state.describe()


def verdict(subject: str, point: str, kind: str = "ok", **members: Any) -> ev.HookVerdict:
    text = None if kind == "ok" else "because"
    facts = {"watched": ROOT, "subject": subject, "point": point, "verdict": kind, "text": text}
    return ev.HookVerdict(**{"agent_id": HOOK, **facts, **members})


def user_entry(agent: AgentId, **members: Any) -> ev.TranscriptEntry:
    return ev.TranscriptEntry(**{"agent_id": agent, "role": "user", "content": "x", **members})


def test_review_holds_the_verdicts_on_its_subject(session: Session) -> None:
    session.append(verdict(ANSWER, "response"))
    session.append(verdict(ANSWER, "response", "comment", agent_id=CHILD))
    session.append(verdict(INPUT, "input"))
    reviews = session.state.reviews
    assert {*reviews} == {ANSWER, INPUT}
    review = reviews[ANSWER]
    assert (review.watched, review.point, review.has_stopped) == (ROOT, "response", False)
    assert [given.agent_id for given in review.given] == [HOOK, CHILD]


def test_input_ends_the_reviews_of_answers_of_its_agent(session: Session) -> None:
    session.append(verdict(ANSWER, "response"))
    session.append(verdict(INPUT, "input"))
    other = log_answer(session, CHILD)
    session.append(verdict(other, "response", watched=CHILD))
    log_user_message(session, ROOT)
    assert {*session.state.reviews} == {INPUT, other}


def test_returned_answer_is_counted_until_the_next_input(session: Session) -> None:
    for denials in (1, 2):
        denied = session.append(verdict(ANSWER, "response", "deny"))
        session.append(user_entry(ROOT, purpose="returned", cause=denied))
        assert session.agent(ROOT).denials == denials
        assert session.state.reviews == {}
    session.append(user_entry(ROOT, purpose="comment", cause=INPUT))
    assert session.agent(ROOT).denials == 2
    log_user_message(session, ROOT)
    assert session.agent(ROOT).denials == 0


def test_answer_that_is_given_ends_the_count(session: Session) -> None:
    denied = session.append(verdict(ANSWER, "response", "deny"))
    session.append(user_entry(ROOT, purpose="returned", cause=denied))
    session.append(ev.AnswerGiven(agent_id=ROOT, answer=ANSWER))
    agent = session.agent(ROOT)
    assert (agent.given_answer, agent.denials) == (ANSWER, 0)
    assert session.agent(CHILD).given_answer is None


def test_comment_is_owed_until_an_entry_delivers_it(session: Session) -> None:
    first = session.append(verdict(INPUT, "input", "comment"))
    second = session.append(verdict(ANSWER, "response", "comment"))
    session.append(verdict(ANSWER, "response", agent_id=CHILD))
    agent = session.agent(ROOT)
    assert [owed.message_id for owed in agent.owed_comments] == [first, second]
    session.append(user_entry(ROOT, purpose="comment", cause=first))
    assert [owed.message_id for owed in agent.owed_comments] == [second]
    session.append(user_entry(ROOT, purpose="comment", cause=second))
    assert agent.owed_comments == []
    assert session.agent(HOOK).owed_comments == []


def test_turn_that_stopped_ends_reviews_and_marks_the_others(session: Session) -> None:
    session.append(verdict(ANSWER, "response", "stop"))
    session.append(verdict(INPUT, "input"))
    other = log_answer(session, CHILD)
    session.append(verdict(other, "response", watched=CHILD))
    piece = session.append(ev.PieceOfText(agent_id=ROOT, content="[stopped]", cause=INPUT))
    session.append(ev.TurnStop(agent_id=ROOT, reason="hook", piece=piece))
    stop = session.agent(ROOT).stop
    assert stop is not None
    assert (stop.event.piece, stop.text) == (piece, "[stopped]")
    reviews = session.state.reviews
    assert {id_: review.has_stopped for id_, review in reviews.items()} == {
        INPUT: True,
        other: False,
    }
    log_user_message(session, ROOT)
    assert session.agent(ROOT).stop is None


def test_stop_without_a_piece_of_the_agent_has_no_text(session: Session) -> None:
    session.append(ev.TurnStop(agent_id=CHILD, reason="hook", piece=INPUT))
    stop = session.agent(CHILD).stop
    assert stop is not None
    assert stop.text == ""


def test_notes_and_questions_of_a_hook_end_with_its_verdict(session: Session) -> None:
    session.append(user_entry(HOOK, purpose="question", cause=INPUT))
    question = session.append(user_entry(HOOK, purpose="question", cause=ANSWER))
    call = log_tool_calls(session, HOOK, "h1", "h2")
    for call_id in ("h1", "h2"):
        session.append(ev.NoteKept(agent_id=HOOK, text=call_id, cause=f"{call}.{call_id}"))
    session.append(ev.HookLeaving(agent_id=HOOK, cause=f"{call}.h1"))
    hook = session.agent(HOOK)
    assert hook.questions[ANSWER] == question
    assert {*hook.questions} == {INPUT, ANSWER}
    assert [note.text for note in hook.notes] == ["h1", "h2"]
    assert hook.leaving is not None
    session.append(verdict(INPUT, "input"))
    assert not hook.questions
    assert not hook.notes
    assert not session.agent(HOOK).leaving


def test_question_with_several_causes_waits_for_no_verdict(session: Session) -> None:
    session.append(user_entry(HOOK, purpose="question", cause=[INPUT, ANSWER]))
    assert session.agent(HOOK).questions == {}


@pytest.mark.parametrize("point", ["action", "result"])
def test_next_calls_end_the_reviews_of_finished_ones(session: Session, point: str) -> None:
    calling = log_tool_calls(session, ROOT, "a", "b")
    session.append(verdict(f"{calling}.a", point))
    session.append(verdict(f"{calling}.b", point))
    session.append(verdict(ANSWER, "response"))
    log_tool_result(session, ROOT, "a")
    log_tool_calls(session, CHILD, "c")
    assert {*session.state.reviews} == {f"{calling}.a", f"{calling}.b", ANSWER}
    log_tool_calls(session, ROOT, "d")
    assert {*session.state.reviews} == {f"{calling}.b", ANSWER}, "call b has no result yet"


def test_agent_that_has_gone_has_no_reviews(session: Session) -> None:
    other = log_answer(session, CHILD)
    session.append(verdict(other, "response", watched=CHILD))
    session.append(verdict(ANSWER, "response"))
    session.append(ev.AgentMoved(agent_id=CHILD, place="gone"))
    assert {*session.state.reviews} == {ANSWER}


def test_move_of_a_hook_ends_its_questions(session: Session) -> None:
    session.append(user_entry(HOOK, purpose="question", cause=INPUT))
    session.append(ev.AgentMoved(agent_id=HOOK, place="subagent"))
    assert session.agent(HOOK).questions == {}
    assert session.agent(ROOT).hooks == []
    assert session.agent(ROOT).subagents == [CHILD, HOOK]


@pytest.mark.parametrize("agent", [HOOK, CHILD])
@pytest.mark.parametrize("replaced_as", ["subagent", "hook"])
def test_agent_takes_the_place_of_its_parent_among_all_relations(
    session: Session, agent: AgentId, replaced_as: Any
) -> None:
    """The agent that has the place is named wherever the other one was."""
    grandchild = create_agent(session, cause=session.agent(CHILD).birth)
    session.append(ev.InterlocutorsSet(agent_id=ROOT, speakers=[CHILD], listeners=[CHILD, HOOK]))
    session.append(user_entry(ROOT, purpose="question", cause=INPUT))
    mover = grandchild if agent is CHILD else agent
    target = CHILD if agent is CHILD else ROOT
    place = session.agent(target).place
    move = ev.AgentMoved(agent_id=mover, place=place, replaces=target, replaced_as=replaced_as)
    moved = session.append(move)
    state = session.state
    assert (state.agents[mover].place, state.agents[target].place) == (place, replaced_as)
    assert (state.agents[target].parent, state.agents[target].replaced_by) == (mover, mover)
    assert state.agents[target].placed_by == state.agents[mover].placed_by == moved
    below = state.agents[mover].hooks if replaced_as == "hook" else state.agents[mover].subagents
    assert target in below
    if target == CHILD:
        root = state.agents[ROOT]
        assert state.agents[mover].parent == ROOT
        assert (root.subagents, root.speakers, root.listeners) == ([mover], [mover], [mover, HOOK])
        assert state.primary == ROOT
    else:
        assert state.primary == mover
        assert state.agents[ROOT].questions == {}
