"""Whatever a request holds comes back, type by type, and what moves is in no key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harken.formats.json_records import equal_json
from harken.formats.wire.base import Protocol
from harken.formats.wire.json_patch import apply_form, build_form
from harken.formats.wire.registry import WIRE_PROTOCOLS
from tests.property.test_messages import JSON, STRING
from tests.unit.formats.wire import (
    test_anthropic,
    test_gemini,
    test_openai_chat,
    test_openai_responses,
)
from tests.unit.formats.wire.examples import EXAMPLES
from tests.unit.formats.wire.stream_kit import decode_stream, encode_stream

FEWER = settings(max_examples=settings().max_examples // 4)

NAMES = pytest.mark.parametrize("name", [*EXAMPLES])


ODD: list[Any] = [None, 0, 1, 1.0, -0.0, True, "", [], {}, "\ud83d", [[]]]
LISTS = {"openai-responses": "input", "gemini": "contents"}


def near(value: Any) -> st.SearchStrategy[Any]:
    """Values that are like this one, but for what somebody else might make of it."""
    values = st.sampled_from(ODD) | JSON
    if isinstance(value, dict):
        members = {name: near(inner) for name, inner in value.items()}
        required = st.fixed_dictionaries(members)
        optional_members = st.fixed_dictionaries({}, optional=members)
        extended = st.builds(
            lambda left, right: {**right, **left},
            required,
            st.dictionaries(STRING, values, max_size=1),
        )
        return st.one_of(st.just(value), required, extended, optional_members, values)
    if isinstance(value, list) and value:
        return st.just(value) | st.lists(st.one_of(*map(near, value)), max_size=3) | values
    return st.just(value) | st.just(value) | st.just(value) | values


BODIES = {name: near(body) for name, (_, body) in EXAMPLES.items()}
PIECES = {
    name: st.one_of(*map(near, body[LISTS.get(name, "messages")]))
    for name, (_, body) in EXAMPLES.items()
}


def rebuild_body(protocol: Protocol, data: bytes, path: str) -> Any:
    request = protocol.parse_request(path, data)
    values = [protocol.write(*protocol.read(piece)) for piece in request.pieces]
    for piece, value in zip(request.pieces, values, strict=True):
        assert equal_json(value, piece.raw)
        assert piece.key == protocol.piece(value).key
        assert protocol.likeness(piece)
    return protocol.build_body(request, values)


@NAMES
def test_ordinary_request_round_trips_in_small_forms(name: str) -> None:
    path, body = EXAMPLES[name]
    protocol, data = WIRE_PROTOCOLS[name], json.dumps(body).encode()
    assert equal_json(rebuild_body(protocol, data, path), body)
    forms = [protocol.read(piece)[1] for piece in protocol.parse_request(path, data).pieces]
    assert sum("whole" in form for form in forms if form is not None) <= 2
    assert protocol.is_model_path(path)


@NAMES
@FEWER
@given(st.data())
def test_request_round_trips(name: str, data: st.DataObject) -> None:
    path, _ = EXAMPLES[name]
    body = data.draw(BODIES[name])
    member = LISTS.get(name, "messages")
    if not isinstance(body, dict) or not isinstance(body.get(member), list):
        body = {member: [body]}
    if name == "openai-responses" and isinstance(data.draw(st.sampled_from([0, "a"])), str):
        body[member] = "Hi"
    assert equal_json(rebuild_body(WIRE_PROTOCOLS[name], json.dumps(body).encode(), path), body)


@NAMES
@FEWER
@given(st.data())
def test_piece_has_a_form_with_any_messages(name: str, data: st.DataObject) -> None:
    protocol = WIRE_PROTOCOLS[name]
    message, piece = (protocol.piece(data.draw(PIECES[name])) for _ in range(2))
    messages, _ = protocol.read(message)
    assert equal_json(protocol.write(messages, protocol.form(messages, piece)), piece.raw)


HEARD = {
    "anthropic-messages": test_anthropic.STREAM,
    "openai-chat": test_openai_chat.STREAM,
    "openai-responses": test_openai_responses.STREAM,
    "gemini": encode_stream(*test_gemini.EVENTS),
    "messages-v1": encode_stream({"message": {"role": "user"}, "stop_reason": "x", "usage": {}}),
}
EVENTS = {
    name: [
        json.loads(line.removeprefix(b"data: "))
        for line in stream.splitlines()
        if line.startswith(b"data: {")
    ]
    for name, stream in HEARD.items()
}
ANSWERS = {
    name: st.lists(st.one_of(*map(near, events)), max_size=8) for name, events in EVENTS.items()
}


@NAMES
@FEWER
@given(st.data())
def test_any_stream_events_give_an_answer(name: str, data: st.DataObject) -> None:
    protocol, events = WIRE_PROTOCOLS[name], data.draw(ANSWERS[name])
    body = json.dumps(data.draw(st.sampled_from([events, *events, {}]))).encode()
    for answer in (encode_stream(*EVENTS[name], *events), encode_stream(*events), body):
        response = decode_stream(protocol, answer, status=data.draw(st.sampled_from([200, 500])))
        assert "\n" not in response.error
        for piece in response.pieces:
            assert equal_json(protocol.write(*protocol.read(piece)), piece.raw)


@NAMES
@example(data=b"data: [DONE]")
@given(data=st.binary() | st.binary().map(lambda data: b"data: " + data + b"\n\n"))
def test_any_bytes_give_an_answer(name: str, data: bytes) -> None:
    finish = decode_stream(WIRE_PROTOCOLS[name], data).finish
    # OpenAI's marker is the end of a response, also of one that says nothing.
    assert finish is None or (name == "openai-chat" and b"[DONE]" in data)


def test_end_marker_alone_ends_the_response() -> None:
    assert decode_stream(WIRE_PROTOCOLS["openai-chat"], b"data: [DONE]").finish is not None


@FEWER
@given(JSON, JSON)
def test_patch_converts_any_value_to_any_other(plain: Any, value: Any) -> None:
    form = json.loads(json.dumps(build_form(plain, value)))
    assert equal_json(apply_form(plain, form), value)
