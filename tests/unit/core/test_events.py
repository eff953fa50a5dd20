"""Events: typed where they are known, kept as they were where they are not."""

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


def line(event_type: str, **members: Any) -> bytes:
    return json.dumps({"event_type": event_type, **HEAD, **members}, separators=(",", ":")).encode()


def entry(**members: Any) -> TranscriptEntry:
    event = decode_event(line("transcript_entry", **members))
    assert isinstance(event, TranscriptEntry)
    return event


def test_every_event_type_has_one_class() -> None:
    assert len(EVENT_TYPES) == len(get_args(KnownEvent)) == 20
    for name, kind in EVENT_TYPES.items():
        assert kind.__struct_config__.tag == name


@pytest.mark.req("S0-05")
def test_members_that_nobody_knows_are_passed_over_and_written_again() -> None:
    written = line(
        "transcript_entry", role="user", content="Hi", mood={"happy": 0.5}, seen=[1, None]
    )
    event = decode_event(written)
    assert isinstance(event, TranscriptEntry)
    assert (event.role, event.content) == ("user", "Hi")
    assert event.unknown == {"mood": {"happy": 0.5}, "seen": [1, None]}
    assert encode_event(event) == written


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
def test_what_nobody_knows_inside_a_member_is_passed_over_and_written_again(
    event_type: str, members: dict[str, Any]
) -> None:
    written = line(event_type, **members)
    event = decode_event(written)
    assert isinstance(event, EVENT_TYPES[event_type])
    assert json.loads(encode_event(event)) == json.loads(written)
    assert decode_event(encode_event(event)) == event


@pytest.mark.req("S0-05")
def test_event_types_that_nobody_knows_are_passed_over_and_written_again() -> None:
    written = line("agent_dreamt", dream={"of": "sheep"})
    event = decode_event(written)
    assert isinstance(event, UnknownEvent)
    assert (event.message_id, event.agent_id) == ("msg_001", "agent_001")
    assert event_type(event) == "agent_dreamt"
    assert encode_event(event) == written
    assert event_dict(event) == json.loads(written)


@pytest.mark.req("S0-05")
def test_the_fold_passes_over_what_it_does_not_know() -> None:
    birth = AgentCreated(
        message_id=MessageId("msg_001"), agent_id=AgentId("agent_001"), relation="primary"
    )
    state = SessionState()
    fold(state, birth)
    before = state.describe()
    fold(state, decode_event(line("agent_dreamt", message_id="msg_002", dream=1)))
    assert state.describe() == before | {"next_message": 3}


def test_an_unknown_event_may_be_about_nobody() -> None:
    event = decode_event(b'{"event_type":"dream"}')
    assert event == UnknownEvent(
        message_id=MessageId(""),
        time="",
        agent_id=None,
        event_type="dream",
        data={"event_type": "dream"},
    )


@pytest.mark.req("S0-06")
def test_an_entry_has_role_content_links_calls_and_the_call_it_answers() -> None:
    said = entry(role="assistant", content="I look.", cause="msg_000", tool_calls=[CALL])
    assert (said.role, said.content, said.cause) == ("assistant", "I look.", "msg_000")
    assert said.tool_calls is not None
    heard = entry(role="user", content=[{"type": "text", "text": "Hi"}], substance="msg_000")
    assert (heard.content, heard.substance, heard.cause) == ([TextPart("Hi")], "msg_000", None)
    got = entry(role="tool", content="a door", tool_call_id="c1", name="look")
    assert (got.tool_call_id, got.name, got.is_error) == ("c1", "look", False)


@pytest.mark.req("S0-06")
@pytest.mark.parametrize("role", get_args(Role))
def test_an_entry_has_one_of_four_roles(role: str) -> None:
    assert role in {"user", "assistant", "tool", "system"}
    assert entry(role=role).role == role


@pytest.mark.req("S0-06")
@pytest.mark.parametrize("role", ["king", "USER", "", None, 1, "developer"])
def test_other_roles_are_refused(role: object) -> None:
    with pytest.raises(ValueError, match="role"):
        entry(role=role)


