"""SWE-agent: the history, and the steps that it lacks, are a session with its totals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.errors import FormatError
from harken.formats.runtimes.registry import detect_runtime_format
from harken.formats.runtimes.research.swe_agent import NATIVE
from tests.unit.formats.runtimes.research.reading_kit import MemoryHome, read, said
from tests.unit.formats.runtimes.research.samples import encode, swe_agent


def test_history_is_followed_by_the_steps_that_it_lacks() -> None:
    steps, reading = read(NATIVE, swe_agent())
    assert said(steps) == [
        ("system", "You repair doors."),
        ("user", "A demo."),
        ("user", "The door is stuck."),
        ("assistant", "I look."),
        ("tool", "door.py"),
        ("assistant", "I submit."),
    ]
    entries = [entry for step in steps for entry in step.entries]
    assert [(entry.source or {})["kind"] for entry in entries] == [
        "instructions",
        "system",
        "prompt",
        "response",
        "tool_result",
        "response",
    ]
    assert entries[4].message.tool_call_id == "call_1"
    assert (reading.outcome, reading.folder) == ("submitted", "/cafe")
    assert reading.lines == reading.used_lines == 7


def test_totals_are_counted_once(tmp_path: Path) -> None:
    home = MemoryHome()
    home.add(tmp_path / "a.traj", encode(swe_agent()))
    rows = home.query("SELECT model, input_tokens, output_tokens, cost_usd FROM requests")
    assert rows == [("gpt-tea", None, None, None), ("gpt-tea", 70, 9, 0.5)]
    assert home.query("SELECT name FROM tool_calls") == [("ls",)]


def test_other_agents_of_a_history_are_agents() -> None:
    history = [
        {"role": "user", "content": "Repair it.", "agent": "primary"},
        {"role": "assistant", "content": "I ask.", "agent": "primary"},
        {"role": "system", "content": "You look.", "agent": "editor"},
        {"role": "assistant", "content": "Done.", "agent": "editor"},
        {"role": "assistant", "content": "Good.", "agent": "primary"},
    ]
    steps, reading = read(NATIVE, swe_agent(history=history, trajectory=[]))
    assert said(steps, "editor") == [("system", "You look."), ("assistant", "Done.")]
    assert said(steps)[-1] == ("assistant", "Good.")
    [spawn] = [step for step in steps if step.trigger == "spawn"]
    assert spawn.parent == steps[0].id
    assert list(reading.tips) == ["", "editor"]


def test_thinking_precedes_the_text() -> None:
    answer = {
        "role": "assistant",
        "content": "Yes.",
        "thinking_blocks": [{"type": "thinking", "thinking": "Hm."}],
    }
    steps, _ = read(NATIVE, swe_agent(history=[answer], trajectory=[]))
    content = steps[0].entries[0].message.content
    assert isinstance(content, list)
    assert [type(part).__name__ for part in content] == ["ThinkingPart", "TextPart"]


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [[1]], [{}], {"a": None}])
@pytest.mark.parametrize("member", ["history", "trajectory", "info", "replay_config"])
def test_members_of_a_wrong_kind_are_survived(member: str, value: object) -> None:
    _, reading = read(NATIVE, swe_agent(**{member: value}))
    kept = sum(reading.uninterpreted.values())
    assert reading.lines == reading.used_lines + kept


def test_a_document_without_messages_is_refused() -> None:
    empty: dict[str, object] = {"trajectory": [], "history": []}
    for document in ({}, empty):
        with pytest.raises(FormatError, match="no history"):
            read(NATIVE, document)


def test_files_are_recognized_by_name_and_content() -> None:
    assert detect_runtime_format("a.traj", encode(swe_agent())) is NATIVE
    assert detect_runtime_format("a.json", encode(swe_agent())) is None
    assert detect_runtime_format("a.traj", json.dumps([1]).encode()) is None
