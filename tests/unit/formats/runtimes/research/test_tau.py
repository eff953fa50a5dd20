"""tau-bench: each simulation is a session of an agent and a simulated user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harken.errors import FormatError
from harken.formats.runtimes.registry import detect_runtime_format
from harken.formats.runtimes.research.tau import NATIVE
from tests.unit.formats.runtimes.research.reading_kit import MemoryHome, counted, read, said
from tests.unit.formats.runtimes.research.samples import encode, tau_results, tau_simulation


def test_agent_reads_texts_of_the_user_and_its_own_results() -> None:
    steps, _ = read(NATIVE, tau_results())
    assert said(steps) == [
        ("assistant", "Hello."),
        ("user", "The door 1 is stuck."),
        ("assistant", ""),
        ("tool", "stuck"),
        ("assistant", "Push it."),
        ("user", "###STOP###"),
    ]
    entries = [entry for step in steps if not step.agent for entry in step.entries]
    calls = entries[2].message.tool_calls
    assert calls is not None
    [call] = calls
    assert (call.id, call.function.name, call.function.arguments) == ("c1", "look", '{"at":"door"}')
    assert (entries[3].message.tool_call_id, entries[3].message.is_error) == ("c1", True)
    assert entries[0].time == "2026-01-31T12:00:00.500000Z"


def test_user_is_an_agent_with_its_own_calls() -> None:
    steps, reading = read(NATIVE, tau_results())
    assert said(steps, "user") == [
        ("user", "Hello."),
        ("assistant", "The door 1 is stuck."),
        ("user", "Push it."),
        ("assistant", ""),
        ("tool", "open"),
        ("assistant", "###STOP###"),
    ]
    assert list(reading.sessions[0].tips) == ["", "user"]


def test_each_message_counts_once() -> None:
    steps, _ = read(NATIVE, tau_results())
    assert counted(steps) == len(tau_simulation()["messages"])


def test_simulations_are_sessions_with_rewards_and_usage(tmp_path: Path) -> None:
    home = MemoryHome()
    report = home.add(
        tmp_path / "r.json", encode(tau_results(tau_simulation(1), tau_simulation(2)))
    )
    assert [session.session for session in report.sessions] == ["sim-1", "sim-2"]
    assert home.query("SELECT name, title, outcome FROM sessions ORDER BY name") == [
        ("tau:sim-1", "The door 1 is stuck.", "user_stop"),
        ("tau:sim-2", "The door 2 is stuck.", "user_stop"),
    ]
    assert home.query("SELECT scorer, number, sample FROM scores WHERE session_id = 1") == [
        ("reward", 1.0, "1"),
        ("reward/DB", 1.0, "1"),
    ]
    query = (
        "SELECT model, sum(input_tokens), sum(cost_usd) FROM requests GROUP BY session_id, model"
    )
    assert [(model, tokens, round(cost, 3)) for model, tokens, cost in home.query(query)] == [
        ("agent-model", 40, 0.5),
        ("user-model", 60, 0.1),
    ] * 2


def test_first_version_is_a_list_of_runs() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    talk = [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "The door is stuck."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": "stuck", "tool_call_id": "c1", "name": "look"},
        {"role": "assistant", "content": "Push it."},
    ]
    run = {"task_id": 3, "reward": 0.0, "info": {}, "traj": talk, "trial": 1}
    steps, reading = read(NATIVE, [run, {**run, "trial": 2}])
    assert said([step for step in steps if step.session == reading.sessions[0].session_id]) == [
        ("system", "You help."),
        ("user", "The door is stuck."),
        ("assistant", ""),
        ("tool", "stuck"),
        ("assistant", "Push it."),
    ]
    assert [session.scores[0].number for session in reading.sessions] == [0.0, 0.0]
    assert len({session.session_id for session in reading.sessions}) == 2
    assert detect_runtime_format("results.json", encode([run])) is NATIVE


def test_a_simulation_of_its_own_file_is_read() -> None:
    steps, reading = read(NATIVE, tau_simulation())
    assert counted(steps) == 8
    assert [session.session_id for session in reading.sessions] == ["sim-1"]
    assert detect_runtime_format("s.json", encode(tau_simulation())) is NATIVE


def test_a_full_duplex_simulation_is_refused_with_the_reason() -> None:
    simulation = {**tau_simulation(), "messages": None, "ticks": [{"tick_id": 0}]}
    with pytest.raises(FormatError, match="its ticks have audio"):
        read(NATIVE, simulation)


def test_simulations_without_messages_are_counted() -> None:
    _, reading = read(NATIVE, tau_results(tau_simulation(), tau_simulation(2, messages=[])))
    assert reading.uninterpreted == {"simulation without messages": 1}
    assert (reading.lines, reading.used_lines) == (2, 1)


@pytest.mark.parametrize("document", [7, [], {}, [1], {"simulations": 1}, {"simulations": [1]}])
def test_documents_without_simulations_are_refused(document: object) -> None:
    with pytest.raises(FormatError):
        read(NATIVE, document)


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [[1]], [{}], {"a": None}])
@pytest.mark.parametrize("member", ["id", "task_id", "reward_info", "reward", "end_time", "trial"])
def test_members_of_a_wrong_kind_are_survived(member: str, value: object) -> None:
    steps, _ = read(NATIVE, tau_results(tau_simulation(**{member: value})))
    assert counted(steps) == 8


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [[1]], [{}], {"a": None}])
@pytest.mark.parametrize("member", ["role", "content", "tool_calls", "usage", "cost", "timestamp"])
def test_messages_of_a_wrong_kind_are_survived(member: str, value: object) -> None:
    simulation = json.loads(json.dumps(tau_simulation()))
    for message in simulation["messages"][1:]:
        message[member] = value
    read(NATIVE, tau_results(simulation))
