"""Recorded requests of official clients round-trip, with small forms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.formats.json_records import equal_json
from harken.formats.wire import registry as wires
from harken.formats.wire.base import Protocol
from tests.clients.kit import BESIDE, lab

SENT = sorted((BESIDE / "shared" / "data" / "sent").glob("*.json"))
RECORDED = sorted((lab() / "homes").glob("*/logs/*.requests.jsonl"))
PATHS = {"claude-code": "/v1/messages", "codex-cli": "/v1/responses", "pi": "/chat/completions"}
MOST_SHARE = 0.1
"""Of the bytes of the pieces, how many their forms may have."""


def measure_forms(protocol: Protocol, path: str, body: Any) -> int:
    """Return the bytes of the forms of a request, after checking that it round-trips."""
    parsed = protocol.parse_request(path, json.dumps(body).encode())
    decoded = [protocol.read(piece) for piece in parsed.pieces]
    values = [protocol.write(messages, form) for messages, form in decoded]
    assert equal_json(protocol.build_body(parsed, values), body)
    assert all("other" not in form.get("as", "") for _, form in decoded if form)
    return sum(len(json.dumps(form)) for _, form in decoded if form is not None)


@pytest.mark.skipif(not SENT, reason="there is no ../shared/data/sent")
@pytest.mark.parametrize("file", SENT, ids=lambda file: file.stem)
def test_resume_requests_of_clients_round_trip(file: Path) -> None:
    body = json.loads(file.read_text())
    path = PATHS[body["client"].split()[0]]
    protocol, messages = wires.find_protocol(path), body["request_messages"]
    assert protocol is not None
    member = "input" if path.endswith("responses") else "messages"
    size = measure_forms(protocol, path, {"model": "m", member: messages})
    assert size <= MOST_SHARE * len(json.dumps(messages))


def requests() -> Iterator[tuple[str, Protocol, Any]]:
    for file in RECORDED:
        for line in file.read_text().splitlines():
            request = json.loads(line)
            protocol = wires.find_protocol(request["path"])
            if protocol is not None and isinstance(request["body"], dict):
                yield request["path"], protocol, request["body"]


@pytest.mark.skipif(not RECORDED, reason=f"no client has been run in {lab()}")
def test_lab_requests_of_clients_round_trip() -> None:
    for path, protocol, body in requests():
        assert measure_forms(protocol, path, body) <= MOST_SHARE * len(json.dumps(body))
