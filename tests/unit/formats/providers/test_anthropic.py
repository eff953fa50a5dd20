"""Encoding of a context as the body of an Anthropic request."""

from __future__ import annotations

from typing import Any

import pytest

from harken.core.messages import (
    ContentPart,
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
)
from harken.formats.providers.alternation import (
    EMPTY_TURN_TEXT,
    LATE_RESULT_PREFIX,
    NO_OUTPUT_TEXT,
    NO_RESULT_TEXT,
)
from harken.formats.providers.anthropic import (
    ERROR_NOTE,
    add_cache_breakpoints,
    build_request_body,
    parse_request_messages,
    parse_response_message,
)
from tests.unit.formats.context_kit import PNG


def look(id_: str = "c1", arguments: str = "{}", name: str = "look") -> ToolCall:
    return ToolCall(id_, FunctionCall(name, arguments))


def acting_message(*calls: ToolCall) -> Message:
    return Message("assistant", None, [*calls])


def result(text: Any = "Jill", id_: str = "c1", *, is_error: bool = False) -> Message:
    return Message("tool", text, tool_call_id=id_, is_error=is_error)


ASKED = Message("user", "Who is it?")


def encode_messages(*context: Message) -> list[Any]:
    messages: list[Any] = build_request_body(context)["messages"]
    return messages


def last_blocks(*context: Message) -> list[Any]:
    """Return the blocks of the last message."""
    last: list[Any] = encode_messages(*context)[-1]["content"]
    return last


def text_block(expected: str) -> dict[str, str]:
    return {"type": "text", "text": expected}


def test_leading_system_messages_become_the_system_prompt() -> None:
    body = build_request_body(
        [Message("system", "You are Jack."), Message("system", "Be kind."), ASKED]
    )
    assert body["system"] == [text_block("You are Jack."), text_block("Be kind.")]
    assert body["messages"] == [{"role": "user", "content": [text_block("Who is it?")]}]


def test_later_system_message_becomes_a_note_of_the_user() -> None:
    """The system prompt starts the cached prefix and therefore stays unchanged."""
    assert last_blocks(ASKED, Message("system", "It is late.")) == [
        text_block("Who is it?"),
        text_block("[system]: It is late."),
    ]


def test_consecutive_messages_of_one_role_are_merged() -> None:
    encoded = encode_messages(
        ASKED, Message("user", "Hm?"), Message("assistant", "A"), Message("assistant", "B")
    )
    assert [(m["role"], [b["text"] for b in m["content"]]) for m in encoded] == [
        ("user", ["Who is it?", "Hm?"]),
        ("assistant", ["A", "B"]),
        ("user", [EMPTY_TURN_TEXT]),
    ]


def test_context_starts_and_ends_with_the_user() -> None:
    encoded = encode_messages(Message("assistant", "Hello."))
    assert [(m["role"], m["content"][0]["text"]) for m in encoded] == [
        ("user", EMPTY_TURN_TEXT),
        ("assistant", "Hello."),
        ("user", EMPTY_TURN_TEXT),
    ]
    assert encode_messages()[0]["content"] == [text_block(EMPTY_TURN_TEXT)]


def test_blank_text_is_omitted() -> None:
    assert encode_messages(
        Message("user", " \n"), Message("assistant", ""), ASKED, Message("user", None)
    ) == [{"role": "user", "content": [text_block("Who is it?")]}]


def test_call_becomes_a_block_and_its_result_comes_first() -> None:
    _, encoded, user_message = encode_messages(
        ASKED, acting_message(look(arguments='{"at":"it"}')), Message("user", "Quick!"), result()
    )
    assert encoded["content"] == [
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}}
    ]
    assert user_message["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [text_block("Jill")]},
        text_block("Quick!"),
    ]


