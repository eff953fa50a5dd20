"""Two writers on one thread: the slower one is told, and what it wrote is a fork."""

from __future__ import annotations

import subprocess
import sys
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph

from harken.adapters.langgraph import HarkenSaver
from harken.errors import BranchConflict
from tests.unit.adapters.saver_kit import config_of, ids_of, put, values_of


def test_a_writer_that_was_overtaken_is_fenced_and_loses_nothing(tmp_path: Path) -> None:
    with HarkenSaver(tmp_path) as first, HarkenSaver(tmp_path) as second:
        start = put(first, config_of(), 1, messages=["start"])
        assert first.get_tuple(config_of()) == second.get_tuple(config_of())
        winner = put(first, start, 2, messages=["start", "first"])
        with pytest.raises(BranchConflict, match="another writer moved it"):
            put(second, start, 2, messages=["start", "second"])
        assert first.get_tuple(config_of()) == first.get_tuple(winner)
        lists = [t.checkpoint["channel_values"]["messages"] for t in first.list(config_of())]
        assert sorted(lists) == [["start"], ["start", "first"], ["start", "second"]]


def test_a_run_that_names_a_checkpoint_forks_there(tmp_path: Path) -> None:
    with HarkenSaver(tmp_path) as first, HarkenSaver(tmp_path) as second:
        start = put(first, config_of(), 1, messages=["start"])
        put(first, start, 2, messages=["start", "first"])
        second.get_tuple(start)
        fork = put(second, start, 2, messages=["start", "fork"])
        assert first.get_tuple(config_of()) == first.get_tuple(fork)
        assert len(ids_of(first, config_of())) == 3


def test_of_two_that_begin_a_thread_one_is_fenced(tmp_path: Path) -> None:
    with HarkenSaver(tmp_path) as first, HarkenSaver(tmp_path) as second:
        assert first.get_tuple(config_of()) is None
        assert second.get_tuple(config_of()) is None
        put(first, config_of(), 1, n=1)
        with pytest.raises(BranchConflict):
            put(second, config_of(), 1, n=2)
        assert values_of(second, config_of()) == {"n": 1}
        assert len(ids_of(first, config_of())) == 2


class _State(TypedDict):
    messages: Annotated[list[Any], add]


def build_graph(saver: HarkenSaver, name: str) -> Any:
    def step(state: _State) -> dict[str, Any]:
        return {"messages": [f"{name} {len(state['messages'])}"]}

    builder = StateGraph(_State)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_edge("step", END)
    return builder.compile(checkpointer=saver)


_WRITER = """
import sys
from harken.adapters.langgraph import HarkenSaver
from harken.errors import BranchConflict
from tests.unit.adapters.test_fencing import build_graph

folder, name = sys.argv[1:]
fenced = 0
with HarkenSaver(folder) as saver:
    graph = build_graph(saver, name)
    config = {"configurable": {"thread_id": "t"}}
    for number in range(20):
        while True:
            try:
                graph.invoke({"messages": [f"{name} says {number}"]}, config, durability="sync")
            except BranchConflict:
                fenced += 1
                continue
            break
print(fenced)
"""


def test_of_two_processes_on_one_thread_no_turn_is_lost(tmp_path: Path) -> None:
    """Both repeat a turn that was fenced, whose input may be in the thread already."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("ann", "bob")
    ]
    fenced = 0
    for process in processes:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        fenced += int(output)
    with HarkenSaver(tmp_path) as saver:
        messages = values_of(saver, config_of())["messages"]
        turns = {text for text in messages if "says" in text}
        assert turns == {f"{name} says {number}" for name in ("ann", "bob") for number in range(20)}
        leaves = saver._file.list_leaves(1)
    assert len(leaves) <= 1 + fenced
