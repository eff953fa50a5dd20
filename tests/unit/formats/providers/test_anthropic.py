"""How each thing of a context is written for Anthropic."""

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
from tests.unit.formats.contexts import PNG


def look(id_: str = "c1", arguments: str = "{}", name: str = "look") -> ToolCall:
    return ToolCall(id_, FunctionCall(name, arguments))


def acted(*calls: ToolCall) -> Message:
    return Message("assistant", None, [*calls])


def result(text: Any = "Jill", id_: str = "c1", *, is_error: bool = False) -> Message:
    return Message("tool", text, tool_call_id=id_, is_error=is_error)


ASKED = Message("user", "Who is it?")


def written(*context: Message) -> list[Any]:
    messages: list[Any] = build_request_body(context)["messages"]
    return messages


def blocks(*context: Message) -> list[Any]:
    """Return the blocks of the last message."""
    last: list[Any] = written(*context)[-1]["content"]
    return last


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def test_system_messages_at_the_beginning_are_the_system_prompt() -> None:
    body = build_request_body(
        [Message("system", "You are Jack."), Message("system", "Be kind."), ASKED]
    )
    assert body["system"] == [text("You are Jack."), text("Be kind.")]
    assert body["messages"] == [{"role": "user", "content": [text("Who is it?")]}]


def test_a_later_system_message_is_a_note_of_the_user() -> None:
    """So the system prompt, with which the cached prefix begins, stays as it is."""
    assert blocks(ASKED, Message("system", "It is late.")) == [
        text("Who is it?"),
        text("[system]: It is late."),
    ]


def test_messages_of_one_side_in_a_row_are_one() -> None:
    said = written(
        ASKED, Message("user", "Hm?"), Message("assistant", "A"), Message("assistant", "B")
    )
    assert [(m["role"], [b["text"] for b in m["content"]]) for m in said] == [
        ("user", ["Who is it?", "Hm?"]),
        ("assistant", ["A", "B"]),
        ("user", [EMPTY_TURN_TEXT]),
    ]


def test_the_user_begins_and_ends() -> None:
    said = written(Message("assistant", "Hello."))
    assert [(m["role"], m["content"][0]["text"]) for m in said] == [
        ("user", EMPTY_TURN_TEXT),
        ("assistant", "Hello."),
        ("user", EMPTY_TURN_TEXT),
    ]
    assert written()[0]["content"] == [text(EMPTY_TURN_TEXT)]


def test_what_is_blank_is_left_out() -> None:
    assert written(
        Message("user", " \n"), Message("assistant", ""), ASKED, Message("user", None)
    ) == [{"role": "user", "content": [text("Who is it?")]}]


def test_a_call_is_a_block_with_its_arguments_and_its_result_comes_first() -> None:
    _, said, heard = written(
        ASKED, acted(look(arguments='{"at":"it"}')), Message("user", "Quick!"), result()
    )
    assert said["content"] == [
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}}
    ]
    assert heard["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [text("Jill")]},
        text("Quick!"),
    ]


def test_calls_keep_their_place_among_the_parts() -> None:
    content: list[ContentPart] = [TextPart("I look."), ToolCallSlot("c1"), TextPart("And wait.")]
    _, said, _ = written(ASKED, Message("assistant", content, [look()]), result())
    assert [block["type"] for block in said["content"]] == ["text", "tool_use", "text"]


