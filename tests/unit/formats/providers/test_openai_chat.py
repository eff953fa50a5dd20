"""Encoding of a context for OpenAI and compatible servers."""

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
from tests.unit.formats.context_kit import PNG

ASKED = Message("user", "Who is it?")
LOOK = ToolCall("c1", FunctionCall("look", '{ "at": "it" }'))
WAIT = ToolCall("c2", FunctionCall("wait", "soon"))


def encode_messages(*context: Message, model: str | None = None) -> list[Any]:
    messages: list[Any] = build_request_body(context, model=model)["messages"]
    return messages


def result(content: Any, id_: str = "c1", *, is_error: bool = False) -> Message:
    return Message("tool", content, tool_call_id=id_, is_error=is_error)


def test_conversation_is_encoded_message_by_message() -> None:
    acted = Message("assistant", "I look.", [LOOK])
    assert encode_messages(Message("system", "You are Jack."), ASKED, acted, result("Jill")) == [
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


def test_consecutive_messages_of_one_role_are_merged() -> None:
    encoded = encode_messages(
        ASKED,
        Message("system", "It is late."),
        Message("assistant", "A"),
        Message("assistant", "B"),
    )
    assert [(m["role"], m["content"]) for m in encoded] == [
        ("user", "Who is it?\n\n[system]: It is late."),
        ("assistant", "A\n\nB"),
        ("user", EMPTY_TURN_TEXT),
    ]


def test_arguments_without_object_are_wrapped_in_one() -> None:
    """Servers that insert arguments into a template reject all other values."""
    encoded = encode_messages(ASKED, Message("assistant", None, [WAIT]), result("", "c2"))[1]
    assert encoded["content"] is None
    assert encoded["tool_calls"][0]["function"]["arguments"] == '{"input":"soon"}'


def test_images_of_results_follow_all_results_as_a_user_message() -> None:
    shown_part = [TextPart("A dot.", {"files": {}}), ImagePart("image/png", PNG)]
    acted = Message("assistant", None, [LOOK, WAIT])
    _, _, first, two, output = encode_messages(
        ASKED, acted, result(shown_part), result("Done.", "c2"), Message("user", "So?")
    )
    assert first["content"] == "A dot.\n\n[1 images, shown after the results]"
    assert two["content"] == "Done."
    assert output["content"] == [
        {"type": "text", "text": "[images of the result of c1]:"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "text", "text": "So?"},
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no such file", "[error]: no such file"),
        ("Error: no", "Error: no"),
        ("", "[error]: [no output]"),
    ],
)
def test_error_result_is_marked_in_its_text(text: str, expected: str) -> None:
    acted = Message("assistant", None, [LOOK])
    assert encode_messages(ASKED, acted, result(text, is_error=True))[-1]["content"] == expected


def test_unanswered_call_gets_a_result() -> None:
    assert (
        encode_messages(ASKED, Message("assistant", None, [LOOK]))[-1]["content"] == NO_RESULT_TEXT
    )


def test_image_url_and_file_are_sent_unchanged() -> None:
    file = UnknownPart("file", '{"type":"file","file":{"file_id":"f1"}}')
    [message] = encode_messages(Message("user", [ImagePart(url="https://example.org/a.png"), file]))
    assert message["content"] == [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "file", "file": {"file_id": "f1"}},
    ]


def test_foreign_blocks_become_a_note_or_are_omitted() -> None:
    redacted = UnknownPart("redacted_thinking", '{"type":"redacted_thinking"}')
    prompt = Message("user", [UnknownPart("document", "{}")])
    user, encoded, _ = encode_messages(prompt, Message("assistant", [redacted, TextPart("Hi.")]))
    assert user["content"] == "[a block of the kind 'document' that cannot be shown]"
    assert encoded == {"role": "assistant", "content": "Hi."}


def test_thinking_is_sent_only_to_the_provider_that_requires_it() -> None:
    thought = ThinkingPart("Hm.", {"reasoning_content": "deep-1", "signature": "s"})
    acted = Message("assistant", [thought, TextPart("I look.")], [LOOK])
    repeated = Message("assistant", None, [WAIT])
    context = [
        ASKED,
        acted,
        result("Jill"),
        repeated,
        result("", "c2"),
        Message("assistant", "So."),
    ]
    for model in (None, "gpt-9"):
        assert "reasoning_content" not in str(encode_messages(*context, model=model))
    encoded = [m for m in encode_messages(*context, model="deep-1") if m["role"] == "assistant"]
    assert [m.get("reasoning_content") for m in encoded] == ["Hm.", "", None]


def test_google_thought_signature_is_sent_only_to_google() -> None:
    signed = ToolCall("c1", LOOK.function, meta={"extra_content": {"gemini-3": {"google": "x"}}})
    context = [ASKED, Message("assistant", None, [signed]), result("Jill")]
    for model, extra in (("gemini-3", {"google": "x"}), ("gpt-9", None), (None, None)):
        [call] = encode_messages(*context, model=model)[1]["tool_calls"]
        assert call.get("extra_content") == extra


def test_tools_are_encoded_as_functions() -> None:
    body = build_request_body([ASKED], [{"name": "look", "description": "Look.", "parameters": {}}])
    schema = {"type": "object", "properties": {}}
    function = {"name": "look", "description": "Look.", "parameters": schema}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert "tools" not in build_request_body([ASKED])


def test_body_of_another_client_is_decoded() -> None:
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


def test_older_and_variant_forms_of_a_response_are_decoded() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    call = {"name": "look", "arguments": {"at": "it"}}
    message = {"content": [thinking, image, {"type": "refusal", "refusal": "No."}]}
    assert parse_response_message(
        {"choices": [{"message": {**message, "function_call": call}}]}
    ) == Message(
        "assistant",
        [ThinkingPart("Hm."), ImagePart(url="https://example.org/a.png"), TextPart("No.")],
        [ToolCall("", FunctionCall("look", '{"at":"it"}'))],
    )


def test_complete_response_is_decoded() -> None:
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