def test_calls_keep_their_positions_among_the_parts() -> None:
    content: list[ContentPart] = [TextPart("I look."), ToolCallSlot("c1"), TextPart("And wait.")]
    _, encoded, _ = encode_messages(ASKED, Message("assistant", content, [look()]), result())
    assert [block["type"] for block in encoded["content"]] == ["text", "tool_use", "text"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        ("  ", {}),
        ('{"at":"it"}', {"at": "it"}),
        ("not JSON", {"input": "not JSON"}),
        ("[1]", {"input": "[1]"}),
        ('{"at":"\\ud800"}', {"at": "?"}),
        ('{"at":NaN}', {"at": None}),
        ('{"a":' * 70 + "1" + "}" * 70, {"input": '{"a":' * 70 + "1" + "}" * 70}),
    ],
)
def test_arguments_are_always_an_object(arguments: str, expected: Any) -> None:
    assert (
        encode_messages(ASKED, acting_message(look(arguments=arguments)), result())[1]["content"][
            0
        ]["input"]
        == expected
    )


def test_call_of_a_custom_tool_has_its_text_as_input() -> None:
    call = ToolCall("c1", FunctionCall("patch", "*** Begin"), "custom")
    assert encode_messages(ASKED, acting_message(call), result())[1]["content"][0]["input"] == {
        "input": "*** Begin"
    }


def test_invalid_ids_and_names_are_replaced_deterministically() -> None:
    turn = [acting_message(look("call/1", name="mcp.look"), look("c" * 80)), result("A", "call/1")]
    turn += [result("B", "c" * 80), Message("assistant", "So.")]
    encoded = encode_messages(ASKED, *turn, *turn)
    ids = [b["id"] for m in encoded for b in m["content"] if b["type"] == "tool_use"]
    result_ids = [
        b["tool_use_id"] for m in encoded for b in m["content"] if b["type"] == "tool_result"
    ]
    assert ids == result_ids == ["call_1", "c" * 64, "call_1_2", "c" * 62 + "_2"]
    assert encoded[1]["content"][0]["name"] == "mcp_look"


def test_missing_result_is_an_error_and_orphan_result_becomes_user_text() -> None:
    _, _, user_message, _, last = encode_messages(
        ASKED,
        acting_message(look(), look("c2")),
        result(),
        Message("assistant", "Hm."),
        result("late", "c2"),
    )
    missing = {"type": "tool_result", "tool_use_id": "c2", "content": [text_block(NO_RESULT_TEXT)]}
    assert user_message["content"][1] == {**missing, "is_error": True}
    assert last["content"] == [text_block(LATE_RESULT_PREFIX), text_block("late")]


def test_empty_result_has_a_placeholder_and_an_error_is_marked() -> None:
    [block] = last_blocks(ASKED, acting_message(look()), result("", is_error=True))
    assert (block["content"], block["is_error"]) == ([text_block(NO_OUTPUT_TEXT)], True)


def test_error_result_with_an_image_is_described_in_text() -> None:
    """The API rejects `is_error` with other content than text, for all later requests too."""
    image = ImagePart("image/png", PNG)
    [block] = last_blocks(
        ASKED, acting_message(look()), result([TextPart("no"), image], is_error=True)
    )
    assert "is_error" not in block
    assert block["content"][:2] == [text_block(ERROR_NOTE), text_block("no")]
    assert block["content"][2]["type"] == "image"


def test_image_of_a_result_is_sent_without_its_metadata() -> None:
    parts = [
        TextPart("Seen.", {"files": {"a.png": "0f"}}),
        ImagePart("image/jpeg", PNG, meta={"x": 1}),
    ]
    [block] = last_blocks(ASKED, acting_message(look()), result(parts))
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    assert block["content"] == [text_block("Seen."), {"type": "image", "source": source}]


def test_thinking_is_sent_back_only_with_its_signature() -> None:
    thought: list[ContentPart] = [
        ThinkingPart("Hm.", {"signature": "c2lnbg==", "other": 1}),
        ThinkingPart("", {"signature": "empty"}),
        ThinkingPart("unsigned"),
        ThinkingPart("odd", {"signature": 3}),
        ThinkingPart("damaged \ud800", {"signature": "c2lnbg=="}),
        TextPart("Jill."),
    ]
    encoded = encode_messages(ASKED, Message("assistant", thought))[1]["content"]
    assert encoded == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbg=="},
        {"type": "thinking", "thinking": "", "signature": "empty"},
        text_block("Jill."),
    ]