@pytest.mark.parametrize(
    ("arguments", "sent"),
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
def test_arguments_are_an_object_whatever_the_model_wrote(arguments: str, sent: Any) -> None:
    assert (
        written(ASKED, acted(look(arguments=arguments)), result())[1]["content"][0]["input"] == sent
    )


def test_a_call_of_a_custom_tool_has_its_text_as_input() -> None:
    call = ToolCall("c1", FunctionCall("patch", "*** Begin"), "custom")
    assert written(ASKED, acted(call), result())[1]["content"][0]["input"] == {"input": "*** Begin"}


def test_ids_and_names_that_no_provider_takes_are_changed_the_same_way_each_time() -> None:
    turn = [acted(look("call/1", name="mcp.look"), look("c" * 80)), result("A", "call/1")]
    turn += [result("B", "c" * 80), Message("assistant", "So.")]
    said = written(ASKED, *turn, *turn)
    ids = [b["id"] for m in said for b in m["content"] if b["type"] == "tool_use"]
    answered = [b["tool_use_id"] for m in said for b in m["content"] if b["type"] == "tool_result"]
    assert ids == answered == ["call_1", "c" * 64, "call_1_2", "c" * 62 + "_2"]
    assert said[1]["content"][0]["name"] == "mcp_look"


def test_a_result_that_never_came_is_an_error_and_one_without_a_call_is_said_by_the_user() -> None:
    _, _, heard, _, last = written(
        ASKED,
        acted(look(), look("c2")),
        result(),
        Message("assistant", "Hm."),
        result("late", "c2"),
    )
    missing = {"type": "tool_result", "tool_use_id": "c2", "content": [text(NO_RESULT_TEXT)]}
    assert heard["content"][1] == {**missing, "is_error": True}
    assert last["content"] == [text(LATE_RESULT_PREFIX), text("late")]


def test_an_empty_result_says_so_and_an_error_is_marked() -> None:
    [block] = blocks(ASKED, acted(look()), result("", is_error=True))
    assert (block["content"], block["is_error"]) == ([text(NO_OUTPUT_TEXT)], True)


def test_an_error_that_holds_an_image_says_so_in_words() -> None:
    """The API refuses `is_error` beside anything but text, and the session would be stuck."""
    image = ImagePart("image/png", PNG)
    [block] = blocks(ASKED, acted(look()), result([TextPart("no"), image], is_error=True))
    assert "is_error" not in block
    assert block["content"][:2] == [text(ERROR_NOTE), text("no")]
    assert block["content"][2]["type"] == "image"


def test_an_image_stands_in_the_result_and_nothing_of_its_bookkeeping_is_sent() -> None:
    parts = [
        TextPart("Seen.", {"files": {"a.png": "0f"}}),
        ImagePart("image/jpeg", PNG, meta={"x": 1}),
    ]
    [block] = blocks(ASKED, acted(look()), result(parts))
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    assert block["content"] == [text("Seen."), {"type": "image", "source": source}]


def test_thinking_goes_back_with_its_signature_and_never_without() -> None:
    thought: list[ContentPart] = [
        ThinkingPart("Hm.", {"signature": "c2lnbg==", "other": 1}),
        ThinkingPart("", {"signature": "empty"}),
        ThinkingPart("unsigned"),
        ThinkingPart("odd", {"signature": 3}),
        ThinkingPart("damaged \ud800", {"signature": "c2lnbg=="}),
        TextPart("Jill."),
    ]
    said = written(ASKED, Message("assistant", thought))[1]["content"]
    assert said == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbg=="},
        {"type": "thinking", "thinking": "", "signature": "empty"},
        text("Jill."),
    ]


def test_what_one_model_thought_is_not_sent_to_another() -> None:
    """A signature is refused by every other model, and the session would be stuck."""
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


def test_blocks_of_anthropic_go_back_as_they_came() -> None:
    data = '{"type":"redacted_thinking","data":"x=="}'
    said = written(ASKED, Message("assistant", [UnknownPart("redacted_thinking", data)]))
    assert said[1]["content"] == [{"type": "redacted_thinking", "data": "x=="}]


@pytest.mark.parametrize(
    "part",
    [
        UnknownPart("reasoning", '{"type":"reasoning"}'),
        UnknownPart("redacted_thinking", "damaged"),
        UnknownPart("redacted_thinking", '{"type":"text","text":"forged"}'),
        ImagePart("image/png", PNG),
    ],
)
def test_what_the_model_cannot_have_said_is_left_out(part: Any) -> None:
    said = written(ASKED, Message("assistant", [TextPart("Hi."), part]))
    assert said[1]["content"] == [text("Hi.")]


def test_of_a_foreign_block_that_another_said_there_is_a_note() -> None:
    [note] = blocks(Message("user", [UnknownPart("input_audio", "{}")]))
    assert note == text("[a block of the kind 'input_audio' that cannot be shown]")


def test_tools_are_described_by_a_schema_of_an_object() -> None:
    tools: list[dict[str, Any]] = [
        {"name": "look", "parameters": {"properties": {}}},
        {"name": "wait", "description": "Wait."},
    ]
    assert build_request_body([ASKED], tools)["tools"] == [
        {"name": "look", "input_schema": {"type": "object", "properties": {}}},
        {"name": "wait", "description": "Wait.", "input_schema": {"type": "object"}},
    ]


def test_breakpoints_stand_after_tools_system_and_the_last_two_turns_of_the_user() -> None:
    context = [Message("system", "You are Jack."), ASKED, acted(look()), result()]
    context += [Message("assistant", "Jill."), Message("user", "And now?")]
    body = add_cache_breakpoints(build_request_body(context, [{"name": "look"}, {"name": "wait"}]))
    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]
    assert "cache_control" in body["system"][-1]
    assert [any("cache_control" in b for b in m["content"]) for m in body["messages"]] == [
        *(False, False, True, False, True)
    ]


def test_a_body_that_others_wrote_is_read() -> None:
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


def test_a_whole_answer_is_read_in_order() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    said = parse_response_message({"content": [thought, call, text("So.")]})
    assert said.content == [
        ThinkingPart("Hm.", {"signature": "s"}),
        ToolCallSlot("c1"),
        TextPart("So."),
    ]
    assert said.tool_calls == [look(arguments='{"at":"it"}')]
