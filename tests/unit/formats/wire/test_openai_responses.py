"""Splitting requests and responses of OpenAI Responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.events import Usage
from harken.core.messages import Message
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.json_records import equal_json
from harken.formats.wire.openai_responses import PROTOCOL
from tests.unit.formats.wire.stream_kit import (
    STEPS,
    decode_stream,
    encode_stream,
    reports_every_cut,
)

THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "x",
}
TEXT = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "look",
    "arguments": '{"at": 1}',
}
USAGE = {"input_tokens": 11, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 5}}
HEAD = {"id": "resp_1", "model": "m-1", "status": "in_progress", "error": None}
DONE: dict[str, Any] = {**HEAD, "status": "completed", "usage": USAGE, "output": []}
STREAM = encode_stream(
    {"type": "response.created", "response": HEAD},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm"},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "."},
    {"type": "response.output_item.done", "output_index": 0, "item": THOUGHT},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "I "},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "look."},
    {"type": "response.output_item.done", "output_index": 1, "item": TEXT},
    {"type": "response.output_item.done", "output_index": 2, "item": CALL},
    {"type": "response.completed", "response": DONE},
)


@pytest.mark.parametrize("step", STEPS)
def test_stream_becomes_the_items_that_its_client_sends_back(step: int) -> None:
    response = decode_stream(PROTOCOL, STREAM, step=step)
    assert [piece.raw for piece in response.pieces] == [THOUGHT, TEXT, CALL]
    usage = Usage(input_tokens=11, output_tokens=7, cache_read_tokens=5)
    assert response.finish == Finish(stop_reason="completed", usage=usage, model="m-1")
    assert response.id == "resp_1"


def test_complete_response_is_decoded_the_same() -> None:
    full = {**DONE, "output": [THOUGHT, TEXT, CALL]}
    response = decode_stream(PROTOCOL, json.dumps(full).encode())
    assert [piece.raw for piece in response.pieces] == [THOUGHT, TEXT, CALL]


def test_truncated_stream_returns_the_received_part() -> None:
    assert reports_every_cut(PROTOCOL, STREAM)
    stop = STREAM.index(b'"delta": "look."')
    assert decode_stream(PROTOCOL, STREAM[:stop]).partial == ("Hm.", "I ")
    stop = STREAM.index(b'"call_id"')
    assert decode_stream(PROTOCOL, STREAM[:stop]).partial == ("Hm.", "I look.")


def test_response_has_the_reason_of_its_early_end() -> None:
    details = {"reason": "max_output_tokens"}
    body = {**DONE, "status": "incomplete", "incomplete_details": details, "output": [TEXT]}
    finish = decode_stream(PROTOCOL, json.dumps(body).encode()).finish
    assert finish is not None
    assert finish.stop_reason == "max_output_tokens"


@pytest.mark.parametrize(
    "event",
    [
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "server_error", "message": "Sorry"}},
        },
        {"type": "error", "code": "server_error", "message": "Sorry"},
    ],
)
def test_error_in_a_stream_is_one_line(event: Any) -> None:
    response = decode_stream(PROTOCOL, encode_stream(event))
    assert (response.error, response.finish) == ("server_error: Sorry", None)


def test_item_is_recognized_with_another_id_and_without_empty_members() -> None:
    expected = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "I look."}],
    }
    assert PROTOCOL.piece(TEXT).key == PROTOCOL.piece(expected).key
    assert PROTOCOL.piece(THOUGHT).key == PROTOCOL.piece({**THOUGHT, "content": None}).key
    assert PROTOCOL.piece(CALL).key == PROTOCOL.piece({**CALL, "id": "fc_2"}).key
    assert PROTOCOL.piece(CALL).key != PROTOCOL.piece({**CALL, "call_id": "c2"}).key
    user = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}], "type": "message"}
    assert PROTOCOL.piece(user).key == PROTOCOL.piece({"role": "user", "content": "Hi"}).key
    references = [PROTOCOL.piece({"type": "item_reference", "id": name}) for name in "ab"]
    assert references[0].key != references[1].key
    messages, _ = PROTOCOL.read(PROTOCOL.piece(TEXT))
    piece = PROTOCOL.piece(expected)
    assert equal_json(PROTOCOL.write(messages, PROTOCOL.form(messages, piece)), expected)


def test_arguments_are_compared_independently_of_notation() -> None:
    repeated = PROTOCOL.piece({**CALL, "arguments": '{"at":1}'})
    assert PROTOCOL.piece(CALL).key != repeated.key
    assert PROTOCOL.likeness(PROTOCOL.piece(CALL)) == PROTOCOL.likeness(repeated)


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "input": "Hi"},
        {"model": "m", "instructions": "You are Jack.", "input": "Hi", "store": False},
        {"model": "m", "instructions": None, "input": []},
        {"model": "m", "instructions": "", "input": [{"instructions": "a"}]},
        {"model": "m", "input": [{"instructions": "a"}, {"role": "user", "content": "Hi"}]},
        {"model": 5, "instructions": [], "input": [5], "tools": [5]},
    ],
)
def test_request_round_trips(body: Any) -> None:
    parsed = PROTOCOL.parse_request("", json.dumps(body).encode())
    values = [PROTOCOL.write(*PROTOCOL.read(piece)) for piece in parsed.pieces]
    assert equal_json(PROTOCOL.build_body(parsed, values), body)


def test_instructions_and_prompt_are_messages() -> None:
    body = {"model": "m", "instructions": "You are Jack.", "input": "Hi"}
    parsed = PROTOCOL.parse_request("", json.dumps(body).encode())
    decoded = [PROTOCOL.read(piece)[0] for piece in parsed.pieces]
    assert decoded == [[Message("system", "You are Jack.")], [Message("user", "Hi")]]


@pytest.mark.parametrize("body", [b"{}", b'{"input": 5}', b"5"])
def test_invalid_request_is_rejected(body: bytes) -> None:
    with pytest.raises(FormatError):
        PROTOCOL.parse_request("/v1/responses", body)


def test_only_a_response_request_is_a_request() -> None:
    assert PROTOCOL.is_model_path("/backend-api/codex/responses")
    assert not PROTOCOL.is_model_path("/v1/responses/compact")
    assert not PROTOCOL.is_model_path("/v1/responses/resp_1")
    assert not PROTOCOL.is_model_path("/v1/responses/input_tokens")
