"""mini-swe-agent: a list of messages, or an object with them, is a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.errors import FormatError
from harken.formats.runtimes.registry import detect_runtime_format
from harken.formats.runtimes.research.mini_swe_agent import NATIVE
from tests.unit.formats.runtimes.research.reading_kit import MemoryHome, read, said
from tests.unit.formats.runtimes.research.samples import encode, mini_swe_agent

TALK = [
    ("system", "You repair doors."),
    ("user", "The door is stuck."),
    ("assistant", "I push."),
    ("user", "It is open."),
]


def test_object_has_messages_and_an_outcome() -> None:
    steps, reading = read(NATIVE, mini_swe_agent())
    assert said(steps) == TALK
    assert (reading.outcome, reading.version, reading.title) == (
        "Submitted",
        "2.0",
        "The door is stuck.",
    )
    assert reading.session_id.startswith("door-1-")
    assert reading.uninterpreted == {"message/exit": 1}
    assert (reading.lines, reading.used_lines) == (5, 4)


def test_list_has_messages_only() -> None:
    steps, reading = read(NATIVE, mini_swe_agent()["messages"][:4])
    assert said(steps) == TALK
    assert reading.outcome == ""


def test_usage_is_that_of_the_responses_or_else_the_total(tmp_path: Path) -> None:
    home = MemoryHome()
    query = "SELECT model, input_tokens, cost_usd FROM requests"
    home.add(tmp_path / "a.traj.json", encode(mini_swe_agent()))
    assert home.query(query) == [("tea-1", 8, 0.25)]
    document = mini_swe_agent()
    del document["messages"][2]["extra"]
    other = MemoryHome()
    other.add(tmp_path / "b.traj.json", encode(document))
    assert other.query(query) == [("", None, 0.25)]


def test_time_is_that_of_the_message() -> None:
    steps, _ = read(NATIVE, mini_swe_agent())
    assert steps[0].entries[2].time == "2026-01-31T12:00:00.500000Z"


@pytest.mark.parametrize("document", [{}, [], 7, {"messages": {}}, {"messages": [1]}, [2]])
def test_documents_without_messages_are_refused(document: object) -> None:
    with pytest.raises(FormatError):
        read(NATIVE, document)


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [[1]], [{}], {"a": None}])
@pytest.mark.parametrize("member", ["role", "content", "extra", "tool_calls"])
def test_members_of_a_wrong_kind_are_survived(member: str, value: object) -> None:
    document = mini_swe_agent()
    document["messages"][2][member] = value
    _, reading = read(NATIVE, document)
    assert reading.lines == reading.used_lines + sum(reading.uninterpreted.values())


def test_files_are_recognized_by_name_and_content() -> None:
    data = encode(mini_swe_agent())
    assert detect_runtime_format("a.traj.json", data) is NATIVE
    assert detect_runtime_format("a.traj.json", encode(mini_swe_agent()["messages"])) is NATIVE
    assert detect_runtime_format("a.json", data) is None
