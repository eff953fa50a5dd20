"""Rollouts that Harken writes: Codex has its own back as it was, and others as it can say them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.runtimes.base import NewSessionInfo, read_conversation
from harken.formats.runtimes.codex.reader import FORMAT, NATIVE
from harken.formats.runtimes.codex.resume_request import ABORTED
from harken.formats.runtimes.codex.writer import write_session
from harken.testing import plain_conversation
from tests.unit.formats.contexts import PNG
from tests.unit.formats.natives import lines as lines_of
from tests.unit.formats.natives import read, stored
from tests.unit.formats.runtimes.codex.test_reader_codex import (
    CALL,
    DONE,
    ITEMS,
    OUTPUT,
    THOUGHT,
    USER,
    item,
    line,
    tip,
)
from tests.unit.formats.runtimes.codex.test_reader_codex import META as OLD_META

NEW = NewSessionInfo(id="019f0675-387a", folder="/w", time="2026-02-01T12:00:00.000000Z")
INSTRUCTED = {**OLD_META, "base_instructions": {"text": "Be brief."}}
"""A header that says what Codex instructs the model with."""
MODEL = line("turn_context", {"model": "gpt-x", "cwd": "/w"})
TOKENS = {
    "input_tokens": 10,
    "cached_input_tokens": 4,
    "output_tokens": 2,
    "reasoning_output_tokens": 1,
}
SPENT = line(
    "event_msg",
    {
        "type": "token_count",
        "info": {"total_token_usage": TOKENS, "last_token_usage": TOKENS},
    },
)


def records(
    entries: list[ConversationEntry], session: NewSessionInfo = NEW
) -> list[dict[str, Any]]:
    return [json.loads(one) for one in write_session(entries, session).splitlines()]


def items(entries: list[ConversationEntry], session: NewSessionInfo = NEW) -> list[dict[str, Any]]:
    kept = [one for one in records(entries, session) if one["type"] == "response_item"]
    return [one["payload"] for one in kept]


def events(entries: list[ConversationEntry]) -> list[dict[str, Any]]:
    return [one["payload"] for one in records(entries) if one["type"] == "event_msg"]


def whole(*messages: Message, **source: Any) -> list[ConversationEntry]:
    return [ConversationEntry(message, None, source or None) for message in messages]


def test_codex_has_its_own_conversation_back_as_it_was() -> None:
    data = lines_of(
        line("session_meta", INSTRUCTED),
        item(USER, 1),
        MODEL,
        item(THOUGHT, 2),
        item(CALL, 2),
        SPENT,
        item(OUTPUT, 3),
        item(DONE, 4),
    )
    own = stored(tip(data))
    again = stored(read_conversation(NATIVE.steps, write_session(own, NEW)))
    assert again[1:] == own[1:]
    assert again[0].message == own[0].message  # its time is that of the session
    assert records(own)[0]["payload"]["base_instructions"] == {"text": "Be brief."}


def test_every_item_that_the_model_sees_comes_back_as_it_was() -> None:
    """But for images that no provider takes, what says nothing, and what Codex does not send."""
    kept = [one for one in ITEMS if "input_image" not in str(one) and one.get("content") != []]
    kept = [one for one in kept if one["type"] != "of_the_future" and one.get("call_id") != "c9"]
    own = stored(tip(lines_of(line("session_meta", OLD_META), *(item(one) for one in kept))))
    written = items(own)
    assert [one for one in written if one not in kept] == [
        {"type": "function_call_output", "call_id": "c4", "output": ABORTED}
    ]
    sent = NATIVE.build_resume_request
    assert sent
    again = sent(stored(read_conversation(NATIVE.steps, write_session(own, NEW))))
    assert sorted(map(str, again)) == sorted(map(str, sent(own)))  # one is closed later than that


def test_the_header_says_where_it_goes_on() -> None:
    header, *rest = records(plain_conversation())
    assert (header["type"], header["timestamp"]) == ("session_meta", "2026-02-01T12:00:00.000Z")
    assert header["payload"]["id"] == NEW.id
    assert header["payload"]["cwd"] == "/w"
    assert "model_provider" not in header["payload"]  # Codex refuses another one than its own
    assert all(record["timestamp"].startswith("2026-01-31T12:00:0") for record in rest)


def test_what_the_client_shows_stands_beside_the_items() -> None:
    entries = [
        *whole(Message("user", "<environment_context>here"), kind="system"),
        *whole(Message("user", [TextPart("Look."), ImagePart("image/png", PNG)])),
        *whole(Message("assistant", [ThinkingPart("Hm."), TextPart("I look.")])),
    ]
    assert events(entries) == [
        {"type": "user_message", "message": "Look.", "images": []},
        {"type": "agent_message", "message": "I look."},
    ]


def test_foreign_thoughts_are_not_said_and_own_ones_are_shown() -> None:
    own = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "A"}], "id": "r"}
    data = lines_of(line("session_meta", OLD_META), item(USER), item(own), item(DONE))
    assert own in items(tip(data))
    assert {"type": "agent_reasoning", "text": "A"} in events(tip(data))
    foreign = Message("assistant", [ThinkingPart("Hm.", {"signature": "s"}), TextPart("a")])
    kinds = [one["type"] for one in items(whole(Message("user", "q"), foreign))]
    assert kinds == ["message", "message"]


def test_the_model_is_told_of_its_own_answers_and_of_what_comes() -> None:
    said = whole(Message("user", "q"), Message("assistant", "a"), model="claude-x")
    assert "turn_context" not in [record["type"] for record in records(said)]
    session = NewSessionInfo(id="a", folder="/w", time=NEW.time, model="gpt-y")
    last = records(said, session)[-1]
    assert (last["type"], last["payload"]["model"]) == ("turn_context", "gpt-y")


def test_calls_that_take_free_text_have_results_of_their_kind() -> None:
    call = ToolCall("c/1", FunctionCall("patch", "*** Begin"), "custom")
    made = Message("assistant", "I patch.", [call])
    result = Message("tool", "done", tool_call_id="c/1")
    _, _, called, answered = items(whole(Message("user", "q"), made, result))
    assert called["type"] == "custom_tool_call"
    assert (called["call_id"], called["input"]) == ("c_1", "*** Begin")
    assert answered == {"type": "custom_tool_call_output", "call_id": "c_1", "output": "done"}


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call", "tool_search_call"])
def test_a_dangling_call_is_closed_as_codex_closes_it(kind: str) -> None:
    call = next(one for one in ITEMS if one["type"] == kind)
    own = tip(lines_of(line("session_meta", OLD_META), item(USER), item(call)))
    sent = NATIVE.build_resume_request
    assert sent
    closed = items(own)[-1]
    assert closed["call_id"] == call["call_id"]
    assert sent(stored(read_conversation(NATIVE.steps, write_session(own, NEW)))) == sent(own)


def test_arguments_are_a_text_as_every_version_reads_them() -> None:
    odd = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": {"at": 1}}
    own = tip(lines_of(line("session_meta", OLD_META), item(USER), item(odd)))
    assert items(own)[1]["arguments"] == '{"at":1}'


def test_answers_in_a_row_stay_apart() -> None:
    entries = whole(Message("user", "q"), Message("assistant", "a"), Message("assistant", "b"))
    again = read_conversation(NATIVE.steps, write_session(entries, NEW))
    assert [entry.message.content for entry in again] == ["q", "a", "b"]


def test_what_instructs_another_runtime_stays_there_and_systems_are_developers() -> None:
    told = whole(Message("system", "Be kind."), Message("user", "q"))
    assert items(told)[0]["role"] == "developer"
    other = UnknownPart("of_another", "{}")
    said = items([*told, *whole(Message("assistant", [other, TextPart("a")]))])
    assert said[-2]["content"] == [{"type": "output_text", "text": "[of_another] {}"}]


def test_lines_can_be_read_by_everybody() -> None:
    data = write_session(whole(Message("user", "\ud800 \u2028 \0")), NEW)
    _, reading = read(NATIVE, data)
    assert (reading.bad, data.decode().count("?")) == ([], 2)


def test_the_format_names_a_session_by_what_it_says() -> None:
    assert FORMAT.writes
    assert FORMAT.reads
    data = FORMAT.writes(plain_conversation())
    assert data
    assert data != FORMAT.writes(plain_conversation()[:2])
    assert [e.message for e in FORMAT.reads(data)][:2] == [
        e.message for e in plain_conversation()[:2]
    ]
