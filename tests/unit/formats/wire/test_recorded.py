"""What official clients really sent comes back, and costs little beside its messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harken.formats.wire import registry as wires
from harken.formats.wire.base import Protocol
from harken.formats.wire.json_patch import equal_json
from tests.clients.kit import BESIDE, lab

SENT = sorted((BESIDE / "shared" / "data" / "sent").glob("*.json"))
RECORDED = sorted((lab() / "homes").glob("*/logs/*.requests.jsonl"))
PATHS = {"claude-code": "/v1/messages", "codex-cli": "/v1/responses", "pi": "/chat/completions"}
MOST_SHARE = 0.1
"""Of the bytes of the pieces, how many their forms may have."""


def forms_of(protocol: Protocol, path: str, body: Any) -> int:
    """Return how many bytes the forms of a request have, which comes back."""
    asked = protocol.parse_request(path, json.dumps(body).encode())
    read = [protocol.read(piece) for piece in asked.pieces]
    values = [protocol.write(messages, form) for messages, form in read]
    assert equal_json(protocol.build_body(asked, values), body)
    assert all("other" not in form.get("as", "") for _, form in read if form)
    return sum(len(json.dumps(form)) for _, form in read if form is not None)


@pytest.mark.skipif(not SENT, reason="there is no ../shared/data/sent")
@pytest.mark.parametrize("file", SENT, ids=lambda file: file.stem)
def test_what_clients_sent_after_a_resume_comes_back(file: Path) -> None:
    sent = json.loads(file.read_text())
    path = PATHS[sent["client"].split()[0]]
    protocol, messages = wires.find_protocol(path), sent["request_messages"]
    assert protocol is not None
    listed = "input" if path.endswith("responses") else "messages"
    size = forms_of(protocol, path, {"model": "m", listed: messages})
    assert size <= MOST_SHARE * len(json.dumps(messages))


def requests() -> Iterator[tuple[str, Protocol, Any]]:
    for file in RECORDED:
        for line in file.read_text().splitlines():
            asked = json.loads(line)
            protocol = wires.find_protocol(asked["path"])
            if protocol is not None and isinstance(asked["body"], dict):
                yield asked["path"], protocol, asked["body"]


@pytest.mark.skipif(not RECORDED, reason=f"no client has been run in {lab()}")
def test_what_clients_sent_to_the_lab_comes_back() -> None:
    for path, protocol, body in requests():
        assert forms_of(protocol, path, body) <= MOST_SHARE * len(json.dumps(body))
