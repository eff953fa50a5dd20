"""Events of hooks and moves that the writer refuses. A refusal writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.event_types.spec import SpecChange
from harken.core.ids import AgentId, MessageId
from harken.session.session import Session
from tests.session_kit import (
    assert_refused,
    create_agent,
    log_tool_calls,
    log_user_message,
    new_session,
)

ROOT, HOOK, CHILD, NOBODY = map(AgentId, ("agent_001", "agent_002", "agent_003", "agent_009"))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A root agent with an input and an open call, and a hook and a subagent of it."""
    with new_session(tmp_path) as session:
        log_user_message(session, create_agent(session))
        create_agent(session, cause="msg_001", relation="hook")
        create_agent(session, cause="msg_001", relation="subagent")
        log_tool_calls(session, ROOT, "a")
        yield session


def verdict(**members: Any) -> ev.HookVerdict:
    facts = {"watched": ROOT, "subject": "msg_002", "point": "action", "verdict": "ok", **members}
    return ev.HookVerdict(**{"agent_id": HOOK, **facts})


def entry(**members: Any) -> ev.TranscriptEntry:
    return ev.TranscriptEntry(**{"agent_id": ROOT, "role": "user", "content": "x", **members})


@pytest.mark.parametrize(
    ("members", "because"),
    [
        ({"watched": NOBODY}, "watched agent agent_009 was not born"),
        ({"agent_id": NOBODY}, "agent_009 was not born"),
        ({"subject": "msg_099"}, "subject msg_099"),
        ({"subject": "msg_099.a"}, "subject msg_099"),
        ({"verdict": "deny", "text": "no", "point": "input"}, "a hook cannot deny at input"),
        ({"verdict": "rewrite", "text": "x", "point": "result"}, "a hook cannot rewrite at result"),
        ({"verdict": "ok", "text": "x"}, "a verdict has a text unless it is ok"),
        ({"verdict": "comment"}, "a verdict has a text unless it is ok"),
        ({"verdict": "deny"}, "a verdict has a text unless it is ok"),
    ],
)
def test_verdict_is_refused(session: Session, members: dict[str, Any], because: str) -> None:
    assert_refused(session, verdict(**members), because=because)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"verdict": "comment", "text": "hm", "point": "input"},
        {"verdict": "deny", "text": "no"},
        {"verdict": "deny", "text": "no", "point": "response"},
        {"verdict": "rewrite", "text": "{}"},
        {"verdict": "stop", "text": "over", "point": "result"},
    ],
)
def test_hook_gives_one_verdict_on_a_subject(session: Session, members: dict[str, Any]) -> None:
    session.append(verdict(**members))
    assert_refused(session, verdict(**members), because="has given its verdict on msg_002")
    session.append(verdict(agent_id=CHILD, **members))


@pytest.mark.parametrize(
    ("role", "purpose", "because"),
    [
        ("user", "duty", "the role user has no purpose duty"),
        ("system", "comment", "the role system has no purpose comment"),
        ("assistant", "question", "the role assistant has no purpose question"),
        ("user", "question", "names its cause"),
        ("user", "again", "names its cause"),
        ("user", "comment", "names its cause"),
        ("user", "returned", "names its cause"),
    ],
)
def test_purpose_of_a_message_is_refused(
    session: Session, role: str, purpose: str, because: str
) -> None:
    assert_refused(session, entry(role=role, purpose=purpose), because=because)


@pytest.mark.parametrize(
    ("role", "purpose", "cause"),
    [("system", "duty", None), ("user", "question", "msg_002"), ("user", "comment", "msg_002")],
)
def test_purpose_of_a_message_is_accepted(
    session: Session, role: str, purpose: str, cause: str | None
) -> None:
    session.append(entry(role=role, purpose=purpose, cause=cause))


