"""Repaired sessions continue with contexts that a provider accepts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.core.messages import ChatMessage, ImagePart, Message, TextPart
from harken.session.invariants import check_event
from harken.session.log.reader import iter_events
from harken.session.repair import iter_repair_events, repair
from harken.session.session import Session
from harken.session.verify import verify
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
def test_two_results_for_a_call_become_one_with_both_texts(tmp_path: Path) -> None:
    out = repair(FIXTURES / "s0.jsonl", tmp_path / "new.jsonl").path
    with Session.load(out) as session:
        context = session.context("agent_root")
        results = [message for message in context if message.tool_call_id == "c3"]
        texts = ["Hi, I'm Jack. *extends hand*", "*smiles* Hello Jack, I'm Jill."]
        assert [result.content for result in results] == ["\n\n".join(texts)]
        assert [message.role for message in context[-2:]] == ["assistant", "tool"]
        assert results[0].name == "discuss"
        entries = session.agent("agent_root").transcript or ()
        originals = [e for e in entries if e.tool_call_id == "c3" and e.cause is None]
        assert [entry.content for entry in originals] == texts
        assert isinstance(results[0], ev.TranscriptEntry)
        assert results[0].cause == [entry.message_id for entry in originals]
    assert verify(out) == []


def repair_results(folder: Path, *results: dict[str, Any]) -> Sequence[ChatMessage]:
    """Return the repaired context of an agent whose only call has these results."""
    call = {"id": "c1", "function": {"name": "look", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [call]},
        *({"role": "tool", "tool_call_id": "c1", **result} for result in results),
        {"role": "user", "content": "Thanks"},
    ]
    events = [
        {"event_type": "transcript_entry", "message_id": f"msg_{number:03}", "agent_id": "a"}
        | message
        for number, message in enumerate(messages, 1)
    ]
    old = folder / "old.jsonl"
    old.write_text("".join(json.dumps(event) + "\n" for event in events))
    with Session.load(repair(old, folder / "new.jsonl").path) as session:
        return [*session.context("a")]


def test_a_repeated_result_is_kept_once(tmp_path: Path) -> None:
    context = repair_results(tmp_path, {"content": "red"}, {"content": "red"})
    assert [message.content for message in context] == [None, "red", "Thanks"]


def test_results_with_images_keep_their_parts(tmp_path: Path) -> None:
    image = {"type": "image", "url": "https://example.org/tea.png"}
    context = repair_results(tmp_path, {"content": "red"}, {"content": [image]})
    expected = [TextPart("red"), ImagePart(url="https://example.org/tea.png")]
    assert context[1].content == expected


@pytest.mark.parametrize(("second", "is_error"), [(True, True), (False, False)])
def test_joined_result_is_an_error_if_all_results_are(
    tmp_path: Path, second: bool, is_error: bool
) -> None:
    results = {"content": "no", "is_error": True}, {"content": "never", "is_error": second}
    assert repair_results(tmp_path, *results)[1].is_error == is_error


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
