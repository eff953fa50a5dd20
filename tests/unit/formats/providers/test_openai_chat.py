"""How each thing of a context is written for OpenAI and the servers that speak its protocol."""

from __future__ import annotations

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
from harken.formats.providers.alternation import EMPTY_TURN_TEXT, NO_RESULT_TEXT
from harken.formats.providers.openai_chat import (
    build_request_body,
    parse_request_messages,
    parse_response_message,
)
from tests.unit.formats.contexts import PNG

ASKED = Message("user", "Who is it?")
LOOK = ToolCall("c1", FunctionCall("look", '{ "at": "it" }'))
WAIT = ToolCall("c2", FunctionCall("wait", "soon"))


def written(*context: Message, model: str | None = None) -> list[Any]:
    messages: list[Any] = build_request_body(context, model=model)["messages"]
    return messages


def result(content: Any, id_: str = "c1", *, is_error: bool = False) -> Message:
    return Message("tool", content, tool_call_id=id_, is_error=is_error)


def test_a_conversation_is_written_message_by_message() -> None:
    acted = Message("assistant", "I look.", [LOOK])
    assert written(Message("system", "You are Jack."), ASKED, acted, result("Jill")) == [
        {"role": "system", "content": "You are Jack."},
        {"role": "user", "content": "Who is it?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "type": "function",
                    "id": "c1",
                    "function": {"name": "look", "arguments": '{ "at": "it" }'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Jill"},
    ]


def test_messages_of_one_side_in_a_row_are_one_text() -> None:
    said = written(
        ASKED,
        Message("system", "It is late."),
        Message("assistant", "A"),
        Message("assistant", "B"),
    )
    assert [(m["role"], m["content"]) for m in said] == [
        ("user", "Who is it?\n\n[system]: It is late."),
        ("assistant", "A\n\nB"),
        ("user", EMPTY_TURN_TEXT),
    ]


def test_arguments_that_are_no_object_become_one() -> None:
    """A server that reads them into its template refuses all else."""
    said = written(ASKED, Message("assistant", None, [WAIT]), result("", "c2"))[1]
    assert said["content"] is None
    assert said["tool_calls"][0]["function"]["arguments"] == '{"input":"soon"}'


def test_images_of_results_are_shown_by_the_user_after_all_results() -> None:
    seen = [TextPart("A dot.", {"files": {}}), ImagePart("image/png", PNG)]
    acted = Message("assistant", None, [LOOK, WAIT])
    _, _, one, two, shown = written(
        ASKED, acted, result(seen), result("Done.", "c2"), Message("user", "So?")
    )
    assert one["content"] == "A dot.\n\n[1 images, shown after the results]"
    assert two["content"] == "Done."
    assert shown["content"] == [
        {"type": "text", "text": "[images of the result of c1]:"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "text", "text": "So?"},
    ]


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("no such file", "[error]: no such file"),
        ("Error: no", "Error: no"),
        ("", "[error]: [no output]"),
    ],
)
def test_an_error_says_that_it_is_one(text: str, sent: str) -> None:
    acted = Message("assistant", None, [LOOK])
    assert written(ASKED, acted, result(text, is_error=True))[-1]["content"] == sent


def test_a_call_that_was_never_answered_gets_a_result() -> None:
    assert written(ASKED, Message("assistant", None, [LOOK]))[-1]["content"] == NO_RESULT_TEXT


def test_an_image_by_url_and_a_file_are_sent_as_they_are() -> None:
    file = UnknownPart("file", '{"type":"file","file":{"file_id":"f1"}}')
    [message] = written(Message("user", [ImagePart(url="https://example.org/a.png"), file]))
    assert message["content"] == [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "file", "file": {"file_id": "f1"}},
    ]


def test_blocks_of_others_are_a_note_or_left_out() -> None:
    redacted = UnknownPart("redacted_thinking", '{"type":"redacted_thinking"}')
    asked = Message("user", [UnknownPart("document", "{}")])
    user, said, _ = written(asked, Message("assistant", [redacted, TextPart("Hi.")]))
    assert user["content"] == "[a block of the kind 'document' that cannot be shown]"
    assert said == {"role": "assistant", "content": "Hi."}


def test_thinking_is_not_sent_to_others_than_the_one_that_wants_it_back() -> None:
    thought = ThinkingPart("Hm.", {"reasoning_content": "deep-1", "signature": "s"})
    acted = Message("assistant", [thought, TextPart("I look.")], [LOOK])
    again = Message("assistant", None, [WAIT])
    context = [ASKED, acted, result("Jill"), again, result("", "c2"), Message("assistant", "So.")]
    for model in (None, "gpt-9"):
        assert "reasoning_content" not in str(written(*context, model=model))
    said = [m for m in written(*context, model="deep-1") if m["role"] == "assistant"]
    assert [m.get("reasoning_content") for m in said] == ["Hm.", "", None]


def test_what_google_signs_a_call_with_goes_back_to_it_alone() -> None:
    signed = ToolCall("c1", LOOK.function, meta={"extra_content": {"gemini-3": {"google": "x"}}})
    context = [ASKED, Message("assistant", None, [signed]), result("Jill")]
    for model, extra in (("gemini-3", {"google": "x"}), ("gpt-9", None), (None, None)):
        [call] = written(*context, model=model)[1]["tool_calls"]
        assert call.get("extra_content") == extra


def test_tools_are_functions() -> None:
    body = build_request_body([ASKED], [{"name": "look", "description": "Look.", "parameters": {}}])
    schema = {"type": "object", "properties": {}}
    function = {"name": "look", "description": "Look.", "parameters": schema}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert "tools" not in build_request_body([ASKED])


def test_a_body_that_others_wrote_is_read() -> None:
    body = {
        "messages": [
            {"role": "developer", "content": "You are Jack."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "input_audio"}]},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "Hm.",
                "tool_calls": [
                    {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "x"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "[error]: no"},
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
                ],
            },
        ]
    }
    assert parse_request_messages(body) == [
        Message("system", "You are Jack."),
        Message("user", [TextPart("Hi"), UnknownPart("input_audio", '{"type":"input_audio"}')]),
        Message(
            "assistant",
            [ThinkingPart("Hm.")],
            [ToolCall("c", FunctionCall("patch", "x"), "custom")],
        ),
        Message("tool", "no", tool_call_id="c", is_error=True),
        Message("user", [ImagePart("image/png", "AA==")]),
    ]


def test_older_and_other_forms_of_an_answer_are_read() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    called = {"name": "look", "arguments": {"at": "it"}}
    message = {"content": [thinking, image, {"type": "refusal", "refusal": "No."}]}
    assert parse_response_message(
        {"choices": [{"message": {**message, "function_call": called}}]}
    ) == Message(
        "assistant",
        [ThinkingPart("Hm."), ImagePart(url="https://example.org/a.png"), TextPart("No.")],
        [ToolCall("", FunctionCall("look", '{"at":"it"}'))],
    )


def test_a_whole_answer_is_read() -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "look", "arguments": '{ "at": "it" }'},
    }
    message = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
    assert parse_response_message({"choices": [{"message": message}]}) == Message(
        "assistant", "I look.", [LOOK]
    )
    assert parse_response_message({"choices": []}) == Message("assistant")
