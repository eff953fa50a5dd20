"""Recorded requests of the real clients are rebuilt from the log exactly."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harken.core import canonical
from harken.core import events as ev
from harken.core.clock import format_rfc3339
from harken.formats.wire import registry as wires
from harken.recording.client_hints import parse_hints
from harken.recording.exchange import CapturedRequest, CapturedResponse
from harken.recording.rebuild import RequestRebuilder
from harken.session.log.reader import iter_events
from tests.clients.kit import lab
from tests.recording_kit import log_paths, open_recorder

_LOGS = sorted(path for path in lab().glob("homes/*/logs/*.requests.jsonl"))
_WITH_SUBAGENT = "SUBAGENT"


@dataclass
class Sent:
    """A request of a client."""

    call: CapturedRequest
    body: dict[str, Any]
    keys: list[str]
    values: list[Any]

    def answer_in(self, later: Sequence[Sent]) -> list[Any]:
        """Return the answer as a later request contains it."""
        size = len(self.keys)
        for request in later:
            if request.keys[:size] == self.keys and len(request.keys) > size:
                return [*_answer_items(request.values[size:])]
        return []

    def reply(self, answer_items: list[Any]) -> CapturedResponse:
        body: dict[str, Any] = {"id": f"answer to {self.call.id}", "status": "completed"}
        if self.call.protocol == "openai-responses":
            body["output"] = answer_items
        elif self.call.protocol == "gemini":
            body["candidates"] = [{"content": answer_items[0], "finishReason": "STOP"}]
        else:
            body |= {**answer_items[0], "stop_reason": "end_turn"}
        raw = json.dumps(body).encode()
        return CapturedResponse(id=self.call.id, status=200, body=raw, time=self.call.time)


def _answer_items(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if value.get("role") not in ("assistant", "model") and value.get("type") not in (
            "reasoning",
            "function_call",
            "custom_tool_call",
        ):
            return
        yield value


def sent_in(path: Path) -> list[Sent]:
    requests = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        protocol = wires.find_protocol(record["path"])
        if protocol is None or not isinstance(record.get("body"), dict):
            continue
        raw = json.dumps(record["body"]).encode()
        headers = {name.lower(): value for name, value in record["headers"].items()}
        call = CapturedRequest(
            id=f"{path.parent.parent.name}/{path.name}/{record['n']}",
            protocol=protocol.name,
            path=record["path"],
            body=raw,
            time=format_rfc3339(int(record["time"] * 1e6)),
            hints=parse_hints(headers, record["path"], raw),
        )
        pieces = protocol.parse_request(call.path, raw).pieces
        requests.append(
            Sent(call, record["body"], [p.key for p in pieces], [p.raw for p in pieces])
        )
    return requests


@pytest.mark.skipif(not _LOGS, reason=f"no client was run in the lab {lab()}")
@pytest.mark.parametrize("path", _LOGS, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_recorded_requests_of_real_clients_round_trip(path: Path, tmp_path: Path) -> None:
    requests = sent_in(path)
    with open_recorder(tmp_path) as recording:
        for index, sent_request in enumerate(requests):
            recording.begin(sent_request.call)
            answer_items = sent_request.answer_in(requests[index + 1 :])
            if answer_items:
                recording.end(sent_request.reply(answer_items))
            else:
                recording.end(
                    CapturedResponse(
                        id=sent_request.call.id,
                        status=0,
                        time=sent_request.call.time,
                        broken="lost",
                    )
                )
    bodies = {sent_request.call.id: sent_request.body for sent_request in requests}
    for log in log_paths(tmp_path):
        events = list(iter_events(log))
        rebuilder = RequestRebuilder(events)
        for id_, request in rebuilder.requests.items():
            body = bodies.pop((request.wire or {})["call"])
            assert canonical.to_canonical_bytes(
                rebuilder.body(id_)
            ) == canonical.to_canonical_bytes(body)
        _check_agents(events, requests)
    assert not bodies


def _check_agents(events: Sequence[ev.Event], requests: Sequence[Sent]) -> None:
    """Check that a subagent stands below the call that created it."""
    if (
        not any(_WITH_SUBAGENT in str(request.body) for request in requests)
        or not requests[0].call.hints.session
    ):
        return
    births = [event for event in events if isinstance(event, ev.AgentCreated)]
    edits = [event for event in events if isinstance(event, ev.TranscriptEdited)]
    assert [birth.relation for birth in births] == ["primary", "subagent"]
    assert births[1].name not in (None, "aside")
    assert not edits
