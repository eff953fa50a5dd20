"""Requests and responses in the format of Harken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.core.events import Usage
from harken.core.messages import FunctionCall, Message, ToolCall
from harken.core.stream import Finish
from harken.errors import FormatError
from harken.formats.json_records import equal_json
from harken.formats.wire import registry as wires
from harken.formats.wire.messages_v1 import PROTOCOL

CALL = {"id": "c1", "function": {"name": "look", "arguments": "{}"}, "type": "function"}
ASKED: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You are Jack."},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "content": "a door", "tool_call_id": "c1", "is_error": True},
    ],
    "tools": [{"name": "look", "parameters": {}}],
    "parameters": {"temperature": 0.5},
}


@pytest.mark.parametrize(
    "body",
    [
        ASKED,
        {**ASKED, "parameters": {}},
        {**ASKED, "parameters": None, "tools": [], "odd": [1]},
        {**ASKED, "parameters": {"parameters": 1, "model": 5}, "model": None},
        {"messages": [{"role": "user", "content": "Hi", "name": None, "odd": 1}, 5, {"role": 5}]},
    ],
)
def test_request_round_trips(body: Any) -> None:
    parsed = PROTOCOL.parse_request("", json.dumps(body).encode())
    values = [PROTOCOL.write(*PROTOCOL.read(piece)) for piece in parsed.pieces]
    assert equal_json(PROTOCOL.build_body(parsed, values), body)


def test_pieces_are_the_messages_of_a_log() -> None:
    parsed = PROTOCOL.parse_request("", json.dumps(ASKED).encode())
    assert parsed.parameters == {"temperature": 0.5}
    assert [PROTOCOL.read(piece) for piece in parsed.pieces] == [
        ([Message("system", "You are Jack.")], None),
        ([Message("assistant", None, [ToolCall("c1", FunctionCall("look", "{}"))])], None),
        ([Message("tool", "a door", tool_call_id="c1", is_error=True)], None),
    ]


def test_invalid_request_is_rejected() -> None:
    with pytest.raises(FormatError):
        PROTOCOL.parse_request("", b"{}")


def test_response_contains_all_its_members() -> None:
    listener = PROTOCOL.listener(200)
    answer = {"role": "assistant", "content": "A door."}
    usage = {"input_tokens": 5, "output_tokens": "odd"}
    listener.feed(
        json.dumps(
            {"message": answer, "stop_reason": "end", "usage": usage, "model": "m-1"}
        ).encode()
    )
    response = listener.end()
    assert [piece.raw for piece in response.pieces] == [answer]
    assert response.finish == Finish(stop_reason="end", usage=Usage(input_tokens=5), model="m-1")


def test_truncated_response_returns_the_received_part() -> None:
    listener = PROTOCOL.listener(200)
    listener.feed(b'{"id": "a", "partial": {"text": "A d", "thinking": "Hm"}}')
    response = listener.end()
    assert (response.id, response.finish, response.partial) == ("a", None, ("Hm", "A d"))


def test_protocol_is_found_by_its_path() -> None:
    assert wires.find_protocol("/messages-v1") is PROTOCOL
    assert (
        wires.find_protocol("/base/v1/messages?beta=true")
        is wires.WIRE_PROTOCOLS["anthropic-messages"]
    )
    assert wires.find_protocol("/v1/messages/count_tokens") is None
