"""Writing Gemini CLI chats from Gemini conversations and from those of other runtimes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.messages import (
    Content,
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
)
from harken.formats.base import ConversationEntry
from harken.formats.providers.alternation import NO_RESULT_TEXT
from harken.formats.runtimes.base import NewSessionInfo, read_conversation
from harken.formats.runtimes.gemini_cli.reader import FORMAT, NATIVE
from harken.formats.runtimes.gemini_cli.resume_request import (
    ANY_SIGNATURE,
    INTERRUPTED,
    build_resume_request,
)
from harken.formats.runtimes.gemini_cli.writer import USER, write_session
from harken.testing import plain_conversation
from tests.unit.formats.context_kit import PNG
from tests.unit.formats.native_kit import store_and_load
from tests.unit.formats.runtimes.gemini_cli.test_reader import (
    NEW as NEW_SHAPE,
)
from tests.unit.formats.runtimes.gemini_cli.test_reader import (
    OLD,
    SENT,
    answer_record,
    call_part,
    call_record,
    chat,
    read_tip,
    user_record,
)

NEW = NewSessionInfo(id="019f0675-387a", folder="/w", time="2026-02-01T12:00:00.000000Z")


def records(entries: list[ConversationEntry]) -> list[dict[str, Any]]:
    return [json.loads(record) for record in write_session(entries, NEW).splitlines()]


def write_and_read(entries: list[ConversationEntry]) -> list[ConversationEntry]:
    return store_and_load(read_conversation(NATIVE.steps, write_session(entries, NEW)))


def full_context(*messages: Message, **source: Any) -> list[ConversationEntry]:
    return [ConversationEntry(message, None, source or None) for message in messages]


@pytest.mark.parametrize("shape", [OLD, NEW_SHAPE])
def test_gemini_conversation_round_trips(shape: list[dict[str, Any]]) -> None:
    native_entries = store_and_load(read_tip(chat(*shape)))
    assert write_and_read(native_entries) == native_entries


def test_written_chat_sends_the_same_request() -> None:
    shape = [item for item in SENT if item["id"] not in ("b", "d")]  # These have unanswered calls.
    native_entries = store_and_load(read_tip(chat(*shape)))
    assert [entry.message for entry in write_and_read(native_entries)] == [
        entry.message for entry in native_entries
    ]
    assert build_resume_request(write_and_read(native_entries)) == build_resume_request(
        native_entries
    )


def test_signatures_stay_with_their_signed_parts() -> None:
    shape = [
        user_record("a"),
        answer_record(
            "d",
            [{"text": "D", "thoughtSignature": "c2ln"}, call_part("c4", thoughtSignature="z")],
            toolCalls=[call_record("c4", result="four")],
        ),
    ]
    native_entries = read_tip(chat(*shape))
    assert write_and_read(native_entries) == store_and_load(native_entries)
    assert records(native_entries)[2]["content"] == shape[1]["content"]


def test_header_names_the_folder_of_the_session() -> None:
    header, *messages = records(plain_conversation())
    assert header["sessionId"] == NEW.id
    assert header["startTime"] == "2026-02-01T12:00:00.000Z"
    assert header["lastUpdated"] == "2026-01-31T12:00:03.000Z"
    assert len(header["projectHash"]) == 64
    assert len({message["id"] for message in messages}) == len(messages) == 3


def test_results_are_only_in_the_answer_with_their_calls() -> None:
    _, question, answer, _ = records(plain_conversation())
    assert question["type"] == "user"
    (call,) = answer["toolCalls"]
    response = {"id": "call_1", "name": "look", "response": {"output": "Nobody."}}
    assert call["result"] == [{"functionResponse": response}]
    assert (call["status"], call["timestamp"]) == ("success", "2026-01-31T12:00:02.000Z")


def test_results_follow_their_calls_that_have_slots() -> None:
    calls = [ToolCall(id_, FunctionCall("look", "{}")) for id_ in ("a", "b")]
    places: Content = [ToolCallSlot("b"), TextPart("and"), ToolCallSlot("a")]
    entries = full_context(
        Message("user", "q"),
        Message("assistant", places, calls),
        Message("tool", "of a", tool_call_id="a"),
        Message("tool", "of b", tool_call_id="b"),
    )
    document = records(entries)[2]["toolCalls"]
    answer = {item["id"]: item["result"][0]["functionResponse"] for item in document}
    assert {id_: (item["id"], item["response"]) for id_, item in answer.items()} == {
        "a": ("a", {"output": "of a"}),
        "b": ("b", {"output": "of b"}),
    }


def test_unanswered_call_is_closed() -> None:
    message = Message("assistant", "I look.", [ToolCall("c.1", FunctionCall("look", "{}"))])
    (call,) = records(full_context(Message("user", "q"), message))[2]["toolCalls"]
    assert call["id"] == "c_1"
    assert call["result"][0]["functionResponse"]["response"] == {"error": NO_RESULT_TEXT}
    assert call["status"] == "error"


def test_text_that_gemini_would_take_for_a_command_is_quoted() -> None:
    entries = full_context(
        Message("user", "/home is full"),
        Message("assistant", "Yes."),
        Message("user", [TextPart("?"), TextPart(" Really")]),
    )
    first, last = (
        build_resume_request(write_and_read(entries))[0],
        build_resume_request(write_and_read(entries))[-1],
    )
    assert first["parts"] == [{"text": f"{USER}/home is full"}]
    assert last["parts"] == [{"text": USER}, {"text": "?"}, {"text": " Really"}]


def test_environment_text_and_unanswered_commands_are_omitted() -> None:
    shape = [
        user_record("x", "<session_context>old</session_context>"),
        user_record("s", "/help"),
        user_record("a"),
    ]
    native_entries = read_tip(chat(*shape))
    assert write_and_read(native_entries) == store_and_load(native_entries)
    assert build_resume_request(write_and_read(native_entries)) == [
        {"role": "user", "parts": [{"text": "a"}]}
    ]


def test_foreign_thinking_is_omitted_and_known_blocks_are_kept() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    shape = [
        user_record("a"),
        answer_record("b", ["x", code], thoughts=[{"subject": "", "description": "h"}]),
    ]
    native_entries = read_tip(chat(*shape))
    assert write_and_read(native_entries) == store_and_load(native_entries)
    foreign = Message(
        "assistant",
        [ThinkingPart("Hm.", {"signature": "s"}), UnknownPart("x", "{}"), TextPart("a")],
    )
    message = records(full_context(Message("user", "q"), foreign))[2]
    assert message["content"] == [{"text": "[x] {}"}, {"text": "a"}]
    assert "thoughts" not in message


def test_images_are_embedded_and_urls_become_text() -> None:
    images = [ImagePart("image/png", PNG), ImagePart(url="https://example.org/a.png")]
    (output, context_entries) = records(full_context(Message("user", [*images])))[1]["content"]
    assert output == {"inlineData": {"mimeType": "image/png", "data": PNG}}
    assert context_entries == {"text": "[an image: https://example.org/a.png]"}


def test_text_after_results_does_not_end_a_loop() -> None:
    """Gemini CLI merges the prompt into them and signs the calls since the previous prompt."""
    call = call_record("c1", result="one")
    shape = [user_record("a"), answer_record("b", toolCalls=[call]), user_record("d", "stop")]
    first, answer, last = build_resume_request(read_tip(chat(*shape)))
    assert first["parts"] == [{"text": "a"}]
    assert answer["parts"][0]["thoughtSignature"] == ANY_SIGNATURE
    assert last["parts"][-1] == {"text": "stop"}
    interrupted = build_resume_request(read_tip(chat(*shape[:2])))
    assert interrupted[-1]["parts"] == [{"text": INTERRUPTED}]
    assert "thoughtSignature" not in interrupted[1]["parts"][0]


def test_format_returns_the_session_id() -> None:
    assert FORMAT.writes
    assert FORMAT.writes(plain_conversation()) != FORMAT.writes(plain_conversation()[:2])
