"""Events are typed if they are known, and preserved if they are unknown."""

import json
from typing import Any, get_args

import pytest

from harken.core.events import (
    EVENT_TYPES,
    SCHEMA_VERSION,
    AgentCreated,
    KnownEvent,
    SessionEnded,
    SessionStarted,
    TranscriptEntry,
    UnknownEvent,
    Usage,
    decode_event,
    encode_event,
    event_dict,
    event_from_dict,
    event_type,
)
from harken.core.ids import AgentId, MessageId
from harken.core.messages import FunctionCall, Role, TextPart, ThinkingPart, ToolCall
from harken.session.fold import fold
from harken.session.state import SessionState

HEAD = {"message_id": "msg_001", "time": "2026-01-31T12:00:00.000000Z", "agent_id": "agent_001"}
CLASS_NAMES = {"turn_stopped": "TurnStop"}
"""Event classes with another name than their type: `harken.TurnStopped` is the public error."""


def event_line(event_type: str, **members: Any) -> bytes:
    return json.dumps({"event_type": event_type, **HEAD, **members}, separators=(",", ":")).encode()


def round_trip_entry(**members: Any) -> TranscriptEntry:
    event = decode_event(event_line("transcript_entry", **members))
    assert isinstance(event, TranscriptEntry)
    return event


def test_each_event_type_has_one_class() -> None:
    assert len(EVENT_TYPES) == len(get_args(KnownEvent)) == 32
    for name, kind in EVENT_TYPES.items():
        assert kind.__struct_config__.tag == name
        assert kind.__name__ == CLASS_NAMES.get(name, name.title().replace("_", ""))


@pytest.mark.req("S0-05")
def test_unknown_members_are_ignored_and_written_back() -> None:
    encoded = event_line(
        "transcript_entry", role="user", content="Hi", mood={"happy": 0.5}, seen=[1, None]
    )
    event = decode_event(encoded)
    assert isinstance(event, TranscriptEntry)
    assert (event.role, event.content) == ("user", "Hi")
    assert event.unknown == {"mood": {"happy": 0.5}, "seen": [1, None]}
    assert encode_event(event) == encoded


@pytest.mark.req("S0-05")
@pytest.mark.parametrize(
    ("event_type", "members"),
    [
        ("transcript_entry", {"role": "user", "content": [{"type": "song", "bars": 12}]}),
        ("transcript_entry", {"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}),
        (
            "transcript_entry",
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c1", "x": 0, "function": {"name": "look", "arguments": "", "y": 1}}
                ],
            },
        ),
        (
            "llm_response",
            {"request": "msg_000", "usage": {"input_tokens": 3, "thinking_tokens": 2}},
        ),
        ("transcript_edited", {"segments": [{"start": 0, "stop": 1, "why": "old"}]}),
    ],
)
def test_unknown_nested_members_are_ignored_and_written_back(
    event_type: str, members: dict[str, Any]
) -> None:
    encoded = event_line(event_type, **members)
    event = decode_event(encoded)
    assert isinstance(event, EVENT_TYPES[event_type])
    assert json.loads(encode_event(event)) == json.loads(encoded)
    assert decode_event(encode_event(event)) == event


@pytest.mark.req("S0-05")
def test_unknown_event_types_are_ignored_and_written_back() -> None:
    encoded = event_line("agent_dreamt", dream={"of": "sheep"})
    event = decode_event(encoded)
    assert isinstance(event, UnknownEvent)
    assert (event.message_id, event.agent_id) == ("msg_001", "agent_001")
    assert event_type(event) == "agent_dreamt"
    assert encode_event(event) == encoded
    assert event_dict(event) == json.loads(encoded)


@pytest.mark.req("S0-05")
def test_fold_ignores_unknown_events() -> None:
    birth = AgentCreated(
        message_id=MessageId("msg_001"), agent_id=AgentId("agent_001"), relation="primary"
    )
    state = SessionState()
    fold(state, birth)
    before = state.describe()
    fold(state, decode_event(event_line("agent_dreamt", message_id="msg_002", dream=1)))
    assert state.describe() == before | {"next_message": 3}


def test_unknown_event_may_have_no_agent() -> None:
    event = decode_event(b'{"event_type":"dream"}')
    assert event == UnknownEvent(
        message_id=MessageId(""),
        time="",
        agent_id=None,
        event_type="dream",
        data={"event_type": "dream"},
    )


@pytest.mark.req("S0-06")
def test_entry_has_role_content_links_calls_and_call_id() -> None:
    answer = round_trip_entry(
        role="assistant", content="I look.", cause="msg_000", tool_calls=[CALL]
    )
    assert (answer.role, answer.content, answer.cause) == ("assistant", "I look.", "msg_000")
    assert answer.tool_calls is not None
    user_message = round_trip_entry(
        role="user", content=[{"type": "text", "text": "Hi"}], substance="msg_000"
    )
    assert (user_message.content, user_message.substance, user_message.cause) == (
        [TextPart("Hi")],
        "msg_000",
        None,
    )
    got = round_trip_entry(role="tool", content="a door", tool_call_id="c1", name="look")
    assert (got.tool_call_id, got.name, got.is_error) == ("c1", "look", False)