CALL = {"id": "call_abc", "type": "function", "function": {"name": "task", "arguments": "{}"}}


@pytest.mark.req("S0-07")
@pytest.mark.parametrize(
    "arguments",
    ["{}", '{"name": "Jack"}', '{"b":1,"a":2}', " { } ", "", "{not json", '{"x":"\\u00e9é"}'],
)
def test_arguments_are_a_string_kept_exactly(arguments: str) -> None:
    written = line(
        "transcript_entry",
        role="assistant",
        tool_calls=[{**CALL, "function": {"name": "task", "arguments": arguments}}],
    )
    event = decode_event(written)
    assert isinstance(event, TranscriptEntry)
    assert event.tool_calls == [ToolCall("call_abc", FunctionCall("task", arguments))]
    again = json.loads(encode_event(event))["tool_calls"]
    assert again == [
        {"id": "call_abc", "type": "function", "function": {"name": "task", "arguments": arguments}}
    ]


@pytest.mark.req("S0-07")
def test_a_call_without_a_type_is_of_a_function_and_says_so_when_written() -> None:
    """The specification's own examples leave the type out."""
    event = entry(role="assistant", tool_calls=[{k: CALL[k] for k in ("id", "function")}])
    assert json.loads(encode_event(event))["tool_calls"][0]["type"] == "function"


@pytest.mark.req("S0-10")
def test_an_utterance_is_an_assistant_entry_with_content_and_without_calls() -> None:
    entries = [
        entry(role="assistant", content="Hi"),
        entry(role="assistant", content=[{"type": "text", "text": "Hi"}]),
        entry(role="assistant", content="Hi", tool_calls=[CALL]),
        entry(role="assistant", tool_calls=[CALL]),
        entry(role="assistant", content=""),
        entry(role="assistant", content=[]),
        entry(role="assistant"),
        entry(role="user", content="Hi"),
        entry(role="system", content="Hi"),
        entry(role="tool", content="Hi", tool_call_id="c1", name="look"),
    ]
    assert [one.is_utterance for one in entries] == [True, True] + 8 * [False]


def test_an_event_with_both_links_can_be_read() -> None:
    """It is refused when written; a log that has one is still readable."""
    both = entry(role="user", content="Hi", substance="msg_000", cause="msg_000")
    assert (both.substance, both.cause) == ("msg_000", "msg_000")


def test_a_cause_may_be_a_list() -> None:
    assert entry(role="tool", cause=["msg_001", "msg_002.c1"]).cause == ["msg_001", "msg_002.c1"]


def test_what_is_absent_is_not_written() -> None:
    assert encode_event(SessionEnded()) == b'{"event_type":"session_ended"}'
    plain = entry(role="assistant", content="Hi")
    assert json.loads(encode_event(plain)) == {
        "event_type": "transcript_entry",
        **HEAD,
        "role": "assistant",
        "content": "Hi",
    }


def test_lone_surrogates_survive_in_known_and_unknown_members() -> None:
    event = entry(role="user", content=[{"type": "thinking", "text": "\ud83d"}], odd="\udc80")
    assert event.content == [ThinkingPart("\ud83d")]
    assert event.unknown == {"odd": "\udc80"}
    assert b"\\ud83d" in encode_event(event)
    assert decode_event(encode_event(event)) == event


def test_an_event_and_its_dict_are_the_same() -> None:
    event = decode_event(line("llm_response", request="msg_000", usage={"input_tokens": 3}, odd=1))
    assert event_from_dict(event_dict(event)) == event
    assert event_dict(event)["usage"] == {"input_tokens": 3}
    assert Usage(input_tokens=3) == getattr(event, "usage", None)


def test_a_started_session_names_the_schema() -> None:
    assert SessionStarted(session_id="cafe", schema_version=SCHEMA_VERSION).schema_version == 1


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
def test_what_is_no_event_is_a_value_error_that_says_why(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_event(body)
