"""Writing Codex rollouts from Codex conversations and from those of other runtimes."""

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
from tests.unit.formats.context_kit import PNG
from tests.unit.formats.native_kit import encode_lines, read_steps, store_and_load
from tests.unit.formats.runtimes.codex.test_reader import (
    CALL,
    DONE,
    ITEMS,
    OUTPUT,
    THOUGHT,
    USER,
    item,
    line,
    read_tip,
)
from tests.unit.formats.runtimes.codex.test_reader import META as OLD_META

NEW = NewSessionInfo(id="019f0675-387a", folder="/w", time="2026-02-01T12:00:00.000000Z")
INSTRUCTED = {
    **OLD_META,
    "originator": "codex_cli_rs",
    "base_instructions": {"text": "Be brief."},
}
"""A header with the base instructions of Codex."""
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
    return [json.loads(record) for record in write_session(entries, session).splitlines()]


def items(entries: list[ConversationEntry], session: NewSessionInfo = NEW) -> list[dict[str, Any]]:
    retained = [record for record in records(entries, session) if record["type"] == "response_item"]
    return [record["payload"] for record in retained]


def events(entries: list[ConversationEntry]) -> list[dict[str, Any]]:
    return [record["payload"] for record in records(entries) if record["type"] == "event_msg"]


def full_context(*messages: Message, **source: Any) -> list[ConversationEntry]:
    return [ConversationEntry(message, None, source or None) for message in messages]


def test_codex_conversation_round_trips() -> None:
    data = encode_lines(
        line("session_meta", INSTRUCTED),
        item(USER, 1),
        MODEL,
        item(THOUGHT, 2),
        item(CALL, 2),
        SPENT,
        item(OUTPUT, 3),
        item(DONE, 4),
    )
    native_entries = store_and_load(read_tip(data))
    repeated = store_and_load(read_conversation(NATIVE.steps, write_session(native_entries, NEW)))
    assert repeated[1:] == native_entries[1:]
    assert repeated[0].message == native_entries[0].message  # Its time is that of the session.
    assert records(native_entries)[0]["payload"]["base_instructions"] == {"text": "Be brief."}


def test_each_item_in_the_model_context_round_trips() -> None:
    """Except for unsupported images, empty items and items that Codex does not send."""
    retained = [
        element
        for element in ITEMS
        if "input_image" not in str(element) and element.get("content") != []
    ]
    retained = [
        element
        for element in retained
        if element["type"] != "of_the_future" and element.get("call_id") != "c9"
    ]
    native_entries = store_and_load(
        read_tip(
            encode_lines(line("session_meta", OLD_META), *(item(element) for element in retained))
        )
    )
    encoded = items(native_entries)
    assert [element for element in encoded if element not in retained] == [
        {"type": "function_call_output", "call_id": "c4", "output": ABORTED}
    ]
    body = NATIVE.build_resume_request
    assert body
    repeated = body(
        store_and_load(read_conversation(NATIVE.steps, write_session(native_entries, NEW)))
    )
    assert sorted(map(str, repeated)) == sorted(
        map(str, body(native_entries))
    )  # One call is closed later.


def test_header_names_the_folder_of_the_session() -> None:
    header, *remaining = records(plain_conversation())
    assert (header["type"], header["timestamp"]) == ("session_meta", "2026-02-01T12:00:00.000Z")
    assert header["payload"]["id"] == NEW.id
    assert header["payload"]["cwd"] == "/w"
    assert "model_provider" not in header["payload"]  # Codex rejects other providers.
    assert all(record["timestamp"].startswith("2026-01-31T12:00:0") for record in remaining)


def test_visible_events_accompany_the_items() -> None:
    entries = [
        *full_context(Message("user", "<environment_context>here"), kind="system"),
        *full_context(Message("user", [TextPart("Look."), ImagePart("image/png", PNG)])),
        *full_context(Message("assistant", [ThinkingPart("Hm."), TextPart("I look.")])),
    ]
    assert events(entries) == [
        {"type": "user_message", "message": "Look.", "images": []},
        {"type": "agent_message", "message": "I look."},
    ]


