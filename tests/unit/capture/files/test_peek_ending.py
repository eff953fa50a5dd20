"""Whether a file ends with a message of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harken.capture.files.peek import Ending, read_ending


def claude(role: str) -> dict[str, Any]:
    return {"type": role, "uuid": "u", "message": {"role": role, "content": "x"}}


def codex(kind: str, **members: str) -> dict[str, Any]:
    return {"type": "response_item", "payload": {"type": kind, **members}}


ASIDE = {"type": "last-prompt", "sessionId": "s"}
TOKENS = {"type": "event_msg", "payload": {"type": "token_count"}}


@pytest.mark.parametrize(
    ("records", "ending"),
    [
        ([], "unknown"),
        ([ASIDE], "unknown"),
        ([claude("user"), ASIDE], "question"),
        ([claude("user"), claude("assistant"), ASIDE], "answer"),
        ([codex("message", role="user")], "question"),
        ([codex("message", role="developer")], "question"),
        ([codex("reasoning")], "question"),
        ([codex("message", role="assistant"), TOKENS], "answer"),
        ([codex("function_call"), TOKENS], "answer"),
        ([codex("function_call"), codex("function_call_output")], "question"),
        ([{"type": "compacted", "payload": {"message": "x"}}], "answer"),
        ([{"type": "message", "message": {"role": "toolResult"}}], "question"),
    ],
)
def test_last_speaker_decides_the_ending(
    records: list[dict[str, Any]], ending: Ending, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert read_ending(path) == ending


def test_unterminated_line_and_file_without_lines_have_no_ending(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(json.dumps(claude("assistant")).encode() + b'\n{"type": "us')
    assert read_ending(path) == "torn"
    path.write_bytes(b"\xff\x00\n[1]\nno\n")
    assert read_ending(path) == "unknown"
    assert read_ending(tmp_path / "nowhere.jsonl") == "unknown"
    assert read_ending(tmp_path) == "unknown"
