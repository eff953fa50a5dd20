"""Requests and answers of OpenAI's Chat Completions, and of the servers that speak it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.events import Usage
from harken.core.messages import Message, ThinkingPart
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.wire.json_patch import equal_json
from harken.formats.wire.openai_chat import PROTOCOL
from tests.unit.formats.wire.hearing import STEPS, heard, is_honest, streamed

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


def chunk(delta: Any, **more: Any) -> Any:
    return {"id": "chat_1", "model": "m-1", "choices": [{"index": 0, "delta": delta, **more}]}


def piece_of_call(**function: str) -> Any:
    return {"tool_calls": [{"index": 0, "function": function}]}


STREAM = streamed(
    chunk({"role": "assistant", "content": None}),
    chunk({"reasoning_content": "Hm."}),
    chunk({"content": "I "}),
    chunk({"content": "look."}),
    chunk({"tool_calls": [{**CALL, "index": 0, "function": {"name": "look", "arguments": ""}}]}),
    chunk(piece_of_call(arguments='{"at"')),
    chunk(piece_of_call(arguments=": 1}")),
    chunk({}, finish_reason="tool_calls"),
    {"id": "chat_1", "model": "m-1", "choices": [], "usage": USAGE},
    "[DONE]",
)


@pytest.mark.parametrize("step", STEPS)
def test_a_stream_is_the_message_that_its_client_sends_back(step: int) -> None:
    answered = heard(PROTOCOL, STREAM, step=step)
    assert [piece.raw for piece in answered.pieces] == [SAID]
    usage = Usage(input_tokens=11, output_tokens=7, cache_read_tokens=5)
    assert answered.finish == Finish(stop_reason="tool_calls", usage=usage, model="m-1")
    assert answered.id == "chat_1"


def test_an_answer_at_once_is_its_message_as_it_is() -> None:
    said = {**SAID, "refusal": None, "annotations": []}
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls"}
    body = {"id": "chat_1", "model": "m-1", "choices": [choice], "usage": {**USAGE, "cost": 0.5}}
    answered = heard(PROTOCOL, json.dumps(body).encode())
    assert [piece.raw for piece in answered.pieces] == [said]
    assert answered.pieces[0].key == PROTOCOL.piece(SAID).key
    assert answered.finish is not None
    assert (answered.finish.stop_reason, answered.finish.cost_usd) == ("tool_calls", 0.5)


def test_a_stream_that_is_cut_says_what_came() -> None:
    assert is_honest(PROTOCOL, STREAM)
    stop = STREAM.index(b'"content": "look."')
    assert heard(PROTOCOL, STREAM[:stop]).partial == ("Hm.", "I ")


def test_what_a_server_wants_back_is_in_the_message() -> None:
    signed = {"google": {"thought_signature": "x"}}
    stream = streamed(
        chunk({"reasoning": "H", "reasoning_details": [{"type": "reasoning.text", "text": "H"}]}),
        chunk({"reasoning": "m", "reasoning_details": [{"type": "reasoning.text", "text": "m"}]}),
        chunk({"tool_calls": [{**CALL, "index": 0, "extra_content": signed}]}),
        chunk({}, finish_reason="tool_calls"),
    )
    (piece,) = heard(PROTOCOL, stream).pieces
    assert piece.raw == {
        "role": "assistant",
        "content": None,
        "reasoning": "Hm",
        "tool_calls": [{**CALL, "extra_content": signed}],
        "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}],
    }
    (message,), form = PROTOCOL.read(piece)
    assert message.content == [ThinkingPart("Hm")]
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
def test_an_error_is_one_line(status: int, body: str, error: str) -> None:
    answered = heard(PROTOCOL, body.encode(), status=status)
    assert answered.error.startswith(error)
    assert "\n" not in answered.error
    assert not answered.pieces


def test_an_empty_answer_is_nothing_that_is_sent_back() -> None:
    answered = heard(PROTOCOL, streamed(chunk({}, finish_reason="stop"), "[DONE]"))
    assert (answered.pieces, answered.error) == ([], "")
    assert answered.finish is not None


def test_the_same_message_is_known_in_another_dress() -> None:
    user = {"role": "user", "content": "Hi"}
    mark = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    body = {"model": "m", "messages": [{"role": "user", "content": [mark]}, {**user, "name": None}]}
    asked = PROTOCOL.parse_request("", json.dumps(body).encode())
    assert {piece.key for piece in asked.pieces} == {PROTOCOL.piece(user).key}
    assert [path for path, _ in asked.marks] == [["messages", 0, "content", 0, "cache_control"]]


def test_a_result_that_failed_says_so() -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "[error]: no door"}
    messages, form = PROTOCOL.read(PROTOCOL.piece(result))
    assert messages == [Message("tool", "no door", tool_call_id="c1", is_error=True)]
    assert form is None


def test_the_path_names_the_model_where_the_body_does_not() -> None:
    path = "/openai/deployments/gpt-9/chat/completions"
    for body, model in (({"messages": []}, "gpt-9"), ({"messages": [], "model": "m"}, "m")):
        asked = PROTOCOL.parse_request(path, json.dumps(body).encode())
        assert asked.model == model
        assert PROTOCOL.build_body(asked, []) == body
    assert PROTOCOL.is_model_path(path)
    assert PROTOCOL.is_model_path("/v1beta/openai/chat/completions")
    assert not PROTOCOL.is_model_path("/v1/completions")


def test_what_is_no_request_is_refused() -> None:
    with pytest.raises(FormatError):
        PROTOCOL.parse_request("", b'{"messages": {}}')
