"""Splitting requests and responses of Gemini."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.events import Usage
from harken.core.messages import Message, TextPart, message_hash
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.json_records import equal_json
from harken.formats.wire.gemini import PROTOCOL
from tests.unit.formats.wire.stream_kit import (
    STEPS,
    decode_stream,
    encode_stream,
    reports_every_cut,
)

PATH = "/v1beta/models/gemini-9-pro:streamGenerateContent"
CALL = {"functionCall": {"name": "look", "args": {"at": 1}}, "thoughtSignature": "x"}
SAID = {
    "role": "model",
    "parts": [{"text": "Hm. So.", "thought": True}, {"text": "I look."}, CALL],
}
USAGE = {
    "promptTokenCount": 11,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 3,
    "cachedContentTokenCount": 5,
}


def build_content(*parts: Any, **options: Any) -> Any:
    candidate = {"content": {"role": "model", "parts": [*parts]}, **options}
    return {"candidates": [candidate], "responseId": "r1", "modelVersion": "m-1"}


EVENTS = (
    build_content({"text": "Hm. ", "thought": True}),
    build_content({"text": "So.", "thought": True}, {"text": "I "}),
    build_content({"text": "look."}),
    build_content(CALL),
    {**build_content({"text": ""}, finishReason="STOP"), "usageMetadata": USAGE},
)


@pytest.mark.parametrize("step", STEPS)
def test_stream_becomes_the_content_that_its_client_sends_back(step: int) -> None:
    response = decode_stream(PROTOCOL, encode_stream(*EVENTS), step=step)
    assert [piece.raw for piece in response.pieces] == [SAID]
    usage = Usage(input_tokens=11, output_tokens=10, cache_read_tokens=5)
    assert response.finish == Finish(stop_reason="STOP", usage=usage, model="m-1")
    assert response.id == "r1"


def test_complete_response_and_list_of_events_are_decoded_the_same() -> None:
    full = {**EVENTS[-1], **build_content(*SAID["parts"], finishReason="STOP")}
    for body in (full, EVENTS):
        response = decode_stream(PROTOCOL, json.dumps(body).encode(), step=7)
        assert [piece.raw for piece in response.pieces] == [SAID]


def test_truncated_stream_returns_the_received_part() -> None:
    stream = encode_stream(*EVENTS)
    assert reports_every_cut(PROTOCOL, stream)
    assert decode_stream(PROTOCOL, stream[: stream.index(b"look.")]).partial == ("Hm. So.", "I")


def test_blocked_answer_ends_with_the_reason() -> None:
    body = {"promptFeedback": {"blockReason": "SAFETY"}}
    response = decode_stream(PROTOCOL, json.dumps(body).encode())
    assert response.finish == Finish(stop_reason="SAFETY")
    assert not response.pieces


def test_error_is_one_line() -> None:
    error = {"error": {"code": 400, "message": "No\ndoor", "status": "INVALID_ARGUMENT"}}
    for body in (error, [error]):
        response = decode_stream(PROTOCOL, json.dumps(body).encode(), status=400)
        assert response.error == "HTTP 400: INVALID_ARGUMENT: No door"
    assert decode_stream(PROTOCOL, encode_stream(error)).error == "INVALID_ARGUMENT: No door"


TOOL = {"name": "look", "description": "Look.", "parametersJsonSchema": {"type": "object"}}
TEXT = {"role": "user", "parts": [{"text": "Hi"}]}


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"system_instruction": {"parts": [{"text": "You are Jack."}]}},
        {"systemInstruction": {"parts": [{"text": "a"}, {"text": "b"}], "role": "user"}},
        {"systemInstruction": "You are Jack."},
        {"systemInstruction": {"parts": []}},
        {"tools": [{"functionDeclarations": [TOOL, {**TOOL, "parameters": {}}]}]},
        {"tools": [{"function_declarations": [TOOL]}, {"googleSearch": {}}]},
        {"tools": [{"functionDeclarations": [TOOL], "googleSearch": {}}] * 2},
        {"tools": []},
        {"tools": [{"functionDeclarations": 5}]},
        {"tools": [5, {"functionDeclarations": []}]},
        {"tools": {}, "model": "m"},
        {"contents": [{"systemInstruction": {"parts": [{"text": "a"}]}}, TEXT]},
        {"contents": []},
    ],
)
def test_request_round_trips(members: Any) -> None:
    body = {"contents": [TEXT, SAID], "generationConfig": {"temperature": 1}, **members}
    parsed = PROTOCOL.parse_request(PATH, json.dumps(body).encode())
    values = [PROTOCOL.write(*PROTOCOL.read(piece)) for piece in parsed.pieces]
    assert equal_json(PROTOCOL.build_body(parsed, values), body)
    assert parsed.model == "gemini-9-pro"


def test_tools_and_instructions_are_decoded_as_in_other_protocols() -> None:
    instructions = {"parts": [{"text": "You are Jack."}]}
    tools = [{"functionDeclarations": [TOOL]}]
    body = {"systemInstruction": instructions, "contents": [], "tools": tools}
    parsed = PROTOCOL.parse_request(PATH, json.dumps(body).encode())
    schema = {"type": "object"}
    tool = {"name": "look", "description": "Look.", "parameters": schema, "wire": {"as": "json"}}
    assert (parsed.tools, parsed.shape) == ((tool,), None)
    assert PROTOCOL.read(parsed.pieces[0]) == (
        [Message("system", "You are Jack.")],
        {"as": "systemInstruction"},
    )


@pytest.mark.parametrize(
    ("response", "content", "is_error"),
    [
        ({"output": "a door"}, "a door", False),
        ({"error": "no door"}, "no door", True),
        (
            {"doors": [1, 2]},
            [TextPart('{"doors":[1,2]}', extra='{"functionResponse":{"response":"json"}}')],
            False,
        ),
        (
            {"output": "a door", "more": 1},
            [TextPart("a door", extra='{"functionResponse":{"response":{"more":1}}}')],
            False,
        ),
    ],
)
def test_results_are_tool_messages(response: Any, content: Any, is_error: bool) -> None:
    part = {"functionResponse": {"id": "c1", "name": "look", "response": response}}
    messages, form = PROTOCOL.read(PROTOCOL.piece({"role": "user", "parts": [part]}))
    expected = Message("tool", content, tool_call_id="c1", name="look", is_error=is_error)
    assert (messages, form) == ([expected], None)


def test_object_and_its_json_text_are_different_results() -> None:
    responses = [{"a": 1}, {"output": '{"a":1}'}, '{"a":1}']
    results = [{"functionResponse": {"name": "look", "response": value}} for value in responses]
    pieces = [PROTOCOL.piece({"role": "user", "parts": [part]}) for part in results]
    hashes = {message_hash(PROTOCOL.read(piece)[0][0]) for piece in pieces}
    assert len(hashes) == len(responses)


def test_content_is_recognized_with_another_signature() -> None:
    repeated = {
        "role": "model",
        "parts": [*SAID["parts"][:2], {**CALL, "thoughtSignature": "skip"}],
    }
    assert PROTOCOL.piece(SAID).key == PROTOCOL.piece(repeated).key
    without = {"role": "model", "parts": SAID["parts"][1:]}
    assert PROTOCOL.piece(SAID).key != PROTOCOL.piece(without).key
    assert PROTOCOL.likeness(PROTOCOL.piece(SAID)) == PROTOCOL.likeness(PROTOCOL.piece(without))


def test_generated_ids_are_only_in_the_form() -> None:
    piece = PROTOCOL.piece({"role": "model", "parts": [CALL]})
    (message,), _ = PROTOCOL.read(piece)
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    named_message = Message(
        "assistant", None, [type(call)("c1", call.function, "function", call.meta)]
    )
    form = PROTOCOL.form([named_message], piece)
    assert equal_json(PROTOCOL.write([named_message], form), piece.raw)


@pytest.mark.parametrize(
    ("path", "asks"),
    [
        (PATH, True),
        ("/v1/projects/p/locations/l/publishers/google/models/m:generateContent", True),
        ("/v1beta/models/m:countTokens", False),
        ("/v1beta/models/m:generateContent/x", False),
        ("/v1beta/models", False),
    ],
)
def test_only_a_generate_request_is_a_request(path: str, asks: bool) -> None:
    assert PROTOCOL.is_model_path(path) == asks


def test_invalid_request_is_rejected() -> None:
    with pytest.raises(FormatError):
        PROTOCOL.parse_request(PATH, b'{"contents": "Hi"}')
