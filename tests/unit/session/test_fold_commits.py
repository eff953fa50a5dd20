"""Commits in a log: how much the store has, and the open calls of a loaded context."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId
from harken.core.messages import FunctionCall, Message, ToolCall
from harken.session.session import Session
from harken.session.state import AgentState
from tests.session_kit import (
    create_agent,
    fold_log,
    hash_context,
    log_edit,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    new_session,
    range_segment,
)

ROOT = AgentId("agent_001")
CTX = "ctx-" + "1" * 64


def acted(*ids: str) -> Message:
    return Message("assistant", None, [ToolCall(id_, FunctionCall("look", "{}")) for id_ in ids])


def returned(id_: str) -> Message:
    return Message("tool", "seen", tool_call_id=id_, name="look")


def loading(folder: Path, messages: Sequence[Message]) -> Session:
    """Start a session whose agent starts from a commit with these messages."""
    session = new_session(folder, resolver=lambda _: messages)
    create_agent(session)
    event = ev.ContextLoaded(
        agent_id=ROOT, ctx=CTX, count=len(messages), context_hash=hash_context(messages)
    )
    session.append(event)
    return session


def open_calls(session: Session) -> dict[str, str]:
    return {id_: call.reference for id_, call in session.agent(ROOT).open_calls.items()}


@pytest.mark.req("S2-22")
@pytest.mark.parametrize(
    ("messages", "open_"),
    [
        ([], {}),
        ([Message("user", "hi")], {}),
        ([acted("c1"), returned("c1")], {}),
        ([acted("c1"), returned("c1"), Message("user", "hi")], {}),
        ([acted("c1")], {"c1": "msg_002"}),
        ([acted("c1", "c2")], {"c1": "msg_002.c1", "c2": "msg_002.c2"}),
        ([acted("c1", "c2"), returned("c2")], {"c1": "msg_002.c1"}),
        ([returned("c1")], {}),
    ],
)
def test_calls_at_the_end_of_a_loaded_context_are_open(
    tmp_path: Path, messages: list[Message], open_: dict[str, str]
) -> None:
    with loading(tmp_path, messages) as session:
        assert open_calls(session) == open_
        for id_ in open_:
            log_tool_result(session, ROOT, id_)
        assert open_calls(session) == {}
        assert not session.state.open_references
        live = session.state.describe()
    assert fold_log(session.path, session.options.resolver).describe() == live


@pytest.mark.req("S2-24")
def test_loaded_call_can_cause_an_agent(tmp_path: Path) -> None:
    with loading(tmp_path, [acted("c1")]) as session:
        child = create_agent(session, cause="msg_002", relation="subagent")
        assert session.agents[child].parent == ROOT
        assert session.agents[child].spawn_commit_id == CTX


@pytest.mark.req("S2-28")
def test_commit_covers_its_context_until_an_edit(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        input_id = log_user_message(session, ROOT)
        assert covered(session) == (None, None, None)
        session.append(ev.ContextCommitted(agent_id=ROOT, ctx=CTX, upto=input_id))
        assert covered(session) == (CTX, input_id, None)
        id_ = log_edit(session, ROOT, range_segment(0, 1))
        assert covered(session) == (CTX, input_id, id_)
        session.append(ev.ContextCommitted(agent_id=ROOT, ctx=CTX, upto=input_id))
        assert covered(session) == (CTX, input_id, None)
        live = session.state.describe()
    assert fold_log(session.path).describe() == live


def covered(session: Session) -> tuple[str | None, ...]:
    state: AgentState = session.agent(ROOT)
    edited = None if state.uncommitted_edit is None else state.uncommitted_edit.message_id
    return (state.commit_id, state.committed_upto, edited)


@pytest.mark.req("S2-24")
def test_subagent_starts_at_the_last_commit_of_its_parent(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        create_agent(session)
        call = log_tool_calls(session, ROOT, "c1")
        early = create_agent(session, cause=call)
        session.append(ev.ContextCommitted(agent_id=ROOT, ctx=CTX))
        late = create_agent(session, cause=call)
        session.append(ev.ContextCommitted(agent_id=ROOT, ctx="ctx-" + "2" * 64))
        assert session.agents[early].spawn_commit_id is None
        assert session.agents[late].spawn_commit_id == CTX
