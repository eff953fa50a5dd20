"""Chats that Harken writes: Gemini CLI has its own back, and others as it can say them."""

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
from harken.formats.runtimes.gemini_cli.messages import (
    ANY_SIGNATURE,
    INTERRUPTED,
    build_resume_request,
)
from harken.formats.runtimes.gemini_cli.reader import FORMAT, NATIVE
from harken.formats.runtimes.gemini_cli.writer import USER, write_session
from harken.testing import plain_conversation
from tests.unit.formats.contexts import PNG
from tests.unit.formats.natives import stored
from tests.unit.formats.runtimes.gemini_cli.test_reader import (
    NEW as NEW_SHAPE,
)
from tests.unit.formats.runtimes.gemini_cli.test_reader import (
    OLD,
    SENT,
    answered,
    asked,
    call_part,
    called,
    chat,
    tip,
)

NEW = NewSessionInfo(id="019f0675-387a", folder="/w", time="2026-02-01T12:00:00.000000Z")


def records(entries: list[ConversationEntry]) -> list[dict[str, Any]]:
    return [json.loads(one) for one in write_session(entries, NEW).splitlines()]


def again(entries: list[ConversationEntry]) -> list[ConversationEntry]:
    return stored(read_conversation(NATIVE.steps, write_session(entries, NEW)))


def whole(*messages: Message, **source: Any) -> list[ConversationEntry]:
    return [ConversationEntry(message, None, source or None) for message in messages]


@pytest.mark.parametrize("shape", [OLD, NEW_SHAPE])
def test_gemini_has_its_own_conversation_back_as_it_was(shape: list[dict[str, Any]]) -> None:
    own = stored(tip(chat(*shape)))
    assert again(own) == own


def test_what_gemini_sends_of_its_own_it_sends_of_what_is_written() -> None:
    shape = [one for one in SENT if one["id"] not in ("b", "d")]  # with calls that nobody answered
    own = stored(tip(chat(*shape)))
    assert [entry.message for entry in again(own)] == [entry.message for entry in own]
    assert build_resume_request(again(own)) == build_resume_request(own)


def test_signatures_stay_with_what_they_sign() -> None:
    shape = [
        asked("a"),
        answered(
            "d",
            [{"text": "D", "thoughtSignature": "c2ln"}, call_part("c4", thoughtSignature="z")],
            toolCalls=[called("c4", result="four")],
        ),
    ]
    own = tip(chat(*shape))
    assert again(own) == stored(own)
    assert records(own)[2]["content"] == shape[1]["content"]


def test_the_header_says_where_it_goes_on() -> None:
    header, *messages = records(plain_conversation())
    assert header["sessionId"] == NEW.id
    assert header["startTime"] == "2026-02-01T12:00:00.000Z"
    assert header["lastUpdated"] == "2026-01-31T12:00:03.000Z"
    assert len(header["projectHash"]) == 64
    assert len({message["id"] for message in messages}) == len(messages) == 3


def test_results_stand_in_the_answer_that_called_and_nowhere_else() -> None:
    _, question, answer, _ = records(plain_conversation())
    assert question["type"] == "user"
    (call,) = answer["toolCalls"]
    response = {"id": "call_1", "name": "look", "response": {"output": "Nobody."}}
    assert call["result"] == [{"functionResponse": response}]
    assert (call["status"], call["timestamp"]) == ("success", "2026-01-31T12:00:02.000Z")


def test_results_stay_with_their_calls_where_those_have_places_of_their_own() -> None:
    calls = [ToolCall(id_, FunctionCall("look", "{}")) for id_ in ("a", "b")]
    places: Content = [ToolCallSlot("b"), TextPart("and"), ToolCallSlot("a")]
    entries = whole(
        Message("user", "q"),
        Message("assistant", places, calls),
        Message("tool", "of a", tool_call_id="a"),
        Message("tool", "of b", tool_call_id="b"),
    )
    made = records(entries)[2]["toolCalls"]
    said = {one["id"]: one["result"][0]["functionResponse"] for one in made}
    assert {id_: (one["id"], one["response"]) for id_, one in said.items()} == {
        "a": ("a", {"output": "of a"}),
        "b": ("b", {"output": "of b"}),
    }


def test_a_call_that_nobody_answered_is_closed() -> None:
    made = Message("assistant", "I look.", [ToolCall("c.1", FunctionCall("look", "{}"))])
    (call,) = records(whole(Message("user", "q"), made))[2]["toolCalls"]
    assert call["id"] == "c_1"
    assert call["result"][0]["functionResponse"]["response"] == {"error": NO_RESULT_TEXT}
    assert call["status"] == "error"


def test_what_gemini_would_take_for_a_command_is_told_as_what_a_user_said() -> None:
    entries = whole(
        Message("user", "/home is full"),
        Message("assistant", "Yes."),
        Message("user", [TextPart("?"), TextPart(" Really")]),
    )
    first, last = build_resume_request(again(entries))[0], build_resume_request(again(entries))[-1]
    assert first["parts"] == [{"text": f"{USER}/home is full"}]
    assert last["parts"] == [{"text": USER}, {"text": "?"}, {"text": " Really"}]


def test_what_gemini_says_of_the_present_and_commands_without_an_answer_stay_unsaid() -> None:
    shape = [asked("x", "<session_context>old</session_context>"), asked("s", "/help"), asked("a")]
    own = tip(chat(*shape))
    assert again(own) == stored(own)
    assert build_resume_request(again(own)) == [{"role": "user", "parts": [{"text": "a"}]}]


def test_thoughts_of_others_are_not_said_and_blocks_that_gemini_knows_are_kept() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    shape = [asked("a"), answered("b", ["x", code], thoughts=[{"subject": "", "description": "h"}])]
    own = tip(chat(*shape))
    assert again(own) == stored(own)
    foreign = Message(
        "assistant",
        [ThinkingPart("Hm.", {"signature": "s"}), UnknownPart("x", "{}"), TextPart("a")],
    )
    said = records(whole(Message("user", "q"), foreign))[2]
    assert said["content"] == [{"text": "[x] {}"}, {"text": "a"}]
    assert "thoughts" not in said


def test_images_are_shown_and_addresses_told() -> None:
    images = [ImagePart("image/png", PNG), ImagePart(url="https://example.org/a.png")]
    (shown, told) = records(whole(Message("user", [*images])))[1]["content"]
    assert shown == {"inlineData": {"mimeType": "image/png", "data": PNG}}
    assert told == {"text": "[an image: https://example.org/a.png]"}


def test_what_was_said_after_results_ends_no_loop() -> None:
    """The prompt is joined to them, so Gemini CLI signs the calls since the one before."""
    call = called("c1", result="one")
    shape = [asked("a"), answered("b", toolCalls=[call]), asked("d", "stop")]
    first, answer, last = build_resume_request(tip(chat(*shape)))
    assert first["parts"] == [{"text": "a"}]
    assert answer["parts"][0]["thoughtSignature"] == ANY_SIGNATURE
    assert last["parts"][-1] == {"text": "stop"}
    interrupted = build_resume_request(tip(chat(*shape[:2])))
    assert interrupted[-1]["parts"] == [{"text": INTERRUPTED}]
    assert "thoughtSignature" not in interrupted[1]["parts"][0]


def test_the_format_names_a_session_by_what_it_says() -> None:
    assert FORMAT.writes
    assert FORMAT.writes(plain_conversation()) != FORMAT.writes(plain_conversation()[:2])
