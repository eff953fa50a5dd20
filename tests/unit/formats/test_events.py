"""Events of Harken, read and written by other programs."""

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
    UnknownPart,
)
from harken.errors import FormatError
from harken.formats.base import ConversationEntry
from harken.formats.events import (
    PAYLOADS,
    Event,
    OutputEvent,
    PromptEvent,
    event_to_record,
    parse_event,
)
from harken.formats.hub import entries_from_events, events_from_entry

NOON = "2026-01-31T12:00:00.000000Z"


def event_dicts(message: Message) -> list[dict[str, Any]]:
    return [event_to_record(event) for event in events_from_entry(ConversationEntry(message, NOON))]


def event_payloads(message: Message) -> list[tuple[str, Any]]:
    return [(event["type"], event[event["type"]]) for event in event_dicts(message)]


def decode_messages(*events: dict[str, Any]) -> list[Message]:
    return [
        entry.message for entry in entries_from_events([parse_event(event) for event in events])
    ]


@pytest.mark.req("S2-52")
def test_event_types_are_those_of_analytics() -> None:
    assert set(PAYLOADS) == {
        "prompt",
        "response",
        "thinking",
        "tool_call",
        "tool_result",
        "system",
        "metric",
        "error",
        "output",
    }


def test_plain_message_needs_no_harken_members() -> None:
    assert event_dicts(Message("user", "Hi")) == [
        {"type": "prompt", "timestamp": NOON, "prompt": {"content": "Hi", "source": "user"}}
    ]


def test_answer_becomes_one_event_per_part() -> None:
    call = ToolCall("c1", FunctionCall("look", '{"at":"door"}'))
    thought = ThinkingPart("hm", {"signature": "c2ln"})
    assert event_payloads(Message("assistant", [thought, TextPart("I look.")], [call])) == [
        ("thinking", {"content": "hm", "signature": "c2ln"}),
        ("response", {"content": "I look."}),
        (
            "tool_call",
            {"id": "c1", "name": "look", "input": {"at": "door"}, "server_tool": False},
        ),
    ]


def test_user_message_is_one_prompt_with_any_content() -> None:
    """Analytics counts prompts."""
    parts: list[ContentPart] = [
        TextPart("See"),
        ImagePart("image/png", "aGk="),
        UnknownPart("document", "{}"),
    ]
    assert event_payloads(Message("user", parts)) == [
        ("prompt", {"content": "See\n\n[image image/png]\n\n[document]", "source": "user"})
    ]


def test_result_names_its_call() -> None:
    result = Message("tool", "no", tool_call_id="c1", is_error=True)
    expected = {"content": "no", "tool_use_id": "c1", "is_error": True}
    assert event_payloads(result) == [("tool_result", expected)]


@pytest.mark.req("S2-34")
def test_call_of_a_server_tool_is_a_call() -> None:
    data = '{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"tea"}}'
    expected = {"id": "s1", "name": "web_search", "input": {"query": "tea"}, "server_tool": True}
    assert event_payloads(Message("assistant", [UnknownPart("server_tool_use", data)])) == [
        ("tool_call", expected)
    ]
    assert decode_messages({"type": "tool_call", "tool_call": expected}) == [
        Message("assistant", [UnknownPart("server_tool_use", data)])
    ]


def test_native_block_is_output_unchanged() -> None:
    data = '{"type":"redacted_thinking", "data":"x"}'
    result = event_payloads(Message("assistant", [UnknownPart("redacted_thinking", data)]))
    assert result == [("output", {"raw": data})]


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ('{ "a": 1.0 }', {"a": 1.0}),
        ('{"a":100000000000000000000}', '{"a":100000000000000000000}'),
        ('{"a":[1,null]}', {"a": [1, None]}),
        ("[1]", "[1]"),
        ("not JSON", "not JSON"),
        ("", ""),
        ('{"a":"\ud800"}', {"a": "?"}),
        ('{"a":' * 70 + "1" + "}" * 70, '{"a":' * 70 + "1" + "}" * 70),
    ],
)
def test_arguments_are_a_json_value_if_portable(arguments: str, output: Any) -> None:
    message = Message("assistant", tool_calls=[ToolCall("c", FunctionCall("f", arguments))])
    [(_, payload)] = event_payloads(message)
    assert payload["input"] == output
    assert entries_from_events(events_from_entry(ConversationEntry(message))) == [
        ConversationEntry(message)
    ]


