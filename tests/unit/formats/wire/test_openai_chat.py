"""Splitting requests and responses of OpenAI Chat Completions and compatible servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.events import Usage
from harken.core.messages import Message, ThinkingPart
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.json_records import equal_json
from harken.formats.wire.openai_chat import PROTOCOL
from tests.unit.formats.wire.stream_kit import (
    STEPS,
    decode_stream,
    encode_stream,
    reports_every_cut,
)

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 5},
}
SAID = {
    "role": "assistant",
    "content": "I look.",
    "reasoning_content": "Hm.",
    "tool_calls": [CALL],
}


def chunk(delta: Any, **options: Any) -> Any:
    return {"id": "chat_1", "model": "m-1", "choices": [{"index": 0, "delta": delta, **options}]}


def call_chunk(**function: str) -> Any:
    return {"tool_calls": [{"index": 0, "function": function}]}


STREAM = encode_stream(
    chunk({"role": "assistant", "content": None}),
    chunk({"reasoning_content": "Hm."}),
    chunk({"content": "I "}),
    chunk({"content": "look."}),
    chunk({"tool_calls": [{**CALL, "index": 0, "function": {"name": "look", "arguments": ""}}]}),
    chunk(call_chunk(arguments='{"at"')),
    chunk(call_chunk(arguments=": 1}")),
    chunk({}, finish_reason="tool_calls"),
    {"id": "chat_1", "model": "m-1", "choices": [], "usage": USAGE},
    "[DONE]",
)


@pytest.mark.parametrize("step", STEPS)
def test_stream_becomes_the_message_that_its_client_sends_back(step: int) -> None:
    response = decode_stream(PROTOCOL, STREAM, step=step)
    assert [piece.raw for piece in response.pieces] == [SAID]
    usage = Usage(input_tokens=11, output_tokens=7, cache_read_tokens=5)
    assert response.finish == Finish(stop_reason="tool_calls", usage=usage, model="m-1")
    assert response.id == "chat_1"


def test_complete_response_is_its_message_unchanged() -> None:
    answer = {**SAID, "refusal": None, "annotations": []}
    choice = {"index": 0, "message": answer, "finish_reason": "tool_calls"}
    body = {"id": "chat_1", "model": "m-1", "choices": [choice], "usage": {**USAGE, "cost": 0.5}}
    response = decode_stream(PROTOCOL, json.dumps(body).encode())
    assert [piece.raw for piece in response.pieces] == [answer]
    assert response.pieces[0].key == PROTOCOL.piece(SAID).key
    assert response.finish is not None
    assert (response.finish.stop_reason, response.finish.cost_usd) == ("tool_calls", 0.5)


def test_truncated_stream_returns_the_received_part() -> None:
    assert reports_every_cut(PROTOCOL, STREAM)
    stop = STREAM.index(b'"content": "look."')
    assert decode_stream(PROTOCOL, STREAM[:stop]).partial == ("Hm.", "I ")


def test_members_that_a_server_requires_back_are_in_the_message() -> None:
    signed = {"google": {"thought_signature": "x"}}
    stream = encode_stream(
        chunk({"reasoning": "H", "reasoning_details": [{"type": "reasoning.text", "text": "H"}]}),
        chunk({"reasoning": "m", "reasoning_details": [{"type": "reasoning.text", "text": "m"}]}),
        chunk({"tool_calls": [{**CALL, "index": 0, "extra_content": signed}]}),
        chunk({}, finish_reason="tool_calls"),
    )
    (piece,) = decode_stream(PROTOCOL, stream).pieces
    assert piece.raw == {
        "role": "assistant",
        "content": None,
        "reasoning": "Hm",
        "tool_calls": [{**CALL, "extra_content": signed}],
        "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}],
    }
    (message,), form = PROTOCOL.read(piece)
    details = '{"message":{"reasoning_details":[{"text":"Hm","type":"reasoning.text"}]}}'
    assert message.content == [ThinkingPart("Hm", extra=details)]
    assert equal_json(PROTOCOL.write([message], form), piece.raw)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (429, '{"error":{"code":"rate_limit","message":"Slow"}}', "HTTP 429: rate_limit: Slow"),
        (400, '{"error":"Sorry"}', "HTTP 400: Sorry"),
        (200, '{"error":{"code":502,"message":"Sorry"}}', "Sorry"),
        (200, 'data: {"error":{"message":"Sorry","code":502}}\n\n', "Sorry"),
        (200, '{"choices":[]}', "an answer without sense: list index out of range"),
        (200, 'data: {"choices":[5]}\n\n', "an answer without sense: "),
    ],
)
def test_error_is_one_line(status: int, body: str, error: str) -> None:
    response = decode_stream(PROTOCOL, body.encode(), status=status)
    assert response.error.startswith(error)
    assert "\n" not in response.error
    assert not response.pieces


def test_empty_answer_sends_nothing_back() -> None:
    response = decode_stream(PROTOCOL, encode_stream(chunk({}, finish_reason="stop"), "[DONE]"))
    assert (response.pieces, response.error) == ([], "")
    assert response.finish is not None


def test_same_message_is_recognized_in_another_notation() -> None:
    user = {"role": "user", "content": "Hi"}
    mark = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    body = {"model": "m", "messages": [{"role": "user", "content": [mark]}, {**user, "name": None}]}
    parsed = PROTOCOL.parse_request("", json.dumps(body).encode())
    assert {piece.key for piece in parsed.pieces} == {PROTOCOL.piece(user).key}
    assert [path for path, _ in parsed.marks] == [["messages", 0, "content", 0, "cache_control"]]


def test_failed_result_is_marked() -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "[error]: no door"}
    messages, form = PROTOCOL.read(PROTOCOL.piece(result))
    assert messages == [Message("tool", "no door", tool_call_id="c1", is_error=True)]
    assert form is None


def test_path_names_the_model_if_the_body_does_not() -> None:
    path = "/openai/deployments/gpt-9/chat/completions"
    for body, model in (({"messages": []}, "gpt-9"), ({"messages": [], "model": "m"}, "m")):
        parsed = PROTOCOL.parse_request(path, json.dumps(body).encode())
        assert parsed.model == model
        assert PROTOCOL.build_body(parsed, []) == body
    assert PROTOCOL.is_model_path(path)
    assert PROTOCOL.is_model_path("/v1beta/openai/chat/completions")
    assert not PROTOCOL.is_model_path("/v1/completions")


def test_invalid_request_is_rejected() -> None:
    with pytest.raises(FormatError):
        PROTOCOL.parse_request("", b'{"messages": {}}')
