"""What the page of the wire shows is so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harken.core.event_types.message_parser import parse_message
from harken.formats.wire.registry import WIRE_PROTOCOLS

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "wire.md"
SHOWN: list[Any] = [
    json.loads(line) for line in PAGE.read_text().splitlines() if line.startswith('{"m')
]


def test_form_gives_the_documented_value() -> None:
    example = next(example_ for example_ in SHOWN if "form" in example_)
    messages, protocol = (
        [*map(parse_message, example["messages"])],
        WIRE_PROTOCOLS["anthropic-messages"],
    )
    assert protocol.write(messages, example["form"]) == example["value"]
    assert protocol.read(protocol.piece(example["value"])) == (messages, example["form"])


def test_documented_request_and_answer_are_valid() -> None:
    protocol = WIRE_PROTOCOLS["messages-v1"]
    body = next(example_ for example_ in SHOWN if "tools" in example_)
    answer = next(example_ for example_ in SHOWN if "stop_reason" in example_)
    request = protocol.parse_request("", json.dumps(body).encode())
    assert request.shape is None
    assert protocol.build_body(request, [piece.raw for piece in request.pieces]) == body
    listener = protocol.listener(200)
    listener.feed(json.dumps(answer).encode())
    response = listener.end()
    assert [piece.raw for piece in response.pieces] == [answer["message"]]
    assert response.finish is not None
    assert (response.finish.cost_usd, response.id) == (0.01, "a1")


def test_each_protocol_has_a_section() -> None:
    assert all(f"### {name}\n" in PAGE.read_text() for name in WIRE_PROTOCOLS)