@pytest.mark.req("S2-30", "S2-52")
def test_stream_of_another_runtime_is_read() -> None:
    call = {"id": "c1", "name": "look", "input": {"at": "door"}}
    decoded = decode_messages(
        {"type": "system", "system": {"subtype": "init", "metadata": {"model": "m"}}},
        {"type": "prompt", "prompt": {"content": "Hi", "source": "initial"}, "more": 1},
        {"type": "thinking", "thinking": {"content": "hm", "signature": "s"}},
        {"type": "response", "response": {"content": "I look."}},
        {"type": "tool_call", "tool_call": call},
        {"type": "tool_result", "tool_result": {"tool_use_id": "c1", "content": "Nobody."}},
        {"type": "error", "error": {"message": "overloaded"}},
        {"type": "response", "response": {"content": "Nobody."}},
        {"type": "teleport", "teleport": {}},
        {"type": "metric", "metric": {"cost_usd": 0.1, "status": "success"}},
    )
    assert decoded == [
        Message("user", "Hi"),
        Message(
            "assistant",
            [ThinkingPart("hm", {"signature": "s"}), TextPart("I look.")],
            [ToolCall("c1", FunctionCall("look", '{"at":"door"}'))],
        ),
        Message("tool", "Nobody.", tool_call_id="c1"),
        Message("assistant", "Nobody."),
    ]


def test_identical_foreign_calls_are_kept() -> None:
    call = {"type": "tool_call", "tool_call": {"id": "c", "name": "look", "input": {}}}
    text = {"type": "response", "response": {"content": "so"}}
    [message] = decode_messages(call, text, call)
    assert [call.id for call in message.tool_calls or ()] == ["c", "c"]
    assert message.content == "so"


def test_unknown_event_is_kept_as_its_json() -> None:
    assert parse_event({"type": "teleport", "to": [1]}) == Event(
        OutputEvent('{"type":"teleport","to":[1]}')
    )


@pytest.mark.parametrize(
    "event",
    [
        5,
        {"type": "prompt"},
        {"type": "prompt", "prompt": {"content": 5}},
        {"type": "prompt", "prompt": {"content": "x"}, "timestamp": 5},
        {"type": "prompt", "prompt": {"content": "x"}, "harken": {}},
        {"type": "prompt", "prompt": {"content": "x"}, "harken": "{"},
        {"type": "prompt", "prompt": {"content": "x"}, "harken": '{"events":0}'},
        {"type": "prompt", "prompt": {"content": "x"}, "harken": '{"events":2}'},
        {"type": "prompt", "prompt": {"content": "x"}, "harken": '{"parts":[null,null]}'},
        {"type": "prompt", "prompt": {"content": "x"}, "harken": '{"parts":[{"type":"x"}]}'},
        {
            "type": "prompt",
            "prompt": {"content": "x"},
            "harken": '{"parts":[{"type":"image"}],"occurrence":{}}',
        },
        {
            "type": "prompt",
            "prompt": {"content": "x"},
            "harken": '{"parts":[{"type":"tool_call","kind":"f","name":1,"arguments":""}]}',
        },
        {"type": "response", "response": {"content": "x"}, "harken": '{"events":2}'},
        {"type": "metric", "metric": {}, "harken": '{"events":3}'},
        {"type": "output", "output": {"raw": "{"}, "harken": "{}"},
        {"type": "tool_call", "tool_call": {"id": "c", "name": "f", "input": float("nan")}},
        {"type": "tool_call", "tool_call": {"id": "c", "name": "f", "input": {1: 2}}},
        {"type": "tool_call", "tool_call": {"id": "c", "name": "f", "input": b"x"}},
    ],
)
def test_invalid_event_is_rejected(event: Any) -> None:
    with pytest.raises(FormatError):
        entries_from_events([parse_event(event)])


def test_incomplete_group_of_events_is_rejected() -> None:
    events = events_from_entry(
        ConversationEntry(Message("assistant", [TextPart("a"), TextPart("b")]))
    )
    prompts = events_from_entry(ConversationEntry(Message("user", "Hi")))
    headless = [Event(PromptEvent("Hi"), extension=events[0].extension), events[1]]
    for torn in (events[:1], [events[0], *prompts], [events[0], events[0]], headless):
        with pytest.raises(FormatError):
            entries_from_events(torn)
    assert entries_from_events([*events, *prompts, *events]) != []
