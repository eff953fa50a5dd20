"""Graphs with Harken's saver: their threads are sessions, with forks, tools and search."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from harken.adapters.langgraph import AsyncHarkenSaver, HarkenSaver
from tests.unit.adapters.graph_kit import build_graph
from tests.unit.adapters.saver_kit import config_of


def _extend(state: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*state, *(text for write in writes for text in write)]


class _DeltaState(TypedDict):
    texts: Annotated[list[str], DeltaChannel(_extend, snapshot_frequency=50)]


def _step(state: _DeltaState) -> dict[str, Any]:
    return {"texts": [f"step {len(state['texts'])}"]}


def test_an_interrupted_graph_resumes_in_another_process(tmp_path: Path) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"you said {interrupt('well?')}")]}

    def build() -> Any:
        builder: Any = StateGraph(MessagesState)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        return builder

    with HarkenSaver(tmp_path) as saver:
        result = build().compile(checkpointer=saver).invoke({"messages": ["hi"]}, config_of())
        assert result["__interrupt__"][0].value == "well?"
    with HarkenSaver(tmp_path) as saver:
        result = build().compile(checkpointer=saver).invoke(Command(resume="yes"), config_of())
    assert result["messages"][-1].content == "you said yes"


def test_asynchronous_graphs_and_parallel_threads(tmp_path: Path) -> None:
    async def run() -> list[int]:
        async with AsyncHarkenSaver(tmp_path) as saver:
            graph: Any = build_graph().compile(checkpointer=saver)
            for _ in range(3):
                turns = [
                    graph.ainvoke({"messages": [HumanMessage("hi")]}, config_of(f"t{number}"))
                    for number in range(8)
                ]
                await asyncio.gather(*turns)
            states = [await graph.aget_state(config_of(f"t{number}")) for number in range(8)]
            return [len(state.values["messages"]) for state in states]

    assert asyncio.run(run()) == [6] * 8


def test_a_delta_channel_is_rebuilt_also_after_pruning(tmp_path: Path) -> None:
    builder: Any = StateGraph(_DeltaState)
    builder.add_node("step", _step)
    builder.add_edge(START, "step")
    with HarkenSaver(tmp_path) as saver:
        graph = builder.compile(checkpointer=saver)
        for number in range(10):
            graph.invoke({"texts": [f"in {number}"]}, config_of())
        before = graph.get_state(config_of()).values
        assert len(before["texts"]) == 20
        saver.prune(["t"])
        assert len([*saver.list(config_of())]) == 1
        assert graph.get_state(config_of()).values == before
        graph.invoke({"texts": ["more"]}, config_of())
        assert len(graph.get_state(config_of()).values["texts"]) == 22


def test_the_package_is_importable_without_langgraph(tmp_path: Path) -> None:
    """The command line reads threads without it, and the savers name the extra."""
    code = """
import sys
sys.modules["langgraph"] = None
import harken.adapters.sessions
try:
    import harken.adapters.langgraph
except ImportError as error:
    print(error)
assert not any(name.startswith("langchain") for name in sys.modules)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "pip install harken[langgraph]" in result.stdout