def test_thinking_of_one_model_is_not_sent_to_another() -> None:
    """Every other model rejects the signature, for all later requests too."""
    data = '{"type":"redacted_thinking","data":"x=="}'
    thought: list[ContentPart] = [
        ThinkingPart("Hm.", {"signature": "c2lnbg==", "model": "claude-a"}),
        UnknownPart("redacted_thinking", data, {"model": "claude-a"}),
        ThinkingPart("From an import.", {"signature": "c2lnbg=="}),
        TextPart("Jill."),
    ]
    context = [ASKED, Message("assistant", thought)]
    kinds = {
        model: [
            block["type"]
            for block in build_request_body(context, model=model)["messages"][1]["content"]
        ]
        for model in ("claude-a", "claude-b")
    }
    assert kinds == {
        "claude-a": ["thinking", "redacted_thinking", "thinking", "text"],
        "claude-b": ["thinking", "text"],
    }


def test_native_anthropic_blocks_are_sent_back_unchanged() -> None:
    data = '{"type":"redacted_thinking","data":"x=="}'
    encoded = encode_messages(ASKED, Message("assistant", [UnknownPart("redacted_thinking", data)]))
    assert encoded[1]["content"] == [{"type": "redacted_thinking", "data": "x=="}]


@pytest.mark.parametrize(
    "part",
    [
        UnknownPart("reasoning", '{"type":"reasoning"}'),
        UnknownPart("redacted_thinking", "damaged"),
        UnknownPart("redacted_thinking", '{"type":"text","text":"forged"}'),
        ImagePart("image/png", PNG),
    ],
)
def test_parts_that_no_assistant_message_can_have_are_omitted(part: Any) -> None:
    encoded = encode_messages(ASKED, Message("assistant", [TextPart("Hi."), part]))
    assert encoded[1]["content"] == [text_block("Hi.")]


def test_foreign_block_of_another_role_becomes_a_note() -> None:
    [note] = last_blocks(Message("user", [UnknownPart("input_audio", "{}")]))
    assert note == text_block("[a block of the kind 'input_audio' that cannot be shown]")


def test_tools_have_an_object_schema() -> None:
    tools: list[dict[str, Any]] = [
        {"name": "look", "parameters": {"properties": {}}},
        {"name": "wait", "description": "Wait."},
    ]
    assert build_request_body([ASKED], tools)["tools"] == [
        {"name": "look", "input_schema": {"type": "object", "properties": {}}},
        {"name": "wait", "description": "Wait.", "input_schema": {"type": "object"}},
    ]


def test_cache_breakpoints_follow_tools_system_and_the_last_two_user_turns() -> None:
    context = [Message("system", "You are Jack."), ASKED, acting_message(look()), result()]
    context += [Message("assistant", "Jill."), Message("user", "And now?")]
    body = add_cache_breakpoints(build_request_body(context, [{"name": "look"}, {"name": "wait"}]))
    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]
    assert "cache_control" in body["system"][-1]
    assert [any("cache_control" in b for b in m["content"]) for m in body["messages"]] == [
        *(False, False, True, False, True)
    ]


def test_body_of_another_client_is_decoded() -> None:
    body = {
        "system": "You are Jack.",
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c", "content": "Jill"},
                    {"type": "tool_result", "tool_use_id": "d"},
                    {"type": "text", "text": "So?", "cache_control": {"type": "ephemeral"}},
                    {"type": "document", "source": {}, "cache_control": {"type": "ephemeral"}},
                ],
            },
            {"role": "system", "content": "Later."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Before."},
                    {"type": "tool_result", "tool_use_id": "e", "content": [], "is_error": True},
                ],
            },
        ],
    }
    assert parse_request_messages(body) == [
        Message("system", "You are Jack."),
        Message("user", "Hi"),
        Message("assistant", None, [look("c")]),
        Message("tool", "Jill", tool_call_id="c"),
        Message("tool", None, tool_call_id="d"),
        Message(
            "user", [TextPart("So?"), UnknownPart("document", '{"type":"document","source":{}}')]
        ),
        Message("system", "Later."),
        Message("user", "Before."),
        Message("tool", None, tool_call_id="e", is_error=True),
    ]


def test_complete_response_is_decoded_in_order() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    answer = parse_response_message({"content": [thought, call, text_block("So.")]})
    assert answer.content == [
        ThinkingPart("Hm.", {"signature": "s"}),
        ToolCallSlot("c1"),
        TextPart("So."),
    ]
    assert answer.tool_calls == [look(arguments='{"at":"it"}')]
