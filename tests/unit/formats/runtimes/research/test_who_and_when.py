"""Who&When: a group chat has the chat itself, and an agent with its own view for each speaker."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken.errors import FormatError
from harken.formats.runtimes.registry import detect_runtime_format
from harken.formats.runtimes.research.group_chat import MAX_AGENTS
from harken.formats.runtimes.research.who_and_when import NATIVE
from tests.unit.formats.runtimes.research.reading_kit import MemoryHome, counted, read, said
from tests.unit.formats.runtimes.research.samples import encode, hand_crafted, who_and_when


def test_chat_has_each_message_with_its_speaker() -> None:
    steps, reading = read(NATIVE, who_and_when())
    entries = [entry for step in steps if not step.agent for entry in step.entries]
    assert [entry.message.name for entry in entries] == ["Planner", "Searcher", "Planner"]
    assert reading.title == "Who opened the cafe?"
    assert (reading.lines, reading.used_lines) == (3, 3)


def test_an_agent_answers_what_it_heard() -> None:
    steps, _ = read(NATIVE, who_and_when())
    assert said(steps, "Searcher") == [
        ("system", "You search."),
        ("user", "Find out who opened it."),
        ("assistant", "It was Jack."),
        ("user", "TERMINATE"),
    ]
    assert said(steps, "Planner")[:2] == [
        ("system", "You plan."),
        ("assistant", "Find out who opened it."),
    ]


def test_each_message_counts_once() -> None:
    assert counted(read(NATIVE, who_and_when())[0]) == 3 + 2  # with two system prompts
    assert counted(read(NATIVE, hand_crafted())[0]) == 7


def test_an_addressed_message_is_heard_by_its_addressee_only() -> None:
    steps, reading = read(NATIVE, hand_crafted())
    assert said(steps, "WebSurfer") == [
        ("user", "Who opened the cafe?"),
        ("user", "Search for it."),
        ("assistant", "It was Jill."),
        ("user", "exit 0"),
    ]
    assert ("user", "I make a plan.") not in said(steps, "ComputerTerminal")
    assert [text for role, text in said(steps, "Orchestrator") if role == "user"] == [
        "Who opened the cafe?",
        "It was Jill.",
        "exit 0",
    ]
    assert list(reading.tips) == ["", "Orchestrator", "WebSurfer", "ComputerTerminal"]


def test_mistake_is_a_label_of_the_agent_and_the_message(tmp_path: Path) -> None:
    home = MemoryHome()
    home.add(tmp_path / "a.json", encode(who_and_when()))
    home.add(tmp_path / "b.json", encode(hand_crafted()))
    rows = home.query(
        "SELECT l.name, l.value, l.agent, a.name, ma.name, m.role, m.kind, m.is_repeat "
        "FROM labels l JOIN agents a ON a.id = l.agent_id JOIN messages m ON m.id = l.message_id "
        "JOIN agents ma ON ma.id = m.agent_id ORDER BY l.value"
    )
    spoken = ("assistant", "response", 0)
    assert rows == [
        ("mistake", "1", "Searcher", "Searcher", "Searcher", *spoken),
        ("mistake", "3", "websurfer", "WebSurfer", "WebSurfer", *spoken),
    ]


def test_a_mistake_without_a_message_labels_the_session() -> None:
    for step in ("99", "", None, "last"):
        _, reading = read(NATIVE, who_and_when(mistake_step=step))
        [label] = reading.labels
        assert (label.agent, label.step) == ("Searcher", "")


def test_correctness_is_the_outcome_and_a_score(tmp_path: Path) -> None:
    home = MemoryHome()
    home.add(tmp_path / "a.json", encode(who_and_when()))
    home.add(tmp_path / "b.json", encode(hand_crafted()))
    rows = home.query(
        "SELECT outcome, scorer, value, number, sample FROM scores "
        "JOIN sessions s ON s.id = session_id ORDER BY outcome"
    )
    assert rows == [
        ("correct", "is_correct", "true", 1.0, "q-1"),
        ("incorrect", "is_correct", "false", 0.0, "q-1"),
    ]


def test_runs_that_begin_alike_share_nothing(tmp_path: Path) -> None:
    home = MemoryHome()
    other = who_and_when()
    other["history"] = [*other["history"][:2], {**other["history"][2], "content": "Again."}]
    home.add(tmp_path / "a.json", encode(who_and_when()))
    home.add(tmp_path / "b.json", encode(other))
    query = "SELECT count(*) FROM messages WHERE NOT is_repeat GROUP BY session_id"
    assert home.query(query) == [(5,), (5,)]


def test_an_imported_copy_is_the_same_session(tmp_path: Path) -> None:
    home = MemoryHome()
    first = home.add(tmp_path / "a.json", encode(who_and_when()))
    second = home.add(tmp_path / "b.json", encode(who_and_when()))
    assert first.tips == second.tips
    assert home.query("SELECT count(*) FROM scores") == [(1,)]


def test_messages_without_a_text_are_counted() -> None:
    history = [{"role": "human", "content": "Hi"}, {"role": "human"}, 7, {"content": "?"}]
    steps, reading = read(NATIVE, hand_crafted(history=history))
    assert said(steps) == [("user", "Hi")]
    assert reading.uninterpreted == {"message without a role and text": 3}
    assert (reading.lines, reading.used_lines) == (4, 1)


def test_the_number_of_agents_is_limited() -> None:
    history = [{"role": f"A{number}", "content": "Hi"} for number in range(MAX_AGENTS + 1)]
    _, reading = read(NATIVE, hand_crafted(history=history))
    assert len(reading.tips) == MAX_AGENTS + 1
    assert reading.notes == [f"only {MAX_AGENTS} of its {MAX_AGENTS + 1} agents are read as agents"]


@pytest.mark.parametrize("data", [b"{}", b"[]", b"{", b'{"history": 1, "mistake_agent": 1}'])
def test_other_documents_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        read(NATIVE, data)


def test_files_are_recognized_by_their_beginning() -> None:
    for document in (who_and_when(), hand_crafted()):
        data = encode(document)
        assert detect_runtime_format("1.json", data) is NATIVE
    long = encode(hand_crafted())[:300]
    assert detect_runtime_format("1.json", long) is NATIVE
    assert detect_runtime_format("1.json", encode({"history": [{"content": "Hi"}]})) is None
    assert detect_runtime_format("1.json", encode({"Coding": {"assistant_role_name": "x"}})) is None


def test_equal_system_prompts_count_for_each_agent(tmp_path: Path) -> None:
    home = MemoryHome()
    prompts = {"Planner": "You help.", "Searcher": "You help."}
    home.add(tmp_path / "a.json", encode(who_and_when(system_prompt=prompts)))
    query = "SELECT count(*) FROM messages WHERE role = 'system' AND NOT is_repeat"
    assert home.query(query) == [(2,)]
