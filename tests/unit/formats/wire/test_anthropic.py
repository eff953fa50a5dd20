"""Splitting requests and responses of Anthropic Messages into pieces and joining them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.events import Usage
from harken.core.messages import Message, TextPart, ThinkingPart, UnknownPart
from harken.errors import FormatError
from harken.formats.json_records import equal_json
from harken.formats.wire.anthropic import PROTOCOL
from harken.formats.wire.base import ParsedRequest, ParsedResponse

MARK = {"cache_control": {"type": "ephemeral"}}
ASKED: dict[str, Any] = {
    "model": "m",
    "system": [{"type": "text", "text": "You are Jack.", **MARK}],
    "messages": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "door"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": "a door",
                    "is_error": False,
                },
                {"type": "text", "text": "And?", **MARK},
            ],
        },
    ],
    "tools": [{"name": "look", "description": "Look.", "input_schema": {"type": "object"}}],
    "max_tokens": 5,
}


def split_request(body: Any) -> ParsedRequest:
    return PROTOCOL.parse_request("/v1/messages", json.dumps(body).encode())


def join_request(parsed: ParsedRequest) -> Any:
    return PROTOCOL.build_body(parsed, [piece.raw for piece in parsed.pieces])


def piece_keys(*messages: Any) -> list[str]:
    return [piece.key for piece in split_request({"model": "m", "messages": [*messages]}).pieces]


def test_request_is_split_into_pieces_and_a_remainder() -> None:
    parsed = split_request(ASKED)
    assert [piece.raw for piece in parsed.pieces[:2]] == [
        {"system": [{"type": "text", "text": "You are Jack."}]},
        {"role": "user", "content": "Hi"},
    ]
    assert (parsed.model, parsed.parameters, parsed.shape) == ("m", {"max_tokens": 5}, None)
    assert parsed.tools == (
        {"name": "look", "description": "Look.", "parameters": {"type": "object"}},
    )
    assert [path for path, _ in parsed.marks] == [
        ["system", 0, "cache_control"],
        ["messages", 2, "content", 1, "cache_control"],
    ]
    assert equal_json(join_request(parsed), ASKED)


def test_pieces_are_messages_and_forms() -> None:
    parsed = [PROTOCOL.read(piece) for piece in split_request(ASKED).pieces]
    assert [[message.role for message in messages] for messages, _ in parsed] == [
        ["system"],
        ["user"],
        ["assistant"],
        ["tool", "user"],
    ]
    assert [form for _, form in parsed] == [
        None,
        None,
        None,
        {"change": [["set", ["content", 0, "is_error"], False]]},
    ]
    (answer,) = parsed[2][0]
    assert answer.content == [ThinkingPart("Hm.", {"signature": "c2ln"}), TextPart("I look.")]


def test_message_is_recognized_without_its_cache_mark_and_as_text() -> None:
    block = {"type": "text", "text": "Hi"}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a door"}
    assert piece_keys({"role": "user", "content": "Hi"}) == piece_keys(
        {"role": "user", "content": [block]}
    )
    assert piece_keys({"role": "user", "content": "Hi"}) == piece_keys(
        {"content": [{**block, **MARK}], "role": "user"}
    )
    listed_result = {**result, "content": [{"type": "text", "text": "a door", **MARK}]}
    assert piece_keys({"role": "user", "content": [result]}) == piece_keys(
        {"role": "user", "content": [listed_result]}
    )
    assert piece_keys({"role": "user", "content": "Hi"}) != piece_keys(
        {"role": "assistant", "content": "Hi"}
    )


def test_cache_mark_in_tool_input_is_no_mark() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"cache_control": 1}}
    parsed = split_request({"model": "m", "messages": [{"role": "assistant", "content": [call]}]})
    assert parsed.marks == []
    assert parsed.pieces[0].raw["content"] == [call]


def test_billing_header_of_a_client_is_separated() -> None:
    bill = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1;"}
    instructions = {
        "type": "text",
        "text": "You are Jack, of x-anthropic-billing-header: fame.",
        **MARK,
    }
    body = {**ASKED, "system": [bill, instructions]}
    parsed = split_request(body)
    assert parsed.shape == {"aside": [[0, bill]]}
    assert [key.key for key in parsed.pieces[1:]] == [
        key.key for key in split_request(ASKED).pieces[1:]
    ]
    assert equal_json(join_request(parsed), body)


BILL = {"type": "text", "text": "x-anthropic-billing-header:"}


@pytest.mark.parametrize(
    "system",
    ["", "You are Jack.", [], [BILL], [5], ["a"], None, 5, {"a": 1}, [[]], [None], "\ud83d"],
)
def test_any_system_prompt_round_trips(system: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "system": system}
    assert equal_json(join_request(split_request(body)), body)


def test_message_that_resembles_a_system_prompt_keeps_its_position() -> None:
    body = {"model": "m", "messages": [{"system": "a"}, {"system": ["b"]}]}
    parsed = split_request(body)
    assert equal_json(join_request(parsed), body)
    assert [PROTOCOL.write(*PROTOCOL.read(piece)) for piece in parsed.pieces] == body["messages"]


def test_system_message_among_the_messages_round_trips() -> None:
    (piece,) = split_request({"messages": [{"role": "system", "content": "Now."}]}).pieces
    messages, form = PROTOCOL.read(piece)
    assert (messages, form) == ([Message("system", "Now.")], {"as": "message"})
    assert PROTOCOL.write(messages, form) == {"role": "system", "content": "Now."}


@pytest.mark.parametrize(
    "unusual", [5, None, [], "text", {}, {"role": 5}, {"role": "jack"}, [[[]]]]
)
def test_invalid_message_is_preserved(unusual: Any) -> None:
    (piece,) = split_request({"messages": [unusual]}).pieces
    messages, form = PROTOCOL.read(piece)
    assert isinstance(messages[0].content, list)
    assert isinstance(messages[0].content[0], UnknownPart)
    assert equal_json(PROTOCOL.write(messages, form), unusual)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"messages": 5}', b"{}", b"\xff", b"[" * 9999]
)
def test_invalid_request_is_rejected(body: bytes) -> None:
    with pytest.raises(FormatError):
        PROTOCOL.parse_request("/v1/messages", body)


def test_undecodable_bytes_do_not_stop_the_reader() -> None:
    parsed = PROTOCOL.parse_request("", b'{"messages": [{"role": "user", "content": "\xff"}]}')
    messages, form = PROTOCOL.read(parsed.pieces[0])
    assert messages == [Message("user", "\ufffd")]
    assert form is None
    assert parsed.pieces[0].key


def test_lone_surrogates_round_trip() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "\ud83d"}], "n": float("inf")}
    parsed = split_request(body)
    assert equal_json(join_request(parsed), {**body, "n": None})


@pytest.mark.parametrize("shape", [5, {"aside": 5}, {"aside": [[0]]}, {"aside": [["a", 1]]}])
def test_form_that_does_not_match_is_rejected(shape: Any) -> None:
    values = [{"system": [5]}]
    if shape != 5:
        with pytest.raises(FormatError):
            PROTOCOL.build_body(ParsedRequest(model="m", shape=shape), values)
    with pytest.raises(FormatError):
        PROTOCOL.build_body(ParsedRequest(model="m", marks=[(["messages", 7], 1)]), values)


def test_changed_answer_is_recognized() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {"b": 1, "a": 2}}
    text = {"type": "text", "text": "I look.\n"}
    answer = PROTOCOL.piece({"role": "assistant", "content": [text, call]})
    repeated = PROTOCOL.piece(
        {
            "role": "assistant",
            "content": [{**text, "text": "I look."}, {**call, "input": {"a": 2, "b": 1}}],
        }
    )
    assert answer.key != repeated.key
    assert PROTOCOL.likeness(answer) == PROTOCOL.likeness(repeated)
    messages, _ = PROTOCOL.read(answer)
    form = PROTOCOL.form(messages, repeated)
    assert equal_json(PROTOCOL.write(messages, form), repeated.raw)
    second = PROTOCOL.piece({"role": "assistant", "content": [text, {**call, "id": "t2"}]})
    assert PROTOCOL.likeness(answer) != PROTOCOL.likeness(second)


def event(kind: str, **members: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    start_event = event("content_block_start", index=index, content_block=start)
    additional = [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return start_event + b"".join(additional) + event("content_block_stop", index=index)


USAGE = {"input_tokens": 11, "cache_read_input_tokens": 1000, "output_tokens": 1}
HEAD = {"id": "msg_1", "model": "m-1", "content": [], "usage": USAGE}
STREAM = b"".join(
    [
        event("message_start", message=HEAD),
        block(
            0,
            {"type": "thinking", "thinking": ""},
            {"type": "thinking_delta", "thinking": "Hm \u00e9."},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        event("ping"),
        block(
            1,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "I "},
            {"type": "text_delta", "text": "look."},
            {"type": "citations_delta", "citation": 5},
        ),
        block(
            2,
            {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"a'},
            {"type": "input_json_delta", "partial_json": '":1}'},
        ),
        event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 7}),
        event("message_stop"),
    ]
)
SAID = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "Hm \u00e9.", "signature": "c2ln"},
        {"type": "text", "text": "I look.", "citations": [5]},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": 1}},
    ],
}


def decode_stream(data: bytes, *, status: int = 200, step: int = 0) -> ParsedResponse:
    listener = PROTOCOL.listener(status)
    for start in range(0, len(data), step or len(data) or 1):
        listener.feed(data[start : start + (step or len(data))])
    return listener.end()


@pytest.mark.parametrize("step", [0, 1, 2, 7, 100])
def test_stream_becomes_the_message_that_its_client_sends_back(step: int) -> None:
    response = decode_stream(STREAM, step=step)
    assert [piece.raw for piece in response.pieces] == [SAID]
    assert response.finish is not None
    assert (response.finish.stop_reason, response.finish.model) == ("tool_use", "m-1")
    assert response.finish.usage == Usage(
        input_tokens=1011, output_tokens=7, cache_read_tokens=1000
    )
    assert (response.id, response.error) == ("msg_1", "")


def test_complete_response_is_decoded_the_same() -> None:
    full = {"id": "msg_1", "model": "m-1", "stop_reason": "tool_use", "usage": USAGE}
    response = decode_stream(json.dumps({**full, "content": SAID["content"]}).encode())
    assert [piece.raw for piece in response.pieces] == [SAID]
    assert response.finish is not None
    assert response.finish.stop_reason == "tool_use"


def test_truncated_stream_returns_the_received_part() -> None:
    for stop in range(len(STREAM)):
        response = decode_stream(STREAM[:stop])
        assert response.error == ""
        assert bool(response.pieces) == (response.finish is not None)
        thought, answer = response.partial
        assert "Hm \u00e9.".startswith(thought)
        assert "I look.".startswith(answer)
    stop = STREAM.index(b'"content_block_stop", "index": 1')
    assert decode_stream(STREAM[:stop]).partial == ("Hm \u00e9.", "I look.")


BUSY = '{"type":"error","error":{"type":"overloaded_error","message":"Now\\nbusy"}}'


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (529, BUSY, "HTTP 529: overloaded_error: Now busy"),
        (200, f"event: error\ndata: {BUSY}\n\n", "overloaded_error: Now busy"),
        (502, "<html>\nBad gateway", "HTTP 502: <html> Bad gateway"),
        (500, "", "HTTP 500"),
        (400, "{}", "HTTP 400: {}"),
        (200, "{", "an answer that is not JSON: {"),
        (200, "{}", "an answer without sense: 'content'"),
        (200, "data: {\n\n", "an answer without sense: an event that is not JSON"),
    ],
)
def test_error_is_one_line(status: int, body: str, error: str) -> None:
    response = decode_stream(body.encode(), status=status)
    assert response.error == error
    assert not response.pieces
