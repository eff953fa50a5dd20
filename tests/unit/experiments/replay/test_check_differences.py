"""A replay locates the first difference of a changed session."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.experiments.replay.test_check import check_log, record_session


def edited(log: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Rewrite a log with some lines changed, without the sums."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line.pop("sum", None)
        change(line)
    file = log.with_name("edited.jsonl")
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_changed_answer_is_located(tmp_path: Path) -> None:
    log = record_session(tmp_path)

    def change(line: dict[str, Any]) -> None:
        if line.get("content") == "paid":
            line["content"] = "not paid"

    difference = check_log(edited(log, change)).difference
    assert difference is not None
    assert (difference.agent_key, difference.before["event_type"]) == ("main", "llm_request")
    assert difference.before["context_hash"] != difference.after["context_hash"]


def test_changed_call_is_located(tmp_path: Path) -> None:
    def other_tool(line: dict[str, Any]) -> None:
        for tool_call in line.get("tool_calls", ()):
            if tool_call["function"]["name"] == "pay":
                tool_call["function"]["name"] = "play"

    difference = check_log(edited(record_session(tmp_path), other_tool)).difference
    assert difference is not None
    assert difference.agent_key == "main"
    assert "'play'" in str(difference.after["content"])