def test_foreign_thinking_is_omitted_and_own_thinking_is_shown() -> None:
    custom = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "A"}], "id": "r"}
    data = encode_lines(line("session_meta", OLD_META), item(USER), item(custom), item(DONE))
    assert custom in items(read_tip(data))
    assert {"type": "agent_reasoning", "text": "A"} in events(read_tip(data))
    foreign = Message("assistant", [ThinkingPart("Hm.", {"signature": "s"}), TextPart("a")])
    kinds = [element["type"] for element in items(full_context(Message("user", "q"), foreign))]
    assert kinds == ["message", "message"]


def test_rollout_contains_model_settings_of_past_and_next_turns() -> None:
    message = full_context(Message("user", "q"), Message("assistant", "a"), model="claude-x")
    assert "turn_context" not in [record["type"] for record in records(message)]
    session = NewSessionInfo(id="a", folder="/w", time=NEW.time, model="gpt-y")
    last = records(message, session)[-1]
    assert (last["type"], last["payload"]["model"]) == ("turn_context", "gpt-y")


def test_custom_tool_calls_have_results_of_their_kind() -> None:
    call = ToolCall("c/1", FunctionCall("patch", "*** Begin"), "custom")
    message = Message("assistant", "I patch.", [call])
    result = Message("tool", "done", tool_call_id="c/1")
    _, _, call_message, response = items(full_context(Message("user", "q"), message, result))
    assert call_message["type"] == "custom_tool_call"
    assert (call_message["call_id"], call_message["input"]) == ("c_1", "*** Begin")
    assert response == {"type": "custom_tool_call_output", "call_id": "c_1", "output": "done"}


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call", "tool_search_call"])
def test_open_call_is_closed_as_codex_closes_it(kind: str) -> None:
    call = next(element for element in ITEMS if element["type"] == kind)
    native_entries = read_tip(encode_lines(line("session_meta", OLD_META), item(USER), item(call)))
    body = NATIVE.build_resume_request
    assert body
    last = items(native_entries)[-1]
    assert last["call_id"] == call["call_id"]
    assert body(
        store_and_load(read_conversation(NATIVE.steps, write_session(native_entries, NEW)))
    ) == body(native_entries)


def test_arguments_are_a_text_that_all_versions_read() -> None:
    unusual = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": {"at": 1}}
    native_entries = read_tip(
        encode_lines(line("session_meta", OLD_META), item(USER), item(unusual))
    )
    assert items(native_entries)[1]["arguments"] == '{"at":1}'


def test_consecutive_answers_stay_separate() -> None:
    entries = full_context(
        Message("user", "q"), Message("assistant", "a"), Message("assistant", "b")
    )
    repeated = read_conversation(NATIVE.steps, write_session(entries, NEW))
    assert [entry.message.content for entry in repeated] == ["q", "a", "b"]


def test_foreign_instructions_are_omitted_and_system_becomes_developer() -> None:
    context_entries = full_context(Message("system", "Be kind."), Message("user", "q"))
    assert items(context_entries)[0]["role"] == "developer"
    second = UnknownPart("of_another", "{}")
    message = items(
        [*context_entries, *full_context(Message("assistant", [second, TextPart("a")]))]
    )
    assert message[-2]["content"] == [{"type": "output_text", "text": "[of_another] {}"}]


def test_lines_are_valid_utf8_json() -> None:
    data = write_session(full_context(Message("user", "\ud800 \u2028 \0")), NEW)
    _, reading = read_steps(NATIVE, data)
    assert (reading.bad, data.decode().count("?")) == ([], 2)


def test_format_returns_the_session_id() -> None:
    assert FORMAT.writes
    assert FORMAT.reads
    data = FORMAT.writes(plain_conversation())
    assert data
    assert data != FORMAT.writes(plain_conversation()[:2])
    assert [e.message for e in FORMAT.reads(data)][:2] == [
        e.message for e in plain_conversation()[:2]
    ]
