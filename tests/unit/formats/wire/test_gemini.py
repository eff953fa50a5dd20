"""Requests and answers of Gemini."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.events import Usage
from harken.core.messages import Message
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.wire.gemini import PROTOCOL
from harken.formats.wire.json_patch import equal_json
from tests.unit.formats.wire.hearing import STEPS, heard, is_honest, streamed

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


def said(*parts: Any, **more: Any) -> Any:
    candidate = {"content": {"role": "model", "parts": [*parts]}, **more}
    return {"candidates": [candidate], "responseId": "r1", "modelVersion": "m-1"}


EVENTS = (
    said({"text": "Hm. ", "thought": True}),
    said({"text": "So.", "thought": True}, {"text": "I "}),
    said({"text": "look."}),
    said(CALL),
    {**said({"text": ""}, finishReason="STOP"), "usageMetadata": USAGE},
)


@pytest.mark.parametrize("step", STEPS)
def test_a_stream_is_the_content_that_its_client_sends_back(step: int) -> None:
    answered = heard(PROTOCOL, streamed(*EVENTS), step=step)
    assert [piece.raw for piece in answered.pieces] == [SAID]
    usage = Usage(input_tokens=11, output_tokens=10, cache_read_tokens=5)
    assert answered.finish == Finish(stop_reason="STOP", usage=usage, model="m-1")
    assert answered.id == "r1"


def test_an_answer_at_once_and_a_list_of_events_are_the_same() -> None:
    whole = {**EVENTS[-1], **said(*SAID["parts"], finishReason="STOP")}
    for body in (whole, EVENTS):
        answered = heard(PROTOCOL, json.dumps(body).encode(), step=7)
        assert [piece.raw for piece in answered.pieces] == [SAID]


def test_a_stream_that_is_cut_says_what_came() -> None:
    stream = streamed(*EVENTS)
    assert is_honest(PROTOCOL, stream)
    assert heard(PROTOCOL, stream[: stream.index(b"look.")]).partial == ("Hm. So.", "I")


def test_an_answer_that_is_refused_ends_with_the_reason() -> None:
    body = {"promptFeedback": {"blockReason": "SAFETY"}}
    answered = heard(PROTOCOL, json.dumps(body).encode())
    assert answered.finish == Finish(stop_reason="SAFETY")
    assert not answered.pieces


def test_an_error_is_one_line() -> None:
    error = {"error": {"code": 400, "message": "No\ndoor", "status": "INVALID_ARGUMENT"}}
    for body in (error, [error]):
        answered = heard(PROTOCOL, json.dumps(body).encode(), status=400)
        assert answered.error == "HTTP 400: INVALID_ARGUMENT: No door"
    assert heard(PROTOCOL, streamed(error)).error == "INVALID_ARGUMENT: No door"


TOOL = {"name": "look", "description": "Look.", "parametersJsonSchema": {"type": "object"}}
TEXT = {"role": "user", "parts": [{"text": "Hi"}]}


@pytest.mark.parametrize(
    "more",
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
def test_a_request_comes_back(more: Any) -> None:
    body = {"contents": [TEXT, SAID], "generationConfig": {"temperature": 1}, **more}
    asked = PROTOCOL.parse_request(PATH, json.dumps(body).encode())
    values = [PROTOCOL.write(*PROTOCOL.read(piece)) for piece in asked.pieces]
    assert equal_json(PROTOCOL.build_body(asked, values), body)
    assert asked.model == "gemini-9-pro"


def test_tools_and_instructions_are_as_in_any_protocol() -> None:
    told = {"parts": [{"text": "You are Jack."}]}
    tools = [{"functionDeclarations": [TOOL]}]
    body = {"systemInstruction": told, "contents": [], "tools": tools}
    asked = PROTOCOL.parse_request(PATH, json.dumps(body).encode())
    schema = {"type": "object"}
    tool = {"name": "look", "description": "Look.", "parameters": schema, "wire": {"as": "json"}}
    assert (asked.tools, asked.shape) == ((tool,), None)
    assert PROTOCOL.read(asked.pieces[0]) == (
        [Message("system", "You are Jack.")],
        {"as": "systemInstruction"},
    )


@pytest.mark.parametrize(
    ("response", "content", "is_error", "form"),
    [
        ({"output": "a door"}, "a door", False, None),
        ({"error": "no door"}, "no door", True, None),
        ({"doors": [1, 2]}, '{"doors":[1,2]}', False, {"as": "json"}),
    ],
)
def test_results_are_messages_of_tools(
    response: Any, content: str, is_error: bool, form: Any
) -> None:
    part = {"functionResponse": {"id": "c1", "name": "look", "response": response}}
    messages, found = PROTOCOL.read(PROTOCOL.piece({"role": "user", "parts": [part]}))
    expected = Message("tool", content, tool_call_id="c1", name="look", is_error=is_error)
    assert (messages, found) == ([expected], form)


def test_a_content_is_known_again_with_another_signature() -> None:
    again = {"role": "model", "parts": [*SAID["parts"][:2], {**CALL, "thoughtSignature": "skip"}]}
    assert PROTOCOL.piece(SAID).key == PROTOCOL.piece(again).key
    without = {"role": "model", "parts": SAID["parts"][1:]}
    assert PROTOCOL.piece(SAID).key != PROTOCOL.piece(without).key
    assert PROTOCOL.likeness(PROTOCOL.piece(SAID)) == PROTOCOL.likeness(PROTOCOL.piece(without))


def test_ids_that_a_recorder_fills_in_stand_in_the_form_alone() -> None:
    piece = PROTOCOL.piece({"role": "model", "parts": [CALL]})
    (message,), _ = PROTOCOL.read(piece)
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    named = Message("assistant", None, [type(call)("c1", call.function, "function", call.meta)])
    form = PROTOCOL.form([named], piece)
    assert equal_json(PROTOCOL.write([named], form), piece.raw)


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
def test_only_a_request_for_an_answer_is_one(path: str, asks: bool) -> None:
    assert PROTOCOL.is_model_path(path) == asks


def test_what_is_no_request_is_refused() -> None:
    with pytest.raises(FormatError):
        PROTOCOL.parse_request(PATH, b'{"contents": "Hi"}')
