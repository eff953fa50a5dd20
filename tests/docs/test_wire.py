"""What the page of the wire shows is so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harken.core.messages import parse_message
from harken.formats.wire.registry import WIRE_PROTOCOLS

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "wire.md"
SHOWN: list[Any] = [
    json.loads(line) for line in PAGE.read_text().splitlines() if line.startswith('{"m')
]


def test_a_form_gives_the_value_that_is_shown() -> None:
    shown = next(one for one in SHOWN if "form" in one)
    messages, protocol = (
        [*map(parse_message, shown["messages"])],
        WIRE_PROTOCOLS["anthropic-messages"],
    )
    assert protocol.write(messages, shown["form"]) == shown["value"]
    assert protocol.read(protocol.piece(shown["value"])) == (messages, shown["form"])


def test_a_request_and_its_answer_are_such() -> None:
    protocol = WIRE_PROTOCOLS["messages-v1"]
    body = next(one for one in SHOWN if "tools" in one)
    said = next(one for one in SHOWN if "stop_reason" in one)
    asked = protocol.parse_request("", json.dumps(body).encode())
    assert asked.shape is None
    assert protocol.build_body(asked, [piece.raw for piece in asked.pieces]) == body
    listener = protocol.listener(200)
    listener.feed(json.dumps(said).encode())
    answered = listener.end()
    assert [piece.raw for piece in answered.pieces] == [said["message"]]
    assert answered.finish is not None
    assert (answered.finish.cost_usd, answered.id) == (0.01, "a1")


def test_every_protocol_has_its_chapter() -> None:
    assert all(f"### {name}\n" in PAGE.read_text() for name in WIRE_PROTOCOLS)
