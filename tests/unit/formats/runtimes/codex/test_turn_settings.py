"""The part of a request of Codex that its rollout determines."""

from __future__ import annotations

from typing import Any

import pytest

from harken.core.events import RequestPart
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import NewSessionInfo, read_conversation
from harken.formats.runtimes.codex.reader import NATIVE
from harken.formats.runtimes.codex.writer import write_session
from harken.formats.runtimes.sent_requests import StatedRequest
from tests.unit.formats.native_kit import encode_lines
from tests.unit.formats.runtimes.codex.test_reader import (
    DONE,
    META,
    THOUGHT,
    USER,
    item,
    line,
    read_tip,
)

OWN = {**META, "originator": "codex-tui"}
INSTRUCTED = line("session_meta", {**OWN, "base_instructions": {"text": "Be brief."}})
ENCRYPTED = {**THOUGHT, "encrypted_content": "gAAA"}
NEW = NewSessionInfo(id="019f0675-387a", folder="/w", time="2026-02-01T12:00:00.000000Z")


def turn(**settings: Any) -> dict[str, Any]:
    return line("turn_context", {"model": "gpt-x", "cwd": "/w", **settings})


def stated(*records: dict[str, Any]) -> list[StatedRequest | None]:
    """Return the requests that are stated with the answers of a rollout."""
    return stated_of(read_tip(encode_lines(*records)))


def stated_of(entries: list[ConversationEntry]) -> list[StatedRequest | None]:
    answers = [entry for entry in entries if entry.message.role == "assistant"]
    return [StatedRequest.from_source(entry.source) for entry in answers]


def reasoning(effort: str, **members: str) -> dict[str, Any]:
    return {
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": effort, **members},
    }


def test_settings_of_each_turn_are_those_of_its_answers() -> None:
    first, second = stated(
        INSTRUCTED,
        turn(effort="high", summary="auto"),
        item(USER),
        item(ENCRYPTED),
        turn(effort="low", summary="none"),
        item(USER),
        item(DONE),
    )
    known: list[RequestPart] = ["messages", "system"]
    assert first == StatedRequest(parameters=reasoning("high", summary="auto"), known=known)
    assert second == StatedRequest(parameters=reasoning("low"), known=known)


def test_effort_of_a_model_that_returned_no_encrypted_thought_is_not_claimed() -> None:
    """Codex sends no `reasoning` to a model that does not support it."""
    without, other_model = stated(
        INSTRUCTED,
        turn(effort="high"),
        item(USER),
        item(DONE),
        item(USER),
        item(DONE),
    )
    assert without == other_model == StatedRequest(known=["messages", "system"])
    *_, last = stated(
        INSTRUCTED,
        turn(effort="high"),
        item(USER),
        item(ENCRYPTED),
        turn(effort="high", model="gpt-y"),
        item(USER),
        item(DONE),
    )
    assert last == StatedRequest(known=["messages", "system"])


def test_base_instructions_that_are_not_recorded_are_unknown() -> None:
    (only,) = stated(line("session_meta", OWN), turn(), item(USER), item(DONE))
    assert only == StatedRequest(known=["messages"])


@pytest.mark.parametrize(
    "records",
    [
        [INSTRUCTED, item(USER), item(DONE)],
        [turn(), item(USER), item(DONE)],
        [line("session_meta", META), turn(), item(USER), item(DONE)],
        [
            INSTRUCTED,
            turn(),
            item(USER),
            line("compacted", {"message": "They looked."}),
            item(USER),
            item(DONE),
        ],
    ],
    ids=["no turns", "a fragment", "another program", "a compaction without its history"],
)
def test_messages_are_unknown_where_the_history_is_not_recorded(records: list[Any]) -> None:
    last = stated(*records)[-1]
    assert last is None or "messages" not in last.known


def test_recorded_history_of_a_compaction_is_known_again() -> None:
    compacted = line("compacted", {"message": "", "replacement_history": [USER]})
    last = stated(INSTRUCTED, turn(), item(USER), compacted, item(USER), item(DONE))[-1]
    assert last == StatedRequest(known=["messages", "system"])


def test_settings_are_written_again() -> None:
    data = encode_lines(
        INSTRUCTED,
        turn(effort="high", summary="auto"),
        item(USER),
        item(ENCRYPTED),
        item(DONE),
    )
    entries = read_conversation(NATIVE.steps, data)
    written = read_conversation(NATIVE.steps, write_session(entries, NEW))
    assert stated_of(written) == stated_of(entries)


def test_source_of_a_wrong_type_states_nothing() -> None:
    for value in (None, 5, {"known": 5}, {"known": ["tools", 5, "x"], "parameters": []}):
        request = StatedRequest.from_source({"sent": value})
        assert request is None or request.parameters == {}
    assert StatedRequest.from_source({"sent": {"known": ["tools", "x"]}}) == StatedRequest(
        known=["tools"]
    )
