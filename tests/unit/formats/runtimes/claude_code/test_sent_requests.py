"""The requests that Claude Code records beside a conversation, and a session retold with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken.core import events as ev
from harken.formats.runtimes.claude_code.reader import NATIVE
from harken.formats.runtimes.claude_code.sent_requests import read_sent_requests
from harken.formats.runtimes.sent_requests import SentRequests
from harken.recording.from_commits.session import retell
from harken.views.context import ContextView, context
from tests.unit.formats.sent_requests_kit import REMINDER, SHAPE, build_transcript
from tests.unit.formats.transcript_kit import Transcript, encode_lines
from tests.unit.recording.from_commits.retelling_kit import import_transcripts


def view_requests(folder: Path, data: bytes) -> list[ContextView]:
    transcript = Transcript()
    transcript.records = [json.loads(line) for line in data.splitlines()]
    store, ends = import_transcripts(folder, a=transcript)
    assert NATIVE.sent_requests is not None
    requests = [NATIVE.sent_requests([data[:100], data[100:]])]
    events = retell(store, "cafe", ends, requests)
    logged = [event for event in events if isinstance(event, ev.LlmRequest)]
    return [context(events, request.message_id) for request in logged]


def test_request_has_the_recorded_tools_parameters_and_system_prompt(tmp_path: Path) -> None:
    views = view_requests(tmp_path, build_transcript())
    schema = {"name": "Look", "description": "Look.", "parameters": {"type": "object"}}
    assert [view.tools for view in views] == [[schema], [schema]]
    assert [view.parameters for view in views] == [
        {"max_tokens": 9, "system": SHAPE["system"]},
        {"max_tokens": 8, "system": SHAPE["system"]},
    ]
    assert {(view.evidence, view.verified) for view in views} == {("rebuilt", False)}


@pytest.mark.parametrize(
    ("injected", "missing"), [([], []), ([REMINDER], ["messages"])], ids=["equal", "injected"]
)
def test_messages_are_compared_by_their_hashes(
    tmp_path: Path, injected: list[dict[str, Any]], missing: list[str]
) -> None:
    views = view_requests(tmp_path, build_transcript(*injected))
    assert [view.missing for view in views] == [missing, missing]


def test_request_without_records_is_unknown(tmp_path: Path) -> None:
    data = build_transcript().replace(b"api-request-shape", b"api-request-other")
    views = view_requests(tmp_path, data)
    assert [view.missing for view in views] == [["messages", "system", "tools", "parameters"]] * 2
    assert [view.tools for view in views] == [None, None]


def read(*records: object) -> SentRequests:
    return read_sent_requests([encode_lines(records)])


def test_damaged_records_are_ignored() -> None:
    shape = {"type": "api-request-shape", "shapeHash": "s", "shape": SHAPE}
    answer = {"type": "assistant", "requestRef": "r", "message": {"id": "m"}}
    request = {"type": "api-request", "id": "r", "shapeHash": "s", "keep": 0, "tail": []}
    assert read(shape, request, answer).by_response.keys() == {"m"}
    changes: list[dict[str, Any]] = [
        {"keep": 1},
        {"keep": "0"},
        {"tail": None},
        {"shapeHash": []},
        {"id": 1},
    ]
    for change in changes:
        assert not read(shape, {**request, **change}, answer).by_response
    assert not read_sent_requests([b'{"type":"api-request', b'\n["api-request"]\n']).by_response
