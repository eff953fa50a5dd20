"""Messages in the format of the OpenTelemetry conventions, and variants of other writers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import (
    FunctionCall,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallSlot,
    UnknownPart,
    message_hash,
)
from harken.formats.providers import otel_attributes
from harken.formats.providers.otel_messages import (
    instructions_from_otel,
    message_from_otel,
    messages_from_otel,
    parse_attribute_value,
    tools_from_otel,
)
from harken.formats.providers.otel_writer import (
    instructions_to_otel,
    message_to_otel,
    tools_to_otel,
)

CALL = ToolCall("c1", FunctionCall("look", '{"at":"window"}'))
WHOLE = [
    Message("system", "Be kind."),
    Message("user", [TextPart("What is it?"), ImagePart("image/png", "iVBORw0KGgo=")]),
    Message("assistant", [ThinkingPart("hm"), TextPart("I look."), ToolCallSlot("c1")], [CALL]),
    Message("tool", "a bird", tool_call_id="c1", name="look"),
    Message("tool", "nothing", tool_call_id="c2", is_error=True),
    Message("user", [TextPart("and"), ImagePart(url="https://example.org/a.png")]),
    Message("assistant", "A bird."),
]


def test_messages_round_trip() -> None:
    encoded = json.dumps([message_to_otel(message) for message in WHOLE])
    assert [message_hash(item) for item in messages_from_otel(encoded)] == [
        *map(message_hash, WHOLE)
    ]


def test_call_and_its_result_keep_their_id() -> None:
    back = messages_from_otel([message_to_otel(message) for message in WHOLE])
    assert back[2].tool_calls == [CALL]
    assert [back[3].tool_call_id, back[3].name, back[4].is_error] == ["c1", "look", True]


def test_example_of_the_conventions_is_decoded() -> None:
    """The example has `result` where the schema has `response`."""
    value = [
        {"role": "user", "parts": [{"type": "text", "content": "Weather in Paris?"}]},
        {
            "role": "assistant",
            "parts": [
                {
                    "type": "tool_call",
                    "id": "c",
                    "name": "get_weather",
                    "arguments": {"at": "Paris"},
                }
            ],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "result": "rainy"}]},
    ]
    prompt, call, result = messages_from_otel(value)
    assert prompt == Message("user", "Weather in Paris?")
    assert call.tool_calls == [ToolCall("c", FunctionCall("get_weather", '{"at":"Paris"}'))]
    assert result == Message("tool", "rainy", tool_call_id="c")


def test_results_among_other_parts_become_separate_messages_in_order() -> None:
    parts = [
        {"type": "tool_call_response", "id": "a", "response": {"rain": True}},
        {"type": "text", "content": "go on"},
        {"type": "tool_call_response", "id": "b", "response": [{"type": "text", "content": "x"}]},
    ]
    assert message_from_otel({"role": "user", "parts": parts}) == [
        Message("tool", '{"rain":true}', tool_call_id="a"),
        Message("user", "go on"),
        Message("tool", "x", tool_call_id="b"),
    ]


@pytest.mark.parametrize(
    "encoded",
    [
        {"role": "user", "content": "hi"},
        {"role": "human", "content": [{"text": "hi"}]},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "user", "content": '[{"type":"text","text":"hi"}]'},
        {"role": "user", "parts": ["hi"]},
        {"parts": [{"content": "hi"}]},
    ],
)
def test_text_is_decoded_in_each_notation(encoded: dict[str, Any]) -> None:
    assert message_from_otel(encoded) == [Message("user", "hi")]


def test_calls_of_chat_completions_are_decoded() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    answer, result = messages_from_otel(
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "a bird", "tool_call_id": "c1"},
        ]
    )
    assert answer.tool_calls == [ToolCall("c1", FunctionCall("look", "{}"))]
    assert result == Message("tool", "a bird", tool_call_id="c1")


def test_part_of_unknown_kind_is_preserved() -> None:
    part = {"type": "compaction", "id": "x", "content": "what was"}
    (message,) = messages_from_otel([{"role": "assistant", "parts": [part]}])
    assert message.content == [UnknownPart("compaction", json.dumps(part, separators=(",", ":")))]
    assert message_to_otel(message)["parts"] == [part]


def test_system_instructions_become_one_message_per_part() -> None:
    value = [{"type": "text", "content": "Be kind."}, {"type": "text", "content": "Be brief."}]
    parsed = instructions_from_otel(json.dumps(value))
    assert parsed == [Message("system", "Be kind."), Message("system", "Be brief.")]
    assert instructions_to_otel(parsed) == value
    assert instructions_from_otel("Be kind.") == parsed[:1]


def test_tools_are_decoded_in_both_forms() -> None:
    tool = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    assert tools_from_otel(tools_to_otel([tool])) == [tool]
    assert tools_from_otel(json.dumps([{"type": "function", "function": tool}])) == [tool]
    hosted = {"type": "web_search", "max_uses": 2}
    assert tools_from_otel([hosted, 5]) == [hosted]
    strict = {"type": "function", "strict": True, "function": {**tool, "x_new": 1}}
    assert tools_from_otel([strict]) == [{**tool, "strict": True, "function": {"x_new": 1}}]


def test_text_that_resembles_json_stays_text() -> None:
    assert parse_attribute_value("[hook]: no") == "[hook]: no"
    assert messages_from_otel("[hook]: no") == [Message("user", "[hook]: no")]


def test_name_is_found_under_alternative_keys() -> None:
    assert (
        otel_attributes.get_attribute({"llm.token_count.prompt": 5}, otel_attributes.INPUT_TOKENS)
        == 5
    )
    assert otel_attributes.get_attribute({}, otel_attributes.INPUT_TOKENS) is None
    assert otel_attributes.find_operation({"traceloop.span.kind": "tool"}) == "execute_tool"
    assert otel_attributes.find_operation({"gen_ai.operation.name": 5}) == ""


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "parts", "content", "type", "text", "tool_calls", "function", "name"]
            )
            | st.text(max_size=3),
            inner
            | st.sampled_from(["tool_call_response", "image_url", "blob", "text", "tool", "user"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_is_decoded_to_messages_that_can_be_hashed_and_written(
    value: Any,
) -> None:
    for message in [*messages_from_otel(value), *instructions_from_otel(value)]:
        message_hash(message)
        json.dumps(message_to_otel(message)).encode()
    tools_from_otel(value)


PARTS: list[dict[str, Any]] = [
    {"type": "text", "content": "hi"},
    {"type": "reasoning", "content": "hm"},
    {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": "window"}},
    {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBORw0KGgo="},
    {"type": "tool_call_response", "id": "c1", "response": "a bird"},
    {"type": "of-tomorrow", "n": 1},
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part["type"])
def test_an_unknown_member_of_a_part_is_content(part: dict[str, Any]) -> None:
    """Two parts that differ in any member have different ids, and no member is lost."""
    role = "tool" if part["type"] == "tool_call_response" else "assistant"
    values = [part, {**part, "mood": "kind"}, {**part, "mood": "sad"}]
    messages = [messages_from_otel([{"role": role, "parts": [value]}])[0] for value in values]
    assert len({message_hash(message) for message in messages}) == 3
    assert "sad" in json.dumps(message_to_otel(messages[2]))


@pytest.mark.parametrize("content", [[PARTS[0]], [PARTS[2]], []], ids=["text", "call", "empty"])
def test_an_unknown_member_of_a_message_is_content(content: list[dict[str, Any]]) -> None:
    plain: dict[str, Any] = {"role": "assistant", "parts": content}
    values = [plain, {**plain, "mood": "kind"}, {**plain, "mood": "sad"}]
    messages = [messages_from_otel([value])[0] for value in values]
    assert len({message_hash(message) for message in messages}) == 3
    assert message_to_otel(messages[2])["mood"] == "sad"
    assert messages_from_otel([message_to_otel(messages[2])]) == [messages[2]]


def test_an_unknown_member_in_the_form_of_clients_is_content() -> None:
    plain = {"role": "assistant", "content": "no", "refusal": None}
    messages = [messages_from_otel([{**plain, "refusal": text}])[0] for text in (None, "a", "b")]
    assert messages[0].content == "no"
    assert len({message_hash(message) for message in messages}) == 3
