"""Messages are decoded from every convention of span attributes and events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.capture.otlp.span import SpanEvent
from harken.capture.otlp.span_messages import read_span_messages
from harken.core.messages import FunctionCall, ImagePart, Message, TextPart, ToolCall
from tests.otlp_kit import text_message

CALL = ToolCall("c1", FunctionCall("look", '{"at":"window"}'))
ASKED = [
    Message("system", "Be kind."),
    Message("user", "What is it?"),
    Message("assistant", None, [CALL]),
    Message("tool", "a bird", tool_call_id="c1"),
]
ANSWER = Message("assistant", "A bird.")
TOOL = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}

CONVENTIONS: dict[str, Any] = {
    "gen_ai.system_instructions": [{"type": "text", "content": "Be kind."}],
    "gen_ai.input.messages": [
        text_message("user", "What is it?"),
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": "window"}}
            ],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": "a bird"}],
        },
    ],
    "gen_ai.output.messages": [{**text_message("assistant", "A bird."), "finish_reason": "stop"}],
    "gen_ai.tool.definitions": [{"type": "function", **TOOL}],
}
AS_TEXTS = {name: json.dumps(value) for name, value in CONVENTIONS.items()}
LLMETRY = {
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be kind.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": "What is it?",
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.tool_calls.0.id": "c1",
    "gen_ai.prompt.2.tool_calls.0.name": "look",
    "gen_ai.prompt.2.tool_calls.0.arguments": '{"at":"window"}',
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.tool_call_id": "c1",
    "gen_ai.prompt.3.content": "a bird",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "A bird.",
    "llm.request.functions.0.name": "look",
    "llm.request.functions.0.description": "Looks.",
    "llm.request.functions.0.parameters": '{"type":"object"}',
}
_IN, _CALL = "llm.input_messages", "message.tool_calls.0.tool_call"
INFERENCE = {
    f"{_IN}.0.message.role": "system",
    f"{_IN}.0.message.content": "Be kind.",
    f"{_IN}.1.message.role": "user",
    f"{_IN}.1.message.contents.0.message_content.type": "text",
    f"{_IN}.1.message.contents.0.message_content.text": "What is it?",
    f"{_IN}.2.message.role": "assistant",
    f"{_IN}.2.{_CALL}.id": "c1",
    f"{_IN}.2.{_CALL}.function.name": "look",
    f"{_IN}.2.{_CALL}.function.arguments": '{"at":"window"}',
    f"{_IN}.3.message.role": "tool",
    f"{_IN}.3.message.tool_call_id": "c1",
    f"{_IN}.3.message.content": "a bird",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "A bird.",
    "llm.tools.0.tool.json_schema": json.dumps({"type": "function", "function": TOOL}),
}


@pytest.mark.parametrize(
    "attributes", [CONVENTIONS, AS_TEXTS, LLMETRY, INFERENCE], ids=["values", "texts", "flat", "oi"]
)
def test_all_conventions_of_a_call_decode_alike(attributes: Mapping[str, Any]) -> None:
    decoded = read_span_messages(attributes, [])
    assert list(decoded.input_messages) == ASKED
    assert list(decoded.answers) == [ANSWER]
    assert list(decoded.tools) == [TOOL]


def test_messages_are_read_from_a_span_event() -> None:
    decoded = read_span_messages(
        {}, [SpanEvent("gen_ai.client.inference.operation.details", CONVENTIONS)]
    )
    assert (list(decoded.input_messages), list(decoded.answers)) == (ASKED, [ANSWER])


@pytest.mark.parametrize("is_text", [False, True])
def test_older_events_hold_one_message_each(is_text: bool) -> None:
    call = {"id": "c1", "type": "function"}
    call["function"] = {"name": "look", "arguments": '{"at":"window"}'}  # type: ignore[assignment]
    calls = json.dumps([call]) if is_text else [call]
    choice = {"role": "assistant", "content": "A bird."}
    events = [
        SpanEvent("gen_ai.system.message", {"content": "Be kind."}),
        SpanEvent("gen_ai.user.message", {"content": "What is it?"}),
        SpanEvent("gen_ai.assistant.message", {"tool_calls": calls}),
        SpanEvent("gen_ai.tool.message", {"id": "c1", "content": "a bird"}),
        SpanEvent(
            "gen_ai.choice", {"message": json.dumps(choice) if is_text else choice, "index": 0}
        ),
        SpanEvent("something.else", {"content": "x"}),
    ]
    decoded = read_span_messages({}, events)
    assert (list(decoded.input_messages), list(decoded.answers)) == (ASKED, [ANSWER])


def test_oldest_events_hold_all_messages_in_one_text() -> None:
    events = [
        SpanEvent("gen_ai.content.prompt", {"gen_ai.prompt": '[{"role":"user","content":"hi"}]'}),
        SpanEvent(
            "gen_ai.content.completion",
            {"gen_ai.completion": '[{"role":"assistant","content":"Hello."}]'},
        ),
    ]
    decoded = read_span_messages({}, events)
    assert list(decoded.input_messages) == [Message("user", "hi")]
    assert list(decoded.answers) == [Message("assistant", "Hello.")]


def test_openinference_image_is_decoded_as_image() -> None:
    base = f"{_IN}.0.message.contents"
    url = "data:image/png;base64,iVBORw0KGgo="
    attributes = {
        f"{_IN}.0.message.role": "user",
        f"{base}.0.message_content.type": "text",
        f"{base}.0.message_content.text": "See:",
        f"{base}.1.message_content.type": "image",
        f"{base}.1.message_content.image.image.url": url,
    }
    (message,) = read_span_messages(attributes, []).input_messages
    assert message.content == [TextPart("See:"), ImagePart("image/png", "iVBORw0KGgo=")]


def test_messages_are_sorted_by_their_index() -> None:
    attributes = {f"gen_ai.prompt.{n}.content": str(n) for n in (10, 9, 100, 0)}
    assert [m.content for m in read_span_messages(attributes, []).input_messages] == [
        "0",
        "9",
        "10",
        "100",
    ]


def test_span_without_messages_gives_none() -> None:
    decoded = read_span_messages({"gen_ai.request.model": "m"}, [])
    assert (list(decoded.input_messages), list(decoded.answers), list(decoded.tools)) == (
        [],
        [],
        [],
    )


_names = st.sampled_from(
    [
        *CONVENTIONS,
        "gen_ai.prompt",
        "gen_ai.prompt.0",
        "gen_ai.prompt.0.role.x",
        "gen_ai.prompt.0.tool_calls",
        "llm.input_messages.0.message",
        "llm.input_messages.0.message.contents.0",
        "llm.tools.0",
        "llm.tools.0.tool",
        *INFERENCE,
    ]
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just('[{"role":5}]'),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "parts", "message", "type"]), inner, max_size=3)
    ),
    max_leaves=6,
)
_attributes = st.dictionaries(_names, _values, max_size=6)


@given(_attributes, st.lists(st.builds(SpanEvent, st.text(max_size=3), _attributes), max_size=2))
def test_arbitrary_attributes_never_raise(attributes: Any, events: list[SpanEvent]) -> None:
    read_span_messages(attributes, events)
