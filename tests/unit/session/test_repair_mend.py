"""Repaired sessions continue with contexts that a provider accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.core import events as ev
from harken.core.messages import Message
from harken.session.invariants import check_event
from harken.session.log.reader import iter_events
from harken.session.repair import iter_repair_events, repair
from harken.session.session import Session
from tests.session_kit import (
    context_texts,
    create_agent,
    fold_log,
    hash_context,
    log_request,
    log_tool_calls,
    log_tool_result,
    log_turn,
    log_user_message,
    new_session,
    read_lines,
    session_options,
)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "dialects"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with new_session(tmp_path) as session:
        root = create_agent(session, name="Root")
        for number in range(2):
            log_turn(session, root, number)
    return session.path


def repaired_without(path: Path, number: int) -> Path:
    """Damage the content of the line at this index and repair the log."""
    content = path.read_bytes().splitlines(keepends=True)
    content[number] = content[number].replace(b"2026", b"2062")
    path.write_bytes(b"".join(content))
    return repair(path, path.with_name("new.jsonl"), options=session_options()).path


def test_sound_log_needs_no_repair_events(path: Path) -> None:
    assert list(iter_repair_events(fold_log(path), iter(()))) == []


@pytest.mark.req("S0-35")
def test_call_that_lost_its_result_gets_an_error_result(path: Path) -> None:
    """A provider refuses a call without a result; the edit puts one right after it."""
    out = repaired_without(path, 6)
    with Session.load(out, options=session_options()) as session:
        context = session.context("agent_001")
        assert [message.role for message in context[:4]] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
        assert context[2].is_error
        assert "no result" in str(context[2].content)
        assert not session.agent("agent_001").open_calls


@pytest.mark.req("S0-35")
def test_result_that_lost_its_call_is_dropped_from_the_context(path: Path) -> None:
    out = repaired_without(path, 4)
    with Session.load(out) as session:
        roles = [message.role for message in session.context("agent_001")]
        assert roles == ["user", "assistant", "user", "assistant", "tool", "assistant"]
        assert len(session.agent("agent_001").transcript or ()) == 7


@pytest.mark.req("S0-09", "S0-35")
def test_one_of_two_results_for_a_call_stays_in_the_context(tmp_path: Path) -> None:
    out = repair(FIXTURES / "s0.jsonl", tmp_path / "new.jsonl").path
    with Session.load(out) as session:
        results = [m.tool_call_id for m in session.context("agent_root") if m.role == "tool"]
        assert results.count("c3") == 1
        entries = session.agent("agent_root").transcript or ()
        assert [e.tool_call_id for e in entries].count("c3") == 2


def test_calls_of_the_last_message_stay_open(tmp_path: Path) -> None:
    with new_session(tmp_path) as session:
        root = create_agent(session)
        log_user_message(session, root)
        log_tool_calls(session, root, "c1", "c2")
        log_tool_result(session, root, "c1")
    out = repair(session.path, tmp_path / "new.jsonl").path
    assert read_lines(out)[-1]["message_id"] == "msg_005"
    assert list(fold_log(out).agents[root].open_calls) == ["c2"]


def test_messages_loaded_from_a_commit_keep_their_position(tmp_path: Path) -> None:
    loaded_messages = [Message("user", "from a commit"), Message("assistant", "yes")]
    loaded = ev.ContextLoaded(
        ctx="ctx-1", count=2, context_hash=hash_context(loaded_messages), agent_id=None
    )
    with new_session(tmp_path, resolver=lambda _: loaded_messages) as session:
        root = create_agent(session)
        loaded.agent_id = root
        session.append(loaded)
        for text in ("one", "two", "three"):
            log_user_message(session, root, text)
            log_request(session, root)
    out = repaired_without(session.path, 5)
    with Session.load(out, options=session_options(resolver=lambda _: loaded_messages)) as new:
        assert context_texts(new, root) == ["from a commit", "yes", "one", "three"]
        log_request(new, root)


def test_added_events_satisfy_the_log_invariants(path: Path) -> None:
    out = repaired_without(path, 6)
    added = list(iter_events(out))[-3:]
    assert [ev.event_type(event) for event in added] == [
        "transcript_entry",
        "transcript_edited",
        "session_repaired",
    ]
    state = fold_log(out)
    assert isinstance(added[1], ev.TranscriptEdited)
    check_event(state, added[1])
