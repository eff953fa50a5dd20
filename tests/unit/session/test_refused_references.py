"""References to calls that are not open, and results and counts that are none, are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from tests.session_kit import (
    assert_refused,
    create_agent,
    log_request,
    log_response,
    log_tool_calls,
    log_user_message,
    new_session,
)

ROOT = AgentId("agent_001")


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_only_a_result_is_closed(tmp_path: Path, role: str) -> None:
    with new_session(tmp_path) as session:
        log_user_message(session, create_agent(session))
        entry = ev.TranscriptEntry(agent_id=ROOT, role=role, content="x", closed="denied")  # type: ignore[arg-type]
        assert_refused(session, entry, because="only a result")


def test_only_an_open_call_starts_and_only_once(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        log_user_message(session, create_agent(session))
        log_tool_calls(session, ROOT, "a")
        [call] = session.state.agents[ROOT].open_calls.values()
        unknown = ev.ActionStarted(agent_id=ROOT, call=MessageId("msg_001"))
        assert_refused(session, unknown, because="no such call open")
        started = ev.ActionStarted(agent_id=ROOT, call=call.reference)
        session.append(started)
        assert_refused(session, started, because="has started before")


def test_unknown_token_counts_are_zero(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        log_user_message(session, create_agent(session))
        for usage in (ev.Usage(), ev.Usage(output_tokens=5), ev.Usage(input_tokens=7)):
            log_response(session, ROOT, log_request(session, ROOT), usage=usage)
        total = session.state.agents[ROOT].usage
        assert (total.input_tokens, total.output_tokens) == (7, 5)