@pytest.mark.parametrize("kind", ["note", "leaving"])
def test_only_a_hook_with_an_open_call_keeps_notes_and_leaves(session: Session, kind: str) -> None:
    def event(agent: AgentId, cause: str, text: str = "remember") -> ev.Event:
        if kind == "leaving":
            return ev.HookLeaving(agent_id=agent, cause=cause)
        return ev.NoteKept(agent_id=agent, text=text, cause=cause)

    root_call = next(iter(session.agents[ROOT].open_calls.values())).reference
    assert_refused(session, event(ROOT, root_call), because="agent_001 is no hook")
    assert_refused(session, event(HOOK, root_call), because="has no such call open")
    assert_refused(session, event(HOOK, "msg_001"), because="has no such call open")
    assert_refused(session, event(NOBODY, root_call), because="was not born")
    call = log_tool_calls(session, HOOK, "h")
    if kind == "note":
        assert_refused(session, event(HOOK, call, " \n"), because="a note is not blank")
    session.append(event(HOOK, call))
    if kind == "leaving":
        assert_refused(session, event(HOOK, call), because="agent_002 is leaving")


@pytest.mark.parametrize(
    ("event", "because"),
    [
        (ev.AnswerGiven(agent_id=ROOT, answer=MessageId("msg_099")), "answer msg_099"),
        (ev.AnswerGiven(agent_id=NOBODY, answer=MessageId("msg_001")), "was not born"),
        (ev.TurnStop(agent_id=ROOT, reason="hook", piece=MessageId("msg_099")), "piece msg_099"),
        (ev.TurnStop(agent_id=NOBODY, reason="hook", piece=MessageId("msg_001")), "was not born"),
        (ev.TriggerDisarmed(agent_id=ROOT, name="daily"), "'daily' of agent_001 is not armed"),
        (ev.TriggerDisarmed(agent_id=NOBODY, name="daily"), "was not born"),
        (ev.AgentConfigured(agent_id=NOBODY, name="x"), "was not born"),
        (ev.ActionStarted(agent_id=NOBODY, call="msg_002"), "was not born"),
        (
            ev.ActionRewritten(agent_id=NOBODY, call="msg_002", tool="look", arguments="{}"),
            "was not born",
        ),
    ],
)
def test_dangling_reference_is_refused(session: Session, event: ev.Event, because: str) -> None:
    assert_refused(session, event, because=because)


def move(**members: Any) -> ev.AgentMoved:
    facts = {"place": "primary", "replaces": ROOT, "replaced_as": "subagent", **members}
    return ev.AgentMoved(**{"agent_id": HOOK, **facts})


@pytest.mark.parametrize(
    ("members", "because"),
    [
        ({"replaces": NOBODY}, "is not a subagent or hook of agent_009"),
        ({"replaces": CHILD, "place": "subagent"}, "is not a subagent or hook of agent_003"),
        ({"agent_id": ROOT}, "is not a subagent or hook of agent_001"),
        ({"place": "subagent"}, "takes the place of agent_001 as it is"),
        ({"parent": CHILD}, "takes the place of agent_001 as it is"),
        ({"replaced_as": None}, "needs `replaced_as`"),
        ({"replaces": None}, "need a move with `replaces`"),
        (
            {"replaces": None, "replaced_as": None, "replaced_spec": SpecChange()},
            "need a move with `replaces`",
        ),
        ({"agent_id": NOBODY}, "was not born"),
    ],
)
def test_replacement_is_refused(session: Session, members: dict[str, Any], because: str) -> None:
    assert_refused(session, move(**members), because=because)


def test_agent_that_has_gone_is_not_replaced(session: Session) -> None:
    grandchild = create_agent(session, cause=session.agents[CHILD].birth)
    session.append(ev.AgentMoved(agent_id=CHILD, place="gone"))
    event = move(agent_id=grandchild, replaces=CHILD, place="gone")
    assert_refused(session, event, because="takes the place of agent_003 as it is")


@pytest.mark.parametrize("agent", [HOOK, CHILD])
def test_subagent_and_hook_may_replace_their_parent(session: Session, agent: AgentId) -> None:
    session.append(move(agent_id=agent))
    assert session.agents[agent].place == "primary"
    assert (session.agents[ROOT].place, session.agents[ROOT].parent) == ("subagent", agent)
    below_itself = ev.AgentMoved(agent_id=agent, place="subagent", parent=ROOT)
    assert_refused(session, below_itself, because="below itself")