@pytest.mark.req("S0-06")
@pytest.mark.parametrize("role", get_args(Role))
def test_entry_accepts_four_roles(role: str) -> None:
    assert role in {"user", "assistant", "tool", "system"}
    assert round_trip_entry(role=role).role == role


@pytest.mark.req("S0-06")
@pytest.mark.parametrize("role", ["king", "USER", "", None, 1, "developer"])
def test_entry_rejects_other_roles(role: object) -> None:
    with pytest.raises(ValueError, match="role"):
        round_trip_entry(role=role)


CALL = {"id": "call_abc", "type": "function", "function": {"name": "task", "arguments": "{}"}}


@pytest.mark.req("S0-07")
@pytest.mark.parametrize(
    "arguments",
    ["{}", '{"name": "Jack"}', '{"b":1,"a":2}', " { } ", "", "{not json", '{"x":"\\u00e9é"}'],
)
def test_call_arguments_are_a_string_kept_verbatim(arguments: str) -> None:
    encoded = event_line(
        "transcript_entry",
        role="assistant",
        tool_calls=[{**CALL, "function": {"name": "task", "arguments": arguments}}],
    )
    event = decode_event(encoded)
    assert isinstance(event, TranscriptEntry)
    assert event.tool_calls == [ToolCall("call_abc", FunctionCall("task", arguments))]
    repeated = json.loads(encode_event(event))["tool_calls"]
    assert repeated == [
        {"id": "call_abc", "type": "function", "function": {"name": "task", "arguments": arguments}}
    ]


@pytest.mark.req("S0-07")
def test_call_without_a_type_defaults_to_function_and_is_written() -> None:
    """The examples of the specification omit the type."""
    event = round_trip_entry(
        role="assistant", tool_calls=[{k: CALL[k] for k in ("id", "function")}]
    )
    assert json.loads(encode_event(event))["tool_calls"][0]["type"] == "function"


@pytest.mark.req("S0-10")
def test_utterance_is_an_assistant_entry_with_content_and_no_calls() -> None:
    entries = [
        round_trip_entry(role="assistant", content="Hi"),
        round_trip_entry(role="assistant", content=[{"type": "text", "text": "Hi"}]),
        round_trip_entry(role="assistant", content="Hi", tool_calls=[CALL]),
        round_trip_entry(role="assistant", tool_calls=[CALL]),
        round_trip_entry(role="assistant", content=""),
        round_trip_entry(role="assistant", content=[]),
        round_trip_entry(role="assistant"),
        round_trip_entry(role="user", content="Hi"),
        round_trip_entry(role="system", content="Hi"),
        round_trip_entry(role="tool", content="Hi", tool_call_id="c1", name="look"),
    ]
    assert [entry.is_utterance for entry in entries] == [True, True] + 8 * [False]


def test_event_with_both_links_can_be_read() -> None:
    """The writer rejects it. A log that contains one stays readable."""
    both = round_trip_entry(role="user", content="Hi", substance="msg_000", cause="msg_000")
    assert (both.substance, both.cause) == ("msg_000", "msg_000")


def test_caused_by_may_be_a_list() -> None:
    assert round_trip_entry(role="tool", cause=["msg_001", "msg_002.c1"]).cause == [
        "msg_001",
        "msg_002.c1",
    ]


def test_absent_members_are_not_written() -> None:
    assert encode_event(SessionEnded()) == b'{"event_type":"session_ended"}'
    plain = round_trip_entry(role="assistant", content="Hi")
    assert json.loads(encode_event(plain)) == {
        "event_type": "transcript_entry",
        **HEAD,
        "role": "assistant",
        "content": "Hi",
    }


def test_lone_surrogates_survive_in_known_and_unknown_members() -> None:
    event = round_trip_entry(
        role="user", content=[{"type": "thinking", "text": "\ud83d"}], odd="\udc80"
    )
    assert event.content == [ThinkingPart("\ud83d")]
    assert event.unknown == {"odd": "\udc80"}
    assert b"\\ud83d" in encode_event(event)
    assert decode_event(encode_event(event)) == event


def test_event_and_its_dict_are_equal() -> None:
    event = decode_event(
        event_line("llm_response", request="msg_000", usage={"input_tokens": 3}, odd=1)
    )
    assert event_from_dict(event_dict(event)) == event
    assert event_dict(event)["usage"] == {"input_tokens": 3}
    assert Usage(input_tokens=3) == getattr(event, "usage", None)


def test_session_started_names_the_schema() -> None:
    assert SessionStarted(session_id="cafe", schema_version=SCHEMA_VERSION).schema_version == 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "line 1 column 1"),
        (b"[]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"{}", "event_type"),
        (b'{"event_type":7}', "event_type"),
        (b'{"event_type":"transcript_entry"}', "role"),
        (b'{"event_type":"piece_of_text","content":7}', "content"),
        (b'{"event_type":"agent_moved","place":"elsewhere"}', "place"),
        (b'{"event_type":"session_ended","reason":"\xff"}', "decode"),
        (b'{"event_type":"session_ended"', "line 1"),
        (b'{"event_type":"session_ended"} x', "Extra data"),
    ],
)
def test_invalid_event_raises_value_error_with_the_reason(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_event(body)
