"""Events that the writer refuses because a later reader would fail or read another state."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.core.messages import Message
from harken.errors import InvalidEvent
from harken.session.session import Session
from tests.session_kit import (
    assert_refused,
    create_agent,
    hash_context,
    log_user_message,
    new_session,
    reload_session,
)

ROOT = AgentId("agent_001")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session with one agent, `msg_001`, and its input, `msg_002`."""
    with new_session(tmp_path) as session:
        log_user_message(session, create_agent(session))
        yield session


def entry(role: Any = "user", agent: str = ROOT, **members: Any) -> ev.TranscriptEntry:
    return ev.TranscriptEntry(agent_id=AgentId(agent), role=role, **{"content": "x", **members})


def birth(id_: str = "agent_002", **members: Any) -> ev.AgentCreated:
    return ev.AgentCreated(agent_id=AgentId(id_), **{"relation": "subagent", **members})


STORED = [Message("user", "before")]


def loaded(**members: Any) -> ev.ContextLoaded:
    facts = {"count": 1, "context_hash": hash_context(STORED), **members}
    return ev.ContextLoaded(agent_id=ROOT, ctx="ctx-1", **facts)


def test_commit_is_loaded_only_if_it_matches_the_event(tmp_path: Path) -> None:
    """Otherwise the log could be written and never be read again."""
    with new_session(tmp_path, resolver=lambda _: STORED) as session:
        create_agent(session)
        assert_refused(session, loaded(count=2), because="has 1 messages")
        assert_refused(session, loaded(context_hash=hash_context([])), because="not 1 with none")
        session.append(loaded())


def test_commit_is_not_loaded_without_a_store(session: Session) -> None:
    assert_refused(session, loaded(), because="without a store")


def test_failing_store_leaves_the_session_unchanged(tmp_path: Path) -> None:
    def fails(event: ev.ContextLoaded) -> list[Message]:
        raise LookupError(event.ctx)

    with new_session(tmp_path, resolver=fails) as session:
        create_agent(session)
        with pytest.raises(LookupError):
            session.append(loaded())
        log_user_message(session, ROOT)


def test_events_of_unknown_types_are_read_and_never_written(session: Session) -> None:
    event = ev.UnknownEvent(
        message_id=MessageId(""), time="", agent_id=None, event_type="weather", data={}
    )
    assert_refused(session, event, because="read, not written")


BAD_SHAPES: list[Any] = [
    ev.AgentConfigured(agent_id=ROOT, name=5),  # type: ignore[arg-type]
    ev.AgentMoved(agent_id=ROOT, place="nowhere"),  # type: ignore[arg-type]
    ev.MemoryOperation(agent_id=ROOT, memory_type="RAM", operation="READ"),  # type: ignore[arg-type]
    ev.PieceOfText(agent_id=ROOT, content=None, cause="msg_001"),  # type: ignore[arg-type]
    birth(cause="msg_001", relation="friend"),
    entry(content=5),
    entry(content=["x"]),
    entry(name=b"x"),
    entry(unknown={"role": "king"}),
    entry(unknown={"message_id": "msg_000"}),
]


@pytest.mark.parametrize("event", BAD_SHAPES)
def test_unreadable_events_are_refused(session: Session, event: ev.Event) -> None:
    """A log that its own reader reports as damaged is lost."""
    assert_refused(session, event, because="cannot be written|not plain JSON|relation")


DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "state",
    [(1, 2), {1, 2}, {1: "one"}, float("nan"), [float("inf")], b"bytes", object(), Path("x"), DEEP],
)
def test_state_that_a_resume_would_change_is_refused(session: Session, state: object) -> None:
    event = ev.AgentStateSaved(agent_id=ROOT, state=state)
    with pytest.raises(InvalidEvent, match="cannot be written|not plain JSON"):
        session.append(event)
    assert session.agents[ROOT].saved_state is None
    log_user_message(session, ROOT)


@pytest.mark.parametrize(
    "state",
    [None, 0, -(2**63), 2**64 - 1, 2**70, 1e308, 5e-324, "", "\0\ud800\u2028", [{}], {"": [[]]}],
)
def test_every_other_state_round_trips(session: Session, state: object) -> None:
    session.append(ev.AgentStateSaved(agent_id=ROOT, state=state))
    resumed = reload_session(session)
    assert resumed.agents[ROOT].saved_state == state
    assert type(resumed.agents[ROOT].saved_state) is type(state)
    resumed.close()
