"""Requests and answers of Anthropic's Messages, taken apart and put together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.events import Usage
from harken.core.messages import Message, TextPart, ThinkingPart, UnknownPart
from harken.errors import FormatError
from harken.formats.wire.anthropic import PROTOCOL
from harken.formats.wire.base import ParsedRequest, ParsedResponse
from harken.formats.wire.json_patch import equal_json

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


def apart(body: Any) -> ParsedRequest:
    return PROTOCOL.parse_request("/v1/messages", json.dumps(body).encode())


def together(asked: ParsedRequest) -> Any:
    return PROTOCOL.build_body(asked, [piece.raw for piece in asked.pieces])


def keys(*messages: Any) -> list[str]:
    return [piece.key for piece in apart({"model": "m", "messages": [*messages]}).pieces]


def test_a_request_is_its_pieces_and_all_else() -> None:
    asked = apart(ASKED)
    assert [piece.raw for piece in asked.pieces[:2]] == [
        {"system": [{"type": "text", "text": "You are Jack."}]},
        {"role": "user", "content": "Hi"},
    ]
    assert (asked.model, asked.parameters, asked.shape) == ("m", {"max_tokens": 5}, None)
    assert asked.tools == (
        {"name": "look", "description": "Look.", "parameters": {"type": "object"}},
    )
    assert [path for path, _ in asked.marks] == [
        ["system", 0, "cache_control"],
        ["messages", 2, "content", 1, "cache_control"],
    ]
    assert equal_json(together(asked), ASKED)


def test_pieces_are_messages_and_forms() -> None:
    read = [PROTOCOL.read(piece) for piece in apart(ASKED).pieces]
    assert [[message.role for message in messages] for messages, _ in read] == [
        ["system"],
        ["user"],
        ["assistant"],
        ["tool", "user"],
    ]
    assert [form for _, form in read] == [
        None,
        None,
        None,
        {"change": [["set", ["content", 0, "is_error"], False]]},
    ]
    (said,) = read[2][0]
    assert said.content == [ThinkingPart("Hm.", {"signature": "c2ln"}), TextPart("I look.")]


def test_a_message_is_known_again_without_its_mark_and_as_a_text() -> None:
    block = {"type": "text", "text": "Hi"}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a door"}
    assert keys({"role": "user", "content": "Hi"}) == keys({"role": "user", "content": [block]})
    assert keys({"role": "user", "content": "Hi"}) == keys(
        {"content": [{**block, **MARK}], "role": "user"}
    )
    listed = {**result, "content": [{"type": "text", "text": "a door", **MARK}]}
    assert keys({"role": "user", "content": [result]}) == keys(
        {"role": "user", "content": [listed]}
    )
    assert keys({"role": "user", "content": "Hi"}) != keys({"role": "assistant", "content": "Hi"})


def test_what_a_tool_is_given_is_no_mark() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"cache_control": 1}}
    asked = apart({"model": "m", "messages": [{"role": "assistant", "content": [call]}]})
    assert asked.marks == []
    assert asked.pieces[0].raw["content"] == [call]


def test_what_a_client_says_of_its_bill_stands_aside() -> None:
    bill = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1;"}
    told = {"type": "text", "text": "You are Jack, of x-anthropic-billing-header: fame.", **MARK}
    body = {**ASKED, "system": [bill, told]}
    asked = apart(body)
    assert asked.shape == {"aside": [[0, bill]]}
    assert [key.key for key in asked.pieces[1:]] == [key.key for key in apart(ASKED).pieces[1:]]
    assert equal_json(together(asked), body)


BILL = {"type": "text", "text": "x-anthropic-billing-header:"}


@pytest.mark.parametrize(
    "system",
    ["", "You are Jack.", [], [BILL], [5], ["a"], None, 5, {"a": 1}, [[]], [None], "\ud83d"],
)
def test_any_system_prompt_comes_back(system: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "system": system}
    assert equal_json(together(apart(body)), body)


def test_a_message_that_looks_like_a_system_prompt_stays_where_it_is() -> None:
    body = {"model": "m", "messages": [{"system": "a"}, {"system": ["b"]}]}
    asked = apart(body)
    assert equal_json(together(asked), body)
    assert [PROTOCOL.write(*PROTOCOL.read(piece)) for piece in asked.pieces] == body["messages"]


def test_what_the_system_says_amidst_the_messages_comes_back() -> None:
    (piece,) = apart({"messages": [{"role": "system", "content": "Now."}]}).pieces
    messages, form = PROTOCOL.read(piece)
    assert (messages, form) == ([Message("system", "Now.")], {"as": "message"})
    assert PROTOCOL.write(messages, form) == {"role": "system", "content": "Now."}


@pytest.mark.parametrize("odd", [5, None, [], "text", {}, {"role": 5}, {"role": "jack"}, [[[]]]])
def test_a_message_that_is_none_is_kept_as_it_is(odd: Any) -> None:
    (piece,) = apart({"messages": [odd]}).pieces
    messages, form = PROTOCOL.read(piece)
    assert isinstance(messages[0].content, list)
    assert isinstance(messages[0].content[0], UnknownPart)
    assert equal_json(PROTOCOL.write(messages, form), odd)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"messages": 5}', b"{}", b"\xff", b"[" * 9999]
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(FormatError):
        PROTOCOL.parse_request("/v1/messages", body)


def test_bytes_that_are_no_text_do_not_stop_the_reading() -> None:
    asked = PROTOCOL.parse_request("", b'{"messages": [{"role": "user", "content": "\xff"}]}')
    messages, form = PROTOCOL.read(asked.pieces[0])
    assert messages == [Message("user", "\ufffd")]
    assert form is None
    assert asked.pieces[0].key


def test_lone_surrogates_come_back() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "\ud83d"}], "n": float("inf")}
    asked = apart(body)
    assert equal_json(together(asked), {**body, "n": None})


@pytest.mark.parametrize("shape", [5, {"aside": 5}, {"aside": [[0]]}, {"aside": [["a", 1]]}])
def test_a_shape_that_does_not_fit_is_refused(shape: Any) -> None:
    values = [{"system": [5]}]
    if shape != 5:
        with pytest.raises(FormatError):
            PROTOCOL.build_body(ParsedRequest(model="m", shape=shape), values)
    with pytest.raises(FormatError):
        PROTOCOL.build_body(ParsedRequest(model="m", marks=[(["messages", 7], 1)]), values)


def test_an_answer_is_known_again_that_came_back_changed() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {"b": 1, "a": 2}}
    text = {"type": "text", "text": "I look.\n"}
    said = PROTOCOL.piece({"role": "assistant", "content": [text, call]})
    again = PROTOCOL.piece(
        {
            "role": "assistant",
            "content": [{**text, "text": "I look."}, {**call, "input": {"a": 2, "b": 1}}],
        }
    )
    assert said.key != again.key
    assert PROTOCOL.likeness(said) == PROTOCOL.likeness(again)
    messages, _ = PROTOCOL.read(said)
    form = PROTOCOL.form(messages, again)
    assert equal_json(PROTOCOL.write(messages, form), again.raw)
    other = PROTOCOL.piece({"role": "assistant", "content": [text, {**call, "id": "t2"}]})
    assert PROTOCOL.likeness(said) != PROTOCOL.likeness(other)


def event(kind: str, **members: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    begun = event("content_block_start", index=index, content_block=start)
    more = [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return begun + b"".join(more) + event("content_block_stop", index=index)


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


def heard(data: bytes, *, status: int = 200, step: int = 0) -> ParsedResponse:
    listener = PROTOCOL.listener(status)
    for start in range(0, len(data), step or len(data) or 1):
        listener.feed(data[start : start + (step or len(data))])
    return listener.end()


@pytest.mark.parametrize("step", [0, 1, 2, 7, 100])
def test_a_stream_is_the_message_that_its_client_sends_back(step: int) -> None:
    answered = heard(STREAM, step=step)
    assert [piece.raw for piece in answered.pieces] == [SAID]
    assert answered.finish is not None
    assert (answered.finish.stop_reason, answered.finish.model) == ("tool_use", "m-1")
    assert answered.finish.usage == Usage(
        input_tokens=1011, output_tokens=7, cache_read_tokens=1000
    )
    assert (answered.id, answered.error) == ("msg_1", "")


def test_an_answer_at_once_is_the_same() -> None:
    whole = {"id": "msg_1", "model": "m-1", "stop_reason": "tool_use", "usage": USAGE}
    answered = heard(json.dumps({**whole, "content": SAID["content"]}).encode())
    assert [piece.raw for piece in answered.pieces] == [SAID]
    assert answered.finish is not None
    assert answered.finish.stop_reason == "tool_use"


def test_a_stream_that_is_cut_anywhere_says_what_came() -> None:
    for stop in range(len(STREAM)):
        answered = heard(STREAM[:stop])
        assert answered.error == ""
        assert bool(answered.pieces) == (answered.finish is not None)
        thought, said = answered.partial
        assert "Hm \u00e9.".startswith(thought)
        assert "I look.".startswith(said)
    stop = STREAM.index(b'"content_block_stop", "index": 1')
    assert heard(STREAM[:stop]).partial == ("Hm \u00e9.", "I look.")


BUSY = '{"type":"error","error":{"type":"overloaded_error","message":"Now\\nbusy"}}'


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (529, BUSY, "HTTP 529: overloaded_error: Now busy"),
        (200, f"event: error\ndata: {BUSY}\n\n", "overloaded_error: Now busy"),
        (502, "<html>\nBad gateway", "HTTP 502: <html> Bad gateway"),
        (500, "", "HTTP 500"),
        (400, "{}", "HTTP 400: {}"),
        (200, "{", "an answer that is no JSON: {"),
        (200, "{}", "an answer without sense: 'content'"),
        (200, "data: {\n\n", "an answer without sense: an event that is no JSON"),
    ],
)
def test_an_error_is_one_line(status: int, body: str, error: str) -> None:
    answered = heard(body.encode(), status=status)
    assert answered.error == error
    assert not answered.pieces
