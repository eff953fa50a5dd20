"""Idle agents beyond a limit are evicted, the least recently used first, and read again."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId
from harken.errors import NameNotFound
from harken.session.session import Session
from tests.session_kit import (
    create_agent,
    log_request,
    log_response,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    session_options,
)

ROOT = AgentId("agent_001")


class LiveAgent:
    """An object of an agent; `_is_in_log` says that the log has all of its state."""

    def __init__(self, *, in_log: bool = True, busy: bool = False) -> None:
        self._is_in_log, self._is_busy = in_log, busy


def new_session(folder: Path, agents: int, *, limit: int | None) -> Session:
    """Begin a session with a root agent, and subagents with an entry each."""
    options = replace(session_options(), in_memory=limit)
    session = Session(folder / "s.jsonl", options=options)
    create_agent(session)
    for _ in range(agents):
        log_user_message(session, create_agent(session, cause="msg_001"))
    return session


def list_in_memory(session: Session) -> list[int]:
    """Return the numbers of the agents whose transcripts are in memory."""
    return [
        int(id_.removeprefix("agent_"))
        for id_, agent in session.agents.items()
        if agent.transcript is not None
    ]


def use(session: Session, *numbers: int) -> None:
    for number in numbers:
        log_user_message(session, agent_id(number))


def agent_id(number: int) -> AgentId:
    return AgentId(f"agent_{number:03}")


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(None, [1, 2, 3, 4, 5]), (5, [1, 2, 3, 4, 5]), (4, [1, 3, 4, 5]), (2, [1, 5]), (1, [1, 5])],
)
def test_least_recently_used_agents_are_evicted(
    tmp_path: Path, limit: int | None, kept: Sequence[int]
) -> None:
    """The primary agent stays, and so does the agent of the event."""
    with new_session(tmp_path, 4, limit=limit) as session:
        assert list_in_memory(session) == kept


def test_evicted_agent_is_read_again_with_all_its_entries(tmp_path: Path) -> None:
    with new_session(tmp_path, 4, limit=2) as session:
        assert [entry.content for entry in session.context("agent_002")] == ["hello"]
        assert list_in_memory(session) == [1, 2, 5]
        use(session, 3)
        assert list_in_memory(session) == [1, 2, 5], "an evicted agent is not read for an entry"
        assert len(session.context("agent_003")) == 2
        use(session, 3)
        assert list_in_memory(session) == [1, 3]


def test_order_of_eviction_is_that_of_the_last_use(tmp_path: Path) -> None:
    with new_session(tmp_path, 4, limit=5) as session:
        use(session, 2)
        log_user_message(session, create_agent(session, cause="msg_001"))
        assert list_in_memory(session) == [1, 2, 4, 5, 6]
        use(session, 4)
        log_user_message(session, create_agent(session, cause="msg_001"))
        assert list_in_memory(session) == [1, 2, 4, 6, 7]


def test_reading_counts_as_use_if_many_agents_are_in_memory(tmp_path: Path) -> None:
    with new_session(tmp_path, 8, limit=9) as session:
        session.agent("agent_002")
        log_user_message(session, create_agent(session, cause="msg_001"))
        assert list_in_memory(session) == [1, 2, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("reason", ["call", "request", "busy object"])
def test_busy_agent_stays(tmp_path: Path, reason: str) -> None:
    with new_session(tmp_path, 2, limit=3) as session:
        busy = agent_id(2)
        if reason == "call":
            log_tool_calls(session, busy, "a")
        elif reason == "request":
            request = log_request(session, busy)
        else:
            session.live[busy] = LiveAgent(busy=True)
        use(session, 3)
        for _ in range(3):
            log_user_message(session, create_agent(session, cause="msg_001"))
        assert list_in_memory(session) == [1, 2, 6]
        if reason == "call":
            log_tool_result(session, busy, "a")
        elif reason == "request":
            log_response(session, busy, request)
        else:
            del session.live[busy]
        use(session, 6)
        for _ in range(2):
            log_user_message(session, create_agent(session, cause="msg_001"))
        assert list_in_memory(session) == [1, 7, 8]


def test_resumed_session_has_the_agents_that_were_used_last(tmp_path: Path) -> None:
    with new_session(tmp_path, 5, limit=None) as session:
        use(session, 2)
        session.append(ev.AgentMoved(agent_id=agent_id(3), place="gone"))
    options = replace(session_options(), in_memory=3)
    with Session.load(session.path, options=options) as resumed:
        assert list_in_memory(resumed) == [1, 2, 3, 6], "a removed agent is not counted"
        use(resumed, 6)
        log_user_message(resumed, create_agent(resumed, cause="msg_001"))
        assert list_in_memory(resumed) == [1, 3, 6, 7]


@pytest.mark.parametrize("in_log", [True, False])
def test_object_whose_state_is_in_the_log_is_evicted_with_its_agent(
    tmp_path: Path, in_log: bool
) -> None:
    with new_session(tmp_path, 2, limit=3) as session:
        session.live[agent_id(2)] = live = LiveAgent(in_log=in_log)
        for _ in range(2):
            log_user_message(session, create_agent(session, cause="msg_001"))
        assert (agent_id(2) in session.live) is not in_log
        assert session.live_agent(agent_id(2)) is live
        assert session.live[agent_id(2)] is live, "it is in memory again"
        assert session.live_agent(agent_id(3)) is None


def test_evicted_object_without_a_reference_is_gone(tmp_path: Path) -> None:
    with new_session(tmp_path, 2, limit=3) as session:
        session.live[agent_id(2)] = LiveAgent()
        for _ in range(2):
            log_user_message(session, create_agent(session, cause="msg_001"))
        gc.collect()
        assert session.live_agent(agent_id(2)) is None


def test_evicted_on_request(tmp_path: Path) -> None:
    with new_session(tmp_path, 2, limit=None) as session:
        session.evict("agent_002")
        assert list_in_memory(session) == [1, 3]
        assert len(session.agent("agent_002").transcript or ()) == 1
        for act in (session.evict, session.agent):
            with pytest.raises(NameNotFound, match="agent_001"):
                act("agent_009")
